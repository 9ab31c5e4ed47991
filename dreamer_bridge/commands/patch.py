"""`dreamer-bridge patch`: `tdmpc2-lean patch`, with dreamerv3 as the upstream."""

from dreamer_bridge.commands.preset import of_dreamerv3
from tdmpc2_lean.commands.patch import patch as of_either

patch = of_dreamerv3(of_either)
