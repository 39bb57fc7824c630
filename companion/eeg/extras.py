"""What notebook 4 does only when asked: a centralised reference, a comparison of open choices, a second data set."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from companion.eeg import central as eeg_central
from companion.eeg import identity as eeg_identity
from companion.eeg import learning as eeg
from companion.eeg import trials as eeg_trials
from companion.params import Count, NotNegative, ParameterError
from companion.params import Params as BaseParams


class Params(BaseParams):
    """Sizes of the extras; zero, an empty list or an empty name switches one off."""

    central_epochs: Annotated[int, Field(ge=0)] = 0
    ablation_folds: tuple[Count, ...] = ()
    ablation_iterations: Count = 100
    second: str = ""
    second_window: tuple[NotNegative, ...] = (0.5, 2.5)

    def check(self) -> None:
        """Raise when the parameters make no sense, before anything is computed."""
        try:
            eeg_trials.check_window(self.second_window)
        except ParameterError as error:
            raise ParameterError(f"second_{error}") from None

    def central(self, training: eeg.Params) -> eeg_central.CentralParams | None:
        """Return the centralised reference of a training, or None."""
        return training.into(eeg_central.CentralParams, epochs=self.central_epochs) if self.central_epochs else None

    def ablation(self, training: eeg.Params) -> eeg.Params | None:
        """Return the training with which open choices are compared, or None."""
        length = {"iterations": self.ablation_iterations, "evaluate_every": self.ablation_iterations}
        return training.into(eeg.Params, folds=self.ablation_folds, seeds=1, **length) if self.ablation_folds else None

    def elsewhere(
        self, training: eeg.Params, who: eeg_identity.Params
    ) -> tuple[eeg.Params, eeg_identity.Params] | tuple[None, None]:
        """Return the training and the re-identification on the second data set, or (None, None)."""
        if not self.second:
            return None, None
        there = {"data": self.second, "window": self.second_window}
        plain = {"attack_aligned": (False,), "attack_factors": ()}
        return training.into(eeg.Params, **there), who.into(eeg_identity.Params, **there, **plain)
