"""The report as one page that carries everything it shows."""

from __future__ import annotations

from collections.abc import Sequence

from companion.promises import Promise
from companion.publish import costs
from companion.publish.report import markup, pictures
from companion.publish.report.answer import answer
from companion.publish.report.gather import CAPTIONS, Found, Notebook

TITLE = "Local differential privacy via dynamic quantization: what holds"
PICTURE_BYTES = 2_000_000  # of base64, so that the page stays below 2.5 MB
WIDTH, THUMBNAIL_WIDTH = 960, 320  # in pixels
OURS = "fig3_promise"  # the figure of what we add, beside the paper's
BRIEF = 170  # characters of our numbers that a row shows before it is asked for more
PROMISES = ("promise", "data", "model", "accuracy", "unrounded twin", "best unprotected", "after")
DATA = ("data", "kind", "source", "version", "licence", "sha256 of the content", "figures")
GIGABYTES = {"memory": "of memory", "disk": "on disk"}
RUNS = ("notebook", "profile", "seed", "from nothing", "shards", "finished", "commit", "system")
COSTS = ("command", "notebook", "of a processor", "on the clock", "memory", "disk")


def render(found: Found, elsewhere: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page; `elsewhere` are addresses and names that end its menu."""
    addresses = pictures.embed([figure.path for figure in found.figures], WIDTH, PICTURE_BYTES)
    first = [figure for figure in found.figures if figure.name in (*CAPTIONS, OURS)]
    small = [pictures.shrink(figure.path.read_bytes(), THUMBNAIL_WIDTH) for figure in first]
    return markup.environment.get_template("report.html").render(
        **context(found),
        images=dict(zip((figure.name for figure in found.figures), addresses, strict=True)),
        thumbnails={f.name: pictures.data_uri(png) for f, png in zip(first, small, strict=True)},
        ours=OURS,
        elsewhere=elsewhere,
    )


def context(found: Found) -> dict:
    """Return what the page and its Markdown twin both show."""
    return {
        "title": TITLE,
        "found": found,
        "answer": answer(found),
        "captions": CAPTIONS,
        "brief": brief,
        "data": (DATA, [_data(*entry) for entry in found.data().items()]),
        "runs": (RUNS, [_run(notebook, found) for notebook in found.notebooks]),
        "costs": (COSTS, _costs(costs.load(found.folder))),
        "promises": (PROMISES, [_promise(one) for one in found.promises]),
        "packages": sorted({_packages(book.run) for book in found.notebooks if book.run}),
    }


def brief(ours: str) -> tuple[list[str], list[str]]:
    """Return our numbers part by part: those that a row shows at once, and the rest."""
    parts = ours.split("; ")
    fitting = (end for end in range(len(parts), 1, -1) if len("; ".join(parts[:end])) <= BRIEF)
    first = next(fitting, 1)
    return parts[:first], parts[first:]


def _promise(made: Promise) -> tuple[str, ...]:
    accuracy, low, high = (f"{100 * share:.1f}" for share in made.accuracy)
    learners = (f"{accuracy} % [{low}, {high}]", f"{made.twin:.1%}", f"{made.best_unprotected:.1%}")
    words = f"{made.sentence[0].upper()}{made.sentence[1:]}, by {made.certified_by}"
    return (words, made.data, made.model, *learners, f"{made.T} rounds, {made.runs} runs")


def _data(digest: str, entry: tuple[dict, list[str]]) -> tuple[str, ...]:
    record, labels = entry
    part = f" ({record['part']})" if record.get("part") else ""
    facts = (record.get(name, "") for name in ("kind", "source", "version", "licence"))
    return (record["name"] + part, *facts, digest, ", ".join(dict.fromkeys(labels)))


def _run(notebook: Notebook, found: Found) -> tuple[str, ...]:
    run, profile = notebook.run, found.profile(notebook.name)
    if not run:
        time = "" if profile == "not run" else "not recorded"
        return (notebook.name, profile, "", time, "", "", "", "")
    reused = f", {run['reused']} of them computed earlier" if run["reused"] else ""
    commit = (run["commit"][:12] or "no checkout") + (", changed files" if run["changed"] else "")
    system = f"Python {run['python']}, {run['system']}, {run['cores']} cores"
    sizes = [f"{run[name]:.1f} GB {where}" for name, where in GIGABYTES.items()]
    cold = ", ".join([duration(run["cold"]), f"{duration(run['cpu'])} of a processor", *sizes])
    when = (run["profile"], str(run["seed"]), cold, f"{run['shards']}{reused}")
    return (notebook.name, *when, run["finished"], commit, system)


def _costs(measured: dict[str, dict]) -> list[tuple[str, ...]]:
    """Return what each notebook costs at each profile, from nothing."""
    return [
        (f"{command} NB={name[:2]}", name, *_own(cost, whole["cores"]))
        for command, whole in measured.items()
        for name, cost in whole.get("notebooks", {}).items()
    ]


def _own(cost: dict, cores: int) -> tuple[str, ...]:
    clock = f"{duration(cost['cold'])} on {cores} core{'s' * (cores > 1)}"
    return (duration(cost["cpu"]), clock, *(f"{cost[name]:.1f} GB" for name in GIGABYTES))


def _packages(run: dict) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(run["packages"].items()))


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
