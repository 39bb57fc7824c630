"""The report as a reader opens it, on a telephone and on a wide screen: from the disk, with no server and no network."""

from pathlib import Path

import pytest

from companion.publish import environment

FIGURES = Path(environment.ROOT) / "figures"
PAGES = ("report.html", *sorted(f"notebooks/{path.name}" for path in (FIGURES / "notebooks").glob("*.html")))
SIZES = {"telephone": 400, "desk": 1400}  # pixels
LOADED = "Promise.all([...document.images].map(img => { img.loading = 'eager'; return img.decode().catch(() => null) }))"
BROKEN = "() => [...document.images].filter(img => img.naturalWidth === 0).map(img => img.alt || img.src.slice(0, 80))"
TOO_WIDE = """() => [...document.querySelectorAll('body *')]
    .filter(element => element.getBoundingClientRect().right > innerWidth + 1 && element.offsetParent)
    .slice(0, 5).map(element => element.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", SIZES)
def test_a_page_opens_whole(new_page, name, size):
    """No error in the console, no request that leaves the disk, no picture missing, nothing wider than the window."""
    page = new_page(SIZES[size], 900)
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: errors.append(f"{request.url[:100]}: {request.failure}"))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
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


def test_links_of_the_report_lead_somewhere(new_page):
    """Every anchor is there; every file it names lies beside it."""
    page = new_page()
    page.goto((FIGURES / "report.html").as_uri())
    links = page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))")
    ids = set(page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)"))
    page.close()
    assert links
    assert not [link for link in links if link.startswith("#") and link[1:] not in ids]
    files = [link.partition("#")[0] for link in links if not link.startswith(("#", "http:", "https:", "mailto:"))]
    assert not [name for name in files if not (FIGURES / name).exists()]
