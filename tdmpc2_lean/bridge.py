"""The console command `dreamer-bridge`, which says so where the packages that it needs are absent."""

import sys

from tdmpc2_lean.errors import UserError


def main() -> None:
    """Run dreamer_bridge's command line."""
    try:
        from dreamer_bridge import cli
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    cli.main()
