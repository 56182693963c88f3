"""Calibration: which noise each statistic gets, what that costs, and how far off it may be. No row is read here.

**Theory of operation.** An analyst gives ε, or the error that the answer may have (`AccuracyTarget`). `Calibrator` turns an
error into the smallest ε that meets it, and ε into an amount of the account's currency. `calibrate_query` divides the
amount over the statistics (and partition selection, where keys are not declared): equally, unless columns are given
weights, so that the noise of every statistic stands in the same relation to its sensitivity. Each gets Laplace or Gaussian
noise, whichever has the smaller error at that cost in the account's currency. The result is a `Measurement`: frozen, with
its event, before any row is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, inf, isfinite, log
from typing import Any, TypeAlias

from discreet._numbers import (
    Number,
    check_confidence,
    check_int,
    check_positive,
    format_down,
    format_rational,
    format_up,
    nearest_float,
    parse_rational,
    read_positive,
    smallest_where,
    sqrt_up,
)
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import Currency, Filter, amount_or_zero
from discreet.errors import PARAMETER_PAGES, BadParameter, QueryRefused
from discreet.events import Composition, compose
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.noise.laplace import check_sampler_scale
from discreet.query import ast
from discreet.query.aggregates import Quantile
from discreet.query.contribution import BoundedQuery, check_work, grouping_keys
from discreet.query.estimates import Noise, StatisticNoise
from discreet.query.missing import SET_DELTA
from discreet.query.statistics import Statistic
from discreet.units import Sensitivity

COMPARISON_CONFIDENCE = 0.95
"""The confidence at which the errors of two kinds of noise are compared."""

SCALE_TOLERANCE = 2.0**-24
MAX_SECANT_STEPS = 10

MAX_EPSILON = 1 << 10
"""A search for accuracy stops at this ε: its guarantee means next to nothing."""

MAX_SIZE = 10**15

ColumnWeights: TypeAlias = Mapping[str, Fraction]


@dataclass(frozen=True)
class Measurement:
    """A query with its noise: everything that an account needs to charge it, and an engine to answer it."""

    bounded: BoundedQuery
    noises: tuple[tuple[Statistic, Noise], ...]
    selection: Threshold | None

    @cached_property
    def event(self) -> Composition:
        """What will have happened once it is released."""
        events = [noise.event(self.bounded.sensitivity(statistic)) for statistic, noise in self.noises]
        if self.selection is not None:
            return compose(*events, self.selection.event(self.bounded.selection_sensitivity))
        return compose(*events)

    def noise(self, statistic: Statistic) -> Noise:
        """Return the noise of one statistic."""
        return self.noise_by_statistic[statistic]

    @cached_property
    def noise_by_statistic(self) -> Mapping[Statistic, Noise]:
        """The noise of each statistic."""
        return dict(self.noises)

    def describe_noise(self, statistic: Statistic) -> str:
        """Return its mechanism in the unit of the column: the noise itself counts grid steps."""
        noise, step = self.noise_by_statistic[statistic], statistic.step_size(self.bounded.table)
        if isinstance(noise, Laplace):
            return f"Laplace(scale={nearest_float(noise.scale * step):.6g})"
        return f"Gaussian(sigma={nearest_float(noise.sigma * step):.6g})"

    def describe(self) -> tuple[str, ...]:
        """Say what is added to each exact statistic, one line each."""
        names: dict[Statistic, str] = {statistic: f"total{i}" for i, statistic in enumerate(self.bounded.scalars)}
        lines = [f"{names.get(each, 'counts')}: {each.name} + {self.describe_noise(each)}" for each, _ in self.noises]
        if self.selection is not None:
            lines.append(f"keys: shown if units + Laplace noise reaches {self.selection.threshold}")
        return tuple(lines)

    def predict(self, name: str, confidence: float, sizes: tuple[int, ...]) -> "ColumnAccuracy":
        """Return the noise and the half-widths of one column."""
        i = [column for column, _ in self.bounded.query.aggregates].index(name)
        noises = tuple((each.name, self.describe_noise(each)) for each in self.bounded.statistics_by_column[i])
        predicted = self.bounded.query.aggregates[i][1].predict(self.statistic_noise(confidence), sizes)
        return ColumnAccuracy(name, noises, *predicted)

    def statistic_noise(self, confidence: float) -> StatisticNoise:
        """Return the noise of all statistics, with their errors at this confidence."""
        return StatisticNoise(self.bounded.table, self.noise_by_statistic, confidence)


@dataclass(frozen=True, slots=True)
class ColumnAccuracy:
    """One column of an answer: its noise, and its half-width outright (`size` None) or over so many rows."""

    column: str
    noises: tuple[tuple[str, str], ...]  # the statistics it is computed from, and the noise of each
    half_widths: tuple[tuple[int | None, float], ...]
    relative_to: tuple[tuple[int | None, float], ...]  # what an error in percent is a percentage of
    unit: str = ""  # of the half-widths, if not the column's own

    def error_ratio(self, error: Fraction, *, relative: bool) -> Fraction | float:
        """Return how many times the allowed error the half-width is: as it is, or relative to what the column is
        relative to."""
        half_width = max(value for _, value in self.half_widths)
        allowed = error * (Fraction(min(value for _, value in self.relative_to)) if relative else 1)
        return Fraction(half_width) / allowed if isfinite(half_width) else inf

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "column": self.column,
            "noise": [{"total": statistic, "mechanism": noise} for statistic, noise in self.noises],
            "half_width": [{"size": size, "value": half_width} for size, half_width in self.half_widths],
            "unit": self.unit,
        }


def calibrate_query(
    bounded: BoundedQuery, currency: Currency, amount: Fraction, delta: Fraction, weights: ColumnWeights | None = None
) -> Measurement:
    """Spend an amount of the currency (and δ, if keys must be selected) on a query."""
    shares: dict[Statistic, Fraction] = {}  # the largest weight of the columns that need it
    for (name, _), statistics in zip(bounded.query.aggregates, bounded.statistics_by_column, strict=True):
        weight = Fraction(1) if weights is None else weights.get(name, Fraction(1))
        shares |= {each: max(shares.get(each, Fraction(0)), weight) for each in statistics}
    share = amount / (sum(shares.values()) + (bounded.keys is None))
    noises = tuple(
        (s, least_error_mechanism(bounded.sensitivity(s), currency, shares[s] * share)) for s in bounded.statistics
    )
    selection = _calibrate_selection(bounded, currency, share, delta) if bounded.keys is None else None
    measurement = Measurement(bounded, noises, selection)
    check_drawable(measurement)
    return measurement


@lru_cache(maxsize=256)
def least_error_mechanism(sensitivity: Sensitivity, currency: Currency, amount: Fraction) -> Noise:
    """Return the noise with the smallest error that costs this amount."""
    if currency.counts_epsilon:  # Laplace noise is exact in ε, and Gaussian noise has none
        return Laplace.for_epsilon(amount, sensitivity)
    variance = currency.gaussian_variance(amount, sensitivity.l2_squared)
    if variance is None:
        return _calibrate_laplace(sensitivity, currency, amount, 1.0)
    gaussian = Gaussian(sqrt_up(variance))
    if currency.prefers_gaussian or _is_laplace_worse(sensitivity, currency, amount, gaussian):
        return gaussian
    laplace = _calibrate_laplace(sensitivity, currency, amount, float(gaussian.sigma))
    choices: tuple[Noise, ...] = (laplace, gaussian)
    return min(choices, key=lambda noise: noise.error(COMPARISON_CONFIDENCE))


def _is_laplace_worse(sensitivity: Sensitivity, currency: Currency, amount: Fraction, gaussian: Gaussian) -> bool:
    """Return whether all Laplace noise at this cost has the larger error, without a search for the least of it: a scale
    whose error is already larger costs more than the amount, and less noise does not cost less."""
    scale = (gaussian.error(COMPARISON_CONFIDENCE) + 1) / -log(1 - COMPARISON_CONFIDENCE)
    laplace = Laplace(Fraction(scale * 1.01))
    return (
        laplace.error(COMPARISON_CONFIDENCE) > gaussian.error(COMPARISON_CONFIDENCE)
        and currency.cost(laplace.event(sensitivity))[0] > amount
    )


def _calibrate_laplace(sensitivity: Sensitivity, currency: Currency, amount: Fraction, start: float) -> Laplace:
    """Return the least Laplace noise at this cost, to about seven digits."""

    def cost(scale: float) -> Fraction | float:
        return currency.cost(Laplace(scale).event(sensitivity))[0]

    def ratio(scale: float) -> float:
        here = cost(scale)
        return inf if here == inf else nearest_float(Fraction(here) / amount)

    guess = _approximate_root(ratio, start)
    return Laplace(Fraction(smallest_where(lambda scale: cost(scale) <= amount, start, SCALE_TOLERANCE, guess=guess)))


def _approximate_root(ratio: Callable[[float], float], start: float) -> float:
    """Return about where a falling ratio, which is close to a power, passes 1. Only speed depends on it."""
    at, power, before = start, -2.0, None
    for _ in range(MAX_SECANT_STEPS):
        here = ratio(at)
        if not 0 < here < inf:
            break
        if before is not None and here != before[1]:
            power = log(here / before[1]) / log(at / before[0])
        before = at, here
        following = at * here ** (-1 / power) if power < 0 else at
        if not 0 < following < inf or abs(following / at - 1) < SCALE_TOLERANCE / 8:
            break
        at = following
    return at


def check_drawable(measurement: Measurement) -> None:
    """Refuse noise that the samplers are not made for, before it is paid for."""
    scales = [noise.sigma if isinstance(noise, Gaussian) else noise.scale for _, noise in measurement.noises]
    for scale in scales if measurement.selection is None else [*scales, measurement.selection.scale]:
        try:
            check_sampler_scale(scale)
        except BadParameter:
            if scale > 1:
                reason, hint = "wider than 2^50 grid steps", "pay more, or declare tighter bounds or fewer rows"
            else:
                reason, hint = "narrower than 2^-60 grid steps", "pay less"
            raise QueryRefused(f"The noise of this query would be {reason}", hint) from None


def _calibrate_selection(bounded: BoundedQuery, currency: Currency, amount: Fraction, delta: Fraction) -> Threshold:
    """Return noise and threshold on distinct units, at this cost and δ."""
    if delta <= 0:
        unknown = [group for group in bounded.query.groups if grouping_keys(group, bounded.table) is None]
        keys, value = " and ".join(group.name for group in unknown), unknown[0].value
        declare = f'declare them (keys={{"{unknown[0].name}": ["a", "b", "c"]}})'
        if isinstance(value, ast.DatePart | ast.DateTrunc):
            declare = f'declare the bounds of the dates (bounds={{"{value.column.column}": ("2024-01-01", "2024-12-31")}})'
        if not currency.spends_delta:
            reason = f"The keys of {keys} are not declared, and an account in {currency.family} has no δ to discover them"
            raise QueryRefused(reason, f"{declare}, or use an account in zcdp", parameter="keys")
        raise QueryRefused(
            f"The keys of {keys} are not declared",
            f"{declare}, or {SET_DELTA}",
            parameter="keys",
        )
    sensitivity = bounded.selection_sensitivity
    if currency.counts_epsilon:
        return Threshold.for_epsilon(amount, delta, sensitivity)
    noise = _calibrate_laplace(sensitivity, currency, amount, 1.0)
    return Threshold.for_epsilon(sensitivity.l1 / noise.scale if sensitivity.l1 else amount, delta, sensitivity)


def read_error(error: str | Number) -> tuple[Fraction, bool]:
    """Return an allowed error, and whether it is relative.

    >>> read_error("5%"), read_error(20), read_error("±0.5")
    ((Fraction(1, 20), True), (Fraction(20, 1), False), (Fraction(1, 2), False))
    """
    if not isinstance(error, str):
        return read_positive(error, "error"), False
    text = error.strip().removeprefix("±").strip()
    try:
        found = parse_rational(text.removesuffix("%").strip())
    except BadParameter:
        raise BadParameter("error", repr(error), "not an error", 'write "5%" or a number') from None
    return check_positive(found / 100 if text.endswith("%") else found, "error"), text.endswith("%")


def read_weights(weights: Mapping[str, Number], columns: tuple[str, ...]) -> dict[str, Fraction]:
    """Return how the cost is divided over the columns; one that is not named weighs 1.

    >>> read_weights({"n": 2}, ("n", "mean"))
    {'n': Fraction(2, 1), 'mean': Fraction(1, 1)}
    """
    if not isinstance(weights, Mapping):
        raise BadParameter("weights", f"of type {type(weights).__name__}", "not weights by column", 'give weights={"n": 2}')
    for name in weights:
        if name not in columns:
            raise BadParameter("weights", repr(name), "no such column in this query", f"name {', '.join(columns)}")
    return {name: read_positive(weights.get(name, 1), "weights") for name in columns}


def check_size(size: int) -> int:
    """Check a number of rows that an answer may rest on."""
    if check_int(size, "size", 1) > MAX_SIZE:
        raise BadParameter(
            "size", format_rational(Fraction(size)), "no group has so many rows", f"give at most {MAX_SIZE:,}"
        )
    return int(size)


@dataclass(frozen=True, slots=True)
class AccuracyTarget:
    """What an analyst says about a query's cost: ε, or the error that it may have, relative to a size."""

    epsilon: Number | None = None
    error: str | Number | None = None
    size: int | None = None
    confidence: float = 0.95
    weights: Mapping[str, Number] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", check_confidence(self.confidence))
        if self.size is not None:
            check_size(self.size)

    def lacks_size(self, bounded: BoundedQuery) -> bool:
        """Return whether the error is relative to a size that is not given."""
        if self.error is None or self.size is not None:
            return False
        _, relative = read_error(self.error)
        return relative or any(aggregate.depends_on_size for _, aggregate in bounded.query.aggregates)

    def make_error_ratio(self, bounded: BoundedQuery) -> Callable[[Measurement, str], Fraction | float]:
        """Return a function: the ratio of a column's half-width to the error. Refuse where no measurement could say so."""
        assert self.error is not None
        allowed, relative = read_error(self.error)
        if not relative and any(isinstance(aggregate, Quantile) for _, aggregate in bounded.query.aggregates):
            raise QueryRefused(
                "The error of a quantile's value depends on the data; beforehand only the error of its rank is known",
                'give a share of the rows, error="2%" with size=, or an ε',
            )
        if self.lacks_size(bounded):
            raise QueryRefused(
                "This error is relative to the number of rows, which is private",
                "give the smallest group that matters, size=1000, or the ε that a private count of it may cost, pilot=0.01",
                parameter="size",
            )
        sizes = (1,) if self.size is None else (check_size(self.size),)

        def error_ratio(measurement: Measurement, name: str) -> Fraction | float:
            return measurement.predict(name, self.confidence, sizes).error_ratio(allowed, relative=relative)

        return error_ratio

    def make_accuracy_check(self, bounded: BoundedQuery) -> Callable[[Measurement], bool]:
        """Return a function: whether a measurement's half-widths are all within the error."""
        ratio, names = self.make_error_ratio(bounded), [name for name, _ in bounded.query.aggregates]
        return lambda measurement: all(ratio(measurement, name) <= 1 for name in names)


@dataclass(frozen=True, slots=True)
class EpsilonChoice:
    """The ε of a query, how its cost is divided over the columns, and what a quote and an answer say about it."""

    epsilon: Fraction
    weights: ColumnWeights | None = None
    notes: tuple[str, ...] = ()


def explain_raised_epsilon(least: Fraction) -> str:
    """Say that an error needs less than the least ε."""
    return f"This error needs an ε below the policy's least_epsilon, so ε was raised to {format_up(least, 6)}."


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Calibrates queries against one account: its budget, the δ at which its ε is stated, and the budget of its root, whose
    limits divide δ over the queries of a family; its own where it has no parent."""

    budget: Filter
    delta: Fraction
    family: Filter | None = None

    def calibrate(
        self,
        bounded: BoundedQuery,
        epsilon: Fraction,
        weights: ColumnWeights | None = None,
        fraction: Fraction = Fraction(1),
        name: str = "epsilon",
    ) -> Measurement:
        """Return the query with the noise that this part of ε buys.

        Raises:
            BadParameter: if that is less than the policy's `least_epsilon` buys; the message calls ε by this `name`.
        """
        least, currency = bounded.table.least_epsilon, self.budget.currency
        if epsilon < least:
            raise make_least_epsilon_error(name, epsilon, least)
        # Each debit costs at least what `least_epsilon` buys in the account's currency; for a whole ε that is to compare the
        # two ε, because what ε buys grows with it.
        if fraction < 1 and currency.amount(epsilon, self.delta) * fraction < amount_or_zero(currency, least, self.delta):
            raise BadParameter(
                name,
                format_down(epsilon, 6),
                f"a part of it discovers bounds, and that part is below the policy's least_epsilon = {format_up(least, 6)}",
                f"give a larger {name}, or declare the bounds",
            )
        return self._calibrate(bounded, epsilon, weights, fraction)

    def _calibrate(
        self, bounded: BoundedQuery, epsilon: Fraction, weights: ColumnWeights | None, fraction: Fraction = Fraction(1)
    ) -> Measurement:
        amount = self.budget.currency.amount(epsilon, self.delta) * fraction
        return calibrate_query(bounded, self.budget.currency, amount, self.selection_delta(amount), weights)

    def selection_delta(self, amount: Fraction) -> Fraction:
        """Return the δ that partition selection may use in a query of this cost: the same share of δ as of the budget.

        The root's limits decide, so that a query has the same threshold in every account of a family. They do not where the
        account has too little δ of its own for that: it would run out of δ before its budget.
        """
        own, family = self.budget, self.budget if self.family is None else self.family
        lasts = own.delta_limit >= family.delta_limit * min(Fraction(1), own.limit / family.limit)
        split = family if lasts else own
        return split.delta_limit * min(Fraction(1), amount / split.limit)

    def choose_epsilon(self, bounded: BoundedQuery, target: AccuracyTarget) -> EpsilonChoice:
        """Return the given ε, or the smallest, to three digits, at which every column's half-width is at most the error;
        the policy's `least_epsilon` if that is smaller still."""
        if (target.epsilon is None) == (target.error is None):
            raise BadParameter(
                "epsilon",
                "missing" if target.epsilon is None else "given",
                "a query has either an ε or an error",
                'give epsilon=0.5, or error="5%" with size=',
            )
        columns = [name for name, _ in bounded.query.aggregates]  # below: whose error is not yet known to be small enough
        weights = None if target.weights is None else read_weights(target.weights, tuple(columns))
        if target.epsilon is not None:
            return EpsilonChoice(read_positive(target.epsilon, "epsilon"), weights)
        ratio = target.make_error_ratio(bounded)
        check_work(bounded, for_error=True)

        def largest_ratio(epsilon: Fraction) -> Fraction | float:
            try:
                measurement = self._calibrate(bounded, epsilon, weights)
            except (BadParameter, QueryRefused):  # too small to buy anything, or noise too wide to be drawn
                return inf
            ratios = {name: ratio(measurement, name) for name in columns}
            largest = max(ratios.values())
            if largest > 1:  # every ε that follows is larger, where a column that is good enough here stays so
                columns[:] = [name for name, value in ratios.items() if value > 1]
            return largest

        found, least = find_smallest_epsilon(largest_ratio), bounded.table.least_epsilon
        return EpsilonChoice(max(found, least), weights, (explain_raised_epsilon(least),) if found < least else ())

    def cost_of(self, event: Composition, remaining: Fraction | None = None) -> Cost:
        """Return what an event costs in this account, with what remains after it or now."""
        amount, _ = self.budget.currency.cost(event)
        remaining = self.budget.remaining if remaining is None else remaining
        return Cost(event, self.delta, self.budget.currency, amount, remaining, self.budget.limit)


def make_least_epsilon_error(name: str, epsilon: Fraction, least: Fraction) -> BadParameter:
    """Return the refusal of an ε that the policy does not allow."""
    refused = BadParameter(
        name,
        format_down(epsilon, 6),
        f"it is below the policy's least_epsilon = {format_up(least, 6)}",
        f"give at least {format_up(least, 6)}, or ask the data owner to lower least_epsilon",
    )
    refused.see = PARAMETER_PAGES["least_epsilon"]
    return refused


def find_smallest_epsilon(error_ratio: Callable[[Fraction], Fraction | float]) -> Fraction:
    """Return the least ε of three digits at which the ratio of the error to the allowed one is at most 1.

    The ratio never grows with ε, so its side of 1 alone decides. Its size only says where to look next: it is about a power
    of ε, the first guess being 1/ε. Outside a bracket, steps grow fourfold; inside one, a guess that does not halve it is
    followed by its middle.

    >>> looks = []
    >>> find_smallest_epsilon(lambda epsilon: looks.append(epsilon) or Fraction(1, 300) / epsilon), len(looks)
    (Fraction(167, 50000), 4)
    """
    low, high = FIRST_PLACE - 1, LAST_PLACE + 1
    at, stride, slope, width = _place_of(0.0), 1, -1.0, high - low
    seen: tuple[float, float] | None = None
    while high - low > 1:
        ratio = error_ratio(_decimal_at(at))
        here = log(_decimal_at(at)), log(ratio) if 0 < ratio < inf else inf
        low, high = (low, at) if ratio <= 1 else (at, high)
        if seen is not None and isfinite(here[1]) and isfinite(seen[1]) and here[1] != seen[1]:
            slope = (here[1] - seen[1]) / (here[0] - seen[0])
        seen = here
        following = _place_of(here[0] - here[1] / slope) if isfinite(here[1]) and slope < 0 else at
        if low < FIRST_PLACE or high > LAST_PLACE:
            following = min(following, at - stride) if ratio <= 1 else max(following, at + stride)
            stride *= 4
        elif 2 * (high - low) > width:
            following = (low + high) // 2
        width = high - low
        at = min(max(following, low + 1), high - 1)
    if high > LAST_PLACE:
        raise QueryRefused(f"No ε up to {MAX_EPSILON} is accurate enough", "allow a larger error, or declare tighter bounds")
    return _decimal_at(high)


FIRST_PLACE, LAST_PLACE = -9 * 900, 3 * 900 + 2
"""Decimals of three digits in order, 900 to a power of ten, 1.00 at 0: from 1.00e-9, the least ε that a search proposes, to
1.02e3, the last below MAX_EPSILON."""


def _decimal_at(place: int) -> Fraction:
    power, digits = divmod(place, 900)
    return (100 + digits) * Fraction(10) ** (power - 2)


def _place_of(logarithm: float) -> int:
    """Return the place of the first decimal of three digits that is not below e^logarithm, within the range of a search."""
    power, rest = divmod(min(max(logarithm / log(10), -9), 4), 1)
    return min(max(900 * int(power) + ceil(100 * 10**rest - 1e-9) - 100, FIRST_PLACE), LAST_PLACE)
