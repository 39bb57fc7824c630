"""The commands behind the Makefile: `python -m companion figures --profile smoke`, and so on."""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType

from companion.publish import environment

ROOT = Path(environment.ROOT)
INTERRUPTED = 130  # what a shell reports after Ctrl-C
AGAIN = "the same command starts again"
KEPT = {
    "figures": "finished shards, notebooks and figures are kept; the same command goes on",
    "report": f"every page is the old one or the new one, whole; {AGAIN}",
    "verify": f"it computes everything anew, so nothing is kept; {AGAIN}",
    "test": f"nothing needs to be kept; {AGAIN}",
    "matrix": f"the logs are kept in data/cache/matrix; {AGAIN}",
    "play": "site/play/ stays; the same command serves it again",
    "site": f"site/ may hold a part of the pages; {AGAIN}",
    "lab": "what was saved in notebooks/ is kept; the same command opens it again",
    "data": "finished downloads are kept in data/cache; the same command fetches the others",
    "bench": f"nothing is kept; {AGAIN}",
}


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command; return the exit code."""
    options = _parser().parse_args(arguments)
    environment.keep_inside()
    os.chdir(ROOT)
    try:
        return options.command(options)
    except KeyboardInterrupt:
        return _interrupted(options.name)


def _interrupted(command: str) -> int:
    """Say what an interrupted command leaves and how to go on; return the shell's code for it."""
    print(f"\n{command}: interrupted; {KEPT[command]}", file=sys.stderr, flush=True)
    return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m companion", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command", dest="name")
    figures = commands.add_parser(
        "figures", help="execute the notebooks and write figures/<profile>/"
    )
    figures.add_argument("--profile", default="default", help="smoke, default, evening or paper")
    figures.add_argument(
        "--nb", default=None, help="one notebook, by the beginning of its name: 03"
    )
    figures.add_argument(
        "--seed", default=None, help="a whole number; the profile's own by default"
    )
    figures.add_argument(
        "--output", type=Path, default=None, help="a folder; default: figures/<profile>"
    )
    figures.set_defaults(command=_figures)
    report = commands.add_parser(
        "report", help="write figures/report.html and the README's tables from what is in figures/"
    )
    report.add_argument(
        "--output", type=Path, default=ROOT / "figures", help="the folder of the figures"
    )
    report.add_argument(
        "--measured", type=Path, default=None, help="a folder whose run says what it cost"
    )
    report.set_defaults(command=_report)
    site = commands.add_parser(
        "site", help="build site/: report, notebooks, documents and API as one static folder"
    )
    site.set_defaults(command=_site)
    play = commands.add_parser(
        "play", help="build site/play/, pages on which the core runs in a browser, and serve them"
    )
    play.add_argument("--port", type=_port, default=8000, help="0: any free one")
    play.add_argument("--handout", action="store_true", help="print docs/handout.pdf instead")
    play.set_defaults(command=_play)
    verify = commands.add_parser(
        "verify",
        help="run the smoke profile from nothing and compare its numbers with the reference",
    )
    verify.add_argument("--nb", default=None, help="one notebook, by the beginning of its name: 03")
    verify.add_argument("--update", action="store_true", help="write the reference instead")
    verify.set_defaults(command=_verify)
    test = commands.add_parser("test", help="run the test suite")
    test.add_argument(
        "rest",
        nargs=argparse.REMAINDER,
        help="passed on to pytest; nothing: everything, on all cores",
    )
    test.set_defaults(command=_test)
    matrix = commands.add_parser("matrix", help="run tests and verify as other machines would")
    matrix.add_argument(
        "--rows", nargs="*", default=[], help="machines: native, sse, busy ...; all by default"
    )
    matrix.add_argument("--parts", nargs="*", default=[], help="tests, verify; both by default")
    matrix.set_defaults(command=_matrix)
    lab = commands.add_parser("lab", help="open JupyterLab on this machine only, with a token")
    lab.add_argument("--port", type=_port, default=8888, help="0: any free one")
    lab.set_defaults(command=_lab)
    data = commands.add_parser("data", help="download the official data sets into data/cache")
    data.set_defaults(command=_data)
    bench = commands.add_parser("bench", help="run the benchmarks")
    bench.add_argument("--only", default="", help="those whose name contains this")
    bench.add_argument("--quick", action="store_true", help="tiny sizes, to see that they run")
    bench.set_defaults(command=_bench)
    return parser


def _figures(options: argparse.Namespace) -> int:
    from companion.publish import batch

    try:
        ended = batch.run(options.profile, options.nb, options.seed, options.output)
        options.output = batch.place(options.profile, options.output)
    except batch.BatchError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2
    print("writing the report, and comparing", flush=True)
    return _report(options) or _compare(options.output) or ended


def _compare(output: Path) -> int:
    """Say whether the committed results were reproduced, and write the same as a page."""
    from companion.publish import reproduce

    committed = ROOT / "figures"
    if output.resolve() == committed:
        return 0
    compared = reproduce.between(output.resolve(), committed, ROOT)
    print(f"\n{reproduce.text(compared)}")
    print(f"picture beside picture: {os.path.relpath(reproduce.write(compared))}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from companion.publish import costs, report

    if not any(options.output.glob("*.json")):
        print(f"report: {options.output} holds no results", file=sys.stderr)
        return 1
    try:
        if getattr(options, "measured", None):
            costs.record(options.measured, options.output)
        written = report.build(options.output.resolve(), ROOT)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(
            f"report: a file in {options.output} cannot be used: {' '.join(str(error).split())}",
            file=sys.stderr,
        )
        return 1
    print(
        f"report: {next(os.path.relpath(path) for path in written if path.name == 'report.html')}"
    )
    return 0


def _site(options: argparse.Namespace) -> int:
    from companion.publish import site

    dead = site.build(ROOT, ROOT / "site")
    for link in dead:
        print(f"site: dead link: {link}", file=sys.stderr)
    print(f"site: {os.path.relpath(ROOT / 'site' / 'index.html')}, ready for any web server")
    return int(bool(dead))


def _play(options: argparse.Namespace) -> int:
    from companion.publish.play import build, handout, serve

    try:
        if options.handout:
            print(f"play: {os.path.relpath(handout.write(ROOT))}")
            return 0
        build.build(ROOT, ROOT / "site" / "play")
        server = serve.server(ROOT / "site" / "play", options.port)
    except (build.PlayError, OSError) as error:
        print(f"play: {error}", file=sys.stderr)
        return 1
    print(
        f"play: http://127.0.0.1:{server.server_port}/ on this machine only; Ctrl-C ends it",
        flush=True,
    )
    server.serve_forever()
    return 0


def _verify(options: argparse.Namespace) -> int:
    from companion.publish import batch, verify

    try:
        return verify.run(options.nb, options.update)
    except batch.BatchError as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2


def _test(options: argparse.Namespace) -> int:
    import pytest

    from companion.runs.execute import cores

    ended = pytest.main(
        options.rest or ["-n", str(cores()), "--dist", "loadfile"]
    )  # whole files side by side
    if ended == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return int(ended)


def _matrix(options: argparse.Namespace) -> int:
    from companion.publish import matrix

    try:
        return matrix.run(options.rows, options.parts)
    except matrix.MatrixError as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 2


def _lab(options: argparse.Namespace) -> int:
    from jupyter_server.serverapp import ServerApp
    from jupyterlab.labapp import LabApp

    settings = [
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={options.port}",
    ]  # Jupyter makes the token, and prints it
    signal.signal(
        signal.SIGINT, _stop_lab
    )  # where there is a terminal Jupyter sets its own, which asks first
    LabApp.launch_instance(
        [*settings, f"--ServerApp.root_dir={ROOT}", *(["--allow-root"] if _is_root() else [])]
    )
    if ServerApp.instance()._stopping:
        raise KeyboardInterrupt
    return 0


def _stop_lab(number: int, frame: FrameType | None) -> None:
    """Stop in order, where Jupyter would leave its kernels' workers behind; then end at once."""
    from jupyter_server.serverapp import ServerApp

    if ServerApp.initialized() and not ServerApp.instance()._stopping:
        ServerApp.instance().stop(from_signal=True)
    else:
        signal.default_int_handler(number, frame)


def _data(options: argparse.Namespace) -> int:
    from companion.data import __main__ as data

    return data.main(["--download"])


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number below {2**16}")
    return int(text)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _bench(options: argparse.Namespace) -> int:
    chosen = [
        path
        for path in sorted((ROOT / "benchmarks").glob("[a-z]*.py"))
        if options.only in path.stem
    ]
    if not chosen:
        print(f"bench: no benchmark has {options.only!r} in its name", file=sys.stderr)
        return 2
    for path in chosen:
        print(f"== {path.stem}", flush=True)
        runpy.run_path(str(path))["main"](quick=options.quick)
    return 0


if __name__ == "__main__":
    code = main()
    if code == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough: what follows only cleans up
    sys.exit(code)
