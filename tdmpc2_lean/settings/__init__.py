"""What each setting may be, and which patch brings it: checked before anything starts, the same for every command.

`schema` describes a setting, `checking` checks values; `tdmpc2` holds the official settings of TD-MPC2 and the rules
between them. Those of a patch stand in its patch.toml. DreamerV3's are with its bridge, `dreamer_bridge.schema`.
"""

from tdmpc2_lean.settings.checking import Given, SettingFault, check, faults, given_by
from tdmpc2_lean.settings.schema import Rule, Schema, SchemaError, Setting, deciding

__all__ = [
    "Given",
    "Rule",
    "Schema",
    "SchemaError",
    "Setting",
    "SettingFault",
    "check",
    "deciding",
    "faults",
    "given_by",
]
