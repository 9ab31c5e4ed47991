"""Gates, traces, negative controls and the miniature checkout; installed as `tdmpc2_lean.validation`."""
