"""A run of a notebook that is killed again and again ends in the same bytes as one that nobody
disturbed."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from companion.publish import environment
from tests.faults.interrupted import STAGES

ROOT = Path(environment.ROOT)
KILLS = 20


def artefacts(folder: Path) -> dict[str, bytes]:
    """Return the files that a run leaves for its reader, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_twenty_kills_of_notebook_one_leave_no_trace(tmp_path):
    """SIGKILL at chosen stages and seeded random moments.

    All that a reader sees is compared byte by byte, half files too.
    """
    command = [sys.executable, "-m", "tests.faults.interrupted", str(tmp_path), str(KILLS)]
    alone = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **alone}, capture_output=True, text=True, timeout=1800
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    stages = list(itertools.accumulate(STAGES))
    assert told["shards at each kill"][: len(stages)] == stages and max(stages) < told["shards"], (
        told
    )
    assert len(told["shards at each kill"]) == len(stages) + KILLS, told
    undisturbed, disturbed = (
        artefacts(tmp_path / "undisturbed" / "out"),
        artefacts(tmp_path / "disturbed" / "out"),
    )
    assert set(undisturbed) == {"fig2.svg", "fig2.png", "fig2.json", "claims_01_convergence.json"}
    visible = {name: content for name, content in disturbed.items() if not name.startswith(".")}
    assert visible == undisturbed
    assert all(name.endswith(".part") for name in set(disturbed) - set(visible))
