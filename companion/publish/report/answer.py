"""The answer in five sentences: the words are ours, every number and every yes is a result."""

from __future__ import annotations

from collections.abc import Sequence

from companion.claims import Claim
from companion.promises import FOR_EVER, Promise
from companion.publish.report.gather import Found, Table, rows


def answer(found: Found) -> list[tuple[str, str, str]]:
    """Return five short questions, each with the answer in a few words, and what it rests on."""
    said = []
    for question, sentence in SENTENCES.items():
        try:
            said.append((question, *sentence(found)))
        except (KeyError, ValueError):  # a result that is not here, or a table without the row
            said.append((question, "Not run yet", ""))
    return said


def converges(found: Found) -> tuple[str, str]:
    """Return whether the agents learn, what quantisation costs in accuracy, and what in speed."""
    opening = {"holds": "Yes", "holds if": "Yes, if {}", "does not hold": "No"}
    rates = found.figure("fig2_rates")
    steps = (0.0, rates.params["d_0"])
    gaps = (_pick(rates.numbers["slopes"], "slope", measure="gap", d_0=d_0) for d_0 in steps)
    alone, quantised = map(min, gaps)
    losses = [found.figure(name).numbers["final_difference"] for name in ("fig2", "fig4")]
    losses.append(found.figure("fig6").numbers["per_subject"]["difference"])
    mushrooms, digits, brains = (f"{100 * loss['mean']:+.1f}" for loss in losses)
    return _opening(found.claim("theorem-1-b"), opening), (
        f"rounding changes the accuracy by {mushrooms} points on mushrooms, {digits} on MNIST and "
        f"{brains} on EEG; only the gap to the best model closes more slowly, as "
        f"$t^{{{quantised:.2f}}}$ instead of $t^{{{alone:.2f}}}$."
    )


def private(found: Found) -> tuple[str, str]:
    """Return what the paper's theorem promises at its settings, and what a real promise costs."""
    opening = {"holds": "Yes, by proof", "holds if": "Only if {}"}
    opening["does not hold"] = "Not by its proof"
    power = found.figure("fig3_bounds").numbers["log10_delta"]["theorem 2.1"]
    kept = found.figure("fig3_frontier").numbers["kept"]
    columns = (kept[name] for name in ("accuracy", "unquantised", "target"))
    left, without, target = max(zip(*columns, strict=True))
    return _opening(found.claim("infinite-and-accurate"), opening), (
        f"$\\delta$ bounds how much one data point can change the probability of anything that is "
        f"sent, so it never exceeds 1; Theorem 2's bound is {10**power:,.0f}, which promises "
        f"nothing, and rounding coarse enough to bring it to {target:g} lowers the accuracy on "
        f"mushrooms from {without:.0%} to {left:.0%}."
    )


def attacked(found: Found) -> tuple[str, str]:
    """Return what stays hidden, and what our best attackers get with and without quantisation."""
    (seen, hidden), (named, unnamed), (_, labels) = attack_rates(found).values()
    guessed = 1 / len(found.figure("fig7_identity").params["subjects"])
    return _hidden(found), (
        f"from unrounded messages our attackers restore {seen:.0%} of images and name {named:.0%} "
        f"of people; from rounded ones {hidden:.0%} and {unnamed:.0%} (guessing: {guessed:.0%}"
        f"{_of_many(found)}), but still read {labels:.0%} of the images' labels."
    )


def _of_many(found: Found) -> str:
    """Return how often one of more people than the paper's is named; nothing without a result."""
    for figure in found.figures:
        if figure.name == "fig7_crowd":
            people = len(figure.params["subjects"])
            share = max(_pick(figure.numbers["direct"], "rate", defence="quantised", factor=1.0))
            return f"; of {people} people {share:.1%}, guessing: {1 / people:.1%}"
    return ""


def attack_rates(found: Found) -> dict[str, tuple[float, float]]:
    """Return what our best attackers get from plain and from quantised messages, as shares."""
    senders = ("D-PSGD", "quantised")
    pictures, people = (found.figure(name).numbers["rates"] for name in ("fig5", "fig7_identity"))
    labels = found.figure("fig5_labels").numbers["labels"]
    seen = max(_pick(pictures, "recovered", sender="D-PSGD"))
    hidden = max(_pick(pictures, "recovered", sender="quantised", scale=1.0))
    named = [max(_pick(people, "rate", defence=who, factor=1.0)) for who in senders]
    read = [max(_pick(labels, "labels", sender=who)) for who in senders]
    shares = (seen, hidden), tuple(named), tuple(read)
    return dict(zip(("images restored", "people named", "labels read"), shares, strict=True))


def _hidden(found: Found) -> str:
    """Return which of three things stay hidden, by the verdicts on them."""
    groups: dict[str, list[str]] = {ending: [] for ending in ENDINGS.values()}
    for what, keys in SECRETS.items():
        known = {claim.key: claim.verdict for claim in found.claims}
        given = [known[key] for key in keys if key in known]
        decided = [verdict for verdict in given if verdict != "cannot be checked"]
        groups[ENDINGS[(decided or [found.claim(keys[0]).verdict])[0]]].append(what)
    said = (f"{' and '.join(names)} {ending}" for ending, names in groups.items() if names)
    return ", ".join(said).capitalize()


def added(found: Found) -> tuple[str, str]:
    """Return what our own mechanism certifies, and what it costs."""
    total = sum(found.counts(ours=True).values())
    more = f"and sharper bounds, stronger attackers, {total} hypotheses of our own, tested alike."
    kept = promised(found.promises)
    limit = max(kept, key=lambda one: one.delta).at_most  # ValueError without any
    return "A promise that holds", (
        f"with $\\delta \\le {limit}$ proven for ever, accuracy is "
        f"{'; '.join(map(_with_promise, kept))}; {more}"
    )


def _with_promise(one: Promise) -> str:
    """Return the accuracy under a promise, what is possible without, and what is hidden."""
    name, lost = one.name.partition(",")[0], ", no better than guessing" * one.lost
    without = f"{one.best_unprotected:.1%} without; hides {one.unit}"
    return f"{one.accuracy[0]:.1%} on {name}{lost} ({without})"


def promised(promises: Sequence[Promise]) -> list[Promise]:
    """Return, of each data set, the promise for ever that comes nearest to TARGET from below.

    Where none does, the strictest that there is.
    """
    ever = [one for one in promises if one.horizon == FOR_EVER]
    strict = [one for one in ever if one.delta <= TARGET]
    ordered = sorted(strict or ever, key=lambda one: (one.delta, one.accuracy), reverse=not strict)
    return list({one.data: one for one in ordered}.values())


def tally(found: Found) -> tuple[str, str]:
    """Return how many claims hold, and on what data the verdicts rest."""
    given = found.counts(ours=False)
    total = sum(given.values())
    if not total:
        raise ValueError("no claim of the paper is here")
    unchecked = f", {given['cannot be checked']} cannot be checked"
    shaky = sum(bool(found.stand_ins(claim)) for claim in found.claims)
    return f"{given['holds']} of {total} as written", (
        f"{given['holds if']} more hold under a condition that the paper does not state, "
        f"{given['does not hold']} do not hold{unchecked * bool(given['cannot be checked'])}; "
        f"{f'{shaky} verdicts rest' if shaky else 'no verdict rests'} on stand-in data."
    )


TARGET = 0.1  # the delta that we promise in a sentence
ENDINGS = {
    "holds": "stay hidden",
    "holds if": "stay hidden",
    "does not hold": "leak",
    "cannot be checked": "are undecided",
}
SECRETS = {  # thirty people decide where the paper's nine cannot
    "images": ("attack-on-algorithm-1",),
    "identities": ("identity-protected", "identity-of-many"),
    "labels": ("labels-not-protected",),
}
SENTENCES = {
    "Does it converge?": converges,
    "Is it private?": private,
    "Do attacks succeed?": attacked,
    "What did we add?": added,
    "How many claims hold?": tally,
}


def _opening(claim: Claim, words: dict[str, str]) -> str:
    """Return the words for a verdict, with its condition."""
    return words.get(claim.verdict, "Not proven").format(claim.condition)


def _pick(table: Table, column: str, **where) -> list:
    """Return the entries of a column in the rows that have these values."""
    return [row[column] for row in rows(table) if where.items() <= row.items()]
