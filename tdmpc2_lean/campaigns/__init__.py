"""The runs that answer a question, fixed before any is made: today, those of validation's protocols.

A campaign says which runs there are; `runs` makes them. `protocol_runs` turns names of protocols into jobs, `hydra_job`
makes one of them as a job of Hydra's, for whatever launcher there is.
"""
