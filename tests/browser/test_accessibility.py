"""Pages as people without eyes or mouse meet them: axe finds nothing serious, the keyboard works.

axe-core is no Python package: it comes with what `make play` pins. Where npm cannot be had, the
checks that need it are skipped by name.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from companion.publish import CommandError, environment, reproduce
from companion.publish.play import build
from companion.publish.report import gather

ROOT = Path(environment.ROOT)
FIGURES = ROOT / "figures"
PAGES = [
    "report.html",
    *(f"notebooks/{path.name}" for path in sorted(FIGURES.glob("notebooks/*.html"))),
]
SIZES = {"telephone": (390, 844), "desk": (1280, 800)}  # pixels
GRAVE = ("serious", "critical")
FOUND = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
    .map(({id, impact, nodes}) => [impact, id, nodes.length, nodes[0].html.slice(0, 120)])"""


@pytest.fixture(scope="module")
def axe():
    """Return the source of axe-core, which `make play` pins, or skip by name without npm."""
    try:
        path = build.installed(ROOT) / "axe-core" / "axe.min.js"
    except CommandError as error:
        pytest.skip(f"axe-core cannot be had: {error}")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_serious(new_page, axe, name, scheme, size):
    page = new_page(*SIZES[size], color_scheme=scheme)
    page.goto((FIGURES / name).as_uri())
    page.evaluate(axe)
    found = page.evaluate(FOUND)
    page.close()
    assert not [violation for violation in found if violation[0] in GRAVE]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Return a page that compares the paper's figures with themselves."""
    found = gather.gather(FIGURES, ROOT)
    figures = [figure for figure in found.figures if figure.name in gather.CAPTIONS]
    folder = tmp_path_factory.mktemp("compared")
    here = replace(found, figures=figures, folder=folder)
    return reproduce.write(reproduce.compare(here, found))


@pytest.mark.parametrize("size", SIZES)
def test_the_comparison_is_whole_and_axe_finds_nothing_serious(new_page, axe, comparison, size):
    page = new_page(*SIZES[size])
    page.goto(comparison.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.evaluate(axe)
    found = page.evaluate(FOUND)
    page.close()
    assert not [violation for violation in found if violation[0] in GRAVE]


def test_axe_would_find_what_is_wrong(new_page, axe):
    page = new_page()
    page.set_content('<html lang="en"><title>x</title><main><img src="data:,"><p>text</p></main>')
    page.evaluate(axe)
    found = page.evaluate(FOUND)
    page.close()
    assert "image-alt" in [violation[1] for violation in found if violation[0] in GRAVE]


def test_the_first_tab_offers_to_skip_to_the_text(new_page):
    page = new_page()
    page.goto((FIGURES / "report.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#main"
    page.close()
