"""Algorithm 1 and its neighbours on digits: one bench, in step, certified for all time."""

import math

import numpy as np
import pytest

from companion.data import mnist as images
from companion.mnist import neighbour_tables, neighbours
from companion.mnist.params import Params, learnt_from
from companion.neighbours import bench, tables
from companion.neighbours.bench import MEASURES, MECHANISMS, REFERENCES, Choice
from companion.params import ParameterError
from companion.problems import scattering
from companion.problems.clipped import History, Softmax
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

CHOICE, IMAGES, T = Choice(300.0, 0.9, 0.3), 1000, 4
SMALL = Params(
    promise_images=IMAGES,
    promise_test=50,
    promise_iterations=4,
    promise_attacked=2,
    neighbour_targets=(0.5, 0.9),
    neighbour_seeds=2,
    neighbour_iterations=T,
)


@pytest.fixture
def small(monkeypatch):
    """Return four well separated classes of 1000 + 50 samples with six features."""
    monkeypatch.setattr(scattering, "FEATURES", 6)
    neighbours.bench_of.cache_clear()
    random = generator(7, Purpose.SYNTHETIC)
    centres, y = random.normal(size=(10, 6)), random.integers(4, size=1050)
    x = centres[y] + 0.1 * random.normal(size=(1050, 6))
    yield (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float16), y
    neighbours.bench_of.cache_clear()


def built(names=(*MECHANISMS, *REFERENCES)) -> list:
    """Return mechanisms with the same steps, as the bench builds them."""
    return [
        bench.build(neighbours.bench_of(name, IMAGES, T), name, CHOICE, (0.7,) * 5)
        for name in names
    ]


def test_many_models_at_once_have_the_gradients_of_each(small):
    joint = neighbours.oracle(0, IMAGES, T, *small)
    alone = History(Softmax(6), joint.x, joint.y, joint.clip, joint.warm_up, joint.samples)
    theta = generator(1, Purpose.SYNTHETIC).normal(size=(3, 5, 60))
    for t in (0, 3):
        np.testing.assert_allclose(joint(theta, t), alone(theta, t), atol=1e-6)
    assert np.abs(joint(theta, 0)).max() > 1e-3


def test_all_in_step_are_what_each_would_be_alone(small):
    algorithms, gradients = built(), neighbours.oracle(0, IMAGES, T, *small)
    states = [one.init(np.zeros((1, 5, 60))) for one in algorithms]
    coins = [one.coins(3) for one in algorithms]
    for t in range(T):
        draws = [draw([0], t, 60) for draw in coins]
        pairs = neighbours.together(algorithms, gradients, states, draws)
        states = [state for state, _ in pairs]
    for one, state in zip(algorithms, states, strict=True):
        last = optimizer.run(one, gradients, np.zeros((1, 5, 60)), T, seed=3)
        np.testing.assert_allclose(state.theta, last.theta, atol=1e-4 * np.abs(last.theta).max())


def test_what_is_judged_is_what_was_kept_and_what_was_sent(small):
    x, y = small
    gradients, test = neighbours.oracle(0, IMAGES, T, x, y), (x[1000:], y[1000:])
    found = neighbours.learnt(built(["clear"]), gradients, T, 0, *test)
    assert found["own"][0] > 0.9 and found["listener"][0] > 0.9  # chance: 0.25
    assert found["bits"].tolist() == [64.0]


def test_gradients_are_never_wider_than_their_spread(small):
    random = generator(2, Purpose.SYNTHETIC)
    weak, wide = (neighbours.bench_of(name, IMAGES, T) for name in ("ternary", "paper"))
    assert np.linalg.norm(weak.row) == pytest.approx(1.0)
    assert np.abs(weak.row).sum() <= weak.spread < wide.spread == math.sqrt(60)
    for sharp in (0.1, 1.0, 10.0):
        q = np.exp(sharp * random.normal(size=10))
        error = q / q.sum() - (np.arange(10) == 3)
        v = np.kron(random.normal(size=6), error)
        assert np.abs(v).sum() <= weak.spread * np.linalg.norm(v)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_certified_for_all_time_at_its_target(name):
    choice = bench.candidates(SMALL, name, neighbours.CLIP)[0]
    found = neighbours.settle(name, list(choice), 0.25, 60_000, 100)
    assert found["for_ever"] <= 0.25 and found["for_ever"] > 0.2499
    assert 0 < found["certified"] < found["for_ever"]
    assert 0 < found["attained"] < found["for_ever"] and found["within"] == neighbours.HORIZON


def test_the_search_learns_from_five_sixths_and_never_sees_a_test_image(small):
    x, y = small
    assert learnt_from(60_000) == 50_000 and learnt_from(IMAGES) == 800
    params = SMALL.model_dump(include=neighbours.GRID | {"seed", "neighbour_iterations"})
    found = neighbours.tune(params, "spline", [0.5, 0.9], IMAGES, x[:IMAGES], y[:IMAGES])
    assert found["own"].shape == found["listener"].shape == (2, 2)
    thin = neighbours.oracle(0, 800, T, x, y, neighbours.THIN)
    assert thin.seen(T - 1) == 160 // neighbours.THIN == len(thin.y[0])
    with pytest.raises(ParameterError, match="neighbour_iterations = 8 must be below 8"):
        SMALL.model_copy(update={"neighbour_iterations": 8}).check(images.embedded())


def test_the_frontier_has_every_mechanism_and_measure(small, monkeypatch, tmp_path):
    monkeypatch.setenv("LDP_CACHE", str(tmp_path))
    monkeypatch.setenv("WORKERS", "1")
    monkeypatch.setattr(neighbour_tables, "known", lambda *_: dict(zip("xy", small, strict=True)))
    found = neighbour_tables.compared(SMALL, images.embedded())
    assert len(found.found) == len(MECHANISMS) * len(MEASURES) * 2
    assert (found.tried.groupby(["mechanism", "target"]).size() == 2).all()
    assert (found.found["for_ever"] <= found.found["target"] * (1 + 1e-9)).all()
    assert (found.found["accuracy_low"] <= found.found["accuracy"]).all()
    assert found.found["runs"].eq(2).all() and found.numbers()["tried"]
    record = SMALL.record("03_mnist_idlg", "x", images.embedded())
    figure = neighbour_tables.frontier(found, record, str(tmp_path))
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert len(labels) == len(MECHANISMS) + len(REFERENCES) + 1
    assert (tmp_path / "fig5_neighbours.json").exists()
    table = tables.shown(found)
    assert len(table) == 2 * len(MECHANISMS) and table["bits a coordinate"].gt(0).all()


def test_without_seeds_there_is_no_bench():
    params = SMALL.model_copy(update={"neighbour_seeds": 0})
    assert neighbour_tables.compared(params, images.embedded()) is None
    assert "neighbour_seeds" in neighbour_tables.frontier(None, {}, "").data
    assert tables.shown(None).empty
