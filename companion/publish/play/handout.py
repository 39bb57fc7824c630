"""docs/handout.pdf: two pages for students, printed by Chromium from what the pages draw and ask.

The last line of the file is a hash of everything it was made from, so that a test can tell when it
is out of date.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from companion import files
from companion.exercises import EXERCISES
from companion.publish import CommandError
from companion.publish.play import build, pages, serve
from companion.publish.play.slides import slides
from companion.publish.report import markup

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PLACE = "docs/handout.pdf"
SECONDS = 300  # that a page may take to start


def write(root: Path) -> Path:
    """Print the handout, and return where it lies."""
    program = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if program is None:
        raise CommandError("no Chromium is installed, which prints the handout")
    with served(root) as address:
        printed = _print(program, root, address)
    files.put(root / PLACE, printed + f"\n%{fingerprint(root)}\n".encode())
    return root / PLACE


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Build the pages in a folder of their own and yield the address at which they are served."""
    with tempfile.TemporaryDirectory() as folder:
        build.build(root, Path(folder) / "play")
        server = serve.server(Path(folder) / "play", 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        server.server_close()


def _print(program: str, root: Path, address: str) -> bytes:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(color_scheme="light")
        pictures = {name: _picture(page, f"{address}{name}.html?seed=1") for name in pages.PAGES}
        page.set_content(html(root, pictures))
        printed = page.pdf(format="A4", prefer_css_page_size=True)
        browser.close()
    return printed


def _picture(page, address: str) -> str:
    """Return what a page draws when it starts: one picture small, or two beside each other."""
    page.set_viewport_size({"width": 640, "height": 800})
    page.goto(address)
    page.wait_for_function("window.play && play.drawn > 0", timeout=1000 * SECONDS)
    if not page.locator("#picture .pair").count():
        page.set_viewport_size({"width": 480, "height": 800})
        page.wait_for_function("document.querySelector('#picture svg').viewBox.baseVal.width < 480")
    return page.inner_html("#picture")


def html(root: Path, pictures: dict[str, str]) -> str:
    """Return the handout as a page."""
    questions = {name: exercise.question for name, exercise in EXERCISES.items()}
    style = (build.HERE / "static" / "play.css").read_text(encoding="utf-8")
    template = build.templates().get_template("handout.html")
    told = {"all": pages.PAGES, "pictures": pictures, "questions": questions}
    return template.render(style=style, leave=slides(root)[-1], homework=homework(root), **told)


def homework(root: Path) -> str:
    """Return the homework of the lesson plan, without its links: paper has none."""
    plan = (root / "docs" / "teaching.md").read_text(encoding="utf-8")
    found = re.search(r"(?s)\*\*Homework, one of:\*\* (.+?)\n\n", plan)
    return markup.markdown(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", found[1] if found else ""))


def fingerprint(root: Path) -> str:
    """Return a hash of all that the handout is made from: words, pictures' code, style."""
    words = html(root, dict.fromkeys(pages.PAGES, ""))
    scripts = [build.HERE / "static" / f"{name}.js" for name in ("play", *pages.PAGES)]
    drawn = (path.read_text(encoding="utf-8") for path in scripts)
    return hashlib.sha256("\n".join([words, *drawn]).encode()).hexdigest()
