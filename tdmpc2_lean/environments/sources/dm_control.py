"""dm_control's suite, on MuJoCo: what both upstreams published their curves on.

Action repeats are those of the official codes at their pins: written into TD-MPC2's envs/dmcontrol.py, and the default
of DreamerV3's `env.dmc.repeat`, which its published curves had at 2. An episode is 1000 env steps in every task.
"""

from tdmpc2_lean.environments.source import EnvironmentSource, Renderer, Use

SOURCE = EnvironmentSource(
    name="dm_control",
    title="dm_control",
    packages=("dm_control", "mujoco"),
    physics="mujoco",
    modules=("dm_control.suite",),
    lists="sys.modules['dm_control.suite'].ALL_TASKS",
    install="pip install 'dm_control>=1.0.16' 'mujoco>=3.1.2,<4'",
    episode=1000,
    uses={
        "tdmpc2": Use(action_repeat=2, modules=("dm_control.suite", "envs.dmcontrol")),
        "dreamerv3": Use(
            action_repeat=1,
            modules=(
                "dm_control.suite",
                "dm_control.manipulation",
                "dm_control.locomotion.examples.basic_rodent_2020",
            ),
        ),
    },
    renderer=Renderer(
        variable="MUJOCO_GL",
        official="egl",
        backends=("egl", "osmesa", "glfw"),
        off="disable",
        frame=(
            "from dm_control import suite\n"
            "suite.load('cartpole', 'balance').physics.render(height=16, width=16, camera_id=0)\n"
        ),
        install="install EGL (libegl1) or OSMesa (libosmesa6)",
    ),
)
