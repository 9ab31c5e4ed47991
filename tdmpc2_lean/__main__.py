"""`python -m tdmpc2_lean` is the console command `tdmpc2-lean`."""

from tdmpc2_lean.console import tdmpc2_lean

if __name__ == "__main__":
    tdmpc2_lean()
