"""Test settings: libraries write inside the project, and real data are found through LDP_DATA."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from companion.publish import environment

environment.keep_inside()
settings.register_profile("fixed", derandomize=True)  # the same cases in every run
# new ones, to find what the fixed ones miss: HYPOTHESIS_SEARCH=1
settings.register_profile("search")
settings.load_profile("search" if os.environ.get("HYPOTHESIS_SEARCH") else "fixed")

NEED_POSIX = (  # they fork, kill process groups, press Ctrl-C or limit what may be written
    "browser/test_jupyterlab.py",
    "browser/test_lab_server.py",
    "faults/test_disk_and_concurrency.py",
    "faults/test_interrupted_notebook.py",
    "runs/test_dask.py",
    "runs/test_runs.py",
)
collect_ignore = list(NEED_POSIX) if os.name == "nt" else []

# what rounding, threads, processes or load may decide: `make test-matrix` repeats these
SENSITIVE = (
    "attacks",
    "problems",
    "data/test_alignment.py",
    "data/test_synthetic_eeg.py",
    "eeg/test_learning.py",
    "eeg/test_learning_verdicts.py",
    "eeg/test_eeg_attacks.py",
    "eeg/test_eeg_attack_verdicts.py",
    "mnist/test_mnist_learning.py",
    "mnist/test_mnist_learning_verdicts.py",
    "mnist/test_mnist_attacks.py",
    "runs",
    "test_engine.py",
    "test_optimizer.py",
    "test_randomness.py",
)


def pytest_collection_modifyitems(items):
    """Mark the sensitive tests, by the folder or file they are in."""
    tests = Path(__file__).parent
    places = [tests / place for place in SENSITIVE]
    for item in items:
        if any(item.path == place or place in item.path.parents for place in places):
            item.add_marker("sensitive")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real data files, or skip by name."""
    folder = os.environ.get("LDP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("LDP_DATA names no folder of real data")
    return Path(folder)
