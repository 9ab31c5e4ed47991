"""The gates, one module each; `run.py` runs them."""
