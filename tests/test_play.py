"""What the pages of `make play` compute, and how their folder is made, without a browser."""

import doctest
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from companion.publish import CommandError, environment
from companion.publish.play import build, pages, serve
from companion.publish.play.pages import game, learning, promise, quantizer

ROOT = Path(environment.ROOT)
STARTS = {
    name: {control.name: control.value(control.start) for control in page.CONTROLS}
    for name, page in pages.PAGES.items()
}
STARTS["network"] = {
    "R_edges": pages.network.R_EDGES,
    "C_edges": pages.network.C_EDGES,
}
STARTS["game"] |= {"seed": 1, "rounds": 3}
ROUNDS, ALARM = 10_000, 1e-6
GAMES = ((2.0, 1.0, 6), (5.0, 4.0, 9), (10.0, 0.5, 4), (0.5, 0.1, 2))


def test_the_first_lines_are_true():
    assert doctest.testmod(pages).failed == 0


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_shows_three_lines_that_give_its_answer(name):
    shown = pages.lines(name)
    assert len(shown.splitlines()) <= 3 and max(map(len, shown.splitlines())) <= 72
    assert pages.run(name, STARTS[name], shown) == pages.answer(name, STARTS[name])
    assert "sentence" not in pages.answer(name, STARTS[name])


@pytest.mark.parametrize("name", pages.PAGES)
def test_other_lines_give_another_answer_or_one_sentence(name):
    for lines in ("return 1 +", "return 1", "return nothing", "raise ValueError('no')"):
        (sentence,) = pages.run(name, STARTS[name], lines).values()
        assert sentence and "\n" not in sentence
    assert pages.run(name, STARTS[name], "return {'delta': 0.5}") == {"delta": 0.5}


def test_an_exercise_is_checked_on_any_page():
    lines = 'return check("2.4", lambda delta, prior: delta)'
    told = pages.run("game", STARTS["game"], lines)["sentence"]
    assert told.startswith("2.4: not yet.")
    lines = """def variance(y, d):
    a = y / d - math.floor(y / d)
    return a * (1 - a) * d**2
return check("1.4", variance)"""
    assert pages.run("game", STARTS["game"], lines) == {"sentence": "1.4: right."}


def test_a_refused_setting_is_told_in_our_own_sentence():
    edges = [edge for edge in pages.network.R_EDGES if edge[:2] != [4, 0]]
    told = pages.answer("network", {"R_edges": edges, "C_edges": pages.network.C_EDGES})
    rule = "must be negative: it has no in-neighbour in G_R (Assumption 4)"
    assert told == {"sentence": f"agent 0: R_ii = 0.0 {rule}"}
    told = pages.answer("learning", STARTS["learning"] | {"varsigma": 0.7})
    assert "must be below nu = 0.71" in told["sentence"]


def test_one_message_agrees_with_the_core():
    found = quantizer.answer(0.3, 1.2, 1.0, 0.0, 1)
    assert found["delta"] == pytest.approx(
        float(quantizer.quantizer.total_variation(0.3, 1.2, 1.0))
    )
    assert found["mean"] == pytest.approx(0.3) and found["variance"] == pytest.approx(0.21)


@pytest.mark.parametrize(("d_0", "change", "messages"), GAMES)
def test_the_game_is_fair(d_0, change, messages):
    """The best player is right in (1 + delta)/2 of the rounds; false alarm: 1e-6 each."""
    found = game.answer(d_0, change, messages, seed=21, rounds=ROUNDS)
    hits = int((found["truth"] == found["best"]).sum())
    law = binom(ROUNDS, found["limit"])
    assert law.cdf(hits) > ALARM / 2 and law.sf(hits - 1) > ALARM / 2
    assert abs(found["truth"].mean() - 0.5) < 5 / np.sqrt(4 * ROUNDS)  # five sigma: 6e-7


def test_no_other_player_is_better():
    """Who looks for the nearer line does no better than the best, beyond five sigma (3e-7)."""
    blue, orange, step = game.worlds(2.0, 1.0, 6)
    truth, levels = game.drawn(blue, orange, step, 22, ROUNDS)
    away = [np.abs(levels * step - line).sum(axis=(1, 2)) for line in (blue, orange)]
    limit = game.answer(2.0, 1.0, 6, 22, 1)["limit"]
    assert ((away[0] > away[1]) == truth).mean() < limit + 2.5 / np.sqrt(ROUNDS)


def test_the_games_delta_is_exact():
    """At the largest game the bounds of the accountant still meet: nothing is left open."""
    low, high = game.exact.delta(game.exact.pair(*game.worlds(10.0, 4.0, game.CONTROLS[2].most)))
    assert low == high < 1


def test_the_first_message_tells_nothing():
    blue, orange, _ = game.worlds(2.0, 1.0, 6)
    assert (blue[0] == orange[0]).all() and (blue[1:] != orange[1:]).all()


def test_without_rounding_the_towns_meet():
    found = learning.answer(2.0, 0.6, 0.2, 200)
    assert found["twin"]["error"][-1] < found["rounded"]["error"][-1] < 1
    assert found["rounded"]["path"].shape == (201, 5, 2)


def test_a_promise_is_kept_and_more_samples_cost_less():
    few, many = (promise.answer(0.1, samples, 150) for samples in (10, 10_000))
    for found in (few, many):
        assert found["for_ever"] <= 0.1 and sorted(found["curve"]) == found["curve"]
        assert found["curve"][-1] <= found["for_ever"]
    assert few["accuracy"] < many["accuracy"]


def test_samples_are_counted_one_by_one():
    kinds = promise.Kinds.drawn(7, 5)
    assert (kinds.counts.sum(axis=-1) == np.arange(8, 13)[:, None]).all()


def test_own_code_is_the_projects_own():
    files = dict(build.own_code(ROOT))
    assert files["ldp_core/quantizer.py"] == (ROOT / "ldp_core" / "quantizer.py").read_bytes()
    assert "companion/exercises.py" in files and "companion/publish/play/pages/game.py" in files
    first, again = (build.zipped(files.items()) for _ in range(2))
    assert first == again and set(zipfile.ZipFile(io.BytesIO(first)).namelist()) == set(files)


def test_what_is_packed_is_all_that_the_pages_need(tmp_path):
    """The pages compute from the packed files alone, and with no other package than numpy."""
    zipfile.ZipFile(io.BytesIO(build.zipped(build.own_code(ROOT)))).extractall(tmp_path)
    lines = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom companion import explore\n"
    lines += "from companion.publish.play import pages\n"
    lines += f"told = [pages.answer(name, start) for name, start in {STARTS!r}.items()]\n"
    lines += "print(explore.__file__, [sorted(one) for one in told if 'sentence' in one])\n"
    lines += "print({'scipy', 'pandas', 'pydantic', 'matplotlib'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True)
    said = ended.stdout.decode().splitlines()
    assert said == [f"{tmp_path / 'companion' / 'explore.py'} []", "set()"], ended.stderr.decode()


def test_without_npm_there_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    told = build.build_or_say(tmp_path, tmp_path / "play")
    assert told == "npm is not installed; it fetches Python for browsers, once"
    assert told in (tmp_path / "play" / "index.html").read_text(encoding="utf-8")


def test_when_npm_fails_its_own_reason_is_given(monkeypatch, tmp_path):
    script = tmp_path / "npm"
    script.write_text("#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(build.shutil, "which", lambda name: str(script))
    with pytest.raises(
        CommandError, match="could not fetch the packages: npm error code ENOTFOUND"
    ):
        build.installed(tmp_path)
    assert not list(tmp_path.rglob("complete"))


def test_pages_are_made_without_a_browser():
    made = build.rendered(ROOT)
    assert set(made) == {"index.html", "slides.html", *(f"{name}.html" for name in pages.PAGES)}
    for name, page in pages.PAGES.items():
        assert page.QUESTION.endswith("?") and page.QUESTION in made["index.html"]
        assert all(f'id="{control.name}"' in made[f"{name}.html"] for control in page.CONTROLS)


def test_a_taken_port_is_told_in_one_sentence(tmp_path):
    with serve.server(tmp_path, 0) as taken:
        rule = f"port {taken.server_port} cannot be had .*; PORT=0 takes any free one"
        with pytest.raises(OSError, match=rule):
            serve.server(tmp_path, taken.server_port)


def test_a_page_that_is_closed_while_it_loads_is_no_error():
    class Closed(io.BytesIO):
        def write(self, piece):
            raise ConnectionResetError("Connection reset by peer")

    serve.Handler.copyfile(None, io.BytesIO(b"a file"), Closed())
