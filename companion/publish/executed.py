"""An executed notebook on its way to its place: without what changes from run to run."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat


def publish(working: Path, place: Path) -> tuple[int, int]:
    """Move an executed notebook to its place without what changes from run to run: times, progress bars, random names.

    Returns what the progress bars knew: how many shards there were, and how many of them had been computed before.
    """
    notebook = nbformat.read(working, as_version=4)
    counted = count_shards(notebook)
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
    return counted


def count_shards(notebook) -> tuple[int, int]:
    """Return shards and reused shards, from the progress bars as they stood when they appeared."""
    shown = [
        _shown(output)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    starts = [
        re.search(r"%\|[^|]*\| (\d+)/(\d+) \[.*shard", text) for text in shown if "%|" in text
    ]
    return sum(int(start[2]) for start in starts if start), sum(
        int(start[1]) for start in starts if start
    )


def _is_progress(output) -> bool:
    """Return whether an output is a progress bar, drawn as a widget or as text."""
    return "%|" in _shown(output)


def _shown(output) -> str:
    """Return an output as text."""
    return (
        output.get("data", {}).get("text/plain", "") if "data" in output else output.get("text", "")
    )
