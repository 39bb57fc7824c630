"""The equations that run in notebook 2's cells give what the accountant gives."""

import ast
from pathlib import Path

import nbformat
import numpy as np
import pytest

from companion.budget import promise, shards
from companion.budget.params import Params
from companion.data import mushrooms
from companion.publish import environment

NOTEBOOK = Path(environment.ROOT, "notebooks", "02_privacy_budget.ipynb")
PARAMS = Params(horizon=2000)


def last_value(words: str):
    """Return the value of the cell that holds these words, and the names it has set."""
    names = {"np": np, "params": PARAMS, "promise": promise, "shards": shards}
    names |= {"data": mushrooms.load(quiet=True)}
    exec("from ldp_core import quantizer", names)
    (source,) = (c.source for c in nbformat.read(NOTEBOOK, 4).cells if words in c.source)
    *body, last = ast.parse(source).body
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names), names


def test_the_bound_of_one_message_is_lemma_6():
    (variation, bound), _ = last_value("P_other = ")
    assert variation == pytest.approx(bound)


def test_the_sum_is_that_of_figure_3():
    found, names = last_value("np.cumsum(")
    scene, k = names["scene"], np.array([0])
    expected = shards.spent(scene, 0, 0, k, names["history"][[5]])[1:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)
    assert expected[-1] > 1


def test_the_theorem_is_the_certificate():
    """The accountant rounds outwards, and bounds the cosine by a polynomial: a part in 10^4."""
    (by_hand, certified), _ = last_value("by_hand = ")
    assert (by_hand <= certified).all()
    np.testing.assert_allclose(by_hand, certified, rtol=1e-4)
