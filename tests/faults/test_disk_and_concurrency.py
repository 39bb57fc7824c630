"""Two runs at the same time, and a disk that takes no more: at the level of notebooks and figures
(`tests/runs`: of shards)."""

import subprocess
import sys
from pathlib import Path

import nbformat

from companion.publish import environment

ROOT = Path(environment.ROOT)
PATIENCE = 600  # seconds until a process is said to hang: a busy machine gets its time
PARAMETERS = 'profile: str = ""\noutput: str = ""\nseed: int = 0\n'
SLOW = "import time; print('begun'); time.sleep(2)"
RUN = """
import sys
from pathlib import Path
from companion.publish import batch, environment
environment.keep_inside()
house = Path(sys.argv[1])
batch.ROOT, batch.NOTEBOOKS, batch.PROFILES, batch.CACHE = house, house, house, house / "cache"
sys.exit(batch.run("smoke", output=house / "out"))
"""


def test_two_runs_into_the_same_folder_both_end_well(tmp_path):
    """Each works on a file of its own, and moves it to its place when it is whole."""
    cells = [
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(SLOW),
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[*cells, *[nbformat.v4.new_code_cell(f"print({i})") for i in range(5)]]
    )
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, tmp_path / "01_slow.ipynb")
    (tmp_path / "smoke.yaml").write_text("01_slow:\n  seed: 3\n")
    together = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for _ in range(2)
    ]
    for process in together:
        said = process.communicate(timeout=PATIENCE)[0].decode()
        assert process.returncode == 0 and "FAILED" not in said, said
    executed = nbformat.read(tmp_path / "out" / "notebooks" / "01_slow.ipynb", 4)
    assert [output["text"] for cell in executed.cells[3:] for output in cell.outputs] == [
        f"{i}\n" for i in range(5)
    ]
    assert not list((tmp_path / "cache" / "notebooks").iterdir())


FULL = """
import resource, sys
from companion.convergence import figures
from ldp_core import network
figures.style()
record = {"notebook": "01", "params": {}, "data": [], "numbers": {}}
figures.save(figures.fig1(network.paper(), "words"), "fig1", sys.argv[1], **record)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    figures.save(figures.fig1(network.paper(0.1), "words"), "fig1", sys.argv[1], **record)
except OSError as error:
    sys.exit(f"{error.strerror}")
"""


def test_a_figure_that_does_not_fit_leaves_the_old_one(tmp_path):
    """The operating system refuses to write more than 5000 bytes of a file: what was there stays,
    and no half file remains."""
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1 and ended.stderr.strip().endswith("File too large")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig1.json", "fig1.png", "fig1.svg"]
    assert (tmp_path / "fig1.svg").read_text().rstrip().endswith("</svg>")
    assert (tmp_path / "fig1.png").read_bytes().endswith(b"IEND\xaeB`\x82")
