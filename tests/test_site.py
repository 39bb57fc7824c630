"""The site: everything that is made, in one folder, and no link of it leads nowhere."""

import pkgutil
from functools import partial
from pathlib import Path

import pytest

import ldp_core
from companion.publish import environment, site

ROOT = Path(environment.ROOT)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the project's own site, with its dead links."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "stale.html").write_text("from before")
    return folder, site.build(ROOT, folder, play=nothing_to_play)


def nothing_to_play(root, folder):
    folder.mkdir()
    (folder / "index.html").write_text("<p>npm is not asked here")
    return "npm is not asked here"


def test_no_link_is_dead_and_nothing_stale_is_left(built):
    folder, dead = built
    assert dead == []
    assert not (folder / "stale.html").exists()


def test_every_document_notebook_and_module_has_a_page(built):
    folder, _ = built
    names = [path.relative_to(ROOT).with_suffix(".html") for path in ROOT.glob("docs/**/*.md")]
    assert names and all((folder / name).exists() for name in names)
    executed = {path.stem for path in (ROOT / "figures" / "notebooks").glob("*.ipynb")}
    assert executed == {path.stem for path in (folder / "notebooks").glob("*.html")}
    listed = (folder / "ldp_core" / "index.html").read_text(encoding="utf-8")
    for module in pkgutil.walk_packages(ldp_core.__path__, "ldp_core."):
        assert f"{module.name}: " in listed


def test_the_menu_leads_to_the_pages_of_play(built):
    folder, _ = built
    assert 'href="play/index.html"' in (folder / "index.html").read_text(encoding="utf-8")
    deeper = (folder / "docs" / "proofs" / "promise.html").read_text(encoding="utf-8")
    assert 'href="../../play/index.html"' in deeper


def test_the_reference_shows_signature_and_docstring(built):
    text = (built[0] / "ldp_core" / "quantizer.html").read_text(encoding="utf-8")
    assert "pmf(y, step, dither=None) -&gt; Pmf" in text
    shown, _, source = text.partition('<details class="code">')
    assert "eq. (3)" in shown and 'id="Pmf"' in shown and "np.floor" not in shown
    assert "np.floor" in source and 'id="L1"' in source  # where links to lines lead


def test_pages_lead_to_each_other(built):
    folder, _ = built
    report = (folder / "index.html").read_text(encoding="utf-8")
    assert 'href="docs/index.html"' in report and 'href="ldp_core/index.html"' in report
    assert 'href="fig2.svg"' in report and (folder / "fig2.svg").exists()
    document = (folder / "docs" / "paper_gaps.html").read_text(encoding="utf-8")
    assert 'href="silent_choices.html"' in document and 'href="../index.html"' in document
    assert "<math" in (folder / "docs" / "notation.html").read_text(encoding="utf-8")


def test_links_to_notebooks_lead_to_their_pages_and_files_are_copied(tmp_path):
    root, folder = tmp_path / "root", tmp_path / "site"
    (root / "tests").mkdir(parents=True)
    (root / "tests" / "a.json").write_text("{}")
    places = {"docs/a.md": "docs/a.html", "figures/notebooks/01_b.html": "notebooks/01_b.html"}
    places["figures/report.html"] = "index.html"
    leads = partial(site._lead, source="docs/a.md", places=places, root=root, folder=folder)
    assert leads("../notebooks/01_b.ipynb") == "../notebooks/01_b.html"
    assert leads("../tests") == "../index.html"
    assert leads("../tests/a.json") == "../tests/a.json" and (folder / "tests" / "a.json").exists()
    (tmp_path / "secret").write_text("outside of the project")
    leads("../../secret")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["a.json"]


@pytest.mark.parametrize("link", ["nowhere.html", "b.html#nothing", "#nothing", "../a.html"])
def test_dead_links_are_found(tmp_path, link):
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="#here">x</a> <a href="https://x.y">x</a>'
    )
    (tmp_path / "a.html").write_text(f'<a href="b.html#here">x</a> <a href="{link}">x</a>')
    assert site.dead_links(tmp_path) == [f"a.html: {link}"]
