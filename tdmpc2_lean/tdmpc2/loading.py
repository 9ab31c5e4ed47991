"""A trained agent, loaded into this process from the folder of its run, by the very code that trained it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tdmpc2_lean import patched, upstreams
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record

FINAL = Path("models") / "final.pt"


class AgentConfig(SimpleNamespace):
    """A run's resolved settings as the official code reads them: by attribute, and by `get`."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


def load_agent(folder: str | Path, *, checkpoint: str | Path | None = None, device: str | None = None) -> Any:
    """The official agent of a run, patched as in the run, in evaluation mode.

    folder: the run's, such as logs/cheetah-run/1/fast. checkpoint: another of its models; default: models/final.pt.
    device: a torch device; default: the run's.

    Its methods: `act(obs, t0=, eval_mode=, task=)` for one environment, `act_vec(obs, t0=, eval_mode=)` for many: obs
    (N, obs_dim), t0 (N,) bool for those whose episode begins; actions (N, action_dim) on the CPU.
    UserError if the folder holds no run of TD-MPC2, or the code that trained it is not to be had.
    """
    folder = Path(folder)
    kept = record.read(folder)
    if kept.specification.upstream != "tdmpc2":
        raise UserError(f"{folder} is a run of {kept.specification.upstream}.", "name the folder of a run of TD-MPC2")
    path = Path(checkpoint) if checkpoint is not None else folder / FINAL
    if not path.is_file():
        raise UserError(f"there is no model {path}.", "let the run end, or name another by checkpoint=")
    code = kept.code
    where = upstreams.MINIATURE if code.get("upstream") == upstreams.MINIATURE else code.get("commit")
    names = [patch["name"] for patch in code.get("patches") or () if isinstance(patch, dict) and "name" in patch]
    copy = patched.materialise(upstreams.find_checkout("tdmpc2", where), names)
    modules = upstreams.isolate.load(copy.code_dir)
    settings = dict(kept.settings) | {"compile": False}
    if device is not None:
        settings["device"] = device
    agent = modules.module("tdmpc2").TDMPC2(AgentConfig(**settings))
    agent.load(str(path))
    agent.eval()
    return agent
