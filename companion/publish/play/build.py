"""The folder behind `make play`: five pages, Python and numpy for browsers, and the core unchanged.

The two packages come from npm, with the versions and hashes of package-lock.json, and are kept in
data/cache/play. The folder needs nothing else: any web server can serve it, without a network.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from companion.publish import CommandError
from companion.publish.play import pages
from companion.publish.play.slides import slides

HERE = Path(__file__).parent
PINS = ("package.json", "package-lock.json")
PYODIDE = [f"pyodide{end}" for end in (".js", ".asm.js", ".asm.wasm", "-lock.json")]
PYODIDE += ["python_stdlib.zip"]
LIBRARY = "lib/python3.12/site-packages/"  # of the numpy package
NOT_NEEDED = (".pyi", ".a", ".h", ".c", ".f")  # of numpy, when it only runs
OWN = ("__init__.py", "exercises.py", "explore.py", "publish/__init__.py")  # of the companion
SECONDS = 600  # that npm may take
# A WebAssembly library with the function that numpy's build lacks, backtrace() = 0: numpy asks for
# it when an array is so large that it looks for a temporary to reuse. Its sections: what makes it a
# library (dylink.0), one type (two numbers to one), one function, its name, its code.
BACKTRACE = b"\0asm\1\0\0\0\0\x0f\x08dylink.0\1\4\0\0\0\0\1\7\1\x60\2\x7f\x7f\1\x7f\3\2\1\0"
BACKTRACE += b"\7\x0d\1\x09backtrace\0\0\x0a\6\1\4\0\x41\0\x0b"


def build(root: Path, folder: Path, home: str = "") -> None:
    """Replace `folder` by the pages and all that they need; their menu leads back to `home`."""
    packages = installed(root)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "static", folder)
    shutil.copyfile(root / "docs" / "handout.pdf", folder / "handout.pdf")
    (folder / "pyodide").mkdir()
    for name in PYODIDE:
        shutil.copyfile(packages / "pyodide" / name, folder / "pyodide" / name)
    (folder / "numpy.zip").write_bytes(numpy_zip(packages))
    (folder / "code.zip").write_bytes(zipped(own_code(root)))
    (folder / "backtrace.so").write_bytes(BACKTRACE)
    for name, text in rendered(root, home).items():
        (folder / name).write_text(text, encoding="utf-8")


def build_or_say(root: Path, folder: Path) -> str:
    """Build the pages; where they cannot be had, write a page that says why, and return it."""
    try:
        build(root, folder, "../index.html")
        return ""
    except CommandError as error:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copyfile(HERE / "static" / "play.css", folder / "play.css")
        page = templates("../index.html").get_template("missing.html").render(reason=str(error))
        (folder / "index.html").write_text(page, encoding="utf-8")
        return str(error)


def installed(root: Path) -> Path:
    """Return the folder of the npm packages, which npm fills when the pins are new."""
    pins = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in PINS)).hexdigest()
    folder = root / "data" / "cache" / "play" / pins[:16]
    if not (folder / "complete").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for name in PINS:
            shutil.copyfile(HERE / name, folder / name)
        _npm(folder)
        (folder / "complete").touch()
    return folder / "node_modules"


def _npm(folder: Path) -> None:
    program = shutil.which("npm")
    if program is None:
        raise CommandError("npm is not installed; it fetches Python for browsers, once")
    command = [program, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise CommandError(f"npm did not answer within {SECONDS} seconds") from None
    if ended.returncode:
        told = [line for line in ended.stderr.splitlines() if line.startswith("npm error")]
        reason = " ".join(told[:2]) or "no reason given"
        raise CommandError(f"npm could not fetch the packages: {reason}")


def numpy_zip(packages: Path) -> bytes:
    """Return numpy for browsers as a zip, without what is only for compiling and testing it."""
    (archive,) = (packages / "@emscripten-forge" / "numpy" / "pkg").glob("numpy-*.tar.gz")
    with tarfile.open(archive) as tar:
        named = ((member.name.removeprefix(LIBRARY), tar.extractfile(member)) for member in tar)
        return zipped((name, file.read()) for name, file in named if file and _runs(name))


def _runs(name: str) -> bool:
    return name.startswith("numpy/") and "/tests/" not in name and not name.endswith(NOT_NEEDED)


def own_code(root: Path) -> Iterable[tuple[str, bytes]]:
    """Yield name and bytes of the core, the exercises, and what the pages compute."""
    for path in (root / "ldp_core").rglob("*.py"):
        yield path.relative_to(root).as_posix(), path.read_bytes()
    for name in OWN:
        yield f"companion/{name}", (root / "companion" / name).read_bytes()
    for path in (HERE / "__init__.py", *(HERE / "pages").glob("*.py")):
        yield f"companion/publish/play/{path.relative_to(HERE).as_posix()}", path.read_bytes()


def zipped(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a zip whose bytes depend on names and contents alone."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return memory.getvalue()


def rendered(root: Path, home: str = "") -> dict[str, str]:
    """Return every page by its name, and the slides."""
    known = templates(home)
    menu = {name: page.TITLE for name, page in pages.PAGES.items()}
    found = {"index.html": known.get_template("index.html").render(menu=menu, all=pages.PAGES)}
    deck = known.get_template("slides.html")
    found["slides.html"] = deck.render(menu=menu, slides=slides(root))
    for name, page in pages.PAGES.items():
        start = {control.name: control.start for control in page.CONTROLS}
        options = {"lines": pages.lines(name), "header": pages.header(name), "start": start}
        found[f"{name}.html"] = known.get_template("page.html").render(
            menu=menu, name=name, page=page, data=json.dumps(_data(name)), **options
        )
    return found


def _data(name: str) -> dict:
    """Return what a page's script must know beside its controls."""
    known, wanted = vars(pages.PAGES[name]), ("R_EDGES", "C_EDGES", "AGENTS")
    return {"name": name, **{key: known[key] for key in wanted if key in known}}


def templates(home: str = "") -> Environment:
    """Return the pages as templates; a name that is missing is an error."""
    loader = FileSystemLoader(HERE / "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.globals["home"] = home
    return made
