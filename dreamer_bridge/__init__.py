"""The bridge to the official DreamerV3: its upstream, environments and training command (to come)."""
