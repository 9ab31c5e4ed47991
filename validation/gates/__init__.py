"""Gates: does a checkout compute what the official code computes? `tdmpc2-lean gate` is their face, `run` runs them.

A new gate is a function (subject, runs) that yields a `results.Result` per thing it judges, in a module named after
what it proves (or, for one upstream's settings, in that upstream's), and an entry in `suites.py`, which is what
`gate list` shows. `identity.py` is the example for gates that train: `runs.compare` gives the first divergence of two
traces. `updates.py` is the example for gates that do not: `process.call` runs a function of ours on a checkout's code.
A setting that the checkout lacks is `results.without_settings`, code that does not run `results.failed_to_run`.
A gate that compares the subject with its reference says so in `suites.py` (`with_reference`), with what it executes and
could not see (`blind`); one that compares defaults names the changes that it would have seen (`Result.covers`).

Every gate has negative controls, which make mutants that it must reject: `controls/UPSTREAM/GATE/NAME/patch.toml`, a
small patch with one fault (the format is `tdmpc2_lean.patching`'s), and NAME as a line of the `series` beside it.

    suites    the gates of each upstream, and the least steps each takes      subjects  subject, reference, mutants
    run       runs gates or mutants                                           results   what a gate answers
    accounting  every difference of a subject        executed  which changed statements ran   verdicts  what follows
    blind_spots what a gate executes and cannot see  kept      what need not be made again
    process   runs a function on a checkout's code in a process of its own    miniature a small checkout of our own
    identity, planning, updates, resuming_tdmpc2, dreamerv3, resuming_dreamerv3      the gates
    defaults_tdmpc2, outputs_tdmpc2, functions_tdmpc2 (with functions_agent_, _env_, _loop_tdmpc2)       gates by cases
    promises_tdmpc2 (with promises_checkpoint_tdmpc2)       what our patches say, item by item
    defaults_dreamerv3, functions_dreamerv3 (with functions_model_, _agent_, _replay_, _env_, _loop_), outputs_dreamerv3
    cases       named inputs, recorded and compared          stand_ins   for W&B, the renderer, films, torch.compile
    trace, traced_runs, trace_tdmpc2, trace_dreamerv3, dreamerv3_determinism          traces of training
    strength    how many systematic mutants the gates reject
    cpu_shim, jax_shim    make unpatched official code run on this machine
"""
