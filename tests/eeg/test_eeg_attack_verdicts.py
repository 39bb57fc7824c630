"""What is made of attacks on EEG training: verdicts that follow the tables, and figures."""

from __future__ import annotations

import pandas as pd

from companion.eeg import attack_figures, claims, overheard


def summary(**correlations: float) -> pd.DataFrame:
    """Return a made-up summary in which every attacker reaches the same correlation under a
    defence.
    """
    rows = []
    for defence, correlation in correlations.items():
        for attacker in overheard.ATTACKERS:
            near = {
                f"correlation{end}": correlation + shift
                for end, shift in (("", 0), ("_low", -0.01), ("_high", 0.01))
            }
            row = {
                "defence": defence.replace("_", " ").replace("D PSGD", "D-PSGD"),
                "attacker": attacker,
                "states": 8,
            }
            rows.append(row | near | {"aligned": False, "factor": 1.0, "label": 0.25, "trials": 90})
    return pd.DataFrame(rows)


def identified(**shares: float) -> pd.DataFrame:
    rows = [
        {
            "defence": name.replace("_", " ").replace("D PSGD", "D-PSGD"),
            "rate": share,
            "low": share - 0.05,
            "high": share + 0.05,
        }
        for name, share in shares.items()
    ]
    named = {
        "classifier": "log-spectrum",
        "aligned": False,
        "factor": 1.0,
        "attacker": "many models",
        "trials": 90,
    }
    return (
        pd.DataFrame(rows).assign(**named).assign(hits=lambda table: (table["rate"] * 90).round())
    )


def test_verdicts_follow_the_numbers_both_ways():
    safe = summary(D_PSGD=0.95, quantised=0.05, random_start=0.04, dithered=0.03)
    rates = identified(raw=0.9, D_PSGD=0.76, quantised=0.12, random_start=0.1, dithered=0.1)
    rows = {row.key: row for row in claims.attacks(safe, safe, rates, rates, 1 / 9, 4)}
    assert rows["fig7-clear"].verdict == "holds if"
    assert rows["fig7-quantised"].verdict == "holds"
    assert rows["reidentification-rates"].sentence == "holds"
    assert rows["identity-protected"].verdict == "holds"
    assert rows["eeg-labels"].verdict == "holds"
    assert rows["ours-eeg-margin"].verdict == "holds"
    leaky = summary(D_PSGD=0.9, quantised=0.6, random_start=0.04, dithered=0.03)
    told = identified(raw=0.9, D_PSGD=0.5, quantised=0.6, random_start=0.1, dithered=0.1)
    rows = {row.key: row for row in claims.attacks(leaky, leaky, told, told, 1 / 9, 4)}
    assert rows["fig7-quantised"].verdict == "holds if"
    assert rows["fig7-quantised"].sentence == "holds if psi_0 is random or a public dither is used"
    assert rows["reidentification-rates"].verdict == "does not hold"
    assert rows["identity-protected"].sentence == "holds if run as: random start or dithered"
    assert rows["ours-eeg-margin"].verdict == "does not hold"


def test_the_verdict_on_a_second_data_set_needs_all_three():
    safe = summary(D_PSGD=0.95, quantised=0.5, random_start=0.04, dithered=0.03)
    rates = identified(raw=0.9, D_PSGD=0.76, quantised=0.12, random_start=0.1, dithered=0.1)
    narrow = {"mean": 0.0, "low": -0.01, "high": 0.01, "p": 0.5, "folds": 9}
    wide, costly = (
        narrow | {"low": -0.05, "high": 0.03},
        narrow | {"mean": -0.05, "low": -0.06, "high": -0.04},
    )
    told = identified(raw=0.9, D_PSGD=0.76, quantised=0.7, random_start=0.1, dithered=0.1)
    cases = [
        ("holds", narrow, safe, rates),
        ("cannot be checked", wide, safe, rates),
        ("does not hold", costly, safe, rates),
        ("cannot be checked", narrow, safe, told),
        (
            "does not hold",
            narrow,
            safe,
            identified(raw=0.9, D_PSGD=0.5, quantised=0.7, random_start=0.1, dithered=0.1),
        ),
        (
            "does not hold",
            narrow,
            summary(D_PSGD=0.95, quantised=0.1, random_start=0.4, dithered=0.1),
            rates,
        ),
        (
            "cannot be checked",
            narrow,
            summary(D_PSGD=0.5, quantised=0.1, random_start=0.04, dithered=0.1),
            rates,
        ),
    ]
    for expected, *numbers in cases:
        (row,) = claims.elsewhere(*numbers, "somebody else's data")
        assert row.verdict == expected and row.ours_to_prove


def test_labels_are_told_when_they_are_read_above_chance_and_hidden_only_within_an_interval():
    rates = identified(raw=0.9, D_PSGD=0.76, quantised=0.12, random_start=0.1, dithered=0.1)
    table = summary(D_PSGD=0.95, quantised=0.05, random_start=0.04, dithered=0.03)
    for share, count, expected in (
        (0.25, 90, "holds"),
        (0.45, 90, "does not hold"),
        (0.4, 10, "cannot be checked"),
    ):
        changed = table.assign(label=share, trials=count)
        rows = {row.key: row for row in claims.attacks(changed, table, rates, rates, 1 / 9, 4)}
        assert rows["eeg-labels"].verdict == expected


def extra_of(key, hits=(1, 1), trials=9, aligned=0.1, lower=0.5):
    """Return one of the rows that `extra` gives, on made-up numbers."""
    measured = {
        "k": [0],
        "paper": [3.0],
        "exact": [0.6],
        "lower": [lower],
        "upper": [1.0],
        "iterations": [9],
    }
    members = pd.DataFrame(
        {"variant": ["unquantised", "quantised"], "hits": hits, "trials": trials}
    )
    plain = identified(raw=0.9)
    both = pd.concat([plain, identified(raw=aligned).assign(aligned=True)], ignore_index=True)
    rows = claims.remembered(pd.DataFrame(measured), members, both, pd.DataFrame(), 1 / 9)
    return next(row for row in rows if row.key == key)


def test_members_alignment_and_delta_follow_the_numbers():
    """4 of 9 at a chance of 1 in 9 has p = 0.010, significant for two looks; 3 of 9 has 0.066."""
    assert extra_of("ours-eeg-members", hits=(1, 4)).verdict == "does not hold"
    assert extra_of("ours-eeg-members", hits=(1, 3)).verdict == "cannot be checked"
    assert extra_of("ours-eeg-members", hits=(0, 0)).verdict == "cannot be checked", (
        "one trial a person is too little"
    )
    verdicts = {
        aligned: extra_of("ours-eeg-alignment", aligned=aligned).verdict
        for aligned in (0.1, 0.17, 0.3)
    }
    assert verdicts == {0.1: "holds", 0.17: "cannot be checked", 0.3: "does not hold"}
    assert extra_of("eeg-delta").verdict == "cannot be checked"
    assert extra_of("eeg-delta", lower=0.95).condition.startswith("δ may be 0.950 or more")


def test_not_above_chance_counts_only_when_it_could_have_been_noticed():
    safe = summary(D_PSGD=0.95, quantised=0.05, random_start=0.04, dithered=0.03)
    rates = identified(raw=0.9, D_PSGD=0.76, quantised=0.11, random_start=0.11, dithered=0.11)
    for count, expected in ((90, "holds"), (18, "cannot be checked")):
        few = rates.assign(trials=count, hits=count // 9)
        rows = {row.key: row for row in claims.attacks(safe, safe, few, few, 1 / 9, 4)}
        assert rows["identity-protected"].verdict == expected


def test_a_dither_that_leaks_is_not_excused():
    rates = identified(raw=0.9, D_PSGD=0.76, quantised=0.12, random_start=0.1, dithered=0.1)
    for dithered, sentence in (
        (0.03, "holds if a public dither is used"),
        (0.5, "does not hold"),
        (0.3, "does not hold"),
    ):
        leaky = summary(D_PSGD=0.95, quantised=0.5, random_start=0.4, dithered=dithered)
        rows = {row.key: row for row in claims.attacks(leaky, leaky, rates, rates, 1 / 9, 4)}
        assert rows["fig7-quantised"].sentence == sentence


def test_recognition_is_the_papers_only_when_one_pair_gives_both_numbers():
    """A start above 74.3 % for certain is another number, and so is an end above 14.5 %; few trials
    agree with nothing.
    """
    safe = summary(D_PSGD=0.95, quantised=0.05, random_start=0.04, dithered=0.03)

    def judged(clear, ours, spread=0.05):
        rates = identified(raw=0.9, D_PSGD=clear, quantised=ours, random_start=0.1, dithered=0.1)
        rates = rates.assign(low=rates["rate"] - spread, high=rates["rate"] + spread)
        rows = claims.attacks(safe, safe, rates, rates, 1 / 9, 4)
        return next(row.verdict for row in rows if row.key == "reidentification-rates")

    assert judged(0.76, 0.12) == "holds"
    assert judged(0.92, 0.12) == judged(0.76, 0.3) == "does not hold"
    assert judged(0.76, 0.12, spread=0.3) == "cannot be checked"


def test_an_attack_that_fails_without_defence_proves_nothing_about_one():
    weak = summary(D_PSGD=0.5, quantised=0.05, random_start=0.04, dithered=0.03)
    rates = identified(raw=0.9, D_PSGD=0.76, quantised=0.12, random_start=0.1, dithered=0.1)
    rows = {row.key: row for row in claims.attacks(weak, weak, rates, rates, 1 / 9, 4)}
    unknown = ("fig7-clear", "fig7-quantised", "reidentification-rates", "ours-eeg-margin")
    assert {rows[key].verdict for key in unknown} == {"cannot be checked"}
    strong = summary(D_PSGD=0.95, quantised=0.05, random_start=0.04, dithered=0.03)
    too_few = rates.assign(trials=9, hits=1)
    few = {row.key: row for row in claims.attacks(strong, strong, too_few, rates, 1 / 9, 4)}
    assert {few[key].verdict for key in ("reidentification-rates", "identity-protected")} == {
        "cannot be checked"
    }


def test_figures_show_every_defence_chance_and_the_papers_rates():
    everybody = {
        "D_PSGD": 0.9,
        "unquantised": 0.9,
        "quantised": 0.2,
        "random_start": 0.1,
        "dithered": 0.1,
    }
    seen, rates = summary(**everybody), identified(raw=0.95, **everybody)
    figure = attack_figures.reidentified(rates, 1 / 9, "Data: x.")
    words = " ".join(
        text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
    )
    assert all(
        part in words
        for part in ("raw", "D-PSGD", "twin", "random", "dither", "chance 11.1%", "74.3%", "14.5%")
    )
    counted = pd.DataFrame({"states": [1, 8], "equations": [100, 800], "unknowns": [200, 200]})
    drawn = attack_figures.states_seen(
        seen[seen["attacker"] != "one round"], counted, 0.99, "Data: x."
    )
    assert len(drawn.axes) == 2
    steps = attack_figures.steps(seen, rates[rates["defence"] != "raw"], "Data: x.")
    assert [label.get_text() for label in steps.axes[0].get_xticklabels()] == ["none", "paper"]
    direct = attack_figures.straight(
        rates[rates["defence"] != "raw"].assign(states=8), 1 / 9, "Data: x."
    )
    assert len(direct.axes) == 1
