"""Notebook 4's attacks and who-was-it on workers that share no cache with the caller, nor with each
other.
"""

import collections
import json

import numpy as np
import pytest

from companion.data import epochs
from companion.eeg import shards, trials
from companion.eeg.params import Attacking
from tests.runs import workload

PEOPLE = (1, 2, 3, 4, 5)
PARAMS = Attacking(
    data="", subjects=PEOPLE, attack_fs=64.0, attack_band=(6.0, 32.0), attack_trials=1,
    attack_rounds=2, attack_models=2, attack_steps=1, attack_factors=(), calibration_states=(1, 2),
    identity_classifiers=("log-covariance", "log-spectrum"),
)  # fmt: skip


@pytest.fixture
def params(tmp_path):
    """Five people of noise, twenty trials of one second each, in our own form."""
    half = np.repeat([0, 1], 10).astype(np.int8)
    for number in PEOPLE:
        x = np.random.default_rng(number).normal(size=(20, len(epochs.CHANNELS), 64))
        rest = (np.arange(20) % 2, 64.0, epochs.CHANNELS, ("a", "b"), half, 0 * half)
        one = epochs.Epochs(f"A{number:02d}", x, *rest, (8.0, 30.0), (0.0, 1.0), "1")
        epochs.write(tmp_path / "own" / f"{one.subject}.npz", one)
    return PARAMS.model_copy(update={"data": str(tmp_path / "own")})


@pytest.fixture
def cluster(tmp_path):
    """Two worker processes, each with a cache of its own, which note every attack they compute."""
    from dask.distributed import Client, LocalCluster

    (tmp_path / "calls").mkdir()
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options, local_directory=str(tmp_path)) as local, Client(local) as client:
        client.run(workload.own_cache, str(tmp_path / "caches"))
        client.run(workload.count_in, str(tmp_path / "calls"), "companion.eeg.overheard", "rebuilt")
        yield local.scheduler_address


def test_each_attack_is_computed_once(cluster, params, tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDULER", cluster)
    monkeypatch.setenv("LDP_CACHE", str(tmp_path / "here"))
    data = trials.load(params)
    attacks = shards.attacks(params, data, shards.by_states(params, data))
    rates = shards.rates(params, data, attacks)
    calls = [json.loads(path.read_text()) for path in (tmp_path / "calls").iterdir()]
    counted = collections.Counter(
        (call["aligned"], defence, attacker, call["states"], call["first"])
        for call in calls
        for defence, _, attacker in call["ways"]
    )
    assert set(counted.values()) == {1}
    wanted = attacks.table[attacks.table["states"] > 1]
    wanted = wanted[(wanted["defence"] != "unquantised") | (wanted["attacker"] == "one run")]
    names = ["aligned", "defence", "attacker", "states"]
    ways = set(wanted[names].itertuples(index=False, name=None))
    assert {key[:4] for key in counted} >= ways
    assert not list((tmp_path / "caches").rglob("*.result"))
    assert (rates[rates["defence"] != "raw"]["trials"] == len(PEOPLE)).all()
