"""Making runs: one description, one loop, one record, for every command that makes any, and for both upstreams.

Read in this order: `specification` (what a run is), `plan` (a run decided), `making` (begins, goes on with and ends
it), `watching` (the child process followed), `record` and `curve` (what its folder says), `folder` (who holds it),
`jobs` and `sweeps` (many runs). What differs between upstreams stands in their adapters (`adapter`), and nowhere else.
"""
