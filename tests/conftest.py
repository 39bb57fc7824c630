"""Test settings: libraries write inside the project, and real data are found through LDP_DATA."""

import os
from pathlib import Path

import pytest

from ldp_core import environment

environment.keep_inside()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real data files, or skip by name."""
    folder = os.environ.get("LDP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("LDP_DATA names no folder of real data")
    return Path(folder)
