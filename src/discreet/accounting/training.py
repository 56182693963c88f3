"""DP-SGD as an event: noisy sums of clipped gradients, each over a fresh Poisson sample of the records.

A step includes every record independently with probability q, clips each gradient to the norm C, adds up the clipped
gradients and adds Gaussian noise of standard deviation σ·C to each coordinate of the sum. The *noise multiplier* σ is the
noise in units of the *clipping norm*, so the sensitivity is 1 whatever C is. T steps are the event
`repeat(subsample(Gaussian(σ), q), T)` [ACG16, MTZ19]; what an optimiser does with the noisy sums is post-processing.

Hypotheses, which no accountant can check. Records join a step independently of each other and of other steps: batches of a
shuffled list do not. The clipped gradient of a record depends on that record and on earlier noisy sums only. The noisy sum
is divided by a constant, not by the size of the batch. A record is all that one privacy unit contributes; where a unit has k
records, take `group(event, k)`. An empty batch is a step like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from discreet._numbers import Number, check_int, check_positive, format_decimal, format_up, parse_rational, read_decimal
from discreet.errors import BadParameter
from discreet.events import Event, GaussianEvent, group, repeat, subsample
from discreet.units import Neighbours, Sensitivity

MAX_STEPS = 10**15


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often each record is sampled: with probability `rate` in each of `steps` steps.

    >>> print(Schedule(Fraction(256, 60000), 14063))
    q = 8/1875 = 0.004267, T = 14,063 steps (60.0022 epochs)
    """

    rate: Fraction
    steps: int

    @property
    def epochs(self) -> Fraction:
        """How often a record is sampled on average."""
        return self.rate * self.steps

    def __str__(self) -> str:
        return f"{format_rate(self.rate)}, T = {self.steps:,} steps ({format_up(self.epochs, 6)} epochs)"


def format_rate(rate: Fraction) -> str:
    """Write a sampling rate as a fraction, and as a decimal beside it.

    >>> format_rate(Fraction(1, 235)), format_rate(Fraction(1))
    ('q = 1/235 = 0.004256', 'q = 1')
    """
    return f"q = {rate}" if rate == 1 else f"q = {rate} = {format_up(rate)}"


def dpsgd(
    *,
    sigma: Number | str,
    batch: int | None = None,
    n: int | None = None,
    rate: Number | str | None = None,
    epochs: Number | str | None = None,
    steps: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Event:
    """Return the event of training with DP-SGD and Poisson sampling.

    Args:
        sigma: the noise multiplier: the standard deviation of the noise divided by the clipping norm.
        batch: the expected size of a batch; with `n` it gives the rate q = batch/n, exactly.
        n: the number of records. Take a public one: q and the number of steps must not depend on the data.
        rate: or the rate itself, "1/235" or 0.01, read as the decimal that is written.
        epochs: how often a record is sampled on average; the number of steps is T = ⌈epochs/q⌉, rounded up.
        steps: or the number of steps itself.
        neighbours: "add-remove" one record, or "replace" one, which is accounted for as a group of two.

    >>> import discreet
    >>> run = discreet.dpsgd(sigma=1.1, batch=256, n=60_000, epochs=60)
    >>> discreet.epsilon(run, 1e-5)
    Bounds(lower=2.38..., upper=2.38...)
    >>> run == discreet.dpsgd(sigma=1.1, rate="256/60000", steps=14_063)
    True
    >>> discreet.dpsgd(sigma=1.1, batch=256, epochs=60)
    Traceback (most recent call last):
    discreet.errors.BadParameter: n is missing: the rate is batch/n. Give n=, the number of records, or rate= alone.
    """
    schedule = read_schedule(batch=batch, n=n, rate=rate, epochs=epochs, steps=steps)
    return make_training_event(check_positive(read_number(sigma, "sigma"), "sigma"), schedule, neighbours)


def make_training_event(sigma: Fraction, schedule: Schedule, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Event:
    """Return the event of the steps of a schedule with this noise multiplier.

    A replaced record is one that goes and one that comes: another pair of distributions than those of a record that comes,
    and neither twice its ε nor its curve at twice the clipping norm. `group` has it.
    """
    relation = neighbours if isinstance(neighbours, Neighbours) else Neighbours.parse(neighbours)
    step = subsample(GaussianEvent(sigma, Sensitivity(l2=1)), schedule.rate)
    return group(repeat(step, schedule.steps), relation.differing_units)


def read_schedule(
    *,
    batch: int | None = None,
    n: int | None = None,
    rate: Number | str | None = None,
    epochs: Number | str | None = None,
    steps: int | None = None,
) -> Schedule:
    """Read the rate and the number of steps from what is given of a training run.

    >>> read_schedule(batch=100, n=350, epochs=2)
    Schedule(rate=Fraction(2, 7), steps=7)
    """
    exact = read_rate(batch=batch, n=n, rate=rate)
    count = read_steps(exact, epochs=epochs, steps=steps)
    if count is None:
        raise BadParameter("epochs", "missing", "the cost depends on the number of steps", "give epochs= or steps=")
    return Schedule(exact, count)


def read_rate(*, batch: int | None, n: int | None, rate: Number | str | None) -> Fraction:
    """Return the sampling rate: `rate`, or batch/n as an exact rational.

    >>> read_rate(batch=256, n=60_000, rate=None)
    Fraction(8, 1875)
    """
    if rate is not None:
        for name, value in (("batch", batch), ("n", n)):
            if value is not None:
                raise BadParameter(name, value, "rate is given too", "give rate= alone, or batch= and n=")
        exact = read_number(rate, "rate")
        if not 0 < exact <= 1:
            raise BadParameter("rate", format_decimal(exact), "not a probability", "give one above 0 and at most 1")
        return exact
    if batch is None and n is None:
        raise BadParameter("rate", "missing", "the cost depends on it", "give batch= and n=, or rate=")
    if n is None:
        raise BadParameter("n", "missing", "the rate is batch/n", "give n=, the number of records, or rate= alone")
    if batch is None:
        raise BadParameter("batch", "missing", "the rate is batch/n", "give batch=, the expected size, or rate= alone")
    size, records = check_int(batch, "batch", 1), check_int(n, "n", 1)
    if size > records:
        raise BadParameter("batch", f"{size:,}", f"larger than n = {records:,}", "give the expected size of a batch")
    return Fraction(size, records)


def read_steps(rate: Fraction, *, epochs: Number | str | None, steps: int | None) -> int | None:
    """Return the number of steps: `steps`, or ⌈epochs/rate⌉; None if neither is given.

    >>> read_steps(Fraction(2, 7), epochs=2, steps=None), read_steps(Fraction(1, 2), epochs=None, steps=3)
    (7, 3)
    """
    if epochs is None and steps is None:
        return None
    if epochs is not None and steps is not None:
        raise BadParameter("steps", steps, "epochs is given too", "give one of the two")
    if steps is not None:
        name, count = "steps", check_int(steps, "steps", 1)
    else:
        assert epochs is not None
        name, count = "epochs", ceil(check_positive(read_number(epochs, "epochs"), "epochs") / rate)
    if count > MAX_STEPS:
        raise BadParameter(name, f"{count:.3g} steps", f"more than {MAX_STEPS:.0e}", "give fewer")
    return count


def read_number(value: Number | str, name: str) -> Fraction:
    """Read a number as it is written: text as a decimal or a quotient, a float at its shortest decimal."""
    return parse_rational(value, name) if isinstance(value, str) else read_decimal(value, name)
