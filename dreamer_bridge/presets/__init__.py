"""Lean presets of DreamerV3: named sets of overrides, one YAML file each."""
