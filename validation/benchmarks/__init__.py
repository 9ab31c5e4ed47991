"""Speed as ratios; `tdmpc2-lean bench` is its face.

A benchmark is a function in the module of its upstream that runs in a process of its own on a checkout's code (see
`gates.process`), times its sides in turn (`timing.in_turn`) and returns JSON; its command in
`tdmpc2_lean/commands/bench.py` calls it and prints the ratios. `timing` says how a call is timed.
"""
