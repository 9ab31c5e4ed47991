"""The official TD-MPC2 and DreamerV3, patched by small named patches and proved equal by gates."""

__version__ = "0.1.0"
