"""Attackers who try harder: batches, the better model, members, canaries; tables and verdicts."""

import json

import numpy as np
import pandas as pd
import pytest

from companion import intervals
from companion.data import mnist
from companion.mnist import (
    attack_figures,
    batches,
    canaries,
    harder_tables,
    painted,
    patient,
    tables,
)
from companion.mnist import claims as verdicts
from companion.mnist.digits import digits
from companion.mnist.params import Params
from companion.params import AgentParams, ParameterError

PARAMS = Params()
AGENTS = PARAMS.model_dump(include=set(AgentParams.model_fields))


@pytest.fixture(scope="module", autouse=True)
def data():
    """Return the images that ship with the code, whatever else this machine has."""
    shipped = mnist.embedded()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist, "load", lambda: shipped)
        digits.cache_clear()
        yield shipped
    digits.cache_clear()


@pytest.mark.parametrize("victim", batches.VICTIMS)
def test_batches_come_back_from_d_psgd_and_not_from_algorithm_1(data, monkeypatch, victim):
    monkeypatch.setattr(batches, "STARTS", 800)
    clear, sent = (
        batches.read(AGENTS, data.provenance.sha256, victim, sender, 2, 0, 5)["error"]
        for sender in ("D-PSGD", "quantised")
    )
    assert (clear < 1e-12).sum() >= 4 and (sent > 1e-2).all()


def batch_rates(clear=1.0, sent=0.0, count=20):
    shares = {("D-PSGD", 1): 1.0, ("D-PSGD", 8): clear, ("quantised", 1): sent}
    shares["quantised", 8] = sent
    columns = ["victim", "sender", "size", "recovered", "recovered_low", "recovered_high"]
    rows = [
        ("CNN", *case, share, *intervals.wilson(share * count, count))
        for case, share in shares.items()
    ]
    return pd.DataFrame(rows, columns=columns).assign(batches=count)


def test_the_verdict_on_batches_follows_the_numbers():
    def verdict(**changes):
        (row,) = verdicts.of_batches(batch_rates(**changes))
        return row.sentence

    assert verdict() == "holds" and verdicts.of_batches(batch_rates()[:0]) == []
    assert verdict(clear=0.2) == "holds if a batch has at most 1 (CNN) images"
    assert verdict(sent=0.9) == "does not hold"
    assert verdict(count=5) == "cannot be checked"
    assert harder_tables.batch_table(batch_rates()).iloc[0, 2] == "100% (84% to 100%)"


def test_fresh_images_are_heard_under_every_model(data):
    """Five images, eight rounds. Errors are relative to a gradient that may be next to nothing: the
    median image counts."""
    found = patient.hear(AGENTS, data.provenance.sha256, "LeNet", 1.0, 8, 2, 1, 5, 5)
    assert set(found) == {*patient.MODELS, "mse"} and found["mse"].shape == (5,)
    error = {name: np.median(found[name]) for name in patient.MODELS}
    assert error["kept"] < 1.1 * min(error["shrinking"], error["constant"]) < 0.5 * error["free"]


def heard(mse):
    errors = {name: np.full(20, 0.1) for name in patient.MODELS}
    return pd.DataFrame({"victim": "CNN", "scale": 1.0, **errors, "mse": np.full(20, mse)})


def test_the_verdict_on_the_better_model_follows_the_numbers():
    (fails,), (works,) = (verdicts.of_patience(PARAMS, heard(mse)) for mse in (0.1, 0.001))
    assert (fails.sentence, works.sentence) == ("holds", "does not hold")
    (few,) = verdicts.of_patience(PARAMS, heard(0.1)[:3])
    assert few.sentence == "cannot be checked"
    assert verdicts.of_patience(PARAMS, pd.DataFrame()) == []
    assert harder_tables.rounds_table(heard(0.1)).iloc[0, -1] == "0% (0% to 16%)"


def test_a_prior_paints_what_is_heard_and_the_mean_where_nothing_is(data, monkeypatch):
    """CNN, five images: undefended most come back; under Algorithm 1 it stays near the mean."""
    monkeypatch.setattr(painted, "STEPS", 60)
    common = {"params": AGENTS, "data": data.provenance.sha256, "victim": "CNN", "rounds": 1}
    clear, sent = (
        painted.single(**common, sender=sender, first=7995, count=5)
        for sender in ("D-PSGD", "quantised")
    )
    assert np.median(clear["mse"]) < 0.3 * np.median(clear["mean"])
    assert np.allclose(sent["mse"], sent["mean"], rtol=0.3)


def test_whole_batches_are_painted_from_d_psgd_and_not_from_algorithm_1(data, monkeypatch):
    monkeypatch.setattr(painted, "STEPS", 60)
    monkeypatch.setattr(batches, "STARTS", 300)
    common = {"params": AGENTS, "data": data.provenance.sha256, "victim": "LeNet", "size": 2}
    clear, sent = (
        painted.whole(**common, sender=sender, first=0, count=5)
        for sender in ("D-PSGD", "quantised")
    )
    assert np.median(clear["mse"]) < 0.3 * np.median(clear["mean"])
    assert (sent["mse"] > 0.01).all() and sent["mse"].shape == (10,)
    assert (sent["mse"] == sent["mean"]).any(), "the mean digit where nothing was read"


def test_a_size_that_fails_undefended_is_no_evidence_for_algorithm_1():
    """Five batches that come back from nobody: their interval is not that of Algorithm 1."""
    lost = batch_rates(clear=0.0, count=5)
    lost = lost[lost["size"] == 8].assign(size=20)
    (row,) = verdicts.of_batches(pd.concat([batch_rates(), lost]))
    assert row.sentence == "holds if a batch has at most 8 (CNN) images"
    assert "of 1, 8, 20 (Algorithm 1, where four in five surely do: 0%, at most 16%)" in row.ours
    (row,) = verdicts.of_batches(lost)
    assert row.verdict == "does not hold" and "surely do: nowhere" in row.ours


def pictures(clear, sent, count=20):
    rows = [("D-PSGD", clear), ("quantised", sent)]
    tables = [pd.DataFrame({"sender": name, "mse": np.full(count, mse)}) for name, mse in rows]
    return pd.concat(tables).assign(victim="CNN", size=1, mean=0.06)


def test_the_verdict_on_painters_follows_the_numbers():
    def verdict(*arguments):
        (row,) = verdicts.of_painters(pictures(*arguments))
        return row.sentence

    assert verdict(0.001, 0.06) == "holds" and verdict(0.001, 0.001) == "does not hold"
    assert verdict(0.06, 0.06) == "cannot be checked" == verdict(0.001, 0.06, 3)
    assert verdict(0.06, 0.001) == "does not hold", "that it works defended needs no calibration"
    assert verdicts.of_painters(pd.DataFrame()) == []
    assert harder_tables.painted_table(pictures(0.001, 0.06)).iloc[0, 0] == "CNN"


@pytest.mark.parametrize(("sent", "alone"), [(0.06, "cannot be checked"), (0.001, "does not hold")])
def test_what_was_not_calibrated_undefended_proves_nothing_defended(sent, alone):
    """Of the CNN 60 % come back undefended: that none does defended says nothing."""
    lenet, cnn = pictures(0.001, 0.06).assign(victim="LeNet"), pictures(0.001, sent)
    cnn.loc[(cnn["sender"] == "D-PSGD") & (cnn.index % 5 < 2), "mse"] = 0.06
    (row,) = verdicts.of_painters(pd.concat([cnn, lenet]))
    assert row.sentence == "holds if what is attacked is LeNet, 1 at a time"
    assert "D-PSGD: CNN, 1 at a time: 60%" in row.ours
    (row,) = verdicts.of_painters(cnn)
    assert row.verdict == alone


@pytest.fixture(scope="module")
def small():
    """Return features and labels that a softmax can learn: ten noisy points of the sphere."""
    random = np.random.default_rng(0)
    y = random.integers(10, size=1200)
    x = random.normal(size=(10, 601))[y] + random.normal(size=(1200, 601))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float16), y


@pytest.mark.parametrize("kind", ["softmax", "network"])
def test_every_coin_of_an_unprotected_run_is_read(small, kind):
    found = canaries.audit(kind, "unprotected", 0.5, 0, 1000, 4, 12, *small)
    assert ((found["score"] > 0) == found["coin"]).all()
    assert np.allclose(np.abs(found["score"]), 1.0, atol=1e-6)


def test_coins_under_a_promise_are_told_better_than_by_chance_and_no_better_than_allowed(small):
    """300 coins at delta = 0.5. By chance scores agree with the coins by 2.33 standard deviations
    or more with probability 1 %; allowed are 225 right ones on average."""
    found = canaries.audit("softmax", "promise", 0.5, 0, 1000, 6, 60, *small)
    agree = found["score"] * np.where(found["coin"], 1.0, -1.0)
    assert agree.sum() / np.linalg.norm(agree) > 2.33 and (found["delta"] <= 0.5).all()
    assert (agree > 0).sum() < 225 + 3 * np.sqrt(300) / 2


def test_halves_are_disjoint_and_members_have_lower_losses(small):
    pair = [canaries.losses("softmax", "unprotected", 0.5, 0, 1000, 3, k, *small) for k in (0, 1)]
    assert (pair[0]["member"] ^ pair[1]["member"]).all() and pair[0]["member"].sum() == 500
    assert pair[0]["loss"][pair[0]["member"]].mean() < pair[0]["loss"][~pair[0]["member"]].mean()


def guesses(right=550, variant="promise", delta=0.25, attack="canaries"):
    spread = np.diff(np.arange(1001) * right // 1000)  # right ones all over the place
    score = np.where(spread, 1.0, -1.0).reshape(5, 200)
    audit = {"score": score, "coin": np.ones((5, 200), dtype=bool), "delta": np.full(5, delta)}
    row = {"kind": "softmax", "variant": variant, "delta": delta}
    if attack == "canaries":
        return row | harder_tables._canaries(audit)
    return row | harder_tables._guesses(attack, 1000, right, delta)


def test_the_verdicts_on_secrets_follow_the_numbers():
    def sentences(*rows):
        return [row.sentence for row in verdicts.of_secrets(pd.DataFrame(rows))]

    open_one = guesses(1000, "unprotected", 1.0)
    assert sentences(guesses(), open_one) == ["holds"]
    assert sentences(guesses(1000, delta=1e-4), open_one) == ["does not hold"]
    assert sentences(open_one) == ["cannot be checked"]
    assert verdicts.of_secrets(pd.DataFrame()) == []
    assert sentences(guesses(550, attack="loss")) == ["holds"]
    assert sentences(guesses(900, attack="loss")) == ["does not hold"]
    assert sentences(guesses(620, attack="loss")) == ["cannot be checked"]
    both = sentences(guesses(550, attack="loss"), guesses(900, attack="ratio"))
    assert both == ["holds if softmax, δ = 0.25, loss"]


def ends(right=505, guesses=1000, repeats=2):
    """Return trainings of Fig. 4 whose losses tell so many of so many images, quantised ones."""
    rows = [
        {"variant": variant, "history": history, "repeat": repeat, "guesses": guesses}
        | {"right": {"quantised": right, "unquantised": guesses // 2}[variant]}
        for history in ("whole history", "20 draws from the history")
        for variant in ("quantised", "unquantised")
        for repeat in range(repeats if history.startswith("20") else 1)
    ]
    return tables.Trainings(pd.DataFrame(), pd.DataFrame(rows))


def test_images_of_figure_4_are_counted_over_all_repeats():
    quantised, unquantised = harder_tables._of_figure_4(ends())
    assert (quantised["guesses"], quantised["right"]) == (2000, 1010)
    assert quantised["low"] < 0.505 == quantised["share"] < quantised["high"]
    assert quantised["allowed"] == 1.0 and unquantised["share"] == 0.5
    assert harder_tables._of_figure_4(ends(0, 0)) == []
    shown = harder_tables.secret_table(pd.DataFrame([quantised, guesses(attack="loss")]))
    assert shown.iloc[0].tolist()[:3] == ["the paper's CNN, quantised", "none", "its loss"]


@pytest.mark.parametrize("members", [True, False])
def test_all_that_is_guessed_is_in_one_table(data, monkeypatch, members):
    """Two models without a promise and one with, two attacks each; then the CNN of Fig. 4."""
    half = {"member": np.arange(10) < 5, "loss": np.arange(10.0)}
    coins = {"coin": np.ones((5, 2), dtype=bool), "score": np.ones((5, 2)), "delta": np.ones(5)}
    answers = {"members": half, "canaries": coins}
    monkeypatch.setattr(
        harder_tables, "_run", lambda _, pieces, __, of: [answers[of]] * len(pieces)
    )
    monkeypatch.setattr(harder_tables.promise_tables, "known", lambda *_: {})
    params = PARAMS.model_copy(update={"members": members, "canaries": 2})
    found = harder_tables.secrets(params, data, ends())
    assert found["attack"].value_counts().to_dict() == {"canaries": 3} | (
        {"loss": 5, "ratio": 3} if members else {}
    )
    assert (
        found[found["attack"] == "loss"]["share"].tolist() == [1.0, 1.0, 1.0, 0.505, 0.5] * members
    )
    assert harder_tables.secrets(
        PARAMS.model_copy(update={"promise_targets": ()}), data, ends()
    ).empty


def test_the_lower_half_of_the_losses_is_taken_for_members():
    member = np.arange(8) < 4
    for loss, right in ((np.arange(8.0), 8), (-np.arange(8.0), 0), (np.arange(8) % 4, 4)):
        assert tables.members_told(loss, member) == {"guesses": 8, "right": right}
    assert tables.members_told(np.zeros(0), np.zeros(0, dtype=bool)) == {"guesses": 0, "right": 0}


@pytest.mark.parametrize(
    ("right", "guessed", "sentence"),
    [
        (5050, 10_000, "holds"),
        (5300, 10_000, "holds if what is sent is unquantised"),
        (500, 1000, "cannot be checked"),
    ],
)
def test_the_verdict_on_figure_4s_members_follows_the_numbers(right, guessed, sentence):
    found = pd.DataFrame(harder_tables._of_figure_4(ends(right, guessed, 1)))
    *others, row = verdicts.of_secrets(pd.concat([found, pd.DataFrame([guesses(attack="loss")])]))
    assert (row.key, row.sentence) == ("members-of-figure-4", sentence)
    assert [other.sentence for other in others] == ["holds"], "the promise is judged by its own"
    assert "CNN (quantised), by loss" in others[0].ours and f"of {guessed}" in row.ours
    (_, told) = verdicts.of_secrets(found.assign(low=0.6, high=0.7))
    assert told.verdict == "does not hold"


def test_what_canaries_prove_stays_below_what_one_run_can():
    row = guesses(1000)
    assert row["delta_low"] == row["delta_most"] < 0.05 and row["epsilon_low"] > 2
    assert guesses(500)["delta_low"] == 0 == guesses(500)["epsilon_low"]


def test_too_many_canaries_are_refused(data):
    with pytest.raises(ParameterError, match="at least 900 must be there"):
        Params(canaries=900, promise_images=5000, promise_test=0).check(data)


@pytest.mark.parametrize("empty", [False, True])
def test_the_figure_shows_what_was_asked_for(data, tmp_path, empty):
    secrets = pd.DataFrame([guesses(), *harder_tables._of_figure_4(ends())])
    full = batch_rates(), heard(0.1), pictures(0.001, 0.06), secrets
    found = tuple(pd.DataFrame() for _ in full) if empty else full
    record = PARAMS.record("03_mnist_idlg", "smoke", data)
    figure = attack_figures.harder(found, record, str(tmp_path))
    assert len(figure.axes) == 3 and (tmp_path / "fig5_harder.png").exists()
    numbers = json.loads((tmp_path / "fig5_harder.json").read_text())["numbers"]
    assert set(numbers) == {"batches", "rounds", "painted", "secrets"}
    assert bool(numbers["secrets"]) != empty
