"""Long work in independent pieces: interrupted at any moment, taken up again, spread over cores or
a cluster.

    results = runs.run(compute, [{"block": 0}, {"block": 1}], description="two blocks")

A *shard* is one call of a module-level function with arguments that JSON can hold, and a dictionary
of arrays as its result. It must be pure: the same arguments, the same arrays. Finished shards are
kept under a name made from the function, its arguments and the code that it depends on
(`fingerprint`), so a second run computes only what is missing or changed. A shard never starts
another experiment, which a worker far away might have to compute anew: what it needs of one is
handed to it as arrays (`given`), and their content is part of its name. A computation too long to
lose is a `chain` of such pieces, each given what the one before it returned. This package knows
nothing of the paper.
"""

from companion.runs.execute import ShardError, chain, run
from companion.runs.store import ResultStore

__all__ = ["ResultStore", "ShardError", "chain", "run"]
