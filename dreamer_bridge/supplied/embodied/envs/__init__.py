"""The environments that the bridge supplies where the official release has none: dm_control alone."""
