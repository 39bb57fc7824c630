"""An executed notebook on its way to its place: without what changes from run to run."""

from __future__ import annotations

from pathlib import Path

import nbformat


def publish(working: Path, place: Path) -> None:
    """Move an executed notebook to its place, without times, progress bars and random names."""
    notebook = nbformat.read(working, as_version=4)
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws one at random
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_progress(output)]
    place.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, working)
    working.replace(place)


def _is_progress(output: nbformat.NotebookNode) -> bool:
    """Return whether an output is a progress bar, drawn as a widget or as text."""
    data = output.get("data", {})
    return "%|" in (data.get("text/plain", "") if "data" in output else output.get("text", ""))
