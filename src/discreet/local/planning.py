"""Planning a collection: people, ε and error; two of them give the third, for every oracle, before anything is collected.

The error is the half-width of one value's estimated number of people at the confidence, by the exact variance of a value
that few people have and the normal approximation. The intervals of decoded answers are certified, and a little wider.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, inf, log, sqrt
from statistics import NormalDist
from typing import Any

from discreet import formats
from discreet._numbers import Bounds, Number, check_confidence, check_int, format_down, format_up, read_positive
from discreet.errors import BadParameter
from discreet.events import shuffle
from discreet.local.choosing import DECODING, list_oracles
from discreet.local.odds import MAX_EPSILON
from discreet.local.oracles import Oracle

MIN_EPSILON = 0.01
MAX_PEOPLE = 10**15
LARGE_EPSILON = 5
"""Above it, a guess from even odds may be right in more than 99 of 100 cases."""


@dataclass(frozen=True, slots=True)
class LocalRow:
    """One oracle in a plan: half-widths in people and as a share of n, bits per report, and the steps of decoding."""

    name: str
    oracle: Oracle
    n: int
    half_width: float
    decoding: str
    """What decoding takes, in words: reports n, values d."""

    @property
    def share(self) -> float:
        """The half-width as a share of all reports."""
        return self.half_width / self.n

    @property
    def hostile(self) -> float:
        """How many people one hostile report can add to a value's estimate: (1 − q*)/(p* − q*)."""
        p, q = self.oracle.truth_support, self.oracle.other_support
        return float((1 - q) / (p - q))

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "oracle": self.name,
            "epsilon": self.oracle.epsilon,
            "n": self.n,
            "half_width": self.half_width,
            "share": self.share,
            "standard_deviation": sqrt(self.oracle.variance(self.n)),
            "bits": self.oracle.bits,
            "decoding": self.decoding,
            "people_per_hostile_report": self.hostile,
        }


@dataclass(frozen=True, slots=True, repr=False)
class LocalPlan:
    """What a collection of this size can show, the oracle with the least error first.

    >>> plan = plan_collection(values=16384, n=10**6, epsilon=2)
    >>> plan.recommended.name, round(plan.recommended.half_width)
    ('projective', 1677)
    """

    values: int
    n: int
    epsilon: Fraction
    confidence: float
    rows: tuple[LocalRow, ...]
    warnings: tuple[str, ...]

    @property
    def recommended(self) -> LocalRow:
        """The oracle to collect with: direct where it is the best, else projective, which is short and quick to decode."""
        names = {row.name: row for row in self.rows}
        direct, projective = names["direct"], names["projective"]
        return direct if direct.half_width <= projective.half_width else projective

    @property
    def central_half_width(self) -> float:
        """The half-width of the same count at the same ε if a trusted curator added Laplace noise to it.

        Replacing one person's value moves two counts by 1, so the scale is 2/ε; P(|noise| > t) = e^{-t·ε/2}.
        """
        return -log(1 - self.confidence) * 2 / float(self.epsilon)

    def shuffled_epsilon(self, delta: Number) -> Bounds:
        """The ε at δ of the recommended oracle's reports if a shuffler removes all names, between two doubles.

        >>> round(float(plan_collection(values=100, n=10**6, epsilon=1).shuffled_epsilon(1e-6)), 4)
        0.0025
        """
        from discreet.accounting.shuffling import pair_epsilon

        return pair_epsilon(shuffle(self.recommended.oracle.event(), self.n), delta)

    def plot(self, path: Any = None, *, title: str | None = None) -> Any:
        """Draw the error of every oracle against ε, with that of a trusted curator; write it to `path` if one is given."""
        from discreet.local.charts import draw_errors

        return draw_errors(self.values, self.n, path, confidence=self.confidence, title=title)

    def list_notes(self) -> list[str]:
        """Which oracle to take, what a trusted curator would do, and what cannot be seen."""
        best, central = self.recommended, format_up(self.central_half_width, 3)
        curator = f"A trusted curator would be within {central} people at the same ε"
        if self.central_half_width < best.half_width:
            curator += ": this is what it costs to trust no curator."
        else:
            curator += ", no nearer: with so few people or at so large an ε, to trust one gains nothing."
        return [
            f"Use {best.name}: {format_down(100 * self.confidence, 6)}% of estimates are within "
            f"{format_up(best.half_width, 3)} people of the truth ({format_up(100 * best.share, 3)}% of {self.n:,}), at ε = "
            f"{format_up(self.epsilon, 4)} a report.",
            curator,
            "Count `other` and `missing` among the values: a device that cannot report its value shows it by its silence.",
            *self.warnings,
        ]

    def __rich__(self) -> Any:
        lines = [
            [
                row.name, format_up(row.half_width, 3), f"{format_up(100 * row.share, 3)}%", f"{row.oracle.bits:,}",
                format_up(row.hostile, 3),
            ]
            for row in self.rows
        ]  # fmt: skip
        header = ["oracle", "± people", "of all", "bits a report", "one hostile report adds"]
        title = f"{self.values:,} values, {formats.count_people(self.n)}, ε = {format_up(self.epsilon, 4)} a report"
        return formats.add_rich_notes(formats.make_rich_table(title, header, lines), self.list_notes())

    def __repr__(self) -> str:
        return formats.render_text(self.__rich__())

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "values": self.values,
            "n": self.n,
            "epsilon": float(self.epsilon),
            "confidence": self.confidence,
            "recommended": self.recommended.name,
            "oracles": [row.to_dict() for row in self.rows],
            "central_half_width": self.central_half_width,
            "warnings": list(self.warnings),
        }


def plan_collection(
    values: int,
    *,
    n: int | None = None,
    epsilon: Number | None = None,
    error: Number | None = None,
    confidence: Number = 0.95,
) -> LocalPlan:
    """Plan the collection of one of `values` values; give two of n, ε and the error, as a share of n.

    >>> plan_collection(values=100, epsilon=1, error=0.01).n
    141736
    >>> float(plan_collection(values=100, n=10**6, error=0.01).epsilon)
    0.4
    """
    check_int(values, "values", 2)
    level = check_confidence(confidence)
    if (given := sum(each is not None for each in (n, epsilon, error))) != 2:
        raise BadParameter(
            "epsilon",
            "given or missing with the others",
            f"two of n=, epsilon= and error= give the third, and {('none', 'one', 'two', 'three')[given]} of them is given",
            "leave out exactly one of the three",
        )
    if n is not None:
        check_int(n, "n", 1)
    wanted = None if error is None else float(read_positive(error, "error"))
    if wanted is not None and wanted >= 1:
        raise BadParameter(
            "error", f"{wanted:g}", "it is a share of all people, and all of them are 1", "give one below 1, such as 0.05"
        )
    if epsilon is not None:
        exact = read_positive(epsilon, "epsilon")
    else:
        assert n is not None
        assert wanted is not None
        exact = _find_epsilon(values, n, wanted, level)
    people = n if n is not None else _find_people(values, exact, float(wanted or inf), level)
    rows = sorted(_list_rows(values, exact, people, level), key=lambda row: row.half_width)
    warnings = (*_list_warnings(values, people, rows), *warn_of_epsilon(exact))
    return LocalPlan(values, people, exact, level, tuple(rows), warnings)


def warn_of_epsilon(epsilon: Fraction, spent: str = "a report") -> list[str]:
    """Say that a large ε protects little: `spent` says for what it is.

    >>> warn_of_epsilon(Fraction(5)), len(warn_of_epsilon(Fraction(8)))
    ([], 1)
    """
    if epsilon <= LARGE_EPSILON:
        return []
    return [
        f"ε = {format_up(epsilon, 4)} {spent} protects little: it may change the odds of a guess about a person by a factor "
        f"of {format_up(exp(min(float(epsilon), 700)), 2)}. Above about {LARGE_EPSILON} the limit hardly protects by itself "
        "(docs/choosing-epsilon.md)."
    ]


def _list_rows(values: int, epsilon: Fraction, n: int, confidence: float) -> list[LocalRow]:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return [
        LocalRow(name, oracle, n, z * sqrt(oracle.variance(n)), DECODING[name])
        for name, oracle in list_oracles(values, epsilon).items()
    ]


def _best_share(values: int, epsilon: Fraction, n: int, confidence: float) -> float:
    rows = {row.name: row.share for row in _list_rows(values, epsilon, n, confidence)}
    return min(rows["direct"], rows["projective"])


def _find_people(values: int, epsilon: Fraction, error: float, confidence: float) -> int:
    """The fewest people for this error: it falls as 1/√n."""
    one = _best_share(values, epsilon, 1, confidence)
    people = ceil((one / error) ** 2)
    if people > MAX_PEOPLE:
        raise BadParameter(
            "error", f"{error:g}", f"would take more than {MAX_PEOPLE:.0e} people", "allow a larger error or ε"
        )
    return max(1, people)


def _find_epsilon(values: int, n: int, error: float, confidence: float) -> Fraction:
    """The least ε, in hundredths, for this error: it falls with ε."""
    steps = range(round(MIN_EPSILON * 100), MAX_EPSILON * 100 + 1)
    low, high = steps[0], steps[-1]
    if _best_share(values, Fraction(high, 100), n, confidence) > error:
        raise BadParameter(
            "error", f"{error:g}", f"{n} people cannot show it at any ε up to {MAX_EPSILON}", "allow more, or raise n"
        )
    while low < high:
        middle = (low + high) // 2
        reached = _best_share(values, Fraction(middle, 100), n, confidence) <= error
        low, high = (low, middle) if reached else (middle + 1, high)
    return Fraction(low, 100)


def _list_warnings(values: int, n: int, rows: Sequence[LocalRow]) -> list[str]:
    best = rows[0]
    found = []
    if best.share > 1 / values:
        found.append(
            f"Nothing below {format_up(100 * best.share, 3)}% of the people can be seen, and an average value has "
            f"{format_up(100 / values, 3)}%. Ask for fewer values, or collect more reports."
        )
    if best.half_width >= n:
        found.append("The error is larger than the number of people: the reports would show nothing.")
    return found
