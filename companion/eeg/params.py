"""Notebook 4's parameters: every default once, as in its parameters cell."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from companion.data import streams
from companion.data.eeg import NINE
from companion.params import (
    AGENTS,
    Count,
    NetworkParams,
    NotNegative,
    NotNegativeCount,
    ParameterError,
    Positive,
    Rate,
    Share,
    require_at_most,
)

CLASSIFIERS = ("log-covariance", "log-spectrum", "EEGNet")
DEFENCES = ("D-PSGD", "unquantised", "quantised", "random start", "dithered")
Band = Annotated[tuple[Positive, ...], Field(min_length=2, max_length=2)]
Window = tuple[NotNegative, ...]  # seconds after the cue; empty: all of each trial
States = Annotated[int, Field(ge=1, le=200)]


class Recorded(NetworkParams):
    """Whose trials they are, the network that learns them, and the paper's schedules."""

    weight: Positive = 0.05
    lam_0: Positive = 0.2
    d_0: Positive = 0.5
    d_0_slope: NotNegative = 0.02
    data: str = "bnci2014_001"
    subjects: Annotated[tuple[Count, ...], Field(min_length=AGENTS)] = NINE
    band: Band = (8.0, 30.0)
    window: Window = ()
    batch_norm: Literal["batch", "fixed", "none"] = "batch"
    convolution_scale: Positive = 0.15

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        self.algorithm()
        check_window("window", self.window)


class Training(Recorded):
    """One training of EEGNet (section 4.3); what the paper leaves open is a parameter."""

    subjects: Annotated[tuple[Count, ...], Field(min_length=AGENTS + 1)] = NINE
    iterations: Count = 50
    samples: Count = 20
    evaluate_every: Count = 10
    fs: Rate = 125.0

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        super().check()
        self.deal(0)
        require_at_most(self, "evaluate_every", "iterations")

    def deal(self, run: int) -> dict[int, list]:
        """Return, for every left-out subject, whose trials each agent holds in this run."""
        try:
            return streams.folds(self.seed, self.subjects, AGENTS, run)
        except ValueError as error:
            raise ParameterError(str(error)) from None

    def lasting(self, iterations: int) -> Training:
        """Return this training with another length, evaluated at its end."""
        return self.into(Training, iterations=iterations, evaluate_every=iterations)


class Attack(Recorded):
    """How one trial is overheard, and how it is looked for."""

    attack_fs: Rate = 80.0
    attack_band: Band = (6.0, 34.0)
    attack_steps: Count = 40
    attack_shape: Literal["learned", "plain"] = "learned"  # see `signals.learned`
    attack_weighting: Literal["none", "state", "tensor"] = "none"
    attack_labels: Literal["inferred", "known"] = "inferred"

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        super().check()
        (low, high), (wide_low, wide_high) = self.band, self.attack_band
        if not wide_low <= low < high <= wide_high <= self.attack_fs / 2:
            rule = f"must hold band = {list(self.band)}"
            end = f"end below attack_fs / 2 = {self.attack_fs / 2:g} Hz"
            raise ParameterError(f"attack_band = {list(self.attack_band)} {rule} and {end}")


class Attacking(Attack):
    """Who is attacked how often, by whom, and who names people."""

    attack_trials: Count = 3  # per subject
    attack_rounds: States = 8  # of "one run", at most
    attack_models: States = 8  # of "many models"
    attack_factors: tuple[Positive, ...] = (0.1,)  # of d_0, beside the paper's own
    attack_aligned: Annotated[tuple[bool, ...], Field(min_length=1)] = (False, True)
    calibration_states: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 4, 8, 16)
    calibration_trials: Count = 1  # per subject
    identity_classifiers: Annotated[tuple[str, ...], Field(min_length=1)] = CLASSIFIERS
    identity_known: Count = 10  # own trials per subject of which the attacker makes gradients
    identity_trials: Count = 10  # attacked trials per subject whose gradients are judged
    identity_states: tuple[Count, ...] = (1, 8)

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        super().check()
        if min(self.calibration_states) > self.attack_rounds:
            rule = f"must hold a number up to attack_rounds = {self.attack_rounds}"
            found = f"calibration_states = {list(self.calibration_states)}"
            why = "they say how many rounds help the attacker"
            raise ParameterError(f"{found} {rule}: {why}")
        for kind in self.identity_classifiers:
            if kind not in CLASSIFIERS:
                rule = f"it must be among {', '.join(CLASSIFIERS)}"
                raise ParameterError(f"identity_classifiers holds {kind!r}: {rule}")

    @property
    def chance(self) -> float:
        """Return how often a guess names the right person."""
        return 1 / len(self.subjects)

    def settings(self, aligned: bool) -> list[tuple[str, float]]:
        """Return the defences compared, each with its factor of d_0; smaller ones where shown.

        That is with the first of `attack_aligned`, and without alignment.
        """
        shown = self.attack_factors if not aligned or aligned == self.attack_aligned[0] else ()
        whole = [(defence, 1.0) for defence in DEFENCES]
        return whole + [("quantised", factor) for factor in shown]


class Params(Training, Attacking):
    """All of notebook 4; zero, an empty list or an empty name leaves a part out."""

    folds: tuple[Count, ...] = ()  # the subjects left out in turn; empty: every one
    seeds: Count = 1
    central_epochs: NotNegativeCount = 0
    ablation_folds: tuple[Count, ...] = ()
    ablation_iterations: Count = 100
    budget_iterations: Annotated[int, Field(ge=3)] = 40
    budget_arrivals: Annotated[tuple[NotNegativeCount, ...], Field(min_length=1)] = (0, 20)
    budget_agents: Annotated[int, Field(ge=1, le=AGENTS)] = 1
    promise_trials: tuple[Count, ...] = (100, 300, 1000, 3000, 10000)  # of an agent, at first
    promise_deltas: tuple[Share, ...] = (0.1, 0.25, 0.5)
    promise_iterations: Count = 50
    second: str = ""
    second_window: Window = (0.5, 2.5)
    crowd: Annotated[int, Field(ge=0, le=109)] = 30  # people of PhysioNet; 0: none
    crowd_trials: NotNegativeCount = 0  # of each that are rebuilt

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        super().check()
        check_window("second_window", self.second_window)
        if 0 < self.crowd < AGENTS:
            raise ParameterError(f"crowd = {self.crowd} must be 0 or at least {AGENTS} people")
        for name in ("folds", "ablation_folds"):
            if strangers := sorted(set(folds := getattr(self, name)) - set(self.subjects)):
                rule = f"subject {strangers[0]} is not among subjects = {list(self.subjects)}"
                raise ParameterError(f"{name} = {list(folds)}: {rule}")
        for k in self.budget_arrivals:
            if k >= (last := self.budget_iterations - 1):
                rule = f"which must be below budget_iterations - 1 = {last}"
                why = "a data point first moves the message after its arrival"
                raise ParameterError(f"budget_arrivals holds {k}, {rule}: {why}")

    @property
    def tests(self) -> tuple[int, ...]:
        """Return the subjects left out in turn."""
        return self.folds or self.subjects

    def elsewhere(self) -> Params | None:
        """Return the same study of the second data set, without what is not shown of it."""
        if not self.second:
            return None
        there = {"data": self.second, "window": self.second_window, "second": ""}
        return self.into(Params, **there, attack_aligned=(False,), attack_factors=())

    def crowded(self) -> Attacking | None:
        """Return the attackers of many people, as recorded; None where there are none."""
        if not self.crowd:
            return None
        everybody = tuple(range(1, self.crowd + 1))
        there = {"data": "physionet", "subjects": everybody, "window": self.second_window}
        plain = {"attack_aligned": (False,), "attack_factors": ()}
        plain |= {"attack_trials": max(1, self.crowd_trials)}
        if not self.crowd_trials:  # only looked at, to see that people can be told apart at all
            plain["identity_classifiers"] = CLASSIFIERS[:2]
        return self.into(Attacking, **there, **plain)

    def ablations(self) -> dict[str, Training]:
        """Return the trainings compared: what the paper leaves open, one thing at a time.

        Always at the paper's ratio d_0 / lam_0, which decides what a message tells of a gradient:
        every setting hides as much of a gradient of the same size.
        """
        base = self.lasting(self.ablation_iterations)
        changes: dict[str, dict] = {
            f"network weight {w:g}": {"weight": w} for w in (0.2, 0.05, 0.02)
        }
        for scale in (1.0, 0.3, 0.15):
            changes[f"convolution scale {scale:g}"] = {"convolution_scale": scale}
        for factor in (0.5, 2.0):
            both = {name: factor * getattr(self, name) for name in ("lam_0", "d_0", "d_0_slope")}
            changes[f"lam_0 and d_0 times {factor:g}"] = both
        changes["fixed statistics"] = {"batch_norm": "fixed"}
        plain = {"batch_norm": "none", "convolution_scale": 1.0}
        changes["no normalisation, convolution scale 1"] = plain
        others = {label: base.into(Training, **change) for label, change in changes.items()}
        found = {label: other for label, other in others.items() if other != base}
        return {"as chosen": base, **found} if self.ablation_folds else {}


def check_window(name: str, window: Window) -> None:
    """Raise unless a window is empty or a start and a later stop."""
    if len(window) not in (0, 2) or sorted(set(window)) != list(window):
        rule = "must be empty or two increasing times, in seconds after the cue"
        raise ParameterError(f"{name} = {list(window)} {rule}")
