"""How far the patches reach: what becomes of each on public derivatives of the upstreams. A maintainer's script.

    python -m tdmpc2_lean.validation.reach REPOSITORIES           measure what is not measured yet, and write the page
    python -m tdmpc2_lean.validation.reach REPOSITORIES --anew    measure everything again

REPOSITORIES is a folder with a git repository for each line of `derivatives.txt`: `owner+name`, `owner+name/repo` or
`owner/name`, bare or not, with or without large files. Only names, hashes and outcomes are kept, never their text:
`results.json`, and `README.md` beside it, which is written from that.
"""
