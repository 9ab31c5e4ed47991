"""Run by a test in a process of its own: what the official TD-MPC2 makes of words. [code_dir] on argv, words on stdin.

For each line of words an agent is made, updated twice on random episodes and asked for two actions. Prints one JSON
object: {line: None, or the error's type and text}.
"""

import contextlib
import io
import json
import math
import sys
import warnings

EPISODE, ACTIONS, OBSERVATIONS = 50, 3, (5,)
TINY = (
    "device=cpu compile=false steps=1000 seed_steps=500 batch_size=4 num_samples=8 num_elites=4 num_pi_trajs=2 "
    "iterations=1 horizon=2 enc_dim=16 mlp_dim=16 latent_dim=16 num_q=2 task=cheetah-run enable_wandb=false"
).split()


def attempt(code_dir: str, words: list[str]) -> None:
    """Raises what the official code raises; ArithmeticError for a loss or an action that is not finite."""
    import torch
    from common.buffer import Buffer
    from common.parser import parse_cfg
    from common.seed import set_seed
    from hydra import compose, initialize_config_dir
    from tdmpc2 import TDMPC2
    from tensordict import TensorDict

    with initialize_config_dir(config_dir=code_dir, version_base=None):
        cfg = compose("config", overrides=[*TINY, *words])
    cfg = parse_cfg(cfg)
    set_seed(cfg.seed)
    picture = cfg.obs == "rgb"
    cfg.obs_shape = {cfg.obs: (9, 64, 64) if picture else OBSERVATIONS}
    cfg.action_dim, cfg.episode_length = ACTIONS, EPISODE
    agent, buffer = TDMPC2(cfg), Buffer(cfg)

    def observations(number):
        if picture:
            return torch.randint(0, 255, (number, 9, 64, 64), dtype=torch.uint8)
        return torch.randn(number, *OBSERVATIONS)

    for _ in range(3):
        rows = EPISODE + 1
        episode = dict(obs=observations(rows), action=torch.rand(rows, ACTIONS) * 2 - 1, reward=torch.rand(rows))
        buffer.add(TensorDict(episode | {"terminated": torch.zeros(rows)}, batch_size=(rows,)))
    for _ in range(2):
        found = agent.update(buffer)
    actions = [agent.act(observations(1)[0], t0=t0, eval_mode=not t0) for t0 in (True, False)]
    if not all(math.isfinite(float(found[key])) for key in ("total_loss", "pi_loss")):
        raise ArithmeticError("a loss is not finite")
    if not all(torch.isfinite(action).all() for action in actions):
        raise ArithmeticError("an action is not finite")


def main() -> None:
    warnings.filterwarnings("ignore")
    code_dir = sys.argv[1]
    sys.path.insert(0, code_dir)
    import hydra.utils

    hydra.utils.get_original_cwd = lambda: "."
    found = {}
    for line in sys.stdin.read().splitlines():
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                attempt(code_dir, line.split())
            found[line] = None
        except Exception as error:
            found[line] = f"{type(error).__name__}: {error}"[:300]
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
