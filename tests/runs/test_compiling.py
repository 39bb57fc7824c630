"""Loops are compiled once for all processes that share numba's cache."""

import os
import subprocess
import sys
from pathlib import Path

from companion.publish import environment

ROOT = Path(environment.ROOT)
PATIENCE = 600  # seconds until a process is said to hang: a busy machine gets its time
COMPILE = """
import pathlib, sys, time
import numpy as np
from companion.runs import compiling
from ldp_core import engine, network, optimizer
compiling.in_turn()
place, number = pathlib.Path(sys.argv[1]), int(sys.argv[2])
(place / f"ready-{number}").touch()
while not (place / f"ready-{1 - number}").exists():  # so that both begin together
    time.sleep(0.01)
schedules = optimizer.Schedules(0.5, 0.71, (0.5,) * 5, (0.6,) * 5)
algorithm = engine.Compiled(optimizer.Algorithm1(network.paper(), schedules))
optimizer.run(algorithm, lambda theta, t: theta, np.zeros((1, 5, 2)), 1, seed=0)
stats = engine._compiled_step.__wrapped__.stats
print(sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
"""


def test_of_two_processes_that_begin_together_one_compiles(tmp_path):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", COMPILE, str(tmp_path), str(number)],
            cwd=ROOT,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    counted = sorted(process.communicate(timeout=PATIENCE)[0].split() for process in started)
    assert counted == [["0", "1"], ["1", "0"]]
