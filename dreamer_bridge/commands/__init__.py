"""The subcommands of `dreamer-bridge`, one module each."""
