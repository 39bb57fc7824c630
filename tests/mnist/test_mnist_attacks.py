"""The attacks of notebook 3: real messages, shards that do not depend on their neighbours, tables,
verdicts and figures."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from companion import claims, intervals
from companion.attacks import features, matching
from companion.data import mnist
from companion.mnist import attack_figures as figures
from companion.mnist import attack_tables as attacks
from companion.mnist import claims as verdicts
from companion.mnist import messages, overheard
from companion.mnist.digits import attacked as chosen
from companion.mnist.digits import digits
from companion.mnist.params import Params
from companion.params import AgentParams, ParameterError
from companion.problems import parameters
from companion.problems.cnn import CNN
from companion.problems.lenet import LeNet

PARAMS = Params()
AGENTS = PARAMS.model_dump(include=set(AgentParams.model_fields))


@pytest.fixture(scope="module", autouse=True)
def data(module_patch):
    """Return the images that ship with the code, whatever else this machine has."""
    shipped = mnist.embedded()
    module_patch.setattr(mnist, "load", lambda: shipped)
    digits.cache_clear()
    yield shipped
    digits.cache_clear()


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def heard_of(data, sender, scale, rounds=1, module=LeNet, kind="uniform"):
    """Return what is heard of five images in the first rounds."""
    five = chosen(0, data.provenance.sha256, 0, 5)
    network = parameters.make(module)
    algorithm = messages.algorithm_of(PARAMS.algorithm(), sender, scale, 0)
    scene = messages.Scene(algorithm, network, *five, 0, 0)
    state = messages.first_state(scene, sender, parameters.initial(network, kind, seed=0))
    heard = messages.overhear(scene, state, rounds)
    true = matching.gradients(network, torch.tensor(state.theta[0]).float(), *five)
    return heard, true.double().numpy()


@pytest.mark.parametrize(("sender", "scale"), [("D-PSGD", 0.0), ("quantised", 0.0)])
def test_without_quantisation_the_gradients_are_heard_exactly(data, sender, scale):
    heard, true = heard_of(data, sender, scale)
    assert np.allclose(heard.estimate, true, rtol=1e-6, atol=1e-6) and np.array_equal(
        heard.gradient, true
    )


def test_smaller_steps_are_less_noise_and_the_dither_is_more(data):
    """Root mean square errors of the estimate: at d_0 they are of the order of d / lam with a
    dither, and far less without."""
    error = {
        case: np.sqrt(np.mean((heard.estimate - true) ** 2))
        for case in (
            ("quantised", 0.01),
            ("quantised", 1.0),
            ("dithered", 1.0),
            ("random psi_0", 1.0),
        )
        for heard, true in [heard_of(data, *case)]
    }
    assert error["quantised", 0.01] < error["quantised", 1.0] < 0.3 * error["dithered", 1.0]
    assert 3 < error["dithered", 1.0] < 12 and 3 < error["random psi_0", 1.0] < 12


@pytest.mark.parametrize("scale", [0.001, 0.01, 1.0])
def test_a_patient_eavesdropper_knows_no_less(data, scale):
    """Sixteen rounds contain the first one: the error of the estimate is hardly larger where one
    round tells nearly all (the model of a shrinking gradient is not exact), and far smaller at
    large steps. Seeds are fixed: nothing is left to chance."""
    one, many = (
        np.sqrt(np.mean((heard.estimate - true) ** 2))
        for heard, true in (heard_of(data, "quantised", scale, k) for k in (1, 16))
    )
    assert many < 1.15 * one
    assert scale < 1.0 or many < 0.5 * one


def test_layers_are_weights_and_biases_together():
    found = messages.layers(parameters.make(CNN))
    assert [part.stop - part.start for part in found] == [320, 9248, 18496, 36928, 16640, 2570]
    assert found[0].start == 0 and all(a.stop == b.start for a, b in itertools.pairwise(found))


def test_a_shard_does_not_depend_on_how_images_and_cases_are_cut(data):
    common = {
        "params": AGENTS,
        "data": data.provenance.sha256,
        "victim": "LeNet",
        "steps": 3,
        "restarts": 1,
    }
    cases = [("D-PSGD", 0.0, 1), ("quantised", 0.01, 2)]
    together = overheard.attack(**common, cases=cases, first=0, count=10)
    second = overheard.attack(**common, cases=cases[1:], first=5, count=5)
    for name in ("label", "guessed", "original"):
        assert np.array_equal(together[name][1, 5:], second[name][0])
    assert np.allclose(together["error"][1, 5:], second["error"][0])
    assert np.allclose(together["picture"][1, 5:], second["picture"][0], atol=1e-2)


def test_what_tells_the_same_is_attacked_once(data, monkeypatch):
    """The twin's first round is D-PSGD's; its second is its own, and so is a quantised one."""
    clear = [("D-PSGD", 0.0, 1), ("quantised", 0.0, 1)]
    cases, heard = [*clear, ("quantised", 0.0, 2), ("quantised", 0.01, 1)], []
    overhear = overheard.overhear

    def counted(scene, state, rounds):
        heard.append(overhear(scene, state, rounds))
        return heard[-1]

    monkeypatch.setattr(overheard, "overhear", counted)
    told = {"params": AGENTS, "data": data.provenance.sha256, "victim": "LeNet", "steps": 1}
    found = overheard.attack(**told, restarts=1, cases=cases, first=0, count=5)
    assert len(heard) == 3 and all(len(array) == 4 for array in found.values())
    np.testing.assert_array_equal(found["picture"][0], found["picture"][1])
    assert (found["error"][3] > found["error"][1]).all()


def test_every_case_attacks_each_of_its_images_once():
    params = Params(fig5_images=20, curve_images=10, scales=(0.1, 1.0), attack_rounds=4)
    cases = attacks.cases(params)
    attacked_in = {tuple(case[:3]): [] for case in cases}
    for block in attacks.shared(cases):
        for case in block["cases"]:
            attacked_in[tuple(case)] += range(block["first"], block["first"] + block["count"])
    assert {case[:3]: list(range(case[3])) for case in cases} == attacked_in


def test_the_feature_attack_groups_images_by_their_state(data):
    module = parameters.make(overheard.MODULES["CNN"])
    theta = torch.stack(
        [torch.tensor(parameters.initial(module, "he", seed=0, run=k)).float() for k in (0, 1, 0)]
    )
    images, labels = chosen(0, data.provenance.sha256, 0, 3)
    heard = matching.gradients(module, theta, images, labels)
    options = {"seed": 0, "steps": 3, "restarts": 1}
    together = features.invert(module, theta, heard, numbers=[0, 1, 2], **options)
    assert torch.equal(together.labels, labels) and together.images.shape == (3, 1, 28, 28)
    alone = features.invert(module, theta[1:2], heard[1:2], numbers=[1], **options)
    assert torch.allclose(alone.images[0], together.images[1], atol=1e-3)


def test_labels_are_read_from_one_round_of_algorithm_1_and_not_from_one_dithered_round(data):
    """Ten images: all labels from the plain quantizer; with a dither at most seven (chance of more
    if each is right with probability one half, which it is not: 5 %)."""
    read = {
        sender: overheard.read_labels(AGENTS, data.provenance.sha256, sender, [1, 2], 0, 10)
        for sender in ("quantised", "dithered")
    }
    right = {sender: result["guessed"][0] == result["label"] for sender, result in read.items()}
    assert right["quantised"].all() and right["quantised"].shape == (2, 10)
    assert right["dithered"][0].sum() <= 7


def test_attacks_during_a_training_start_from_its_states(data):
    options = {"moments": [0, 1], "steps": 2, "restarts": 1, "count": 5}
    found = overheard.attack_later(AGENTS, data.provenance.sha256, 1.0, **options)
    assert found["picture"].shape == (2, 5, 28, 28) and found["accuracy"].shape == (2,)
    assert (
        found["error"][1] > found["error"][0]
    ).all()  # the first round is the quietest: psi_0 lies on the grid


def test_calibration_takes_another_network_for_each_image(data):
    found = overheard.calibrate(0, data.provenance.sha256, "line search", 2, 3, 2)
    assert (found["label"] == found["guessed"]).all() and found["picture"].shape == (2, 28, 28)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fig5_images": 7}, "fig5_images = 7"),
        ({"scales": (0.1,)}, "must rise and hold 1.0"),
        ({"moments": ()}, "moments = "),
        ({"calibration_images": 10**6}, "calibration_images = 1000000 must not exceed"),
        ({"image": 3}, "image is not a parameter"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_in_one_sentence(data, changes, message):
    with pytest.raises(ParameterError, match=message):
        Params(**changes).check(data)


def attacked(recovered_at_one=0.0, images=20):
    """Return a table as of `reconstructions`: below a scale of 0.1 everything comes back; eight
    rounds have half the noise."""
    rows = [
        (victim, sender, scale, rounds, k, k % 10,
         0.5 if scale >= 0.1 and k >= images * recovered_at_one else 1e-3)
        for victim in ("LeNet", "CNN")
        for sender, scale, rounds in [
            ("D-PSGD", 0.0, 1), ("quantised", 0.0, 1),
            *(("quantised", s, r) for s in (0.01, 0.1, 1.0) for r in (1, 8)),
            ("dithered", 1.0, 1),
        ]
        for k in range(images)
    ]  # fmt: skip
    table = pd.DataFrame(
        rows, columns=["victim", "sender", "scale", "rounds", "image", "label", "mse"]
    )
    return table.assign(
        psnr=-10 * np.log10(table["mse"]),
        ssim=0.5,
        black=0.1,
        error=table["scale"] / np.where(table["rounds"] > 1, 2, 1),
        right=True,
        diverged=False,
    )


def calibrated(published=25):
    hits = {method: published if method == "published" else 25 for method in attacks.METHODS}
    rows = [
        (method, 1e-6 if k < hits[method] else 1e3, k >= hits[method], True)
        for method in hits
        for k in range(25)
    ]
    return pd.DataFrame(rows, columns=["method", "mse", "diverged", "right"])


def read_out(dithered=0.5):
    rows = [
        (
            sender,
            rule,
            rounds,
            k < 20 * (dithered if sender in ("dithered", "random psi_0") else 1.0),
        )
        for sender in ("D-PSGD", "quantised", "dithered", "random psi_0")
        for rule in ("row sums", "bias")
        for rounds in (1, 8)
        for k in range(20)
    ]
    return attacks.label_rates(pd.DataFrame(rows, columns=["sender", "rule", "rounds", "right"]))


def during():
    rows = attacked().query(
        "victim == 'CNN' and sender == 'quantised' and rounds == 1 and scale in (0.0, 1.0)"
    )
    return pd.concat([rows.assign(t=t, error=rows["scale"] * (1 + t)) for t in (0, 100)])


def test_verdicts_follow_the_numbers():
    by_key = {c.key: c for c in verdicts.of_attacks(calibrated(), attacked(), during(), read_out())}
    assert (
        by_key["idlg-calibration"].verdict == "holds"
        and "100% below 0.01" in by_key["idlg-calibration"].ours
    )
    assert (
        by_key["attack-on-d-psgd"].verdict == "holds if"
        and "sigmoid" in by_key["attack-on-d-psgd"].condition
    )
    assert (
        by_key["attack-on-algorithm-1"].verdict == by_key["attack-many-rounds"].verdict == "holds"
    )
    assert "half recovered up to 0.01 d_0, none from 0.1 d_0" in by_key["attack-margin"].ours
    assert by_key["attack-margin"].condition.startswith("d_0 is at least 0.1 of the paper's")
    assert by_key["attack-later"].verdict == "does not hold", (
        "rounds together have less noise than one"
    )
    assert (
        by_key["labels-not-protected"].verdict
        == by_key["labels-with-a-dither"].verdict
        == "does not hold"
    )
    assert "labels" in claims.as_html(by_key.values())


def test_verdicts_turn_when_the_numbers_do():
    (few,) = [
        c
        for c in verdicts.of_attacks(calibrated(12), attacked(), during(), read_out())
        if "calib" in c.key
    ]
    assert few.sentence == "holds if its optimiser is given a line search"
    by_key = {
        c.key: c for c in verdicts.of_attacks(calibrated(), attacked(0.9), during(), read_out(0.0))
    }
    assert (
        by_key["attack-on-algorithm-1"].verdict
        == by_key["attack-margin"].verdict
        == "does not hold"
    )
    assert by_key["labels-with-a-dither"].verdict == "holds"
    same = attacked().assign(error=1.0)
    by_key = {c.key: c for c in verdicts.of_attacks(calibrated(), same, during(), read_out(0.1))}
    assert (
        by_key["attack-later"].verdict == "holds"
        and by_key["labels-with-a-dither"].verdict == "cannot be checked"
    )
    by_key = {
        c.key: c
        for c in verdicts.of_attacks(calibrated(), attacked(images=10), during(), read_out())
    }
    assert by_key["attack-on-algorithm-1"].verdict == "cannot be checked", (
        "none of ten may still be one in four"
    )
    weak = attacked().assign(mse=0.5)  # the attack fails without any defence
    by_key = {c.key: c for c in verdicts.of_attacks(calibrated(), weak, during(), read_out())}
    assert (
        by_key["attack-on-algorithm-1"].verdict
        == by_key["attack-many-rounds"].verdict
        == "cannot be checked"
    )
    assert by_key["attack-on-d-psgd"].verdict == "cannot be checked", (
        "an attack that fails refutes nothing"
    )


def test_breaking_scales():
    table = attacks.rates(attacked(), attacks.BY)
    assert attacks.breaking_scale(table, "CNN", 1) == (0.01, 0.1)


def test_rates_have_wilson_intervals():
    row = attacks.rates(attacked(images=10), attacks.BY).iloc[0]
    assert (
        row["recovered"] == 1.0
        and row["recovered_low"] == pytest.approx(0.7225, abs=1e-3)
        and row["recovered_high"] == 1.0
    )
    assert intervals.wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-3)
    assert (
        row["mse_low"] <= row["mse"] <= row["mse_high"]
        and row["psnr_low"] <= row["psnr"] <= row["psnr_high"]
    )
    shown = attacks.attack_table(row.to_frame().T, victim="attacked").iloc[0]
    assert sum(" to " in str(cell) for cell in shown) == 5  # two shares, three medians


def texts(figure):
    return " ".join(
        text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
    )


def test_figures_say_what_they_show(data):
    table = attacked()
    pictures = np.zeros((len(table), 28, 28))
    painted = attacks.Attacked(table, pictures, pictures)
    record = Params(scales=(0.01, 0.1, 1.0)).record("03_mnist_idlg", "x", data)
    measures = {"paper": [9.0, 3.0, 1.0], "lower": [0.9, 0.5, 0.1], "upper": [1.0, 0.6, 0.2]}
    spent = pd.DataFrame({"samples": 1, "scale": [0.01, 0.1, 1.0], **measures})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = figures.fig5_curve(painted, spent, record, "")
        assert "8 rounds" in texts(curve) and "Wilson" in texts(curve) and len(curve.axes) == 2
        assert len(figures.fig5_curve(painted, spent[:0], record, "").axes) == 1
        assert "labels 100%" in texts(figures.calibration(calibrated(), record, ""))
        assert "by chance" in texts(figures.labels_read(read_out(), record, ""))
        shown = figures.slider(np.log10(0.02), painted, record)
        assert "d₀ = 0.01" in texts(shown) and "0.001" in texts(shown)
        assert "d₀ = 0.1" in texts(figures.slider(-1.0, painted, record))


def test_the_cnn_attacked_is_the_papers_with_a_sigmoid():
    assert (
        isinstance(parameters.make(overheard.MODULES["CNN"]), CNN)
        and parameters.make(overheard.MODULES["CNN"]).activation == "sigmoid"
    )
