"""`python -m dreamer_bridge` is `dreamer-bridge`."""

from tdmpc2_lean.console import dreamer_bridge

if __name__ == "__main__":
    dreamer_bridge()
