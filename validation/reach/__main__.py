"""The command line of `validation.reach`."""

import argparse
import sys
from pathlib import Path

from tdmpc2_lean.validation.reach import measuring, page

parser = argparse.ArgumentParser(prog="reach", description=measuring.__doc__)
parser.add_argument("repositories", type=Path, help="the folder that holds the derivatives' repositories")
parser.add_argument("--anew", action="store_true", help="measure again what is measured already")
arguments = parser.parse_args()
if not arguments.repositories.is_dir():
    parser.error(f"{arguments.repositories} is no folder; name the one that holds the derivatives' repositories")
try:
    found = measuring.measure_all(arguments.repositories, arguments.anew)
except KeyboardInterrupt:
    print("interrupted: what was measured is kept; without --anew the same command goes on", file=sys.stderr)
    raise SystemExit(130) from None
page.write(found)
print("\n".join(page.totals(found)))
