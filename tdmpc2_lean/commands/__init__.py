"""One module a subcommand of `tdmpc2-lean`; each holds a click command of its own name."""
