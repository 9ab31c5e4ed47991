"""`dreamer-bridge gate`: `tdmpc2-lean gate`, with dreamerv3 as the upstream."""

from dreamer_bridge.commands.preset import of_dreamerv3
from tdmpc2_lean.commands.gate import gate as of_either

gate = of_dreamerv3(of_either)
