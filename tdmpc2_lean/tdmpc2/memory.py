"""How much memory a run's replay takes, and whether the machine has it: asked by the child before it seeds.

The official buffer reserves its whole capacity at the first episode's end, and fails only then, or when it is full.
"""

import math
from collections.abc import Mapping, Sequence

CLEARLY = 1.25  # times the memory that is free: an estimate is no reason to refuse what may just fit
OF_A_STEP = 3  # numbers besides observation and action: reward, terminated, episode
ON_THE_DEVICE = 2.5  # times the replay's size must be free there, else the official code keeps it in main memory
GIGABYTE = 1e9


def replay_bytes(obs_shape: Mapping[str, Sequence[int]], action_dim: int, capacity: int) -> int:
    """Bytes of `capacity` steps: float32 but for frames, which are uint8. obs_shape: {'state': (n,)} or {'rgb': …}."""
    of_obs = sum(math.prod(shape) * (1 if name == "rgb" else 4) for name, shape in obs_shape.items())
    return capacity * (of_obs + 4 * (action_dim + OF_A_STEP))


def check(cfg, device) -> None:
    """MemoryError, in words, if the replay is clearly larger than what is free. cfg: as the code resolved it."""
    import psutil

    capacity = min(int(cfg.buffer_size), int(cfg.steps))
    needed = replay_bytes(cfg.obs_shape, int(cfg.action_dim), capacity)
    if getattr(device, "type", "cpu") == "cuda":
        import torch

        if ON_THE_DEVICE * needed < torch.cuda.mem_get_info(device)[0]:
            return
    free = psutil.virtual_memory().available
    if needed > CLEARLY * free:
        raise MemoryError(
            f"the replay of {capacity:,} steps takes {needed / GIGABYTE:.1f} GB, and {free / GIGABYTE:.1f} GB are free"
        )
