"""The commands behind the Makefile: `python -m companion figures --profile smoke`, and so on."""

from __future__ import annotations

import _thread
import argparse
import contextlib
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from companion.publish import CommandError, environment

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
    with _ctrl_c() as pressed:
        try:
            return options.command(options)
        except BaseException as error:
            if pressed or isinstance(error, KeyboardInterrupt):
                kept = f"interrupted; {KEPT[options.name]}"
                return _refused(f"\n{options.name}", kept, INTERRUPTED)
            if isinstance(error, CommandError):
                return _refused(options.name, error)
            raise


@contextlib.contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at Ctrl-C and note it, as the exception may be lost on its way.

    A library that is being imported may put one of its own in its place; a callback from compiled
    code can only ignore it, and then it is raised once more.
    """
    pressed: list[int] = []
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    def ignored(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is KeyboardInterrupt:
            threading.Timer(0.1, _thread.interrupt_main).start()
        elif not pressed:  # else it is what an interrupted library says of something half-made
            hook(lost)

    if handler is not signal.default_int_handler:  # somebody else heeds it, or it is to be ignored
        yield pressed
        return
    signal.signal(signal.SIGINT, note)
    sys.unraisablehook = ignored
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = hook


def _refused(command: str, reason: object, code: int = 2) -> int:
    """Say in one line why a command ends, and return its exit code."""
    print(f"{command}: {reason}", file=sys.stderr, flush=True)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m companion", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command", dest="name")

    def command(name: str, function: Callable, words: str) -> Callable:
        new = commands.add_parser(name, help=words)
        new.set_defaults(command=function)
        return new.add_argument

    one = "one notebook, by the beginning of its name: 03"
    add = command("figures", _figures, "execute the notebooks and write figures/<profile>/")
    add("--profile", default="default", help="smoke, default or paper")
    add("--nb", help=one)
    add("--seed", help="a whole number; the profile's own by default")
    add("--output", type=Path, help="a folder; default: figures/<profile>")
    made = "write figures/report.html and the README's tables from what is in figures/"
    add = command("report", _report, made)
    add("--output", type=Path, default=ROOT / "figures", help="the folder of the figures")
    add("--measured", type=Path, help="a folder whose run says what it cost")
    command("site", _site, "build site/: report, notebooks, documents and API as one static folder")
    made = "build site/play/, pages on which the core runs in a browser, and serve them"
    add = command("play", _play, made)
    add("--port", type=_port, default=8000, help="0: any free one")
    add("--handout", action="store_true", help="print docs/handout.pdf instead")
    made = "run the smoke profile from nothing and compare its numbers with the reference"
    add = command("verify", _verify, made)
    add("--nb", help=one)
    add("--update", action="store_true", help="write the reference instead")
    add = command("test", _test, "run the test suite")
    passed = "passed on to pytest; nothing: everything, on all cores"
    add("rest", nargs=argparse.REMAINDER, help=passed)
    add = command("matrix", _matrix, "run tests and verify as other machines would")
    add("--rows", nargs="*", default=[], help="machines: native, sse, busy ...; all by default")
    add("--parts", nargs="*", default=[], help="tests, verify; both by default")
    add = command("lab", _lab, "open JupyterLab on this machine only, with a token")
    add("--port", type=_port, default=8888, help="0: any free one")
    command("data", _data, "download MNIST (12 MB) and EEG (about 900 MB) into data/cache")
    add = command("bench", _bench, "run the benchmarks")
    add("--only", default="", help="those whose name contains this")
    add("--quick", action="store_true", help="tiny sizes, to see that they run")
    return parser


def _figures(options: argparse.Namespace) -> int:
    from companion.publish import batch

    batch.profile(options.profile)  # one that is not there is refused before its folder is
    output = batch.place(options.profile, options.output)
    ended = batch.run(options.profile, options.nb, options.seed, output)
    print("writing the report, and comparing", flush=True)
    if refused := _write_report(output):
        return refused
    if output.resolve() != ROOT / "figures":
        _compare(output.resolve())
    return ended


def _compare(output: Path) -> None:
    """Say whether the committed results were reproduced, and write the same as a page."""
    from companion.publish import reproduce
    from companion.publish.report.gather import gather

    compared = reproduce.compare(gather(output, ROOT), gather(ROOT / "figures", ROOT))
    print(f"\n{reproduce.text(compared)}")
    print(f"picture beside picture: {os.path.relpath(reproduce.write(compared))}")


def _report(options: argparse.Namespace) -> int:
    return _write_report(options.output, options.measured)


def _write_report(output: Path, measured: Path | None = None) -> int:
    from companion.publish import costs, report

    if not any(output.glob("*.json")):
        return _refused("report", f"{output} holds no results", 1)
    try:
        if measured:
            costs.record(measured, output)
        report.build(output.resolve(), ROOT)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        return _refused("report", f"a file in {output} cannot be used: {reason}", 1)
    print(f"report: {os.path.relpath(output / 'report.html')}")
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
    except (CommandError, OSError) as error:
        return _refused("play", error, 1)
    address = f"http://127.0.0.1:{server.server_port}/"
    print(f"play: {address} on this machine only; Ctrl-C ends it", flush=True)
    server.serve_forever()
    return 0


def _verify(options: argparse.Namespace) -> int:
    from companion.publish import verify

    return verify.run(options.nb, options.update)


def _test(options: argparse.Namespace) -> int:
    import pytest

    from companion.runs.execute import cores

    whole_files_side_by_side = ["-n", str(cores()), "--dist", "loadfile"]
    ended = pytest.main(options.rest or whole_files_side_by_side)
    if ended == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return int(ended)


def _matrix(options: argparse.Namespace) -> int:
    from companion.publish import matrix

    return matrix.run(options.rows, options.parts)


def _lab(options: argparse.Namespace) -> int:
    from jupyter_server.serverapp import ServerApp
    from jupyterlab.labapp import LabApp

    settings = {"ip": "127.0.0.1", "port": options.port, "root_dir": ROOT}
    arguments = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--allow-root")
    # Jupyter makes the token and prints it; its own answer to Ctrl-C asks first in a terminal
    signal.signal(signal.SIGINT, _stop_lab)
    LabApp.launch_instance(arguments)
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
    from companion.data import DataError, eeg, mnist, mushrooms

    try:
        found = [mushrooms.load().provenance, mnist.load(download=True).provenance]
        found += [eeg.load(name, download=True).provenance for name in eeg.DATASETS]
    except DataError as error:
        return _refused("data", error)
    return int(any(each.kind != "real" for each in found))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number below {2**16}")
    return int(text)


def _bench(options: argparse.Namespace) -> int:
    every = sorted((ROOT / "benchmarks").glob("[a-z]*.py"))
    chosen = [path for path in every if options.only in path.stem]
    if not chosen:
        raise CommandError(f"no benchmark has {options.only!r} in its name")
    for path in chosen:
        print(f"== {path.stem}", flush=True)
        for name, value in runpy.run_path(str(path))["main"](quick=options.quick).items():
            print(f"{value:12.4g}  {name}")
    return 0


if __name__ == "__main__":
    code = main()
    if code == INTERRUPTED:  # all is put away and said; what libraries hold half-made may complain
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
