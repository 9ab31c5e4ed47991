"""TD-MPC2's adapter: how the official agent is configured, started, watched, checkpointed and read.

Read in this order: `configuration` (the official config.yaml, by Hydra), `plan` (a training run decided), `evaluation`
(an evaluation decided), `child` (the process that runs the official script), `adapter` (what `runs` asks).
"""
