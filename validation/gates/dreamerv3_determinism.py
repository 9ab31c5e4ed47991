"""What official DreamerV3 leaves to threads, wall clocks, unseeded generators and OpenGL, decided from outside.

Used in the processes that `trace_dreamerv3` describes; what is replaced stays so until the process ends.
"""


class Pictures:
    """Counts the pictures that are asked for; unless `rendering`, makes black ones instead of rendering."""

    def __init__(self, rendering: bool):
        from dm_control.mujoco import Physics

        self.count = 0
        render = Physics.render

        def counted(physics, height=240, width=320, *args, **kwargs):
            self.count += 1
            if rendering:
                return render(physics, height, width, *args, **kwargs)
            import numpy as np

            return np.zeros((height, width, 3), np.uint8)

        Physics.render = counted


def limit_episodes(length: int, seed: int | None) -> dict:
    """From now on dm_control's tasks end after `length` env steps.

    seed: given, environment i draws from a generator seeded with seed + i, whatever the code asks for; i is the value
    of "index" in the dictionary returned.
    """
    from dm_control import suite

    index = {"index": 0}
    load = suite.load

    def limited(domain_name, task_name, task_kwargs=None, *args, **kwargs):
        if seed is not None:
            task_kwargs = {**(task_kwargs or {}), "random": seed + index["index"]}
        env = load(domain_name, task_name, task_kwargs, *args, **kwargs)
        if not hasattr(env, "_step_limit"):
            raise RuntimeError(f"dm_control's {domain_name}-{task_name} has no step limit to shorten")
        env._step_limit = length
        return env

    suite.load = limited
    return index


def deterministic(elements, embodied) -> None:
    """Steps instead of wall clocks, batches drawn when they are asked for, and numbered instead of random names."""

    class StepClock:
        """Due at every multiple of `every` env steps; 0 is never, negative always, as in official clocks."""

        def __init__(self, every, first=False):
            self.every, self.due = every, every

        def __call__(self, step=None, skip=None):
            if skip or self.every == 0:
                return False
            if self.every < 0:
                return True
            is_due = int(step) >= self.due
            while int(step) >= self.due:
                self.due += self.every
            return is_due

    class Synchronous(embodied.streams.Prefetch):
        """A stream without a thread."""

        def __init__(self, source, transform=None, amount=1):
            self.source = iter(source) if hasattr(source, "__iter__") else source()
            self.transform = transform or (lambda data: data)

        def __iter__(self):
            return self

        def __next__(self):
            return self.transform(next(self.source))

        def save(self):
            return self.source.save()

        def load(self, state):
            self.source.load(state)

    elements.UUID.reset(debug=True)
    embodied.LocalClock = StepClock
    embodied.streams.Prefetch = Synchronous
