"""The digits that ship with the code, for the tests of notebook 3's learning."""

import pytest

from companion.data import mnist as images


@pytest.fixture(scope="module")
def data():
    return images.embedded()
