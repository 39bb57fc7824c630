"""Everything as one static folder: report, notebooks, documents, API, and pages to play with.

A page is first made where its source lies in the project, with the links it has there; then every
link is led to the place of its target in the site. Whatever else is linked to is copied along.
"""

from __future__ import annotations

import html
import importlib
import inspect
import os
import pkgutil
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from types import ModuleType

import ldp_core
from companion.publish.play.build import build_or_say
from companion.publish.report import gather, markup, notebooks, page

REPORT, DOCUMENTS, API = "figures/report.html", "docs/index.md", "ldp_core/index.html"
PLAY = "play/index.html"
MENU = {REPORT: "Report", PLAY: "Play", DOCUMENTS: "Documents", API: "ldp_core"}
WRITTEN = ("*.md", "docs/**/*.md", "data/*.md")


def build(root: Path, folder: Path, play: Callable[[Path, Path], str] = build_or_say) -> list[str]:
    """Replace `folder` by the site, and return its dead links: none, unless something is wrong.

    `play` fills a folder with the pages to play with, or with one that says why there are none.
    """
    pages = render(root)
    places = {source: _place(source) for source in pages}
    shutil.rmtree(folder, ignore_errors=True)
    for source, text in pages.items():
        place = folder / places[source]
        place.parent.mkdir(parents=True, exist_ok=True)
        leads = partial(_lead, source=source, places=places, root=root, folder=folder)
        place.write_text(markup.relink(text, leads), encoding="utf-8")
    if reason := play(root, (folder / PLAY).parent):
        print(f"site: without the pages of play: {reason}", file=sys.stderr)
    return dead_links(folder)


def render(root: Path) -> dict[str, str]:
    """Return every page by the path of its source in the project."""
    found = gather.gather(root / "figures", root)
    pages = {REPORT: page.render(found, _menu(REPORT)[1:])}
    for path in found.executed:
        source = f"figures/notebooks/{path.stem}.html"
        pages[source] = notebooks.render(path, found, _menu(source)[1:])
    for path in sorted({path for pattern in WRITTEN for path in root.glob(pattern)}):
        source, text = path.relative_to(root).as_posix(), markup.markdown(path.read_text("utf-8"))
        title = re.search(r"(?s)<h1[^>]*>(.*?)</h1>", text)
        pages[source] = _document(source, markup.plain(title[1]) if title else source, text)
    return pages | _reference()


def _place(source: str) -> str:
    """Return where a page lies in the site."""
    own = PurePosixPath(source.removeprefix("figures/")).with_suffix(".html")
    return "index.html" if source == REPORT else str(own)


def _menu(source: str) -> list[tuple[str, str]]:
    """Return addresses and names of the main pages, as seen from a page's source."""
    return [(_relative(target, source), name) for target, name in MENU.items()]


def _relative(target: str, source: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(source) or ".")


def _document(source: str, title: str, text: str) -> str:
    template = markup.environment.get_template("document.html")
    style, body = notebooks.CODE_STYLE, markup.Markup(text)
    return template.render(title=title, menu=_menu(source), code_style=style, text=body)


def _reference() -> dict[str, str]:
    """Return a page for every module of ldp_core, and one that lists them."""
    names = [module.name for module in pkgutil.walk_packages(ldp_core.__path__, "ldp_core.")]
    modules = {_source(module): module for module in map(importlib.import_module, names)}
    template, pages, lines = markup.environment.get_template("api.html"), {}, ""
    for source, module in modules.items():
        about, title = inspect.getdoc(module) or "", module.__name__
        shown = {"entries": _entries(module), "lines": inspect.getsource(module).splitlines()}
        pages[source] = template.render(title=title, menu=_menu(source), about=about, **shown)
        first = html.escape(f"{title}: {about.partition('.')[0]}")
        lines += f'<li><a href="{_relative(source, API)}">{first}</a></li>'
    return pages | {API: _document(API, MENU[API], f"<h1>{MENU[API]}</h1><ul>{lines}</ul>")}


def _source(module: ModuleType) -> str:
    path = module.__name__.replace(".", "/")
    return f"{path}/__init__.py" if hasattr(module, "__path__") else f"{path}.py"


def _entries(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yield name, signature and docstring of what a module offers, methods after their class."""
    for name, thing in vars(module).items():
        own = callable(thing) and getattr(thing, "__module__", "") == module.__name__
        if own and name[0] != "_":
            yield name, _signature(thing), inspect.getdoc(thing) or ""
            for inner, value in vars(thing).items() if inspect.isclass(thing) else ():
                method = getattr(value, "__func__", getattr(value, "fget", value))
                if inner[0] != "_" and inspect.isfunction(method) and method.__doc__:
                    yield f"{name}.{inner}", _signature(method), inspect.getdoc(method) or ""


def _signature(thing: Callable) -> str:
    """Return the arguments as they are written, or nothing for what has none."""
    try:
        written = re.sub(r"ForwardRef\(('.+?')\)", r"\1", str(inspect.signature(thing)))
        plain = re.sub(r"(: |-> )'([^']+)'", r"\1\2", written)
        return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", plain)  # names without their module
    except (TypeError, ValueError):
        return ""


def _lead(link: str, *, source: str, places: dict[str, str], root: Path, folder: Path) -> str:
    """Return a link as it is in the site; a file that is no page is copied there."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), html.unescape(link)))
    notebook = re.fullmatch(r"(?:figures/)?notebooks/(\w+)\.ipynb", target)
    page_of = f"figures/notebooks/{notebook[1]}.html" if notebook else target
    if (root / target).is_dir():
        page_of = REPORT
    place = places.get(page_of, target.removeprefix("figures/"))
    if page_of not in places and not target.startswith("..") and (root / target).is_file():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / target, folder / place)
    return _relative(place, places[source])


def dead_links(folder: Path) -> list[str]:
    """Return every link of the pages in a folder that leads nowhere, after its page."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    names = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in texts.items()}
    dead = []
    for path, text in texts.items():
        for link in re.findall(r' (?:href|src)="(?!https?:|data:|mailto:)([^"]*)"', text):
            target, _, name = link.partition("#")
            place = Path(os.path.normpath(path.parent / target)) if target else path
            if not place.is_file() or (name and name not in names.get(place, {name})):
                dead.append(f"{path.relative_to(folder)}: {link}")
    return dead
