"""A parameter that makes no sense: a notebook refuses it in one sentence, in its first cells."""

import math

import papermill
import pytest

from companion import files
from companion.params import Params
from tests.faults.notebooks import NOTEBOOKS, start

NOT_EXPERIMENTS = ("profile", "output")  # papermill's own business, not the experiments'

CASES = [  # a notebook, what is changed at its smoke profile, and what the sentence must hold
    ("01", {"seed": -1}, "seed = -1 is wrong: it must be greater than or equal to 0"),
    (
        "01",
        {"seed": 2**63},
        "seed = 9223372036854775808 is wrong: it must be less than 9223372036854775808",
    ),
    ("01", {"runs": 0}, "runs = 0 is wrong: it must be greater than or equal to 1"),
    ("01", {"runs": 10**6}, "runs = 1000000 is wrong: it must be less than or equal to 100000"),
    ("01", {"runs": "200"}, "runs = '200' is wrong: it must be a valid integer"),
    ("01", {"runs": True}, "runs = True is wrong: it must be a valid integer"),
    ("01", {"iterations": 12.5}, "iterations = 12.5 is wrong: it must be a valid integer"),
    ("01", {"iterations": 10**30}, f"iterations = {10**30} is wrong: it must not exceed 10000000"),
    ("01", {"samples": 0}, "samples = 0 is wrong"),
    ("01", {"test": 8124}, "test = 8124 must be below 8124, the number of mushrooms"),
    ("01", {"evaluate_every": 81}, "evaluate_every = 81 must not exceed iterations = 80"),
    ("01", {"normalise": "L2"}, "normalise = 'L2' is wrong: it must be 'none', 'l1' or 'l2'"),
    (
        "01",
        {"topology": "star"},
        "topology = 'star' is wrong: it must be 'paper', 'ring', 'exponential' or 'random'",
    ),
    ("01", {"weight": 0.0}, "weight = 0.0 is wrong: it must be greater than 0"),
    (
        "01",
        {"weight": 0.6},
        "agent 2: 1 + R_ii = -0.19999999999999996 must be positive (Assumption 4)",
    ),
    ("01", {"lam_0": math.inf}, "lam_0 = inf is wrong: it must be a finite number"),
    ("01", {"nu": 0.5}, "nu = 0.5 must lie in (1/2, 1) (Algorithm 1)"),
    ("01", {"nu": math.nan}, "nu = nan must lie in (1/2, 1)"),
    ("01", {"varsigma": 0.7}, "max varsigma = 0.75 must be below nu = 0.71"),
    ("01", {"varsigma": 0.45}, "agent 0: varsigma = 0.46 must lie in (1/2, 1)"),
    ("01", {"d_0": -2.0}, "d_0 = -2.0 is wrong: it must be greater than 0"),
    (
        "01",
        {"d_0_slope": -0.01},
        "d_0_slope = -0.01 is wrong: it must be greater than or equal to 0",
    ),
    ("01", {"l2": 0}, "l2 = 0.0 must be positive"),
    ("01", {"rate_runs": 1}, "rate_runs = 1 is wrong: it must be greater than or equal to 2"),
    ("01", {"rate_d_0": 2.0}, "rate_d_0 = 2.0 is wrong: it must be a list"),
    ("01", {"rate_d_0": [0.5, 2.0]}, "rate_d_0 = [0.5, 2.0] must hold 0 (no quantisation)"),
    ("01", {"rate_d_0": [0.0, -1.0]}, "rate_d_0[1] = -1.0 is wrong"),
    ("01", {"sweep_weights": []}, "sweep_weights = [] is wrong: it must hold at least 1 value"),
    ("01", {"sweep_weights": [0.2, 0.9]}, "must be positive (Assumption 4)"),
    ("01", {"sweep_d_0": "2, 8"}, "sweep_d_0 = '2, 8' is wrong: it must be a list"),
    ("02", {"runs": 1}, "runs = 1 is wrong: it must be greater than or equal to 2"),
    ("02", {"modifications": 0}, "modifications = 0 is wrong"),
    ("02", {"iterations": 1}, "iterations = 1 is wrong: it must be greater than or equal to 2"),
    ("02", {"budget_d_0": [2.0, 0.0]}, "budget_d_0[1] = 0.0 is wrong: it must be greater than 0"),
    ("02", {"case_d_0": None}, "case_d_0 = None is wrong: it must be a list"),
    ("02", {"weight": 0.02, "horizon": 1000}, "horizon = 1000 must be longer at weight = 0.02"),
    ("02", {"iterations": 60, "arrivals": [0, 59]}, "arrivals holds 59, which must be below 59"),
    ("02", {"arrivals": [0.5]}, "arrivals[0] = 0.5 is wrong: it must be a valid integer"),
    ("02", {"worst_arrivals": [-1]}, "worst_arrivals[0] = -1 is wrong"),
    (
        "02",
        {"audit_samples": 99},
        "audit_samples = 99 is wrong: it must be greater than or equal to 100",
    ),
    ("02", {"frontier_weights": [0.2, 0.7]}, "must be positive (Assumption 4)"),
    ("02", {"target": 1}, "target = 1 is wrong: it must be less than 1"),
    (
        "02",
        {"horizon": 10**8},
        "horizon = 100000000 is wrong: it must be less than or equal to 10000000",
    ),
    ("02", {"promise_clip": 0.0}, "promise_clip = 0.0 is wrong: it must be greater than 0"),
    (
        "02",
        {"promise_targets": [0.1, 1.5]},
        "promise_targets[1] = 1.5 is wrong: it must be less than 1",
    ),
    ("02", {"promise_runs": 1}, "promise_runs = 1 is wrong"),
    ("03", {"repeats": 0}, "repeats = 0 is wrong: it must be greater than or equal to 1"),
    ("03", {"full_repeats": 2}, "full_repeats = 2 must not exceed repeats = 1"),
    ("03", {"evaluate_every": 7}, "evaluate_every = 7 must not exceed iterations = 6"),
    (
        "03",
        {"initialisation": "zero"},
        "initialisation = 'zero' is wrong: it must be 'he', 'pytorch' or 'uniform'",
    ),
    ("03", {"same_start": 1}, "same_start = 1 is wrong: it must be a valid boolean"),
    ("03", {"budget_scales": [1.0, 1.0]}, "budget_scales = [1.0, 1.0] must be all different"),
    ("03", {"scales": [0.1]}, "must rise and hold 1.0, the paper's own d_0"),
    ("03", {"weight": 0.6}, "must be positive (Assumption 4)"),
    ("04", {"subjects": 3}, "subjects = 3 is wrong: it must be a list"),
    ("04", {"batch_norm": "layer"}, "batch_norm = 'layer' is wrong"),
    ("04", {"fs": 0.0}, "fs = 0.0 is wrong: it must be greater than 0"),
    ("04", {"nu": 1.5}, "nu = 1.5 must lie in (1/2, 1)"),
    ("04", {"window": [2.0]}, "window = [2.0] must be empty or two increasing times"),
    (
        "04",
        {"second": "synthetic", "second_window": [1.0]},
        "window = [1.0] must be empty or two increasing times",
    ),
    ("04", {"central_epochs": "x"}, "epochs = 'x' is wrong"),
    ("04", {"ablation_folds": [77]}, "subject 77 is not among subjects"),
    (
        "01",
        {"wieght": 0.1},
        "wieght = 0.1 is not a parameter of this notebook: did you mean weight?",
    ),
    (
        "01",
        {"rate_d0": [0.0, 1.0]},
        "rate_d0 = [0.0, 1.0] is not a parameter of this notebook: did you mean rate_d_0?",
    ),
    (
        "02",
        {"promise_target": [0.1]},
        "promise_target = [0.1] is not a parameter of this notebook: did you mean promise_targets?",
    ),
    (
        "03",
        {"attack_step": 20},
        "attack_step = 20 is not a parameter of this notebook: did you mean attack_steps?",
    ),
    (
        "04",
        {"subject": [1]},
        "subject = [1] is not a parameter of this notebook: did you mean subjects?",
    ),
    # the class has it, the notebook has not
    ("04", {"epochs": 3}, "epochs = 3 is not a parameter of this notebook"),
    ("02", {"qqq": None}, "qqq = None is not a parameter of this notebook"),
    ("01", {"rate_d_0": [0.0, 2.0, 2.0]}, "rate_d_0 = [0.0, 2.0, 2.0] must be all different"),
    ("01", {"sweep_weights": [0.1, 0.1]}, "sweep_weights = [0.1, 0.1] must be all different"),
    ("01", {"sweep_d_0": [2.0, 2.0]}, "sweep_d_0 = [2.0, 2.0] must be all different"),
    ("02", {"budget_d_0": [2.0, 2.0]}, "budget_d_0 = [2.0, 2.0] must be all different"),
    ("02", {"case_d_0": [2.0, 2.0]}, "case_d_0 = [2.0, 2.0] must be all different"),
    ("02", {"arrivals": [0, 0]}, "arrivals = [0, 0] must be all different"),
    ("02", {"frontier_weights": [0.2, 0.2]}, "frontier_weights = [0.2, 0.2] must be all different"),
    ("02", {"promise_targets": [0.1, 0.1]}, "promise_targets = [0.1, 0.1] must be all different"),
    ("03", {"budget_samples": [1, 1]}, "budget_samples = [1, 1] must be all different"),
    ("03", {"moments": [0, 0]}, "moments = [0, 0] must be all different"),
    ("04", {"subjects": [1, 1, 2, 3, 4, 5]}, "subjects = [1, 1, 2, 3, 4, 5] must be all different"),
    ("04", {"identity_states": [1, 1]}, "identity_states = [1, 1] must be all different"),
    ("04", {"attack_aligned": [True, True]}, "attack_aligned = [True, True] must be all different"),
    ("03", {"moments": [10**9]}, "moments[0] = 1000000000 is wrong: it must not exceed 10000000"),
    (
        "02",
        {"arrivals": [0, 10**12]},
        "arrivals[1] = 1000000000000 is wrong: it must not exceed 10000000",
    ),
    (
        "01",
        {"iterations": 10**7, "samples": 10**4},
        "iterations = 10000000 with samples = 10000 needs ",
    ),
    ("01", {"rate_iterations": 10**7, "samples": 10**6}, " GiB of memory: it must not exceed the "),
    (
        "01",
        {"sweep_iterations": 10**7, "samples": 10**6},
        " GiB of memory: it must not exceed the ",
    ),
    ("02", {"iterations": 10**7}, "iterations = 10000000 with samples = 2 needs "),
    (
        "02",
        {"audit_samples": 10**7, "audit_coordinates": 10**7, "iterations": 10**5},
        "audit_samples = 10000000 with audit_",
    ),
    (
        "02",
        {"promise_iterations": 10**7, "samples": 10**5},
        " GiB of memory: it must not exceed the ",
    ),
    (
        "02",
        {"modifications": 10**7, "iterations": 2},
        "modifications = 10000000 with first_modifications = 2 needs ",
    ),
    (
        "03",
        {"iterations": 10**7, "samples": 10**5},
        "iterations = 10000000 with samples = 100000 needs ",
    ),
    ("03", {"attack_rounds": 10**7}, "attack_rounds = 10000000 with label_rounds = [1, 2] needs "),
    ("03", {"label_rounds": [10**7]}, "attack_rounds = 2 with label_rounds = [10000000] needs "),
    ("04", {"fs": 1e9}, "fs = 1000000000.0 is wrong: it must be less than or equal to 5000"),
    (
        "04",
        {"attack_fs": 1e9},
        "attack_fs = 1000000000.0 is wrong: it must be less than or equal to 5000",
    ),
    (
        "04",
        {"central_epochs": -1},
        "central_epochs = -1 is wrong: it must be greater than or equal to 0",
    ),
    (
        "04",
        {"second_window": [2.0, 1.0]},
        "second_window = [2.0, 1.0] must be empty or two increasing times",
    ),
    (
        "01",
        {"output": "/proc/figures"},
        "output = '/proc/figures' must be a folder that can be written to: /",
    ),
    ("02", {"output": "README.md"}, "README.md is not a folder"),
    ("03", {"output": "README.md/figures"}, "README.md is not a folder"),
    ("04", {"output": 3}, "output = 3 is wrong: it must be text"),
    ("01", {"profile": None}, "profile = None is wrong: it must be text"),
    ("01", {"nu": 1.0}, "nu = 1.0 must lie in (1/2, 1) (Algorithm 1)"),
]
LATER = {"04": ("data", "second")}  # a name that is no data set is found out when it is looked for
NEVER_RIGHT = {
    "nothing": None,
    "a mapping": {"a": 1},
    "not a number": math.nan,
    "a word": "nonsense",
}


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """Let every machine have as much memory: what is refused must not depend on where the tests
    run."""
    monkeypatch.setattr(files, "memory", lambda: 8 * 2**30)


def refusal(number: str, **changes) -> str:
    """Return the sentence with which a notebook refuses, and see that it is one."""
    with pytest.raises(ValueError) as refused:
        start(number, **changes)
    sentence = str(refused.value)
    assert (
        type(refused.value).__name__ == "ParameterError"
        and "\n" not in sentence
        and len(sentence) < 300
    )
    assert "explore=True" not in sentence, "a notebook has no such thing"
    return sentence


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_the_smoke_profile_is_accepted(number):
    start(number)


@pytest.mark.parametrize(("number", "changes", "words"), CASES, ids=lambda case: str(case)[:40])
def test_a_notebook_refuses_nonsense_in_its_first_cells(number, changes, words):
    assert words in refusal(number, **changes)


@pytest.mark.parametrize("value", NEVER_RIGHT)
@pytest.mark.parametrize("number", NOTEBOOKS)
def test_every_parameter_refuses_what_is_right_nowhere(number, value):
    for name in papermill.inspect_notebook(str(NOTEBOOKS[number])):
        if name not in (*NOT_EXPERIMENTS, *LATER.get(number, ())):
            assert name in refusal(number, **{name: NEVER_RIGHT[value]}), name


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_a_notebook_sets_every_parameter_of_its_experiments(number):
    """What stands in a class and not in the parameters cell would be a second place for a
    default."""
    given = set(papermill.inspect_notebook(str(NOTEBOOKS[number])))
    taken = [value for value in start(number).values() if isinstance(value, Params)]
    missing = {name for params in taken for name in type(params).model_fields} - given
    assert taken and missing <= {"evaluate_every", "audit_iterations", "align"}
