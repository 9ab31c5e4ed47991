"""Code that stands in for the official DreamerV3 in tests of what is around it: its loop, agent and checkpoints, in ms.

Every agent step is a number that an agent adds up, every 25th ends an episode, and its checkpoints are elements' own.

    python acting.py ROOT WORD...      `dreamer-bridge WORD...`, with the code in ROOT wherever any is looked for
"""

import os
import sys
import time
from pathlib import Path

JAX = """
class Device: platform, device_kind = "cpu", "stand-in"
devices = lambda: [Device]
"""

EMBODIED = """
from . import run
"""

RUN = """
import json, os, pathlib, time
import elements

class Agent:
  def __init__(self):
    print("making the agent", flush=True)
    time.sleep(float(os.environ.get("COMPILE_SECONDS", 0)))
    self.total, self.n_updates = 0, 0
  def train(self, carry, data):
    self.total, self.n_updates = (31 * self.total + data) % 1009, self.n_updates + 1
    return carry, None, {"loss/dyn": float(self.total)}
  def save(self): return {"total": self.total, "updates": self.n_updates}
  def load(self, data): self.total, self.n_updates = data["total"], data["updates"]

class Logger:
  def __init__(self, config):
    self.step, self.logdir, self.repeat = elements.Counter(), config.logdir, config.env.dmc.repeat
    self.scores = []
  def add(self, mapping, prefix=None):
    if "score" in mapping:
      self.scores.append({"step": int(self.step) * self.repeat, "episode/score": mapping["score"]})
  def write(self):
    with open(self.logdir + "/scores.jsonl", "a") as file:
      file.writelines(json.dumps(score) + "\\n" for score in self.scores)
    self.scores.clear()
  close = write

def train(make_agent, make_replay, make_env, make_stream, make_logger, args):
  agent, logger = make_agent(), make_logger()
  count = logger.step
  saved = elements.Checkpoint(args.logdir + "/ckpt", step=count)
  saved.step, saved.agent = count, agent
  # The patch `resume` cuts what was logged after the checkpoint, of every such file in the folder.
  files = lambda: [str(path) for path in pathlib.Path(args.logdir).glob("*.jsonl")]
  sizes = {}
  measured = lambda: {path: os.path.getsize(path) for path in files()}
  saved.sizes = elements.Saveable(save=measured, load=sizes.update)
  saved.load_or_save()
  for path in files() if count else ():
    os.truncate(path, sizes.get(path, 0))
  if args.batch_size == 666:
    raise RuntimeError("no such batch can be made")
  for number in range(int(count) + 1, int(args.steps) + 1):
    time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
    count.increment()
    agent.train(0, number)
    if number % 25 == 0:
      logger.add({"score": agent.total, "length": 25}, prefix="episode")
      logger.write()
    if number % 50 == 0 and number != args.steps:
      saved.save()
  saved.save()
  logger.close()

def eval_only(make_agent, make_env, make_logger, args):
  agent, logger = make_agent(), make_logger()
  elements.checkpoint.load(args.from_checkpoint, {"agent": agent.load})
  for number in range(1, int(args.steps) + 1):
    logger.step.increment()
    if number % 25 == 0:
      logger.add({"score": agent.total + number, "length": 25}, prefix="episode")
  logger.close()
"""

MAIN = """
import pathlib, sys
import elements
import embodied
from dreamer_bridge import config

if __name__ == "__main__":
  document = config.read(pathlib.Path(__file__).parent.parent)
  found = elements.Config(config.resolved(document, *config.split_configs(sys.argv[1:])))
  elements.Path(found.logdir).mkdir()
  found.save(elements.Path(found.logdir) / "config.yaml")
  args = elements.Config(**found.run, logdir=found.logdir, batch_size=found.batch_size)
  agent, logger = embodied.run.Agent, lambda: embodied.run.Logger(found)
  if found.script == "train":
    embodied.run.train(agent, None, None, None, logger, args)
  else:
    embodied.run.eval_only(agent, None, logger, args)
"""


def write(root: Path) -> None:
    """Write the code beside the configs.yaml in root/dreamerv3."""
    for name, content in (("jax.py", JAX), ("embodied/__init__.py", EMBODIED), ("embodied/run.py", RUN),
                          ("dreamerv3/main.py", MAIN)):  # fmt: skip
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")


def replacements(root: Path) -> list[tuple]:
    """(owner, name, function) by which the code in root is found, whatever is asked for, and no simulator is tried."""
    from dreamer_bridge import plan
    from tdmpc2_lean.environments import Environment
    from tdmpc2_lean.patched import Patched
    from tdmpc2_lean.upstreams import UPSTREAMS, Checkout

    checkout = Checkout("dreamerv3", root, UPSTREAMS["dreamerv3"].pin, 40 * "1", "argument")
    return [
        (plan, "find_checkout", lambda *a, **k: checkout),
        (plan, "materialise", lambda *a, **k: Patched(root, checkout, (("seeding", "s"),), 40 * "2")),
        (Environment, "probe", lambda *a: None),
    ]


def replace(root: Path) -> None:
    """Make these replacements in this process, for good."""
    for owner, name, function in replacements(root):
        setattr(owner, name, function)


def search_path() -> str:
    """A PYTHONPATH by which a process finds this file, and what this process finds."""
    return os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])


def until(condition, seconds: float = 30.0):
    """Wait for a condition, which is given."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
    return found


def environment(**more) -> dict[str, str]:
    """Variables for a process that runs this file."""
    return os.environ | {name: str(value) for name, value in more.items()}


if __name__ == "__main__":
    from dreamer_bridge import cli

    replace(Path(sys.argv[1]))
    cli.main(sys.argv[2:])
