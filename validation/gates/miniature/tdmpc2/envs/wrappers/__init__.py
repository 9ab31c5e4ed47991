"""Wrappers around the miniature's environments (not TD-MPC2's)."""
