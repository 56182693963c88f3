"""Neighbouring relations, and sensitivity: how far one privacy unit can move a vector of exact statistics.

A `Sensitivity` bounds the change over all neighbouring data sets in four norms: how many coordinates change (l0), the sum of
the changes (l1), their Euclidean length (l2) and the largest change (linf). A norm that is not given is filled in from the
inequalities between norms:

    linf ≤ l2 ≤ l1 ≤ √l0·l2,   l1 ≤ l0·linf,   l2² ≤ l1·linf.

k counts that one unit can all change by one have l1 = k and l2 = √k, not the other way round.

**Invariants** are exact counts h(x) that are published, such as the number of people of each state. Neighbours with other
counts are told apart with certainty, so what remains is a guarantee *among data sets with the same counts*.

**Proof.** Let M be the noisy part, with ρ for all neighbours. If h(x) = h(x'), then (h, M)(x) and (h, M)(x') differ in M
alone, so they are as far apart as M(x) and M(x'): ρ for neighbours, and by group privacy m²·ρ if x and x' differ in m units,
whether or not the data sets between them have the same counts. If h(x) ≠ h(x'), nothing is guaranteed. ∎

Composition is for one h: of two publications with other invariants, together only what both of them condition on is
guaranteed, and that may leave no neighbours. Under add/remove one unit more or less changes its own count, so no two
neighbours have the same counts, and the guarantee would be empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

from discreet._numbers import (
    Number,
    ceil_float,
    check_int,
    check_positive,
    format_rational,
    sqrt_up,
    to_rational,
)
from discreet.errors import BadParameter, DiscreetError, PlanRefused


class Neighbours(Enum):
    """A neighbouring relation: which two data sets must be hard to tell apart."""

    ADD_REMOVE = "add-remove", "add or remove one unit", 1
    REPLACE = "replace", "replace one unit, the number of units being public", 2

    definition: str
    """The relation in words. Measurement hashes and certificates hold these texts: they never change."""

    differing_units: int
    """How many units differ: one that comes or goes, or one that goes and another that comes."""

    def __new__(cls, value: str, definition: str, differing_units: int) -> "Neighbours":
        member = object.__new__(cls)
        member._value_, member.definition, member.differing_units = value, definition, differing_units
        return member

    @classmethod
    def parse(cls, text: str, name: str = "neighbours") -> "Neighbours":
        """Read a relation by its name; a refusal calls the parameter `name`.

        >>> Neighbours.parse("replace")
        <Neighbours.REPLACE: 'replace'>
        """
        by_name = {relation.value: relation for relation in cls}
        if not isinstance(text, str) or text not in by_name:
            raise BadParameter(name, repr(text), "no such relation", f"take {' or '.join(by_name)}")
        return by_name[text]


AMONG = ", among data sets with the same "
"""What stands between a neighbouring relation and the invariants on which it is conditional. Ledgers hold it: it stays."""

MAX_REASON_LENGTH = 1000


@dataclass(frozen=True, slots=True, order=True)
class Invariant:
    """Exact counts that are public: the number of rows for each value of some columns, and why it is public.

    >>> Invariant(("state",), "The law demands exact counts for apportionment.").counts
    'number of rows for each `state`'
    """

    by: tuple[str, ...]
    public: str

    def __post_init__(self) -> None:
        names = (self.by,) if isinstance(self.by, str) else self.by
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
            raise BadParameter("invariants", repr(names), "not columns", HOW_TO_DECLARE)
        if not names or len(set(names)) < len(names):
            raise BadParameter("invariants", repr(names), "not a list of different columns", HOW_TO_DECLARE)
        reason = self.public
        if not isinstance(reason, str) or not reason.strip() or len(reason) > MAX_REASON_LENGTH or not reason.isprintable():
            raise BadParameter(
                "invariants", f"{_quote(names)} without a reason",
                "exact counts are not protected, so the publication must say why they are public", HOW_TO_DECLARE,
            )  # fmt: skip
        object.__setattr__(self, "by", tuple(sorted(names)))
        object.__setattr__(self, "public", reason.strip())

    @property
    def counts(self) -> str:
        """What is exact, in words."""
        return f"number of rows for each {_quote(self.by)}"


HOW_TO_DECLARE = 'give each with the reason why it is public: {"state": "the law demands exact counts of each state"}'


def read_invariants(
    given: Any, neighbours: Neighbours, columns: Iterable[str], unit: Sequence[str]
) -> tuple[Invariant, ...]:
    """Return the invariants of a source: reasons by column, or by columns with commas between them. None if None are given.

    `columns` are those of the table, and `unit` those that identify the privacy unit. Everything that is wrong is refused at
    once.

    >>> read_invariants({"state": "by law"}, Neighbours.ADD_REMOVE, ["id", "state"], ["id"])
    Traceback (most recent call last):
    discreet.errors.BadParameter: neighbours is 'add-remove': one unit more or less changes an exact count, so with \
invariants no two data sets would be neighbours and nothing would be guaranteed. Give neighbours="replace", or leave \
invariants out.
    """
    if given is None or (isinstance(given, Mapping) and not given):
        return ()
    if not isinstance(given, Mapping):
        raise BadParameter("invariants", repr(given), "not a reason for each", HOW_TO_DECLARE)
    problems: list[DiscreetError] = []
    found: list[Invariant] = []
    if neighbours is Neighbours.ADD_REMOVE:
        problems.append(BadParameter(
            "neighbours", repr(neighbours.value), "one unit more or less changes an exact count, so with invariants no two "
            "data sets would be neighbours and nothing would be guaranteed",
            'give neighbours="replace", or leave invariants out',
        ))  # fmt: skip
    known = set(columns)
    for name, reason in given.items():
        by = tuple(each.strip() for each in name.split(",")) if isinstance(name, str) else name
        try:
            found.append(Invariant(by, reason))
        except BadParameter as wrong:
            problems.append(wrong)
            continue
        missing = [each for each in found[-1].by if each not in known]
        if missing:
            hint = f"take columns of the table: {', '.join(sorted(known))}"
            problems.append(BadParameter("invariants", _quote(missing), "not in the table", hint))
        if set(unit) & set(by):
            problems.append(BadParameter(
                "invariants", _quote(by), "a count for each privacy unit leaves nothing to protect",
                "take columns that many units share",
            ))  # fmt: skip
    if len({each.by for each in found}) < len(found):
        problems.append(BadParameter("invariants", repr(given), "the same columns are given twice", "give them once"))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise PlanRefused(problems, "The list of invariants")
    return tuple(sorted(found))


def invariants_to_json(invariants: Iterable[Invariant]) -> list[dict[str, Any]]:
    """Return invariants as plain values, which measurement hashes and certificates hold.

    >>> invariants_to_json([Invariant(("state",), "by law")])
    [{'by': ['state'], 'public': 'by law'}]
    """
    return [{"by": list(each.by), "public": each.public} for each in invariants]


def invariants_from_json(values: Any) -> tuple[Invariant, ...]:
    """Return what `invariants_to_json` wrote. Raise `BadParameter` if it is something else.

    >>> invariants_from_json([{"by": ["state"], "public": "by law"}])
    (Invariant(by=('state',), public='by law'),)
    """
    try:
        found = tuple(Invariant(tuple(each["by"]), each["public"]) for each in values)
    except (TypeError, KeyError):
        found = ()
    if not found or invariants_to_json(sorted(found)) != values:
        raise BadParameter(
            "invariants", "of the measurement", "not as this version writes them", "read the certificate again"
        )
    return found


def describe_condition(invariants: Iterable[Invariant]) -> str:
    """Write what the data sets of a guarantee have in common, for `AMONG`; the order of invariants does not matter.

    >>> describe_condition([Invariant(("state",), "by law"), Invariant(("age", "sex"), "by law")])
    'number of rows for each `age` and `sex`, and number of rows for each `state`'
    """
    return ", and ".join(each.counts for each in sorted(invariants))


def _quote(names: Sequence[str]) -> str:
    return " and ".join("`" + name.replace("`", "``") + "`" for name in names)


@dataclass(frozen=True, slots=True, init=False)
class Sensitivity:
    """Bounds on how far one unit moves a vector of exact statistics.

    >>> Sensitivity(l0=4, linf=1)
    Sensitivity(l0=4, l1=4, l2=2, linf=1)
    >>> Sensitivity(l1=1, linf=2)
    Traceback (most recent call last):
    discreet.errors.BadParameter: linf is 2: cannot exceed l1 = 1. State norms of one and the same change.
    """

    l0: int | None  # None: no bound on the number of coordinates is known
    l1: Fraction | None  # None: no bound is known
    l2_squared: Fraction
    linf: Fraction

    def __init__(
        self,
        *,
        l0: int | None = None,
        l1: Number | None = None,
        l2: Number | None = None,
        linf: Number | None = None,
        l2_squared: Number | None = None,
    ) -> None:
        if l2 is not None and l2_squared is not None:
            raise BadParameter(
                "l2", format_rational(to_rational(l2)), "l2_squared says the same thing", "give one of the two"
            )
        if l2 is not None:
            l2_squared = check_positive(l2, "l2") ** 2
        count = None if l0 is None else check_int(l0, "l0", 1)
        sums = None if l1 is None else check_positive(l1, "l1")
        squares = None if l2_squared is None else check_positive(l2_squared, "l2_squared")
        most = None if linf is None else check_positive(linf, "linf")
        if sums is not None or squares is not None:  # l0 and linf alone contradict nothing
            _refuse_contradictions(count, sums, squares, most)
        # Each norm that is not given gets the smallest bound that follows from those given and those derived before it.
        above = [bound for bound in (most, sums, None if squares is None else sqrt_up(squares)) if bound is not None]
        if not above and count is not None:
            reason, hint = (
                "it bounds no norm",
                "add how much one coordinate moves at most, for example linf=1, or give l1 or l2",
            )
            raise BadParameter("sensitivity", f"l0={count} alone", reason, hint)
        if not above:
            raise BadParameter("sensitivity", "empty", "no norm is bounded", "give l1, l2 or linf")
        most = min(above)
        if sums is None and count is not None:
            sums = count * most if squares is None else min(count * most, sqrt_up(count * squares))
        if squares is None and sums is None:
            raise BadParameter(
                "sensitivity",
                f"linf = {format_rational(most)} alone",
                "bounds no sum of changes",
                "add l0, the number of coordinates that one unit can change, or l1 or l2",
            )
        if squares is None and sums is not None:
            squares = sums * most if count is None else min(sums * most, count * most**2)
        for name, value in (("l0", count), ("l1", sums), ("l2_squared", squares), ("linf", most)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        norms = {"l0": self.l0, "l1": self.l1, "l2": self.l2, "linf": self.linf}
        return f"Sensitivity({', '.join(f'{k}={_format_norm(v)}' for k, v in norms.items() if v is not None)})"

    @property
    def l2(self) -> Fraction:
        """The Euclidean bound, rounded up where it is irrational."""
        return sqrt_up(self.l2_squared)

    def to_grid(self, grid: Fraction) -> "Sensitivity":
        """Return the sensitivity, in grid steps, of the statistics rounded to the nearest multiple of `grid`.

        A grid of 1 is for statistics that are integers already: nothing changes.

        **Proof.** ⌊a + ½⌋ and ⌊b + ½⌋ differ by at most ⌈|a − b|⌉ ≤ |a − b| + 1, and not at all where a = b. So only the
        l0 changed coordinates gain, each at most one step: linf → ⌈linf/g⌉, l1 → l1/g + l0, and by Minkowski
        l2 → l2/g + √l0.
        """
        if check_grid(grid) == 1:
            return self
        if self.l0 is None:
            raise BadParameter(
                "sensitivity",
                self,
                "rounding to a grid moves every changed coordinate and l0 is unknown",
                "give l0, the number of coordinates that one unit can change",
            )
        most = Fraction(ceil(self.linf / grid))
        sums = self.l0 * most if self.l1 is None else min(self.l0 * most, self.l1 / grid + self.l0)
        scaled = self.l2_squared / grid**2
        squares = min(self.l0 * most**2, scaled + 2 * sqrt_up(scaled * self.l0) + self.l0)
        return Sensitivity(l0=self.l0, l1=sums, l2_squared=min(squares, sums * most), linf=most)

    def scale_by(self, factor: Number) -> "Sensitivity":
        """Return the sensitivity of the same statistics multiplied by `factor`."""
        scale = check_positive(factor, "factor")
        return Sensitivity(
            l0=self.l0,
            l1=None if self.l1 is None else self.l1 * scale,
            l2_squared=self.l2_squared * scale**2,
            linf=self.linf * scale,
        )


def to_sensitivity(bound: "Sensitivity | Number") -> Sensitivity:
    """Return the sensitivity that a parameter means: a plain number is one statistic that moves by at most that much."""
    if isinstance(bound, Sensitivity):
        return bound
    return Sensitivity(l0=1, linf=check_positive(bound, "sensitivity"))


def check_grid(grid: Number) -> Fraction:
    """Return `grid` as a rational; refuse what is not a power of two, 2^k for some integer k.

    >>> check_grid(0.25)
    Fraction(1, 4)
    """
    step = to_rational(grid, "grid")
    top, bottom = step.numerator, step.denominator
    if top <= 0 or top & (top - 1) or bottom & (bottom - 1):
        raise BadParameter("grid", format_rational(step), "must be a power of two", "take 2^k, for example 1/1024")
    return step


def count(neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of one count of units: 1 under both relations (a replaced unit moves it by −1, 0 or 1)."""
    return Sensitivity(l0=1, linf=1)


def counts(k: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of k counts that may overlap: one unit can move all of them by one, so l1 = k and l2 = √k."""
    return Sensitivity(l0=check_int(k, "k", 1), linf=1)


def histogram(neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of counts over disjoint cells, however many.

    One cell changes by 1 if a unit is added or removed; two change, l1 = 2 and l2 = √2, if a unit is replaced.
    """
    return Sensitivity(l0=neighbours.differing_units, linf=1)


def bounded_sum(lower: Number, upper: Number, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of a sum of values clipped to [lower, upper].

    It is the largest |value| that can be added or removed, or the width of the interval if a unit is replaced.
    """
    low, high = _check_interval(lower, upper)
    return to_sensitivity(max(abs(low), abs(high)) if neighbours is Neighbours.ADD_REMOVE else high - low)


def mean(lower: Number, upper: Number, n: int, neighbours: Neighbours = Neighbours.REPLACE) -> Sensitivity:
    """Return the sensitivity of the mean of n values clipped to [lower, upper], n public: (upper − lower)/n.

    If units are added or removed then n is not public, and a mean must be released as a sum and a count.
    """
    if neighbours is Neighbours.ADD_REMOVE:
        raise BadParameter(
            "neighbours", "ADD_REMOVE", "a mean at fixed n needs a public n", "use REPLACE, or release a sum and a count"
        )
    low, high = _check_interval(lower, upper)
    return to_sensitivity((high - low) / check_int(n, "n", 1))


def proportion(n: int, neighbours: Neighbours = Neighbours.REPLACE) -> Sensitivity:
    """Return the sensitivity of the share of n units, n public, that satisfy a predicate: 1/n."""
    return mean(0, 1, n, neighbours)


def _check_interval(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    low, high = to_rational(lower, "lower"), to_rational(upper, "upper")
    if low >= high:
        raise BadParameter(
            "lower", format_rational(low), f"must lie below upper = {format_rational(high)}", "clip to a proper interval"
        )
    return low, high


def _format_norm(value: int | Fraction) -> str:
    return str(value) if isinstance(value, int) or value.denominator < 1000 else f"{ceil_float(value):.12g}"


def _refuse_contradictions(l0: int | None, l1: Fraction | None, squares: Fraction | None, linf: Fraction | None) -> None:
    """Refuse norms that break the inequalities above: no change can have them, so one of them is a mistake."""
    ascending = [("linf", None if linf is None else linf**2), ("l2", squares), ("l1", None if l1 is None else l1**2)]
    given = [(name, square) for name, square in ascending if square is not None]
    for (small, low), (large, high) in pairwise(given):
        if low > high * _ROUNDING_TOLERANCE:
            _contradict(small, low, f"cannot exceed {large} = {_format_norm(sqrt_up(high))}")
    if linf is not None and l1 is not None and squares is not None and squares > l1 * linf * _ROUNDING_TOLERANCE:
        _contradict("l2", squares, f"cannot exceed √(l1·linf) = {_format_norm(sqrt_up(l1 * linf))}")
    if l0 is None:
        return
    if linf is not None and l1 is not None and l1 > l0 * linf * _ROUNDING_TOLERANCE:
        _contradict("l1", l1**2, f"cannot exceed l0·linf = {_format_norm(l0 * linf)}")
    if linf is not None and squares is not None and squares > l0 * linf**2 * _ROUNDING_TOLERANCE:
        _contradict("l2", squares, f"cannot exceed √l0·linf = {_format_norm(sqrt_up(l0 * linf**2))}")
    if squares is not None and l1 is not None and l1**2 > l0 * squares * _ROUNDING_TOLERANCE:
        _contradict("l1", l1**2, f"cannot exceed √l0·l2 = {_format_norm(sqrt_up(l0 * squares))}")


def _contradict(name: str, square: Fraction, reason: str) -> None:
    raise BadParameter(name, _format_norm(sqrt_up(square)), reason, "state norms of one and the same change")


_ROUNDING_TOLERANCE = 1 + Fraction(1, 1 << 40)
"""A root that was rounded, such as sqrt(2) as a double, is no contradiction."""


CONDITIONAL = "Conditional: "
"""What the sentence on a conditional guarantee begins with, wherever it is said. Published files hold it: it stays."""


def describe_conditional(invariants: Sequence[Invariant]) -> str:
    """Say that a guarantee is conditional, on what, and why. `verify` compares the sentences word by word, so they stay.

    >>> describe_conditional([Invariant(("state",), "the law asks for it")]).partition(",")[0]
    'Conditional: this holds only among data sets with the same number of rows for each `state`'
    """
    reasons = " ".join(f"Why the {each.counts} is public: {each.public.rstrip('.')}." for each in invariants)
    return (
        f"{CONDITIONAL}this holds only among data sets with the same {describe_condition(invariants)}, which is public and "
        f"not protected. {reasons} Two data sets that agree on it and differ in m units are as far apart as group privacy "
        "for m units says; about data sets that do not agree on it, nothing is guaranteed."
    )
