"""Figures: deterministic bytes, whole files, and what they must show."""

import hashlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from PIL import Image

from companion import house
from companion.convergence import figures, tables
from companion.convergence.params import Params
from companion.data import mushrooms
from ldp_core import network

SUMMARY = pd.DataFrame(
    [
        (variant, t, 0.5 + t / 100, 0.4, 0.9, 10)
        for variant in ("quantised", "unquantised")
        for t in (0, 20, 40)
    ],
    columns=["variant", "t", "mean", "low", "high", "runs"],
)
PAIRED = pd.DataFrame({"variant": "quantised", "t": [0, 20], "mean": 0.0, "low": -0.1, "high": 0.1})
RECORD = {
    "notebook": "01_convergence",
    "params": {"profile": "smoke"},
    "data": [{"kind": "real", "name": "x"}],
}


def texts(figure):
    return " ".join(
        text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
    )


def test_bytes_are_deterministic(tmp_path):
    figures.style()
    digests = []
    for folder in ("one", "two"):
        figures.save(
            figures.fig2(SUMMARY, PAIRED, Params(), "Data: x."),
            "fig2",
            tmp_path / folder,
            numbers={"a": 1.0},
            **RECORD,
        )
        digests.append(
            {
                p.name: hashlib.sha256(p.read_bytes()).hexdigest()
                for p in (tmp_path / folder).iterdir()
            }
        )
    assert digests[0] == digests[1] and set(digests[0]) == {"fig2.svg", "fig2.png", "fig2.json"}


def test_a_saved_figure_is_shown_shrunk_and_another_drawn(tmp_path):
    saved, other = (
        figures.fig2(SUMMARY, PAIRED, Params(), "Data: x."),
        figures.fig2(SUMMARY, PAIRED, Params(), "Data: x."),
    )
    figures.save(saved, "fig2", tmp_path, numbers={}, **RECORD)
    shrunk, drawn = (
        Image.open(io.BytesIO(house.picture(figure))).convert("L") for figure in (saved, other)
    )
    assert (
        shrunk.size
        == drawn.size
        == tuple(round(inches * house.NOTEBOOK_DPI) for inches in other.get_size_inches())
    )
    difference = np.abs(np.asarray(shrunk, dtype=float) - np.asarray(drawn))
    assert (
        difference.mean() < 5 and np.asarray(shrunk).std() > 10
    )  # the same picture, up to smoothing, and not an empty one


def test_a_figure_that_is_changed_after_it_was_saved_or_shown_is_drawn_again(tmp_path):
    figures.style()
    figure = figures.fig2(SUMMARY, PAIRED, Params(), "Data: x.")
    figures.save(figure, "fig2", tmp_path / "first", numbers={}, **RECORD)
    before = house.picture(figure)
    figure.axes[0].set_ylabel("a\nlonger\nlabel")
    after = house.picture(figure)
    assert before != after and figure.get_layout_engine() is not None
    left = figure.axes[0].yaxis.get_label().get_window_extent().x0
    assert left >= 0  # it was given its place anew
    figures.save(figure, "fig2", tmp_path / "second", numbers={}, **RECORD)
    fresh = figures.fig2(SUMMARY, PAIRED, Params(), "Data: x.")
    fresh.axes[0].set_ylabel("a\nlonger\nlabel")
    figures.save(fresh, "fig2", tmp_path / "third", numbers={}, **RECORD)
    assert (tmp_path / "second" / "fig2.png").read_bytes() == (
        tmp_path / "third" / "fig2.png"
    ).read_bytes()


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "10⁰"), (1000.0, "10³"), (1e-12, "10⁻¹²"), (1e20, "10²⁰"), (20.0, "20"), (0.0, "0")],
)
def test_powers_of_ten_are_text(value, text):
    assert house.power_of_ten(value) == text


def test_long_logarithmic_axes_have_powers_of_ten_unless_the_figure_names_its_ticks():
    figure = Figure()
    plain, named = figure.subplots(2, 1)
    for axes in (plain, named):
        axes.loglog([1e-4, 1e4], [1.0, 30.0])
    named.set_xticks([1e-4, 1.0], ["none", "one"])
    house.caption(figure, "")
    figure.canvas.draw()
    shown = [[label.get_text() for label in axes.get_xticklabels()] for axes in (plain, named)]
    assert {"10⁻⁴", "10⁰", "10⁴"} <= set(shown[0]) and shown[1] == ["none", "one"]
    assert (
        plain.yaxis.get_minorticklocs().size and not plain.xaxis.get_minorticklocs().size
    )  # less than two decades: as it is


def test_an_empty_output_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figures.save(figures.fig1(network.paper(), "x"), "fig1", "", numbers={}, **RECORD)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_keeps_the_old_file_and_leaves_no_half(tmp_path):
    figures.save(figures.fig1(network.paper(), "x"), "fig1", tmp_path, numbers={}, **RECORD)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="not JSON compliant"):
        figures.save(
            figures.fig1(network.paper(), "x"),
            "fig1",
            tmp_path,
            numbers={"a": float("nan")},
            **RECORD,
        )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert json.loads(before["fig1.json"])["figure"] == "fig1"


def test_fig1_shows_every_weight_of_both_graphs():
    net = network.paper(0.125)
    assert texts(figures.fig1(net, "")).count("0.125") == (net.R > 0).sum() + (net.C > 0).sum()


def test_fig1s_arrows_touch_the_circles_of_their_agents():
    """Each arrow's head ends on the circle of its receiver, and its tail begins on its sender's."""
    net = network.paper()
    figure = figures.fig1(net, "")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    (circles,) = (found for found in axes.collections if len(found.get_offsets()) == net.agents)
    centres = axes.transData.transform(circles.get_offsets())
    radius = np.sqrt(circles.get_sizes()[0]) / 2 * figure.dpi / 72
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == (net.R > 0).sum() + (net.C > 0).sum()
    for arrow in arrows:
        path = axes.transData.transform(arrow.get_path().vertices)
        nearest = np.sort(
            np.abs(np.linalg.norm(path[:, None] - centres, axis=2) - radius).min(axis=0)
        )
        assert nearest[1] < 4.0, "two agents, within the width of two lines"


def test_fig2_says_what_the_band_is_and_what_the_data_are():
    params, data = Params(runs=10), mushrooms.load(quiet=True)
    source = figures.source("smoke", data)
    shown = " ".join(texts(figures.fig2(SUMMARY, PAIRED, params, source)).split())
    assert "5 % to 95 % of the runs" in shown and "mean of 10 runs" in shown
    assert "Profile smoke. Data: Mushrooms (UCI)." in shown


def test_a_part_that_is_left_out_has_a_sentence_and_no_figure():
    nothing = pd.DataFrame()
    slopes, lost = tables.slopes(nothing), tables.lost(nothing)
    assert figures.rates(nothing, slopes, nothing, Params(), "") is None
    assert figures.limits(lost, Params(), "") is None
    figures.save(None, "fig2_rates", "nowhere", numbers={}, **RECORD)
    words = tables.rate_words(slopes).data, tables.limit_words(lost).data
    assert ["0`." in sentence for sentence in words] == [True, True]
