"""How strong are the gates? `tdmpc2-lean gate strength`: systematic mutants of the code, and how many gates reject.

A mutant is the subject with one edit in one place: every other byte stays. It is judged by the gates alone, as they run
it; that its text differs counts for nothing. Mutants are made on the user's machine from the user's checkout.

    operators   the edits of Python, by its syntax
    leaves      the edits of configurations
    mutants     the mutants of a subject: ids, order, which are official code and which are of patches
    scope       which files are mutated, and what cannot be judged on this machine, with reasons
    forks       processes of gates forked from one that has the libraries imported
    watching    what such a process does beside a gate's work: count lines, end at the first difference
    profile     what each gate executes and takes on the code without a mutant
    trials      judges one mutant: the gates that execute it, cheapest first
    command     what the command prints
    score       outcomes kept in a file, the list of the harmless, shares and intervals, tables
    measuring   all of it in order
    harmless.toml   mutants that change nothing observable, each with its reason
"""
