"""The child of a counting run: an agent whose state is a number that each step draws on. See `counting`."""

import json
import os
import sys
import time
from pathlib import Path

from tdmpc2_lean.runs.channel import read_request

CHECKPOINT = "checkpoint.json"


def count():
    request, channel = read_request()
    folder = Path(request["folder"])
    saved = folder / CHECKPOINT
    state = {"step": 0, "value": request["seed"], "evaluations": []}
    if request["fails_at"] == -1:
        raise RuntimeError("failed before the first step")
    channel.send("start", device="cpu", device_name=None, threads=1, steps=request["steps"], seed_steps=0)
    if saved.exists():
        state = json.loads(saved.read_bytes())
        channel.send("resumed", step=state["step"])
    began = time.monotonic()
    try:
        while True:
            step = state["step"]
            print(f"step {step}", flush=True)
            if step and step % request["eval_freq"] == 0:
                state["evaluations"] = [one for one in state["evaluations"] if one[0] < step]
                state["evaluations"].append([step, state["value"]])
                channel.send("evaluation", step=step, episode_reward=float(state["value"]), episodes=1)
                line = {"chunk": 2 * step // request["chunk"], "agent_steps": step, "env_steps": 2 * step,
                        "value": state["value"], "episodes": 1, "provenance": request["provenance"]}  # fmt: skip
                with open(request["curve"], "a") as file:
                    file.write(json.dumps(line) + "\n")
                (folder / "eval.csv").write_text("".join(f"{a},{b}\n" for a, b in state["evaluations"]))
            if step == request["fails_at"]:
                raise RuntimeError("failed as it was told to")
            if step == request["full_at"]:
                raise OSError(28, "No space left on device")
            if request["save_every"] and step and step % request["save_every"] == 0:
                save(saved, state)
            if step >= request["steps"]:
                break
            state["value"] = (state["value"] * 1103515245 + 12345) % 1000
            state["step"] += 1
            seconds = time.monotonic() - began
            channel.send("step", step=state["step"], seconds=seconds, evaluation_seconds=0.0, evaluating=False,
                         cpu_seconds=seconds)  # fmt: skip
            time.sleep(request["pause"])
    except KeyboardInterrupt:
        if request["save_every"]:
            save(saved, state)
        sys.exit(130)
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "final.json").write_text(json.dumps(state))
    channel.send("end")


def save(path, state):
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(state))
    os.replace(beside, path)


if __name__ == "__main__":
    count()
