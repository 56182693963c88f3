"""What a collection would recover: people with known values, their simulated reports, and the answer beside the truth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from discreet import formats
from discreet._numbers import Number, check_int, format_down, format_up
from discreet.errors import BadParameter
from discreet.local.choosing import choose_oracle
from discreet.local.decoding import LocalAnswer, decode
from discreet.local.fields import Ints
from discreet.local.simulating import simulate_counts
from discreet.vega import Chart

MAX_PEOPLE = 10**12
MAX_VALUES = 1_000_000
"""The answer has a row for each value: those of so many take about a gigabyte."""
MAX_PRINTED = 20
TRUTHS = ("zipf", "flat")


@dataclass(frozen=True, repr=False)
class Recovery:
    """An answer from simulated reports, and how many people have each value in truth.

    >>> found = simulate_recovery(values=4, n=10**6, epsilon=4, truth="flat", seed=1)
    >>> found.truth, len(found.to_dict()["rows"])
    ((250000, 250000, 250000, 250000), 4)
    """

    answer: LocalAnswer
    truth: tuple[int, ...]

    @property
    def covered(self) -> int:
        """How many intervals, each for its value alone, contain the truth."""
        return sum(row.lower <= true <= row.upper for row, true in zip(self.answer.rows, self.truth, strict=True))

    @property
    def all_covered(self) -> bool:
        """Whether all joint intervals contain the truth."""
        rows = zip(self.answer.rows, self.truth, strict=True)
        return all(row.joint_lower <= true <= row.joint_upper for row, true in rows)

    @property
    def rmse(self) -> float:
        """The root mean square error over all values."""
        errors = [(row.value - true) ** 2 for row, true in zip(self.answer.rows, self.truth, strict=True)]
        return sqrt(sum(errors) / len(errors))

    @property
    def expected_rmse(self) -> float:
        """The root mean square error that the exact variances predict, without what shared hashes add."""
        oracle, n = self.answer.oracle, self.answer.n
        return sqrt(float(sum(oracle.variance(n, true) for true in self.truth)) / len(self.truth))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values: the rows have their truth, and whether their interval contains it."""
        rows = [
            row.to_dict() | {"truth": true, "covered": row.lower <= true <= row.upper}
            for row, true in zip(self.answer.rows, self.truth, strict=True)
        ]
        return {
            "rows": rows,
            "n": self.answer.n,
            "epsilon": self.answer.oracle.epsilon,
            "confidence": self.answer.confidence,
            "covered": self.covered,
            "all_covered": self.all_covered,
            "rmse": self.rmse,
            "expected_rmse": self.expected_rmse,
        }

    def plot(self, path: Any = None, *, title: str | None = None, rows: int | None = None) -> Chart:
        """Draw estimates with their intervals, and the truth beside them; write it to `path` if one is given."""
        from discreet.local.charts import draw_recovery

        return draw_recovery(self, path, title=title, rows=rows)

    def list_notes(self) -> list[str]:
        """How many intervals contain the truth, and how large the errors are."""
        share = format_down(100 * self.answer.confidence, 6)
        joint = "All joint intervals contain it." if self.all_covered else "Not all joint intervals contain it."
        people = formats.count_people(self.answer.n, "simulated ")
        return [
            f"{people}, each report ε = {format_up(self.answer.oracle.epsilon, 4)}. "
            f"{self.covered:,} of {len(self.truth):,} intervals contain the truth; each does with probability ≥ {share}%. "
            f"{joint}",
            f"Root mean square error {self.rmse:,.0f} people; the variances predict {self.expected_rmse:,.0f}.",
        ]

    def __rich__(self) -> Any:
        lines = [
            [
                str(row.label), f"{true:,}", formats.format_value(row.value, row.lower, row.upper),
                f"[{row.lower:,.0f}, {row.upper:,.0f}]", "yes" if row.lower <= true <= row.upper else "no",
            ]
            for row, true in list(zip(self.answer.rows, self.truth, strict=True))[:MAX_PRINTED]
        ]  # fmt: skip
        cut = [f"The first {MAX_PRINTED} of {len(self.truth):,} values."] if len(self.truth) > MAX_PRINTED else []
        table = formats.make_rich_table(None, ["value", "truth", "estimate", "interval", "contains it"], lines)
        return formats.add_rich_notes(table, [*cut, *self.list_notes()])

    def __repr__(self) -> str:
        return formats.render_text(self.__rich__())


def simulate_recovery(
    values: int,
    n: int,
    epsilon: Number,
    *,
    oracle: str | None = None,
    truth: str | Sequence[int] = "zipf",
    seed: int | None = None,
    confidence: Number = 0.95,
    on_progress: Callable[[float], None] | None = None,
) -> Recovery:
    """Simulate a collection of n people, and decode it.

    `oracle` is one of `list_oracles`, the recommended one unless given; `truth` is "zipf" (value v has a share in proportion
    to 1/(v + 1)), "flat", or the number of people with each value. Thousands of values take seconds to minutes, as
    `simulate_counts` says; `on_progress` receives the share that is done.

    >>> recovery = simulate_recovery(values=10, n=10**6, epsilon=1, seed=1)
    >>> recovery.truth[0], recovery.answer.n, len(recovery.answer.rows)
    (341417, 1000000, 10)
    """
    if check_int(values, "values", 2) > MAX_VALUES:
        raise BadParameter(
            "values", values, f"the rows of more than {MAX_VALUES:,} do not fit in memory", "take fewer; a plan takes any"
        )
    mechanism = choose_oracle(check_int(values, "values", 2), epsilon, oracle)
    if not 1 <= check_int(n, "n", 1) <= MAX_PEOPLE:
        raise BadParameter("n", n, f"more than {MAX_PEOPLE:.0e} people", "simulate fewer")
    if seed is not None:
        check_int(seed, "seed", 0)
    held = spread_people(n, values, truth) if isinstance(truth, str) else np.asarray(truth, np.int64)
    if int(held.sum()) != n:
        raise BadParameter("truth", f"{int(held.sum()):,} people", f"n is {n:,}", "let them add up to n")
    counts = simulate_counts(mechanism, held, seed, on_progress=on_progress)
    return Recovery(decode(counts, confidence=confidence), tuple(held.tolist()))


def spread_people(n: int, values: int, truth: str = "zipf") -> Ints:
    """Spread n people over values: "zipf" in proportion to 1, 1/2, 1/3, …, or "flat"; integers that add up to n.

    >>> spread_people(11, 3).tolist(), spread_people(11, 3, "flat").tolist()
    ([6, 3, 2], [4, 4, 3])
    """
    if truth not in TRUTHS:
        raise BadParameter("truth", repr(truth), "not a known shape", f"take {' or '.join(TRUTHS)}")
    weights = 1 / np.arange(1, values + 1) if truth == "zipf" else np.ones(values)
    shares = weights / weights.sum() * n
    held: Ints = np.floor(shares).astype(np.int64)
    held[np.argsort(held - shares, kind="stable")[: n - int(held.sum())]] += 1
    return held
