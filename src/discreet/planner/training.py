"""Plans for training with DP-SGD: of the noise multiplier σ, ε and the number of steps, two give the third.

Every answer is certified: ε is the upper end of the proven interval of the run that is shown. A σ is rounded up and a number
of steps down before ε is computed, so what is shown can be used as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import expm1, inf
from typing import Any, Literal

from discreet import formats
from discreet._numbers import (
    Bounds,
    Number,
    ceil_digits,
    check_positive,
    decimal_up,
    format_decimal,
    format_down,
    format_up,
    read_decimal,
    read_positive,
)
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.pld.gaussian import gaussian_mu
from discreet.accounting.training import (
    MAX_STEPS,
    Schedule,
    format_rate,
    make_training_event,
    read_number,
    read_rate,
    read_steps,
)
from discreet.errors import BadParameter
from discreet.events import Event
from discreet.mechanisms.calibration import find_smallest_scale, guess_scale

SIGMA_DIGITS = 6
"""To how many digits a σ is rounded up."""

Unknown = Literal["sigma", "epsilon", "steps"]


@dataclass(frozen=True, slots=True, init=False)
class Training:
    """Training with DP-SGD on Poisson samples, for `plan`: leave out what is to be found.

    `sigma` is the noise multiplier. The rate is batch/n, or `rate`; the number of steps is `steps`, or ⌈epochs/rate⌉.

    >>> from discreet import Training, plan
    >>> plan(Training(batch=256, n=60_000, epochs=60), epsilon=2, delta=1e-5).sigma
    1.2...
    >>> plan(Training(sigma=1.1, batch=256, n=60_000, epochs=60), delta=1e-5).epsilon
    2.38...
    >>> plan(Training(sigma=1.1, batch=256, n=60_000), epsilon=2, delta=1e-5).steps
    10207
    """

    sigma: Fraction | None
    rate: Fraction
    steps: int | None

    def __init__(
        self,
        *,
        sigma: Number | str | None = None,
        batch: int | None = None,
        n: int | None = None,
        rate: Number | str | None = None,
        epochs: Number | str | None = None,
        steps: int | None = None,
    ) -> None:
        exact = read_rate(batch=batch, n=n, rate=rate)
        noise = None if sigma is None else check_positive(read_number(sigma, "sigma"), "sigma")
        count = read_steps(exact, epochs=epochs, steps=steps)
        for name, value in (("sigma", noise), ("rate", exact), ("steps", count)):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        parts = [] if self.sigma is None else [f"σ = {format_decimal(self.sigma)}"]
        rest = format_rate(self.rate) if self.steps is None else str(Schedule(self.rate, self.steps))
        return ", ".join(["DP-SGD", *parts, rest])


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What `plan` found for a training run: σ, the rate, the number of steps, and the certified ε at δ.

    >>> from discreet import Training, plan
    >>> found = plan(Training(sigma=1, rate="1/100", steps=1000), delta=1e-5)
    >>> isinstance(found, TrainingPlan), found.steps, float(found.epochs)
    (True, 1000, 10.0)
    """

    unknown: Unknown
    exact_sigma: Fraction
    schedule: Schedule
    bounds: Bounds
    """The proven interval around the ε of this run."""
    delta: float

    @property
    def sigma(self) -> float:
        """The noise multiplier, in units of the clipping norm: the double that is written like the certified decimal."""
        return decimal_up(self.exact_sigma)

    @property
    def rate(self) -> Fraction:
        """The probability with which a record joins a step."""
        return self.schedule.rate

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.schedule.steps

    @property
    def epochs(self) -> Fraction:
        """How often a record is sampled on average: steps·rate."""
        return self.schedule.epochs

    @property
    def epsilon(self) -> float:
        """The certified ε: the upper end of the interval."""
        return self.bounds.upper

    @property
    def event(self) -> Event:
        """The event of the run, for an account or for `compose`."""
        return make_training_event(self.exact_sigma, self.schedule)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "query": "training",
            "unknown": self.unknown,
            "sigma": self.sigma,
            "rate": str(self.rate),
            "steps": self.steps,
            "epochs": float(self.epochs),
            "epsilon": {"lower": self.bounds.lower, "upper": self.bounds.upper},
            "delta": self.delta,
            "neighbours": "add or remove one record",
            "notes": self._notes(),
        }

    def __str__(self) -> str:
        header, lines = self._table()
        table = [f"{name}: {value}" for name, value in zip(header, lines[0], strict=True)]
        return "\n".join([self._title(), *table, *self._notes()])

    def __rich__(self) -> Any:
        return formats.add_rich_notes(formats.make_rich_table(self._title(), *self._table()), self._notes())

    def _repr_html_(self) -> str:
        return formats.make_html_table(*self._table(), [self._title(), *self._notes()])

    def _title(self) -> str:
        question = {"sigma": "which noise multiplier?", "epsilon": "which ε?", "steps": "how many steps?"}
        return f"Training with DP-SGD: {question[self.unknown]}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        header = ["noise multiplier σ", "rate q", "steps T", "epochs", f"certified ε at δ = {format_up(self.delta, 6)}"]
        interval = f"[{format_down(self.bounds.lower, 6)}, {format_up(self.bounds.upper, 6)}]"
        sigma = format_decimal(self.exact_sigma)
        return header, [[sigma, str(self.rate), f"{self.steps:,}", f"{float(self.epochs):.5g}", interval]]

    def _notes(self) -> list[str]:
        found = {
            "sigma": f"Use σ = {format_decimal(self.exact_sigma)}: noise of standard deviation σ·C on the sum of gradients "
            "clipped to the norm C.",
            "epsilon": "No finite ε is proven for this run."
            if self.epsilon == inf
            else f"This run costs ε = {format_up(self.epsilon)}.",
            "steps": f"{self.steps:,} steps fit, which are {float(self.epochs):.5g} epochs.",
        }
        return [
            found[self.unknown],
            "q = batch/n exactly, and T = epochs/q, rounded up to a whole step. Neighbours add or remove one record.",
            "Proven for Poisson sampling: each record joins each step independently. Batches of a shuffled list are not.",
        ]


def plan_training(training: Training, epsilon: Number | None, delta: Number) -> TrainingPlan:
    """Find the one of σ, ε and the number of steps that is not given."""
    failing = read_decimal(delta, "delta")
    if not 0 < failing < 1:
        reason = "Gaussian noise has no ε without one" if failing == 0 else "must lie strictly between 0 and 1"
        raise BadParameter("delta", format_decimal(failing), reason, "give one far below 1/n, for example 1e-6")
    cost = None if epsilon is None else read_positive(epsilon, "epsilon")
    given = [name for name, value in _list_given(training, cost) if value is not None]
    if len(given) == 3:
        raise BadParameter(
            "epsilon", format_decimal(cost or Fraction(0)), "σ and the steps are given too", "omit one of them"
        )
    if len(given) < 2:
        missing = "sigma" if "sigma" not in given else "epsilon" if "epsilon" not in given else "epochs"
        raise BadParameter(
            missing, "missing", "two of σ, ε and the steps are needed", "give, for example, epsilon= and epochs="
        )
    if cost is None:
        return _finish("epsilon", training, failing)
    if training.sigma is None:
        return _finish("sigma", replace_sigma(training, solve_sigma(training, cost, failing)), failing)
    return _finish("steps", replace_steps(training, solve_steps(training, cost, failing)), failing)


def _list_given(training: Training, cost: Fraction | None) -> list[tuple[str, object]]:
    return [("sigma", training.sigma), ("epsilon", cost), ("epochs", training.steps)]


def replace_sigma(training: Training, sigma: Fraction) -> Training:
    """Return the run with this noise multiplier."""
    return Training(sigma=sigma, rate=training.rate, steps=training.steps)


def replace_steps(training: Training, steps: int) -> Training:
    """Return the run with this number of steps."""
    return Training(sigma=training.sigma, rate=training.rate, steps=steps)


def _finish(unknown: Unknown, training: Training, delta: Fraction) -> TrainingPlan:
    assert training.sigma is not None
    assert training.steps is not None
    schedule = Schedule(training.rate, training.steps)
    bounds = certified_epsilon(make_training_event(training.sigma, schedule), delta)
    return TrainingPlan(unknown, training.sigma, schedule, bounds, float(delta))


def solve_sigma(training: Training, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the least noise multiplier, rounded up to `SIGMA_DIGITS` digits, with which the run costs at most ε."""
    assert training.steps is not None
    schedule = Schedule(training.rate, training.steps)
    guess = guess_scale(1.0, epsilon, delta, schedule.steps, schedule.rate)
    found = find_smallest_scale(lambda sigma: make_training_event(sigma, schedule), epsilon, delta, guess)
    return ceil_digits(found, SIGMA_DIGITS)


def solve_steps(training: Training, epsilon: Fraction, delta: Fraction) -> int:
    """Find the largest number of steps that costs at most ε.

    The number is bracketed around the guess of the central limit theorem, in which a step is a Gaussian of ratio
    rate·√(e^{1/σ²} − 1) [BDLS20]; only the speed depends on the guess.
    """
    sigma = training.sigma
    assert sigma is not None

    def costs(steps: int) -> float:
        return certified_epsilon(make_training_event(sigma, Schedule(training.rate, steps)), delta).upper

    if (one := costs(1)) > epsilon:
        reason = f"one step alone costs ε = {format_up(one)}"
        raise BadParameter("epsilon", format_decimal(epsilon), reason, "raise ε or σ, or lower the rate")
    ratio = float(training.rate) * expm1(min(700.0, 1 / float(sigma) ** 2)) ** 0.5
    guess = (gaussian_mu(epsilon, delta) / ratio) ** 2 if ratio else inf
    low, high = 1, max(2, int(min(guess, MAX_STEPS / 4)))
    while costs(high) <= epsilon:
        low, high = high, high * 2
        if high > MAX_STEPS:
            raise BadParameter("sigma", format_decimal(sigma), f"more than {MAX_STEPS:.0e} steps fit", "lower σ or ε")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if costs(middle) <= epsilon else (low, middle)
    return low
