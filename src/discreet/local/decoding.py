"""From counts to an answer: estimates, intervals for one value and for all at once, and what bad reports could have done.

`decode` takes `Counts` and computes, with C_v supports of v among n reports, (C_v − n·q*)/(p* − q*): integers until the one
division at the end. Intervals are those of `intervals`: certified, about the people who reported. Where functions are shared
(`FixedHashed`) they come from `shared_hashes`.

**The total.** Everyone has a value, so the estimates add up to n on average; for `Direct` and `Subset` they do exactly. Let
f be the number of values in a report's set. The sum of the estimates is Σ(f − d·q*)/(p* − q*) over the reports: independent
terms, whose variance under each value is computed from the oracle, so Bernstein's inequality gives an interval for n around
it. If n is outside, the reports are not what honest clients send.

**Hostile reports.** A report adds at most (1 − q*)/(p* − q*) people to an estimate, and takes at most q*/(p* − q*) away, so
a share of hostile ones moves it by no more than that many times. Intervals do not include it: nothing in the reports says
which are hostile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np

from discreet import formats
from discreet._numbers import Number, check_confidence, format_down, format_up, nearest_float, read_decimal
from discreet.errors import BadParameter
from discreet.local.consistency import norm_sub
from discreet.local.counting import Counts, lists_values, sum_supports, sum_values
from discreet.local.fields import Ints
from discreet.local.intervals import bernstein_width, describe_detection, invert_counts
from discreet.local.mechanism import is_memoising
from discreet.local.oracles import Direct, FixedHashed, SetOracle, Subset, Unary
from discreet.local.rappor import BasicRappor
from discreet.local.shared_hashes import Design, SharedEstimates, estimate_solved, estimate_with_floor
from discreet.query.estimates import AnswerColumn, Estimate
from discreet.vega import Chart

MAX_PRINTED = 40
CONSISTENT_NOTE = (
    "The column “consistent” is post-processing (Norm-Sub): none negative, adding up to n, biased, without intervals."
)


MEMO_NOTE = (
    "Noise is memoised: the intervals hold if each device has one report among these. Several reports of a device repeat "
    "its noise, so count each day by itself."
)
NO_REPORT_NOTE = "No report was accepted, so nothing is known about anyone."


@dataclass(frozen=True, slots=True)
class LocalEstimate:
    """The estimated number of people who have a value, with its standard deviation and its intervals.

    >>> LocalEstimate("red", 12.5, 3.0, 6.0, 19.0, 4.0, 21.0).to_dict()["upper"]
    19.0
    """

    label: Any
    value: float
    deviation: float
    lower: float
    upper: float
    joint_lower: float
    joint_upper: float
    consistent: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found = {
            "value": self.label,
            "estimate": self.value,
            "deviation": self.deviation,
            "lower": self.lower,
            "upper": self.upper,
            "joint_lower": self.joint_lower,
            "joint_upper": self.joint_upper,
        }
        return found if self.consistent is None else found | {"consistent": self.consistent}


@dataclass(frozen=True, slots=True)
class HostileInfluence:
    """How far hostile reports can move an estimate: by one of them, and by the stated share of all."""

    share: float
    reports: int
    up_per_report: float
    down_per_report: float

    @property
    def up(self) -> float:
        """How many people they can add to an estimate."""
        return self.reports * self.up_per_report

    @property
    def down(self) -> float:
        """How many people they can take away."""
        return self.reports * self.down_per_report

    def describe(self, verb: str, what: str, digits: int = 3) -> str:
        """Say what one of them can do, and all of them: "One hostile report adds at most 2 people to a value."."""
        text = f"One hostile report {verb} at most {format_up(self.up_per_report, digits)} {what}"
        if not self.reports:
            return f"{text}."
        return (
            f"{text}; {self.reports:,} of them, {format_up(100 * self.share, 3)}% of all, at most "
            f"{format_up(self.up, digits)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        own = {name: getattr(self, name) for name in ("share", "reports", "up_per_report", "down_per_report")}
        return own | {"up": self.up, "down": self.down}


def describe_memo(mechanism: Any) -> list[str]:
    """Say what the intervals of memoised noise take for granted; nothing where every report has noise of its own.

    >>> describe_memo(Direct(3, Fraction(3)))
    []
    """
    return [MEMO_NOTE] if is_memoising(mechanism) else []


def describe_rejected(rejected: Mapping[str, int]) -> list[str]:
    """Say how many reports were rejected and why; nothing if none was.

    >>> describe_rejected({"range": 2, "length": 0})
    ['Rejected: 2 reports (range 2).']
    """
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in rejected.items() if count)
    return [f"Rejected: {formats.count_things(sum(rejected.values()), 'report')} ({kinds})."] if kinds else []


@dataclass(frozen=True, repr=False)
class LocalAnswer:
    """What a collection says: one estimate per value. `print`, a shell and a notebook show the table.

    >>> from discreet.local.counting import count_reports
    >>> answer = decode(count_reports(Direct(3, Fraction(3)), {"y": [0] * 600 + [1] * 200 + [2] * 200}))
    >>> len(answer), answer.n, answer.top(1).to_dicts()[0]["estimate"]
    (3, 1000, 1000.0)
    >>> answer.simultaneous().rows[0].lower <= answer.rows[0].lower
    True
    """

    oracle: Any
    n: int
    rows: tuple[LocalEstimate, ...]
    total: LocalEstimate | None  # None where the rows are not all values that people have
    rejected: Mapping[str, int]
    confidence: float
    hostile: HostileInfluence | None  # None where it is not known
    explanation: str
    approximate: bool = False  # whether the intervals are those of the normal approximation
    joint: bool = False  # whether the joint intervals stand in place of those for one value

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per value."""
        return [row.to_dict() for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Rows, total, reports accepted and rejected, the influence of hostile ones, and notes."""
        return {
            "rows": self.to_dicts(),
            "reports": self.n,
            "rejected": dict(self.rejected),
            "total": None if self.total is None else self.total.to_dict(),
            "confidence": self.confidence,
            "epsilon": self.oracle.epsilon,
            "hostile": None if self.hostile is None else self.hostile.to_dict(),
            "approximate": self.approximate,
            "notes": self.list_notes(),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return formats.to_json(self.to_dict())

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of a table of this answer."""
        return tuple(self.rows[0].to_dict()) if self.rows else ()

    @property
    def records(self) -> list[tuple[Any, ...]]:
        """The rows under `header`."""
        return [tuple(row.to_dict().values()) for row in self.rows]

    def to_csv(self, path: Any = None, *, spreadsheet: bool = False) -> str:
        """The table as CSV text, also written to `path` if one is given."""
        return formats.to_csv(self.header, self.records, path, spreadsheet=spreadsheet)

    def to_pandas(self) -> Any:
        """A pandas frame under `header`."""
        return formats.to_pandas(self.header, self.records)

    def to_polars(self) -> Any:
        """A Polars frame under `header`."""
        return formats.to_polars(self.header, self.records)

    def to_arrow(self) -> Any:
        """An Arrow table under `header`."""
        return formats.to_arrow(self.header, self.records)

    def top(self, rows: int) -> "LocalAnswer":
        """Show the values with the largest estimates. Which they are was decided by noise: only the joint intervals hold for
        them, so these become their intervals."""
        chosen = sorted(self.rows, key=lambda row: -row.value)[:rows]
        joint = tuple(replace(row, lower=row.joint_lower, upper=row.joint_upper) for row in chosen)
        note = f"The {len(joint)} largest of {len(self.rows):,} estimates, with intervals that hold for all values at once."
        return replace(self, rows=joint, explanation=" ".join(filter(None, (self.explanation, note))), joint=True)

    def simultaneous(self) -> "LocalAnswer":
        """Show the joint intervals in place of those for one value: they contain all numbers at once."""
        joint = tuple(replace(row, lower=row.joint_lower, upper=row.joint_upper) for row in self.rows)
        return replace(self, rows=joint, joint=True)

    def list_notes(self) -> list[str]:
        """What the intervals promise, how many reports were rejected and why, and what cannot be seen."""
        share = format_down(100 * Fraction(repr(self.confidence)), 6)
        notes = [
            f"{formats.count_things(self.n, 'report')}, each ε = {format_up(self.oracle.epsilon, 4)}. Each interval "
            f"contains the number of people who reported with a value with probability {self._promise} {share}%, the joint "
            "ones all at once.",
            *describe_memo(self.oracle),
            *self._describe_visibility(),
            self.explanation,
        ]
        notes += describe_rejected(self.rejected)
        if self.total is not None and not self.total.lower <= self.n <= self.total.upper:
            notes.append(
                f"The estimates add up to {self.total.value:,.0f}, too far from {self.n:,} for noise: some reports are not "
                "what honest clients send."
            )
        if self.hostile is not None:
            notes.append(self.hostile.describe("adds", "people to a value"))
        if any(row.value < 0 for row in self.rows):
            notes.append("Estimates are unbiased, so those of rare values may be negative; intervals are cut to 0 … n.")
        if any(row.consistent is not None for row in self.rows):
            notes.append(CONSISTENT_NOTE)
        return [note for note in notes if note]

    @property
    def _promise(self) -> str:
        return "about" if self.approximate else "≥"

    def _describe_visibility(self) -> list[str]:
        """Say what cannot be seen: no reports, or fewer people than the noise hides."""
        if self.n == 0:
            return [NO_REPORT_NOTE]
        if self.oracle.values is None:
            return []
        seen = describe_detection(self.n, self.oracle.values, self.oracle.null_variance, 1 - read_decimal(self.confidence))
        if seen >= 1:
            return [
                "These reports say nothing: even a value that everyone has could not be told from one that no person has. "
                "Collect more reports, or raise ε."
            ]
        hint = ""
        if seen > 1 / self.oracle.values:
            hint = f"; most of {self.oracle.values:,} values are rarer, so collect more reports, raise ε, or merge values"
        return [f"A value that less than about {format_up(100 * seen, 2)}% of the people have cannot be seen{hint}."]

    def plot(self, path: Any = None, *, title: str | None = None, joint: bool = False) -> Chart:
        """Draw the estimates with their intervals, or with the joint ones; write them to `path` if one is given."""
        from discreet.query.chart import make_spec

        joint = joint or self.joint
        low, high = ("joint_lower", "joint_upper") if joint else ("lower", "upper")
        rows = tuple(
            ((row.label,), (Estimate(row.value, getattr(row, low), getattr(row, high), getattr(row, low) > 0),))
            for row in self.rows
        )
        shown: Any = SimpleNamespace(
            groups=("value",), schema=(AnswerColumn("people", is_count=True),), rows=rows, confidence=self.confidence,
            simultaneous=joint, view_note="", outside_note="", tainted=False,
        )  # fmt: skip
        spec = make_spec(shown, title)
        together = ", all of them together" if joint else ""
        spec["title"]["subtitle"][0] = (
            f"{format_down(100 * self.confidence)}% intervals of the people who reported{together}; {self.n:,} reports, "
            f"ε = {format_up(self.oracle.epsilon, 4)}."
        )
        spec["description"] = f"{spec['title']['text']}. {' '.join(spec['title']['subtitle'])}"
        chart = Chart(spec)
        if path is not None:
            chart.save(path)
        return chart

    @cached_property
    def _lines(self) -> tuple[list[str], list[list[Any]]]:
        consistent = any(row.consistent is not None for row in self.rows)
        header = ["value", "people", "joint interval", *(["consistent"] if consistent else [])]
        lines = [
            [
                str(row.label),
                formats.format_value(row.value, row.lower, row.upper)
                + ("" if self.joint else f"  [{row.lower:,.0f}, {row.upper:,.0f}]"),
                f"[{row.joint_lower:,.0f}, {row.joint_upper:,.0f}]",
                *([f"{row.consistent:,.0f}"] if row.consistent is not None else []),
            ]
            for row in (*self.rows[:MAX_PRINTED], *([] if self.total is None else [self.total]))
        ]
        if consistent and self.total is not None:
            lines[-1] += [""] * (len(header) - len(lines[-1]))
        return header, lines

    def _notes(self) -> list[str]:
        cut = [f"The first {MAX_PRINTED} of {len(self.rows):,} values."] if len(self.rows) > MAX_PRINTED else []
        return [*cut, *self.list_notes()]

    def __rich__(self) -> Any:
        return formats.add_rich_notes(formats.make_rich_table(None, *self._lines), self._notes())

    def __repr__(self) -> str:
        return formats.render_text(self.__rich__())

    def _repr_html_(self) -> str:
        return formats.make_html_table(*self._lines, self._notes())


def decode(
    counts: Counts,
    *,
    confidence: Number = 0.95,
    labels: Sequence[Any] | None = None,
    hostile_share: Number = 0,
    consistent: bool = False,
) -> LocalAnswer:
    """Estimate how many people have each value, from counted reports.

    `labels` names the values; `hostile_share` is a share of reports that may be hostile; `consistent` adds a column of
    estimates that are not negative and add up to the number of reports.

    >>> from discreet.local.counting import count_reports
    >>> answer = decode(count_reports(Direct(3, Fraction(3)), {"y": [0] * 600 + [1] * 200 + [2] * 200}))
    >>> [(row.label, row.value, row.lower, row.upper) for row in answer.rows]
    [(0, 1000.0, 925.0, 1000.0), (1, 0.0, 0.0, 63.0), (2, 0.0, 0.0, 63.0)]
    """
    oracle, n, level = counts.oracle, counts.n, check_confidence(confidence)
    miss = 1 - read_decimal(level, "confidence")
    names = list(range(oracle.values)) if labels is None else list(labels)
    if len(names) != oracle.values:
        raise BadParameter("labels", f"{len(names)} labels", f"the oracle has {oracle.values} values", "name each of them")
    supports = counts.supports
    shared = _estimate_shared(oracle, supports, n, miss)
    rows, explanation = estimate_plain(oracle, supports, n, miss, names), ""
    if shared is not None:
        rows, explanation = _read_shared(shared, n, names), shared.explanation
    if consistent:
        rows = add_consistent(rows, n)
    total = estimate_total(oracle, supports, n, miss, sum(row.value for row in rows) if shared else None)
    return LocalAnswer(
        oracle, n, tuple(rows), total, counts.rejected, level, measure_influence(oracle, n, hostile_share), explanation,
    )  # fmt: skip


def estimate_exactly(oracle: SetOracle | BasicRappor, supports: Ints, n: int) -> list[Fraction]:
    """Return (C − n·q*)/(p* − q*) for each support count, exactly.

    >>> estimate_exactly(Direct(3, Fraction(3)), np.array([600]), 1000)
    [Fraction(1000, 1)]
    """
    p, q = oracle.truth_support, oracle.other_support
    scale, shift = 1 / (p - q), n * q / (p - q)
    top, bottom = scale.numerator * shift.denominator, scale.denominator * shift.denominator
    base = shift.numerator * scale.denominator
    return [Fraction(top * count - base, bottom) for count in supports.tolist()]


def estimate_plain(
    oracle: SetOracle | BasicRappor, supports: Ints, n: int, miss: Fraction, names: Sequence[Any]
) -> list[LocalEstimate]:
    """Estimate the number of people with each value from its supports, with the certified intervals of `intervals`."""
    p, q = oracle.truth_support, oracle.other_support
    exact = estimate_exactly(oracle, supports, n)
    if n == 0 or isinstance(oracle, FixedHashed):
        ends = [np.zeros(len(supports), np.int64)] * 4
    else:
        ends = [*invert_counts(supports, n, p, q, miss), *invert_counts(supports, n, p, q, miss / len(supports))]
    null, slope = float(oracle.variance(n)), float((1 - p - q) / (p - q))
    lists = [end.tolist() for end in ends]
    return [
        LocalEstimate(
            name,
            near := nearest_float(value),
            sqrt(null + min(max(near, 0.0), n) * slope),
            float(lower),
            float(upper),
            float(joint_lower),
            float(joint_upper),
        )
        for name, value, lower, upper, joint_lower, joint_upper in zip(names, exact, *lists, strict=True)
    ]


def _estimate_shared(oracle: SetOracle, supports: Ints, n: int, miss: Fraction) -> SharedEstimates | None:
    if not isinstance(oracle, FixedHashed) or n == 0:
        return None
    design = Design.of(oracle)
    return (
        estimate_with_floor(oracle, supports, n, miss)
        if design is None
        else estimate_solved(oracle, design, supports, n, miss)
    )


def _read_shared(shared: SharedEstimates, n: int, names: list[Any]) -> list[LocalEstimate]:
    def cut(end: float) -> float:
        return float(min(max(end, 0.0), n))

    columns = zip(
        names,
        *(each.tolist() for each in (shared.values, shared.deviations, shared.widths, shared.joint_widths)),
        strict=True,
    )
    return [
        LocalEstimate(
            name, value, deviation, cut(np.floor(value - one)), cut(np.ceil(value + one)), cut(np.floor(value - together)),
            cut(np.ceil(value + together)),
        )
        for name, value, deviation, one, together in columns
    ]  # fmt: skip


def add_consistent(rows: Sequence[LocalEstimate], n: int) -> list[LocalEstimate]:
    """Add the column of Norm-Sub."""
    made = norm_sub([row.value for row in rows], n)
    return [replace(row, consistent=nearest_float(value)) for row, value in zip(rows, made, strict=True)]


def measure_influence(oracle: SetOracle | BasicRappor, n: int, share: Number) -> HostileInfluence:
    """Return how far a share of hostile reports can move an estimate.

    >>> round(measure_influence(Direct(128, Fraction(2718, 1000)), 1000, 0.01).up_per_report, 1)
    74.9
    """
    p, q = oracle.truth_support, oracle.other_support
    return state_influence(n, share, (1 - q) / (p - q), q / (p - q))


def state_influence(n: int, share: Number, up: Fraction, down: Fraction) -> HostileInfluence:
    """Return the influence of a share of n reports, of which each adds at most `up` and takes at most `down` away."""
    exact = read_decimal(share, "hostile_share")
    if not 0 <= exact <= 1:
        raise BadParameter("hostile_share", share, "not a share", "give one between 0 and 1")
    return HostileInfluence(float(exact), ceil(exact * n), float(up), float(down))


# -- the total -----------------------------------------------------------------------------------------------------------


def estimate_total(
    oracle: SetOracle | BasicRappor, supports: Ints, n: int, miss: Fraction, value: float | None = None
) -> LocalEstimate:
    """Return the sum of all estimates, with an interval that contains the number of reports: see the head of this file.

    `value` is the sum of estimates that were not made from supports alone.
    """
    p, q = oracle.truth_support, oracle.other_support
    sum_ = nearest_float((int(supports.sum()) - n * len(supports) * q) / (p - q))
    variance, largest, bias = measure_total(oracle)
    shown = sum_ if value is None else value
    slack = float(n * bias) + abs(shown - sum_)  # least squares adds up otherwise than supports do
    return bound_total(shown, sum_, n, variance, largest, miss, slack)


def bound_total(
    shown: float, sum_: float, n: int, variance: Fraction, largest: Fraction, miss: Fraction, slack: float = 0.0
) -> LocalEstimate:
    """Return the total with Bernstein's interval around `sum_`, of so much variance a report, and `slack` on either side."""
    if n == 0:
        return LocalEstimate("total", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    width = slack + (bernstein_width(n * variance, largest, miss) if variance else 0.0)
    low, high = np.floor(sum_ - width), np.ceil(sum_ + width)
    return LocalEstimate("total", shown, sqrt(float(n * variance)), low, high, low, high)


def measure_total(oracle: SetOracle | BasicRappor) -> tuple[Fraction, Fraction, Fraction]:
    """Return, for the sum of all estimates and one report: the largest variance under any value, how far a report can be
    from its mean, and how far the mean can be from 1 (0 but for shared functions).

    >>> measure_total(Direct(5, Fraction(3)))
    (Fraction(0, 1), Fraction(0, 1), Fraction(0, 1))
    """
    p, q, d = oracle.truth_support, oracle.other_support, int(oracle.values or 0)
    mean = p + (d - 1) * q
    if isinstance(oracle, Direct | Subset):
        return Fraction(0), Fraction(0), Fraction(0)
    if isinstance(oracle, Unary | BasicRappor):
        variance = (d - 1) * q * (1 - q) + p * (1 - p)
        return variance / (p - q) ** 2, max(mean, d - mean) / (p - q), Fraction(0)
    assert not lists_values(oracle)
    sizes = sum_values(oracle, np.ones(d, np.int64))  # how many values each cell holds
    squares = sizes * sizes
    # A person with value x reports a cell with probability γ·base·X if it holds x, else γ·base; the base is uniform.
    weight = oracle.blanket / len(sizes)
    extra = weight * (oracle.odds - 1)

    def expect(of: Ints) -> tuple[Fraction, Fraction]:
        own = sum_supports(oracle, of)
        base = weight * int(of.sum())
        return base + extra * int(own.min()), base + extra * int(own.max())

    low, high = expect(sizes)
    bias = max(abs(low - mean), abs(high - mean))
    variance = max(expect(squares)[1] - low * low, Fraction(0))
    largest = max(int(sizes.max()) - low, high - int(sizes.min()))
    return variance / (p - q) ** 2, largest / (p - q), bias / (p - q)
