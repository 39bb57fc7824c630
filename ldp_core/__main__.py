"""The commands behind the Makefile: `python -m ldp_core figures --profile smoke`, and so on."""

from __future__ import annotations

import argparse
import os
import runpy
import secrets
import sys
from pathlib import Path

from ldp_core import environment

ROOT = Path(environment.ROOT)


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command; return the exit code."""
    options = _parser().parse_args(arguments)
    environment.keep_inside()
    os.chdir(ROOT)
    return options.command(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ldp_core", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    figures = commands.add_parser("figures", help="execute the notebooks and write figures/")
    figures.add_argument("--profile", default="default", help="smoke, default or paper")
    figures.add_argument("--nb", default=None, help="one notebook, by the beginning of its name: 03")
    figures.add_argument("--seed", default=None, help="a whole number; the profile's own by default")
    figures.add_argument("--output", type=Path, default=ROOT / "figures", help="where the figures go")
    figures.set_defaults(command=_figures)
    test = commands.add_parser("test", help="run the test suite")
    test.add_argument("rest", nargs=argparse.REMAINDER, help="passed on to pytest; nothing: everything, on all cores")
    test.set_defaults(command=_test)
    lab = commands.add_parser("lab", help="open JupyterLab on this machine only, with a token")
    lab.add_argument("--port", type=int, default=8888)
    lab.set_defaults(command=_lab)
    data = commands.add_parser("data", help="download the official data sets into data/cache")
    data.set_defaults(command=_data)
    bench = commands.add_parser("bench", help="run the benchmarks")
    bench.add_argument("--only", default="", help="those whose name contains this")
    bench.add_argument("--quick", action="store_true", help="tiny sizes, to see that they run")
    bench.set_defaults(command=_bench)
    return parser


def _figures(options: argparse.Namespace) -> int:
    from ldp_core import batch

    try:
        return batch.run(options.profile, options.nb, options.seed, options.output)
    except batch.BatchError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2


def _test(options: argparse.Namespace) -> int:
    import pytest

    from ldp_core.runs.execute import cores

    return int(pytest.main(options.rest or ["-n", str(cores()), "--dist", "loadfile"]))  # whole files side by side


def _lab(options: argparse.Namespace) -> int:
    from jupyterlab.labapp import LabApp

    token = secrets.token_hex(24)
    settings = ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={options.port}", f"--IdentityProvider.token={token}"]
    LabApp.launch_instance([*settings, f"--ServerApp.root_dir={ROOT}", *(["--allow-root"] if _is_root() else [])])
    return 0


def _data(options: argparse.Namespace) -> int:
    from ldp_core.data import __main__ as data

    return data.main(["--download"])


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _bench(options: argparse.Namespace) -> int:
    for path in sorted((ROOT / "benchmarks").glob("[a-z]*.py")):
        if options.only in path.stem:
            print(f"== {path.stem}", flush=True)
            runpy.run_path(str(path))["main"](quick=options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
