"""What a reader turns on a page."""

from __future__ import annotations

from typing import NamedTuple


class Control(NamedTuple):
    """A slider: its name in the code, its label in words, where it starts, and what it spans."""

    name: str
    label: str
    start: float
    least: float
    most: float
    step: float
    power: bool = False  # the slider holds the logarithm to base 10

    def value(self, place: float) -> float:
        """Return what the code gets when the slider stands at `place`."""
        number = 10.0**place if self.power else place
        return round(number) if self.whole else number

    @property
    def whole(self) -> bool:
        """Return whether the code gets a whole number."""
        return self.power or float(self.step).is_integer()
