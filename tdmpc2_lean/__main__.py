"""`python -m tdmpc2_lean` is the console command `tdmpc2-lean`."""

from tdmpc2_lean.cli import main

if __name__ == "__main__":
    main()
