"""Training loops of the miniature (not TD-MPC2)."""
