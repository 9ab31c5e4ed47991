"""The agents that are judged, each in a module of its own: the one place where the judge knows which there are.

All other modules of `judging` ask `agent_named`.
"""

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.judging.agents.agent import JudgedAgent
from tdmpc2_lean.validation.judging.agents.dreamerv3 import DREAMERV3
from tdmpc2_lean.validation.judging.agents.tdmpc2 import TDMPC2

AGENTS: dict[str, JudgedAgent] = {agent.name: agent for agent in (TDMPC2, DREAMERV3)}


def agent_named(name: str) -> JudgedAgent:
    """The agent of that name, which is its upstream's. UserError if there is none."""
    if name not in AGENTS:
        raise UserError(f"No criteria for the agent {name!r}; there are some for {' and '.join(AGENTS)}.")
    return AGENTS[name]
