"""Published curves as JSON, each with its source, licence and units."""
