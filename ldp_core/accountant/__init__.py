"""What Algorithm 1 gives away, in total variation: the paper's theorems, certificates, meanings.

    >>> from ldp_core import accountant
    >>> accountant.accuracy(0.1).item()  # of the best attacker's guess, at even odds
    0.55

`theorems` holds Theorem 2 as printed, `drift` and `certificate` a worst case for the paper's own
algorithm, `promise` and `promise_plan` a much smaller one for an algorithm that is changed a
little, `trajectory`, `exact` what one run gave away, `meaning` what a delta says.
"""

from ldp_core.checks import guard

guard(__name__, "exact drift meaning theorems certificate monte_carlo trajectory")
guard(__name__, "promise promise_plan")

from ldp_core.accountant.certificate import calibrate, certify, course, with_d_0  # noqa: E402
from ldp_core.accountant.meaning import accuracy  # noqa: E402
from ldp_core.accountant.theorems import l1_lipschitz, theorem_2_1, theorem_2_2  # noqa: E402

__all__ = ["accuracy", "calibrate", "certify", "course", "with_d_0"]
__all__ += ["l1_lipschitz", "theorem_2_1", "theorem_2_2"]
