"""Runs in a process of its own: brings environments of a checkout back within an episode."""

from pathlib import Path


def restored(code_dir, tasks):
    """{task: why it could not be brought back}, for tasks whose restored environment goes on otherwise.

    An environment runs through one episode and into a second. A new one is brought to that point as a resumed run
    does it, and both go on, beyond the next reset.
    """
    import torch
    from common.checkpoint import Checkpoint, random_state
    from envs import make_env
    from tensordict.tensordict import TensorDict

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    failed = {}
    for task in tasks:
        overrides = {"task": task, "checkpoint_minutes": 0, "seed": 5}
        cfg = configuration(code_dir, Path.cwd(), overrides)
        env = make_env(cfg)
        checkpoint = Checkpoint(cfg, env)
        env.reset()
        for _ in range(12):
            env.step(env.rand_act())
        checkpoint.episode_begins()
        rows = [row(TensorDict, env.reset(), env.rand_act())]
        for _ in range(15):
            action = env.rand_act()
            rows.append(row(TensorDict, env.step(action)[0], action))
        episode, actions = torch.cat(rows), [env.rand_act() for _ in range(10)]
        other = make_env(configuration(code_dir, Path.cwd(), overrides))
        resumed = Checkpoint(cfg, other)
        resumed._at_reset = checkpoint._at_reset
        try:
            resumed._repeat(episode)
        except RuntimeError as error:
            failed[task] = str(error)
            continue
        if random_state(checkpoint._random) != random_state(resumed._random):
            failed[task] = "other random state"
        for step, action in enumerate(actions):
            one, another = env.step(action), other.step(action)
            if not torch.equal(one[0], another[0]) or one[1] != another[1]:
                failed[task] = f"parts {step + 1} steps later"
                break
        if not torch.equal(env.reset(), other.reset()):
            failed.setdefault(task, "parts at the next reset")
    return failed


def row(TensorDict, obs, action):
    return TensorDict({"obs": obs.unsqueeze(0), "action": action.unsqueeze(0)}, batch_size=(1,))
