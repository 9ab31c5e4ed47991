"""`dreamer-bridge upstream`: `tdmpc2-lean upstream`, with dreamerv3 as the upstream."""

from dreamer_bridge.commands.preset import of_dreamerv3
from tdmpc2_lean.commands.upstream import upstream as of_either

upstream = of_dreamerv3(of_either)
