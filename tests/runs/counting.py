"""An upstream of the tests' own, whose agent counts: what `runs` promises of every upstream, tried in milliseconds.

    python counting.py [KEY=VALUE]... [--multirun] [--quiet] [--dry-run]

is its `train` command. Settings: see DEFAULTS. The agent's state is a number that each step draws on, so that a run
that went on otherwise would end otherwise.
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tdmpc2_lean.runs import adapter as adapters
from tdmpc2_lean.runs import curve, making
from tdmpc2_lean.runs.adapter import Adapter
from tdmpc2_lean.runs.plan import EVALUATE, Plan
from tdmpc2_lean.runs.presets import Shelf
from tdmpc2_lean.runs.progress import Progress
from tdmpc2_lean.runs.record import Device, Evaluation, Threads
from tdmpc2_lean.runs.specification import Specification
from tdmpc2_lean.runs.watching import RunFailed

CHILD = str(Path(__file__).with_name("counting_child.py"))
CHECKPOINT = "checkpoint.json"
# fails_at, full_at: the step at which the script ends in an error, as on a full disk; -1: before the first one.
# save_every: steps between checkpoints, 0 for none. pause: seconds that a step takes. slow_to_end: that an interruption
# takes.
DEFAULTS = {
    "seed": 1, "steps": 40, "eval_freq": 10, "save_every": 5, "pause": 0.0, "fails_at": None, "full_at": None,
    "exp_name": "default", "lr": 0.5, "checkpoint": None,
}  # fmt: skip
NOT_DECIDING = ("steps", "pause", "fails_at", "full_at", "exp_name", "checkpoint", "save_every")


@dataclass(frozen=True)
class Code:
    """Stands for a patched checkout."""

    patches: tuple = (("count", "0" * 64),)
    commit: str = "c" * 40
    root: Path = Path("/nowhere")
    upstream: str = "tdmpc2"
    checkout: object = field(default=None)

    def provenance(self):
        patches = [{"name": name, "sha256": sha256} for name, sha256 in self.patches]
        return {"upstream": "tdmpc2", "commit": self.commit, "tree": None, "local_changes": [], "patches": patches,
                "patched_tree": "t" * 40, "source": "tests"}  # fmt: skip


class CountingAdapter(Adapter):
    """See `Adapter`."""

    upstream, command, title, patience = "tdmpc2", "counting", "Counting", 5.0
    code = Code()

    @property
    def shelf(self):
        return Shelf(Path("/nowhere"), Path("/nowhere"), "none")

    def schema(self):
        raise NotImplementedError("its settings are DEFAULTS")

    def plan(self, request):
        given = {}
        for word in request.words:
            key, _, value = word.partition("=")
            given[key] = json.loads(value) if key not in ("exp_name", "overwrite") else value
        overwrite = given.pop("overwrite", "false") == "true"
        config = {**DEFAULTS, "exp_name": "default" + request.name_suffix, **given}
        folder = request.folder or request.cwd / "logs" / "count" / str(config["seed"]) / config["exp_name"]
        return Plan(
            kind=request.kind,
            specification=Specification(
                upstream="tdmpc2", tasks=("count",), seed=config["seed"], agent_steps=config["steps"],
                action_repeat=2, chunk=2 * config["eval_freq"], overrides=given,
                protocol=request.fixed.name if request.fixed else None,
            ),
            command=" ".join(["counting", *request.words]), cwd=request.cwd, checkout=self.code, patched=self.code,
            presets=(), configured=config, folder=folder, code_folder=folder, overwrite=overwrite,
            threads=Threads(number=1), device=Device(kind="cpu"), compile=None, environment={}, launch={},
            rows=(("folder", str(folder)),), fixed=request.fixed, preset_settings=request.preset_settings,
        )  # fmt: skip

    def words_of(self, fixed, seed, presets, preset_settings, conditions, folder):
        return [f"seed={seed}"]

    def deciding(self, configured):
        return {key: value for key, value in configured.items() if key not in NOT_DECIDING}

    def child(self, plan, common):
        request = {**common, **plan.configured, "folder": str(plan.folder)}
        return [sys.executable, CHILD, making.write_request(plan, request)]

    def progress(self):
        return Progress()

    def checkpoint_step(self, plan):
        try:
            return json.loads((plan.folder / CHECKPOINT).read_bytes())["step"]
        except FileNotFoundError:
            return None

    def drop_computed_again(self, plan, step):
        curve.keep_lines_before(plan.folder / curve.FILE, step or 0)

    def resolved(self, plan):
        return {"resolved": True}

    def evaluations(self, plan, earlier, progress, log):
        from_step = progress.resumed_at or 0
        kept = [one for one in earlier if one.step < from_step]
        return kept + [Evaluation(**one) for one in progress.evaluations]

    def explained(self, plan, exit_code, progress, log):
        if "No space left on device" in log.text:
            return RunFailed(f"the disk is full.\n  log: {log.path}", "make room; the same command goes on")
        return RunFailed(f"the run failed. The end of its log:\n{log.shown(exit_code)}", "read the log")


ADAPTER = CountingAdapter()


def main():
    from tdmpc2_lean.commands import making as command
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.runs.plan import TRAIN, Request

    adapters.ADAPTERS["tdmpc2"] = "counting"
    flags = [word for word in sys.argv[1:] if word.startswith("--")]
    words = tuple(word for word in sys.argv[1:] if not word.startswith("--"))
    kind = EVALUATE if "--evaluate" in flags else TRAIN
    try:
        code = command.train(
            ADAPTER, Request(words, kind=kind), (), multirun="--multirun" in flags, dry_run="--dry-run" in flags,
            quiet="--quiet" in flags,
        )  # fmt: skip
    except UserError as error:
        print(f"error: {error}")
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
