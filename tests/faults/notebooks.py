"""The notebooks by their numbers, and what each does up to the check of its parameters."""

import functools

import matplotlib as mpl
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from companion.publish import batch

NOTEBOOKS = {path.stem[:2]: path for path in batch.notebooks()}


@functools.cache
def smoke() -> dict:
    return batch.profile("smoke")


@functools.cache
def notebook(number: str):
    return load_notebook_node(str(NOTEBOOKS[number]))


def start(number: str, **changes) -> dict:
    """Execute what papermill would up to the cell that checks the parameters, the first one after
    them; return all names."""
    values = {**smoke()[NOTEBOOKS[number].stem], "profile": "smoke", **changes}
    cells = [
        cell
        for cell in parameterize_notebook(notebook(number), values).cells
        if cell.cell_type == "code"
    ]
    injected = next(
        i for i, cell in enumerate(cells) if "injected-parameters" in cell.metadata.get("tags", [])
    )
    names = {}
    with mpl.rc_context():
        for cell in cells[: injected + 2]:
            exec(compile(cell.source, str(NOTEBOOKS[number]), "exec"), names)
    return names
