"""What runs of all mechanisms say: accuracy, delta and bits, with intervals."""

from __future__ import annotations

import json
from typing import NamedTuple

import pandas as pd

from companion.intervals import ends
from companion.neighbours.bench import KEYS, MEASURES, MECHANISMS, REFERENCES, Choice

KNOWN = ["certified", "for_ever", "one_iteration", "pure", "attained", "within"]  # `bench.deltas`


class Compared(NamedTuple):
    """All that a notebook shows: the effort in words, every candidate `tried`, and two tables."""

    effort: str
    tried: pd.DataFrame
    found: pd.DataFrame  # `frontier`
    references: pd.DataFrame

    def numbers(self) -> dict:
        """Return what is kept beside the figure; numbers that are not known are None."""
        tables = {"frontier": self.found, "references": self.references, "tried": self.tried}
        return {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}


def frontier(best: pd.DataFrame, last: pd.DataFrame) -> pd.DataFrame:
    """Return one row a measure, mechanism and target: accuracy with a 95 % interval, delta, bits.

    `last` are accuracies at the end: measure, mechanism, target, run, accuracy, bits. `lost` is
    accuracy against the reference in the clear, paired over runs; intervals are Student's. `bits`
    are those of all that stands for one coordinate in one iteration. `best` are candidates with
    what is known of their deltas.
    """
    wide = last.pivot(index="run", columns=KEYS, values="accuracy")
    bits, found = last.groupby(KEYS)["bits"].mean(), []
    best = best[~best["mechanism"].isin(REFERENCES)].reset_index(drop=True)
    for key in best[KEYS].itertuples(index=False, name=None):
        clear = wide[key[0], "clear", 0.0]
        record = ends("accuracy", wide[key]) | ends("lost", clear - wide[key])
        found.append(record | {"name": MECHANISMS[key[1]], "bits": bits[key], "runs": len(wide)})
    return best[[*KEYS, *Choice._fields, *KNOWN]].join(pd.DataFrame(found))


def references(last: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy of what hides nothing and of what sends nothing, with 95 % intervals."""
    parts = last[last["mechanism"].isin(REFERENCES)].groupby(["measure", "mechanism"])["accuracy"]
    rows = [{"measure": m, "mechanism": k, **ends("accuracy", own)} for (m, k), own in parts]
    found = pd.DataFrame(rows).assign(name=lambda part: part["mechanism"].map(REFERENCES))
    return found[(found["mechanism"] != "alone") | (found["measure"] == "own")]


def shown(compared: Compared | None) -> pd.DataFrame:
    """Return a table for readers: the setting of agents' own models, and a listener's accuracy."""
    if compared is None:
        return pd.DataFrame()
    by = compared.found.set_index(KEYS[1:])
    own, heard = (by[by["measure"] == measure] for measure in MEASURES)
    pair = f"δ reached by one pair in {own['within'].max():.0f} iterations"
    return pd.DataFrame({
        "mechanism": own["name"],
        "δ certified, iterations run": own["certified"].round(3),
        "δ certified, all time": own["for_ever"].round(3),
        pair: own["attained"].round(3),
        "own models": own["accuracy"].map("{:.1%}".format),
        "a listener's": heard["accuracy"].map("{:.1%}".format),
        "bits a coordinate": own["bits"].round(1),
    }).reset_index(drop=True)  # fmt: skip
