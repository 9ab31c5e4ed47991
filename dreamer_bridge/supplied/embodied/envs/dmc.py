"""dm_control as the official DreamerV3 expects its environments; it stands where the official release has none.

Made from the interface of `embodied.Env` and from dm_control's own. Given the same seed and pictures off or on,
observations, rewards and flags are those of the official `embodied/envs/dmc.py` at commit e3f0224, bit by bit.
"""

import functools
import os

import elements
import embodied
import numpy as np

# Facts of the official environment: what its short domain names mean, and the cameras it prefers.
LONG_NAMES = {"cup": "ball_in_cup"}
CAMERAS = {"quadruped": 2, "rodent": 4}


class DMC(embodied.Env):
    """One dm_control task, one agent step a call.

    env: '<domain>_<task>' such as 'walker_walk', or a dm_env.Environment.
    repeat: simulator steps an agent step; the rewards of these steps are added up.
    size: height and width of the picture in pixels, uint8 RGB.
    proprio: whether the task's own observations are given.
    image: whether a picture is given as `image`.
    log_image: whether, without `image`, it is given as `log/image`, which the agent does not see. Without either
        nothing is rendered and no OpenGL is needed.
    camera: the picture's camera; -1 for the domain's usual one.
    seed: of the task's random states; None for another at every start.
    """

    def __init__(self, env, repeat=1, size=(64, 64), proprio=True, image=True, camera=-1, log_image=True, seed=None):
        self._picture = "image" if image else "log/image" if log_image else None
        # dm_control chooses its renderer when it is imported, which is why that happens no earlier. Some tasks render
        # what they observe.
        sees = isinstance(env, str) and env.startswith(("manip_", "rodent_"))
        os.environ.setdefault("MUJOCO_GL", "egl" if self._picture or sees else "disable")
        self._camera = camera
        if isinstance(env, str):
            domain, task = env.split("_", 1)
            self._camera = CAMERAS.get(domain, 0) if camera == -1 else camera
            env = load(domain, task, seed)
        self._dm = env
        self._repeat = repeat
        self._size = tuple(size)
        self._over = True
        shown = env.observation_spec() if proprio else {}
        self._specs = {key: spec for key, spec in shown.items() if np.prod(spec.shape, dtype=int) > 0}

    @functools.cached_property
    def obs_space(self):
        """{key: elements.Space}, in the order in which the official environment has them."""
        flags = {key: elements.Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        spaces = {"reward": elements.Space(np.float32), **flags}
        spaces |= {shown_as(key): space_of(spec) for key, spec in self._specs.items()}
        if self._picture:
            spaces[self._picture] = elements.Space(np.uint8, (*self._size, 3))
        return spaces

    @functools.cached_property
    def act_space(self):
        """The task's action, in its own units, and the request to start an episode."""
        return {"reset": elements.Space(bool), "action": space_of(self._dm.action_spec())}

    def step(self, action):
        """The observation after one agent step, or an episode's first one if `reset` is set."""
        control = action["action"]
        if not np.isfinite(control).all():
            raise ValueError(f"an action is not finite: {control}")
        if action["reset"]:
            now = self._advance(None)
            reward = reward_of(now)
        else:
            reward = 0.0
            for _ in range(self._repeat):
                now = self._advance(control)
                reward += reward_of(now)
                if now.last():
                    break
        flags = {"is_first": now.first(), "is_last": now.last(), "is_terminal": not now.first() and now.discount == 0}
        found = {"reward": np.float32(reward), **flags}
        found |= {shown_as(key): now.observation[key] for key in self._specs}
        for key, value in found.items():
            if not np.isfinite(value).all():
                raise ValueError(f"an observation is not finite: {key} is {value}")
        if self._picture:
            found[self._picture] = self._dm.physics.render(*self._size, camera_id=self._camera)
        return found

    def _advance(self, control):
        """One simulator step, or a new episode where None is given or the last one has ended."""
        now = self._dm.reset() if control is None or self._over else self._dm.step(control)
        if not now.first() and now.discount not in (0, 1):
            raise ValueError(f"an episode ends in part, with discount {now.discount}")
        self._over = now.last()
        return now


def load(domain, task, seed):
    """dm_control's environment; ValueError from dm_control if there is none of that name."""
    if domain == "manip":
        from dm_control import manipulation

        return manipulation.load(f"{task}_vision", seed=seed)
    if domain == "rodent":
        from dm_control.locomotion.examples import basic_rodent_2020

        return getattr(basic_rodent_2020, task)(random_state=seed)
    from dm_control import suite

    return suite.load(LONG_NAMES.get(domain, domain), task, task_kwargs={"random": seed})


def reward_of(now):
    """A dm_env.TimeStep's reward, 0 for an episode's first."""
    return np.float32(0.0 if now.first() else now.reward)


def shown_as(key):
    """dm_control's name of an observation as the agent's keys allow it; `reward` is the step's own."""
    return "obs_reward" if key == "reward" else key.replace("/", "_")


def space_of(spec):
    """The elements.Space of a dm_env.specs.Array."""
    if hasattr(spec, "num_values"):
        return elements.Space(spec.dtype, (), 0, spec.num_values)
    low, high = getattr(spec, "minimum", None), getattr(spec, "maximum", None)
    return elements.Space(spec.dtype, spec.shape, low, high)
