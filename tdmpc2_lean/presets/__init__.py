"""Lean presets: named sets of overrides that make an agent cheaper, one YAML file each."""
