"""`python -m dreamer_bridge` is `dreamer-bridge`."""

from dreamer_bridge.cli import main

if __name__ == "__main__":
    main()
