"""A reader opens notebook 1 in JupyterLab, runs it to the end and moves a slider."""

import contextlib
import re
import shutil
import tempfile
import time
import urllib.error
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

from companion.publish import batch
from tests.browser import lab

NOTEBOOK = "01_convergence"
RUN_SECONDS, REDRAW_SECONDS = 600, 300  # a busy machine gets its time; what it took is printed
# by the page, not by the server
READY = ".jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status='idle']"
PICTURE = ".widget-interact .widget-output img"


@pytest.fixture
def smoke_copy():
    """Return a copy of the notebook with the smallest numbers written into its parameters cell,
    where the server finds it."""
    notebook = nbformat.read(batch.NOTEBOOKS / f"{NOTEBOOK}.ipynb", 4)
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    for name, value in batch.profile("smoke")[NOTEBOOK].items():
        cell.source, found = re.subn(
            rf"(?m)^({name}: \w+ = )[^#\n]*", rf"\g<1>{value!r}  ", cell.source
        )
        assert found == 1, name
    batch.CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="browser-", dir=batch.CACHE))
    nbformat.write(notebook, folder / f"{NOTEBOOK}.ipynb")
    yield folder / f"{NOTEBOOK}.ipynb"
    shutil.rmtree(folder)


def test_notebook_one_runs_to_the_end_and_its_slider_redraws_the_figure(
    new_page, smoke_copy, tmp_path
):
    with lab.serve(tmp_path) as server:
        page = new_page(1400, 1000)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.url(f"lab/tree/{smoke_copy.relative_to(lab.ROOT)}"))
        run_all(page, server)
        check_executed(saved(page, smoke_copy))
        seconds = [press(page, key) for key in ("ArrowRight", "ArrowRight", "ArrowLeft")]
        print(f"a slider change redraws the figure in {', '.join(f'{s:.2f}' for s in seconds)} s")
        page.close()
        assert {urlsplit(url).hostname for url in asked if url.startswith("http")} == {"127.0.0.1"}
        assert server.stop() == 130
        assert not server.left_over(), server.log()[-2000:]


def run_all(page, server: lab.Server) -> None:
    """Choose Run All Cells in the menu once the page is connected to its kernel, and wait for the
    last cell's number."""
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=1000 * RUN_SECONDS)
    wait(page, RUN_SECONDS, lambda: kernels(server) == [("idle", 1)])
    page.wait_for_selector(READY, state="attached")  # what is run before is dropped
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    last = page.locator(".jp-CodeCell .jp-InputArea-prompt").last
    wait(page, RUN_SECONDS, lambda: re.fullmatch(r"\[\d+\]:", last.inner_text()))


def kernels(server: lab.Server) -> list[tuple[str, int]]:
    """Return state and connections of the server's kernels.

    None while it cannot describe one that it is just starting.
    """
    try:
        return [
            (kernel["execution_state"], kernel["connections"])
            for kernel in server.get("api/kernels")
        ]
    except urllib.error.HTTPError:
        return []


def wait(page, seconds: float, true) -> None:
    """Wait until `true()` is, while the page goes on."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        page.wait_for_timeout(200)


def saved(page, path: Path) -> list:
    """Press Ctrl-S and return the notebook's code cells from the disk, once it is there whole."""
    page.keyboard.press("Control+s")
    found: list = []

    def whole() -> bool:  # read once: the next reading may find it half written
        found[:] = code_cells(path)
        return bool(found) and bool(found[-1].execution_count)

    wait(page, REDRAW_SECONDS, whole)
    return found


def code_cells(path: Path) -> list:
    """Return the code cells of a notebook, or none of one that is half written."""
    with contextlib.suppress(nbformat.reader.NotJSONError):
        return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    return []


def check_executed(cells: list) -> None:
    """Every code cell ran once, in order, without an error; the figures are there."""
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output.evalue for output in outputs if output.output_type == "error"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 5


def press(page, key: str) -> float:
    """Press an arrow key on the first slider.

    Return the seconds until number and picture are others.
    """
    picture, readout = (
        page.locator(PICTURE).first,
        page.locator(".widget-interact .widget-readout").first,
    )
    handle = page.locator(".widget-interact .noUi-handle").first
    handle.scroll_into_view_if_needed()
    before, number = picture.get_attribute("src"), readout.inner_text()
    handle.focus()
    start = time.perf_counter()
    page.keyboard.press(key)
    redrawn = (
        "([selector, before]) => { const img = document.querySelector(selector); "
        "return img && img.src !== before }"
    )
    page.wait_for_function(redrawn, arg=[PICTURE, before], timeout=1000 * REDRAW_SECONDS)
    seconds = time.perf_counter() - start
    assert readout.inner_text() != number
    assert picture.evaluate("img => img.decode().then(() => img.naturalWidth)") > 300
    return seconds
