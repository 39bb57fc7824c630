"""What Algorithm 1 gives away, in total variation: the paper's promise, our certificate, and what they mean.

`theorems` holds Theorem 2 as printed, `sensitivity` and `certificate` our own worst case, `calibration` the way back from a
target delta to steps, `meaning` what a delta says to a person. `dithered` is the certificate with a warm-up and a public dither
(its steps are proven in `drift` and `shifts`), `plan` its calibration. numpy is all they need.
"""

from ldp_core.accountant.calibration import Bound, calibrate, calibrate_uniform, largest_iterations, with_d_0
from ldp_core.accountant.certificate import Certificate, Course, certify, coin_horizon, coin_term, course
from ldp_core.accountant.dithered import DitheredCertificate, certify_dithered, ladder, precision_term
from ldp_core.accountant.meaning import accuracy, advantage, is_vacuous, posterior, posterior_shift, trade_off
from ldp_core.accountant.plan import Plan, calibrate_dithered, plan, smallest_warm_up
from ldp_core.accountant.sensitivity import Sensitivity, sensitivity_bound
from ldp_core.accountant.theorems import Theorem21, Theorem22, l1_lipschitz, theorem_2_1, theorem_2_2

__all__ = [
    "Bound",
    "Certificate",
    "Course",
    "DitheredCertificate",
    "Plan",
    "Sensitivity",
    "Theorem21",
    "Theorem22",
    "accuracy",
    "advantage",
    "calibrate",
    "calibrate_dithered",
    "calibrate_uniform",
    "certify",
    "certify_dithered",
    "coin_horizon",
    "coin_term",
    "course",
    "is_vacuous",
    "l1_lipschitz",
    "ladder",
    "largest_iterations",
    "plan",
    "posterior",
    "posterior_shift",
    "precision_term",
    "sensitivity_bound",
    "smallest_warm_up",
    "theorem_2_1",
    "theorem_2_2",
    "trade_off",
    "with_d_0",
]
