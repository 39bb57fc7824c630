"""What the four notebooks need: problems, data, attacks, experiments, figures, and the commands
that run them.

`companion` knows `ldp_core`; `ldp_core` does not know it.
"""
