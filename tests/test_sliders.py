"""The notebooks' sliders: axes that hold still, figures that fit a screen, labels in words."""

import ast
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion import explore, house
from companion.budget import figures as budget
from companion.budget import promise, tables
from companion.budget.params import Params as Budget
from companion.convergence import figures as convergence
from companion.convergence.params import Params as Convergence
from companion.data import mnist as digits
from companion.data import mushrooms
from companion.eeg import attack_figures as eeg
from companion.eeg.shards import SHOWN
from companion.eeg.tables import Trace
from companion.mnist import attack_figures as mnist
from companion.mnist.attack_tables import Attacked
from companion.mnist.params import Params as Mnist
from companion.publish import environment
from companion.publish.play.pages import quantizer

NOTEBOOKS = sorted((Path(environment.ROOT) / "notebooks").glob("*.ipynb"))
SCREEN, BARS, SLIDERS = (1280, 800), 200, 80  # pixels: a screen, JupyterLab's bars, two sliders
STEPS = ({"d_0": 0.5, "varsigma": 0.65}, {"d_0": 32.0, "varsigma": 0.5})
VOWS = ({"delta": 0.05, "warm_up": 100.0}, {"delta": 0.5, "warm_up": 3000.0})
NUMBERS, SCALES, SMALL = (1, 16), (1e-6, 1.0), Budget(horizon=2000)


def learning():
    data = mushrooms.load(quiet=True)
    return [convergence.short_runs(Convergence(), data, "x", **steps) for steps in STEPS]


def trade():
    draw = budget.traded(Budget(), mushrooms.load(quiet=True), "x")
    return [draw(**steps) for steps in STEPS]


def vows():
    return [budget.vow(SMALL)(**vow) for vow in VOWS]


def painter():
    same = {"victim": "CNN", "sender": "quantised", "rounds": 1}
    rows = [{**same, "scale": scale, "mse": scale} for scale in SCALES for _ in range(mnist.SHOWN)]
    pictures = np.zeros((len(rows), 28, 28))
    done = Attacked(pd.DataFrame(rows), pictures, pictures)
    record = Mnist(scales=SCALES).record("03_mnist_idlg", "x", digits.embedded())
    return [mnist.slider(np.log10(scale), done, record) for scale in SCALES]


def trials():
    draw, (*_, least, most, step, label) = eeg.slider(heard, NUMBERS, "x")
    assert (least, most, step) == (1, 2, 1) and label.endswith("models seen: 1, 16")
    return [draw(least), draw(most)]


def heard(states):
    """Return traces whose reconstructions are the louder, the more models were seen."""
    time = np.arange(40) / 80
    found = {defence: states * np.sin(9 * time) for defence in SHOWN}
    return [Trace(time, np.sin(7 * time), found, 1, "C3", dict.fromkeys(found, states / 20))] * 2


def places(figure):
    """Return where the axes lie when the figure is shown, and what they span."""
    house.picture(figure)
    return [
        [*axes.get_position().bounds, *axes.get_xlim(), *axes.get_ylim()] for axes in figure.axes
    ]


@pytest.mark.parametrize("ends", [learning, trade, vows, painter, trials])
def test_axes_hold_still_and_the_figure_fits_the_screen(ends):
    house.style()
    first, last = ends()
    assert house.picture(first) != house.picture(last)  # the slider does something
    assert np.allclose(places(first), places(last), rtol=0, atol=1e-3)
    width, height = house.NOTEBOOK_DPI * first.get_size_inches()
    assert width <= SCREEN[0] and height <= SCREEN[1] - BARS - SLIDERS


def sliders(path):
    """Yield the sliders that a notebook's cells describe by a tuple."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for text in (text for text in texts if "figures.explore(" in text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.keyword) and isinstance(node.value, ast.Tuple):
                yield node.value.elts


def test_labels_are_words():
    labels = [mnist.slider_range(Mnist())[4]]
    for described in (found for path in NOTEBOOKS for found in sliders(path)):
        assert len(described) == 5, "value, lowest, highest, step, label"
        labels.append(described[4].value)
    assert len(labels) == 7 and all(len(label.split()) >= 3 for label in labels)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_class_is_told_how_far_to_run_and_how_long_it_takes(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    (marked,) = [text for text in texts if "In a class, run to here" in text]
    assert "minute" in marked.partition(".")[0]


def test_a_slider_and_a_page_show_the_same_numbers():
    terms = promise.planned(SMALL, 0.25).terms
    table = tables.spending(SMALL, 0.25)
    own = table[table["copies"] == SMALL.samples]
    assert explore.spent(terms, own["t"].tolist()) == own["delta"].tolist()
    found = quantizer.answer(0.3, 0.75, 1.0, 0.0, 1)
    bars = [patch.get_height() for patch in budget.one_message(0.3, 0.75, 1.0).axes[0].patches]
    assert bars == [*found["ours"], *found["theirs"]]
