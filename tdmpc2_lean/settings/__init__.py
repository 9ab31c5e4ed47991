"""What each setting may be, and which patch brings it: checked before anything starts, the same for every command.

`schema` describes a setting and checks values; `tdmpc2` holds the official settings of TD-MPC2 and the rules between
them. Those of a patch stand in its patch.toml. DreamerV3's are with its bridge, `dreamer_bridge.schema`.
"""

from tdmpc2_lean.settings.schema import Given, Rule, Schema, SchemaError, Setting, check, deciding, faults, given_by

__all__ = ["Given", "Rule", "Schema", "SchemaError", "Setting", "check", "deciding", "faults", "given_by"]
