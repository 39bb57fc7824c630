"""`make data`: one line for every data set, and an exit code that tells stand-ins from the real
thing."""

from __future__ import annotations

import socket
from functools import partial

import pytest

from companion import __main__ as command
from companion.data import eeg


@pytest.fixture(autouse=True)
def one_subject(monkeypatch):
    """Let one subject stand for nine: this is about the command."""
    monkeypatch.setattr(eeg, "load", partial(eeg.load, subjects=[1]))


def test_a_download_that_brings_nothing_is_a_failure(monkeypatch, caplog):
    def unreachable(*_, **__):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    assert command.main(["data"]) == 1
    assert sum("not downloaded" in line for line in caplog.messages) == 3
    found = [line for line in caplog.messages if "sha256" in line]
    names = [line.split(":")[1].split("(")[0].strip() for line in found]
    assert names == ["Mushrooms", "MNIST", "synthetic motor imagery", "synthetic motor imagery"]


def test_a_damaged_file_is_one_line_on_standard_error(tmp_path, monkeypatch, capsys):
    (tmp_path / "mushrooms").mkdir()
    (tmp_path / "mushrooms" / "agaricus-lepiota.data").write_text("")
    monkeypatch.setenv("LDP_DATA", str(tmp_path))
    assert command.main(["data"]) == 2
    told = f"data: {tmp_path / 'mushrooms' / 'agaricus-lepiota.data'}: is empty\n"
    assert capsys.readouterr().err == told
