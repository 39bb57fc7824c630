"""The report as a reader opens it, on a telephone and on a desk: from the disk, with no network."""

from pathlib import Path

import pytest

from companion import claims
from companion.publish import environment

FIGURES = Path(environment.ROOT) / "figures"
NOTEBOOKS = sorted((FIGURES / "notebooks").glob("*.html"))
PAGES = ("report.html", *(f"notebooks/{path.name}" for path in NOTEBOOKS))
SIZES = {"telephone": (390, 844), "desk": (1280, 800)}  # pixels
LOADED = "Promise.all([...document.images].map(img => img.decode().catch(() => null)))"
BROKEN = """() => [...document.images].filter(img => img.naturalWidth === 0)
    .map(img => img.alt || img.src.slice(0, 80))"""
TOO_WIDE = """() => [...document.querySelectorAll('body *')]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && one.offsetParent)
    .slice(0, 5).map(element => element.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", SIZES)
def test_a_page_opens_whole(new_page, name, size):
    """No error in the console, no request, no picture missing, nothing wider than the window."""
    page = new_page(*SIZES[size])
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: errors.append(f"{request.url[:100]}: failed"))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((FIGURES / name).as_uri(), wait_until="load")
    page.evaluate(LOADED)
    assert page.evaluate("document.images.length") > 0
    assert not page.evaluate(BROKEN)
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overflow <= 0, f"{overflow} pixels too wide: {page.evaluate(TOO_WIDE)}"
    page.close()
    assert not errors
    assert not [url[:100] for url in asked if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture
def report(new_page):
    """Return the report on a desk."""
    page = new_page(1280, 800)
    page.goto((FIGURES / "report.html").as_uri())
    yield page
    page.close()


def shown(page) -> int:
    return page.locator(".claim:visible").count()


def test_the_first_screen_answers(report):
    """Question, five answers, counts and the paper's seven figures are seen without scrolling."""
    for selector, least in ((".answer dd", 5), (".counts", 2), (".thumbnails img", 7)):
        boxes = [found.bounding_box() for found in report.locator(selector).all()]
        assert len(boxes) >= least
        assert all(box["y"] + box["height"] <= 800 for box in boxes), selector


def test_filters_show_what_is_asked_for(report):
    rows = claims.load(FIGURES)
    assert shown(report) == len(rows)
    report.select_option("select[name=verdict]", "does not hold")
    assert shown(report) == sum(row.verdict == "does not hold" for row in rows)
    report.select_option("select[name=whose]", "ours")
    chosen = [row for row in rows if row.verdict == "does not hold" and row.ours_to_prove]
    assert shown(report) == len(chosen)
    assert report.inner_text(".filters output") == f"{len(chosen)} of {len(rows)} verdicts"
    report.select_option("select[name=notebook]", chosen[0].notebook)
    assert report.locator("section:visible").count() == 1


def test_by_keyboard_a_reason_opens(report):
    summary = report.locator(".claim summary").first
    summary.focus()
    report.keyboard.press("Enter")
    assert report.locator(".claim details").first.evaluate("one => one.open")


def test_without_a_script_everything_is_there_and_no_filter(new_page):
    page = new_page(java_script_enabled=False)
    page.goto((FIGURES / "report.html").as_uri())
    assert shown(page) == len(claims.load(FIGURES))
    assert page.locator(".filters:visible, button:visible").count() == 0
    page.close()


def test_on_paper_every_reason_is_printed(report):
    report.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert report.locator(".claim details:not([open])").count() == 0


def test_at_night_the_page_is_dark(new_page):
    colours = []
    for scheme in ("light", "dark"):
        page = new_page(color_scheme=scheme)
        page.goto((FIGURES / "report.html").as_uri())
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert colours[0] == "rgb(255, 255, 255)" and colours[1] != colours[0]


def test_code_is_folded_until_asked_for(new_page):
    page = new_page()
    page.goto((FIGURES / PAGES[1]).as_uri())
    assert page.locator("details.code").count() > 0
    assert page.locator("details.code[open]").count() == 0
    page.click("#unfold")
    assert page.locator("details.code:not([open])").count() == 0
    page.close()


def test_links_of_the_report_lead_somewhere(new_page):
    """Every anchor is there; every file it names lies beside it."""
    page = new_page()
    page.goto((FIGURES / "report.html").as_uri())
    links = [link.get_attribute("href") for link in page.locator("a[href]").all()]
    ids = set(page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)"))
    page.close()
    assert links
    assert not [link for link in links if link.startswith("#") and link[1:] not in ids]
    elsewhere = ("#", "http:", "https:", "mailto:")
    files = [link.partition("#")[0] for link in links if not link.startswith(elsewhere)]
    assert not [name for name in files if not (FIGURES / name).exists()]
