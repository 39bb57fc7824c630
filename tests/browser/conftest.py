"""A headless Chromium: the system's own, driven by playwright, which downloads no browser."""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 300_000  # milliseconds until anything is said to hang: a busy machine gets its time


@pytest.fixture(scope="module")
def chromium():
    """Return a running browser, or skip by name where none is installed."""
    program = next((path for path in map(shutil.which, NAMES) if path), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = {"executable_path": program, "args": ["--no-sandbox"], "timeout": PATIENCE}
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()


@pytest.fixture
def new_page(chromium):
    """Return a function that opens a page of a size, whose waits are patient."""

    def opened(width: int = 1280, height: int = 720, **options):
        page = chromium.new_page(viewport={"width": width, "height": height}, **options)
        page.set_default_timeout(PATIENCE)
        page.set_default_navigation_timeout(PATIENCE)
        return page

    return opened
