"""The demo's table says return, speed and ratio of both sides with their n, from the records of its runs."""

from types import SimpleNamespace

from tdmpc2_lean import demo
from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.record import Evaluation, RunTiming
from tdmpc2_lean.runs.specification import Specification


def side(out, preset, returns, speed):
    """A finished run of the demo's, where the demo looks for it."""
    folder = out / "logs" / demo.TASK / str(demo.SEED) / preset.replace(",", "+")
    folder.mkdir(parents=True)
    what = Specification(
        upstream="tdmpc2", tasks=(demo.TASK,), seed=demo.SEED, agent_steps=demo.STEPS, action_repeat=2, chunk=2
    )
    provenance = record.provenance_of({"upstream": "miniature"}, device=None, threads=None)
    start = record.this_start("train", out, provenance, "train.log")
    kept = record.RunRecord(
        schema=2, kind="train", specification=what, starts=(start,), provenances={start.provenance: provenance},
        evaluations=tuple(Evaluation(step=step, episode_reward=value, episodes=1) for step, value in returns),
        timing=RunTiming(steps=demo.STEPS, learning_steps_per_second=speed),
    )  # fmt: skip
    record.write(folder, kept.ended("finished", 0))
    return demo.read_side(out, preset)


def test_the_table_of_the_two_sides(tmp_path):
    subject = SimpleNamespace(reference=SimpleNamespace(label="miniature"))
    sides = [
        side(tmp_path, "smoke", [(0, 100.0), (demo.STEPS, 500.0)], 20.0),
        side(tmp_path, "smoke,fast", [(0, 90.0), (demo.STEPS, 450.5)], 30.0),
    ]
    title, _, one, other = demo.table(sides, subject)[:4]
    assert f"{demo.STEPS} agent steps, n=1 (seed 1): a single seed is a hypothesis" in title
    assert one.split() == ["smoke", "100.0", "500.0", "20.0", "1.00"]
    assert other.split() == ["smoke,fast", "90.0", "450.5", "30.0", "1.50"]
