"""Runs of a protocol: made in chunks, resumable at any moment, each in a folder of its own.

    RUNS/<protocol>/<settings>/seed-<n>/       <settings>: `default`, or the presets' names joined by `+`
        run.json        what the run is; rewritten in one step
        curve.jsonl     one line a chunk
        config.yaml     all settings, as the official code resolved them
        attempt-<k>.log what the official code printed, a file each time the run was started
        logs/…          the official code's own folder: checkpoint.pt, eval.csv, models/
        .lock, holder.json   who is making the run, while somebody is

run.json:

    protocol, agent, task, physics, seed       which run
    spec            the protocol's registry entry
    settings        every setting of the agent's code: {name: value}
    presets         names of the lean presets; preset_settings: what they set
    provenance      upstream, commit, tree, patches, packages, device, threads, compile, tdmpc2_lean: of the last start
    provenances     {short hash: provenance} of every start that differs from the one before
    state           running | finished | failed | interrupted; a run that was killed still says `running`
    error           why it failed, or null
    started, ended  ISO 8601 with zone; attempts: how often it was started

A line of curve.jsonl:

    chunk           number of the chunk that ends here, from 1
    agent_steps, env_steps     of training so far
    value           mean return of the evaluation's episodes; returns: of each episode
    episodes        how many
    updates         gradient updates made so far
    replay_bytes    bytes that the replay buffer's steps take
    seconds         wall time of the run so far; time that a kill has cost is not in it
    provenance      short hash of the provenance that computed the chunk
    time            ISO 8601

A line is written before any checkpoint that comes after it. When a run is resumed, the lines that lie at or beyond
the checkpoint, and a line cut short, are dropped and computed again.
"""

from tdmpc2_lean.runs.folder import Held, RunFolder, folder_of, read_run
from tdmpc2_lean.runs.making import Surroundings, make

__all__ = ["Held", "RunFolder", "Surroundings", "folder_of", "make", "read_run"]
