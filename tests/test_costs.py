"""What the README says that setting up and the commands cost is what was measured."""

import doctest
import json
import re
import sys
from pathlib import Path

import pytest
import torch

from companion.publish import costs, environment
from companion.publish.report import gather, markdown, page, provenance

ROOT = Path(environment.ROOT)
RUN = {"cold": 600.0, "cpu": 900.0, "memory": 1.5, "disk": 0.2, "cores": 2}
RUN |= {"profile": "smoke", "commit": "abc"}


def write(folder, *runs):
    """Put records of runs where a run of the notebooks puts them."""
    folder.mkdir(exist_ok=True)
    named = {f"0{number}": run for number, run in enumerate(runs)}
    (folder / provenance.NAME).write_text(json.dumps(named))
    return folder


def test_the_first_lines_are_true():
    assert doctest.testmod(costs).failed == 0


def test_a_run_costs_the_sum_of_its_times_and_the_most_of_its_memory(tmp_path):
    folder = write(tmp_path / "run", RUN, RUN | {"cold": 30.0, "cpu": 50.0, "memory": 0.4})
    wanted = {"seconds": 630.0, "cpu": 950.0, "memory": 1.5, "disk": 0.4}
    wanted |= {"cores": 2, "commit": "abc"}
    other = {"cold": 30.0, "cpu": 50.0, "memory": 0.4, "disk": 0.2}
    wanted["notebooks"] = {"00": {name: RUN[name] for name in other}, "01": other}
    assert costs.measured(folder) == {"make figures PROFILE=smoke": wanted}
    costs.record(folder, tmp_path)
    costs.record(write(folder, RUN | {"profile": "default"}), tmp_path)
    assert costs.sentence(tmp_path) == (
        "From nothing, `make figures` takes 10 minutes on 2 cores (15 minutes of a processor), "
        "with 1.5 GB of memory and 0.2 GB on disk; `make figures PROFILE=smoke` takes 10 minutes "
        "on 2 cores (16 minutes of a processor), with 1.5 GB of memory and 0.4 GB on disk."
    )


def test_the_report_shows_the_cost_of_each_notebook_at_each_profile(tmp_path):
    costs.record(write(tmp_path / "run", RUN, RUN | {"cold": 30.0}), tmp_path)
    shown = page.context(gather.gather(tmp_path, ROOT))["costs"][1]
    first = ("make figures PROFILE=smoke NB=00", "00", "15 min", "10 min on 2 cores")
    assert shown[0] == (*first, "1.5 GB", "0.2 GB")
    assert [row[3] for row in shown] == ["10 min on 2 cores", "30 s on 2 cores"]


def test_tests_cost_what_pytest_says(tmp_path):
    file = tmp_path / "tests.xml"
    file.write_text('<testsuites><testsuite name="pytest" time="61.5"/></testsuites>')
    assert costs.measured(file)["make test"]["seconds"] == 61.5


@pytest.mark.parametrize(
    "other", [{"profile": "paper"}, {"commit": "def"}, {"cold": None}], ids=str
)
def test_a_run_that_cannot_say_is_refused(tmp_path, other):
    run = {name: value for name, value in (RUN | other).items() if value is not None}
    with pytest.raises(ValueError, match="must hold cold runs of one profile and one commit"):
        costs.measured(write(tmp_path, RUN, run))


def test_the_readme_says_the_costs_that_were_measured():
    """Else: make report"""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"make figures", "make test"} <= costs.load(ROOT / "figures").keys()
    assert markdown.cost(gather.gather(ROOT / "figures", ROOT)) in readme
    typed = re.sub(r"(?s)<!-- (\w+): written.*?<!-- end of \1 -->", "", readme)
    assert not re.findall(r"\d[\d.]* (?:GB|MB|minutes?|hours?)\b", typed)


def test_setting_up_takes_the_disk_that_it_says():
    folder = Path(sys.prefix)
    if folder.name != ".venv" or sys.platform != "linux" or "+cpu" not in torch.__version__:
        pytest.skip("the size that is said is that of .venv on Linux with torch's CPU build")
    said = float(re.match(r"([\d.]+) GB", environment.COST)[1])
    size = sum(path.lstat().st_size for path in folder.resolve().rglob("*")) / 1e9
    assert 0.75 * said < size < 1.15 * said  # a sixth is bytecode, which comes with use
