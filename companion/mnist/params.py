"""Notebook 3's parameters: every default once, as in its parameters cell."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from companion.data import mnist
from companion.params import (
    AGENTS,
    Count,
    NetworkParams,
    NotNegative,
    NotNegativeCount,
    ParameterError,
    Positive,
    Share,
    history_bytes,
    require_at_most,
)

Images = Annotated[int, Field(ge=5, multiple_of=5)]  # five agents hold five
Grid = Annotated[tuple[Positive, ...], Field(min_length=1)]
Exponents = Annotated[tuple[NotNegative, ...], Field(min_length=1)]
ABLATION_TEST = 500  # test images for each short training of the ablation, at most
SENT = 2 * 84_202  # numbers that an agent sends in an iteration: the CNN's parameters, twice
SAMPLES = 20  # images an agent acquires in an iteration of the trainings that are attacked
IMAGES_OF = "calibration", "fig5", "curve", "label", "moment", "patient", "painted", "promise"
HELD = 6  # one in so many training images judges what is tuned


def learnt_from(images: int) -> int:
    """Return how many of so many training images are learnt from while mechanisms are tuned."""
    part = AGENTS * SAMPLES
    return (images - images // HELD) // part * part


class Training(NetworkParams):
    """Everything that one training depends on; the paper's numbers where it prints them."""

    weight: Positive = 0.02
    lam_0: Positive = 0.1
    d_0: Positive = 1.0
    d_0_slope: NotNegative = 0.1
    activation: Literal["relu", "sigmoid", "tanh", "elu"] = "relu"
    initialisation: Literal["he", "pytorch", "uniform"] = "he"
    same_start: bool = True
    iterations: Count = 400
    samples: Count = 20
    test: Count = 200
    final_test: Count = 2000
    evaluate_every: Count = 40
    history_sample: NotNegativeCount = 20
    train_sample: NotNegativeCount = 100

    def check(self, data: mnist.MNIST) -> None:
        """Raise when the parameters contradict each other or the data."""
        self.algorithm()
        there = len(data.test_labels)
        for name, limit in (("test", there - 1), ("final_test", there)):
            if (value := getattr(self, name)) > limit:
                rule = f"must not exceed {limit}: there are no more test images"
                raise ParameterError(f"{name} = {value} {rule}")
        require_at_most(self, "evaluate_every", "iterations")

    def at(self, **changes) -> Training:
        """Return the setting of one training with other values, checked like new ones."""
        return self.into(Training, **changes)


class Params(Training):
    """All of notebook 3: trainings, budgets, attacks and promises."""

    repeats: Annotated[int, Field(ge=1, le=1000)] = 2
    full_repeats: NotNegativeCount = 0
    full_iterations: Count = 300
    ablation_iterations: NotNegativeCount = 30
    budget_scales: tuple[Positive, ...] = (1e-6, 1e-4, 0.01, 1.0, 10.0, 100.0, 1000.0, 10000.0)
    budget_samples: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 20)
    budget_iterations: Annotated[int, Field(ge=2)] = 6
    budget_repeats: Count = 1
    calibration_images: Count = 24
    calibration_steps: Count = 1500
    fig5_images: Images = 10
    curve_images: Images = 5
    scales: tuple[Positive, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0)
    attack_rounds: Annotated[int, Field(ge=2)] = 8
    attack_steps: Count = 600
    attack_restarts: Count = 2
    moments: tuple[NotNegativeCount, ...] = (0, 50)
    moment_images: Images = 5
    label_images: Images = 50
    label_rounds: tuple[Count, ...] = (1, 8)
    batch_sizes: tuple[Count, ...] = (1, 8)
    batches: Images = 5
    batch_victims: tuple[Literal["connected", "LeNet", "CNN"], ...] = ("connected", "CNN")
    patient_images: Annotated[int, Field(ge=0, multiple_of=5)] = 5
    patient_scales: tuple[Positive, ...] = (1.0,)
    painted_images: Annotated[int, Field(ge=0, multiple_of=5)] = 5
    painted_batches: Annotated[int, Field(ge=0, multiple_of=5)] = 0
    promise_targets: tuple[Share, ...] = (0.25,)
    network_targets: tuple[Share, ...] = ()
    convolution_targets: tuple[Share, ...] = ()
    convolution_iterations: Count = 20
    promise_seeds: Count = 1
    promise_images: Annotated[int, Field(ge=0, multiple_of=100)] = 8000
    promise_test: NotNegativeCount = 2000
    promise_iterations: Count = 60
    promise_attacked: Count = 20
    neighbour_targets: tuple[Share, ...] = (0.25,)
    neighbour_seeds: NotNegativeCount = 3
    neighbour_iterations: Count = 40
    neighbour_pushes: Grid = (30.0, 100.0)
    neighbour_nu: Grid = (0.9,)
    neighbour_varsigma: Grid = (0.51,)
    neighbour_weakening: Grid = (0.3,)
    neighbour_fading: Exponents = (0.0,)
    canaries: NotNegativeCount = 100
    members: bool = True

    def memory(self) -> tuple[str, int]:
        """Return what needs most memory: a history, or the messages that an attacker keeps."""
        rounds = max(self.attack_rounds, *self.label_rounds, 0)
        heard = f"attack_rounds = {self.attack_rounds} with label_rounds = "
        trained = history_bytes(1, self.iterations, self.samples)
        attacked = history_bytes(1, max(self.moments, default=0) + 1, SAMPLES)
        sizes = {
            f"iterations = {self.iterations} with samples = {self.samples}": trained,
            f"{heard}{list(self.label_rounds)}": AGENTS * rounds * SENT * 8,
            f"moments = {list(self.moments)}": attacked,
        }
        return max(sizes.items(), key=lambda pair: pair[1])

    def check(self, data: mnist.MNIST) -> None:
        """Raise when the parameters contradict each other or the data, before any work."""
        super().check(data)
        require_at_most(self, "full_repeats", "repeats")
        for setting in [*self.choices().values(), *self.budgets()]:
            setting.check(data)
        there = dict.fromkeys((f"{name}_images" for name in IMAGES_OF), len(data.train_labels))
        for name, limit in (there | {"promise_test": len(data.test_labels)}).items():
            if (value := getattr(self, name)) > limit:
                raise ParameterError(f"{name} = {value} must not exceed {limit}, all there are")
        self._check_attacks(len(data.train_labels))
        self._check_promises(data)

    def _check_attacks(self, there: int) -> None:
        if 1.0 not in self.scales or list(self.scales) != sorted(self.scales):
            rule = "must rise and hold 1.0, the paper's own d_0"
            raise ParameterError(f"scales = {self.scales} {rule}")
        if max(self.batch_sizes, default=0) * self.batches > there:
            found = f"batches = {self.batches} of batch_sizes = {list(self.batch_sizes)}"
            raise ParameterError(f"{found} must not need more than {there}, all images")
        for name in ("moments", "label_rounds"):
            if list(values := getattr(self, name)) != sorted(values) or not values:
                raise ParameterError(f"{name} = {values} must rise, and must not be empty")

    def dealt(self, data: mnist.MNIST) -> tuple[int, int]:
        """Return how many images the promises are trained and tested on; 0 stands for all."""
        images, test = len(data.train_labels), len(data.test_labels)
        return self.promise_images or images, self.promise_test or test

    def _check_promises(self, data: mnist.MNIST) -> None:
        dealt = self.dealt(data)
        asked = {"promise": self.promise_targets or self.network_targets}
        asked["convolution"] = self.convolution_targets
        looked_at = max(self.promise_attacked, self.canaries)
        for name in (name for name, targets in asked.items() if targets):
            iterations = getattr(self, f"{name}_iterations")
            if (at_first := dealt[0] // AGENTS - SAMPLES * iterations) < looked_at:
                found = f"promise_images = {dealt[0]} leaves an agent {at_first} images at first"
                rest = f"that of {name}_iterations = {iterations} arrive later"
                rule = f"at least {looked_at} must be there, for promise_attacked and canaries"
                raise ParameterError(f"{found}, for {rest}: {rule}")
        points = learnt_from(dealt[0]) // (AGENTS * SAMPLES)
        if self.neighbour_seeds and self.neighbour_iterations >= points:
            found = f"neighbour_iterations = {self.neighbour_iterations} must be below {points}"
            raise ParameterError(f"{found}, the data points of each agent while it is tuned")

    def fitting(self, data: mnist.MNIST) -> mnist.MNIST:
        """Return the data, when the parameters fit them and each other."""
        self.check(data)
        return data

    def trainings(self) -> list[tuple[Training, int]]:
        """Return (setting, repeat) of Fig. 4's trainings; whole histories, which take long,
        first."""
        whole = range(self.full_repeats if self.history_sample else 0)
        length = min(self.full_iterations, self.iterations)
        full = [(self.at(history_sample=0, iterations=length), repeat) for repeat in whole]
        return full + [(self.at(), repeat) for repeat in range(self.repeats)]

    def choices(self) -> dict[str, Training]:
        """Return the trainings of the ablation: Fig. 4's, and one open choice made otherwise."""
        if not (length := self.ablation_iterations):
            return {}
        short = self.at(
            iterations=length,
            evaluate_every=length,
            final_test=min(self.final_test, ABLATION_TEST),
        )
        larger = {"d_0": 100 * self.d_0, "d_0_slope": 100 * self.d_0_slope}
        changes: dict[str, dict] = {
            "as in Fig. 4": {},
            "each agent its own start": {"same_start": False},
            "sigmoid instead of ReLU": {"activation": "sigmoid"},
            "PyTorch's initial values": {"initialisation": "pytorch"},
            "edge weights 0.2": {"weight": 0.2},
            "d₀ a hundred times larger": larger,
            "λ₀ a hundred times larger": {"lam_0": 100 * self.lam_0},
        }
        return {name: short.at(**change) for name, change in changes.items()}

    def budgets(self) -> list[Training]:
        """Return a setting for every scale of d_0 and number of images whose budget is counted."""
        length = self.budget_iterations
        short = self.at(iterations=length, evaluate_every=length, history_sample=0)
        return [
            short.at(samples=samples, d_0=scale * self.d_0, d_0_slope=scale * self.d_0_slope)
            for samples in self.budget_samples
            for scale in self.budget_scales
        ]
