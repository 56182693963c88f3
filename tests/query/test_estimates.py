"""What `reliable` promises: a flagged value lies in its own interval, and few cells are both flagged and wrong, whatever the
data, however few rows there are, and whatever post-processing does to it."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from math import ceil, sqrt
from typing import Any

import duckdb
import numpy as np
import pytest

from discreet import connect
from discreet._numbers import MAX_CONFIDENCE, MIN_CONFIDENCE, check_confidence, read_decimal
from discreet.accounting.currencies import Receipt
from discreet.query import estimates
from discreet.query.answer import Answer, ExactTotals, release
from discreet.query.estimates import Average, Estimate, PairAverage, PairStatistics
from discreet.query.postprocess import project_to_total
from discreet.session.session import Session
from discreet.testing import seeded_bits
from discreet.units import Neighbours
from tests.support.people import session
from tests.support.rounds import pairs_by_day

WIDE, NARROW = (0, 200), (100, 115)
"""Of 201 values, and of 16 far from 0, where any two values are close to each other."""
COLUMNS = {
    "n": "COUNT(*)", "u": "COUNT(DISTINCT id)", "c": "COUNT(age)", "s": "SUM(age)", "m": "AVG(age)", "v": "VARIANCE(age)",
    "d": "STDDEV(age)", "q": "MEDIAN(age)", "low": "MIN(age)", "high": "QUANTILE(age, 0.9)",
    "h": "HISTOGRAM(age, 0, 100, 200)",
}  # fmt: skip
EVERYTHING = f"SELECT dept, {', '.join(f'{sql} AS {name}' for name, sql in COLUMNS.items())} FROM people GROUP BY dept"
TINY = (0, 1, 2, 3)


def opened(values: Sequence[int], draws: int, delta: float, bounds: tuple[int, int]) -> Session:
    """Everybody is in group 0 of so many."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people(id INTEGER, dept VARCHAR, age INTEGER)")
    rows = [(i, "0", value) for i, value in enumerate(values)]
    if rows:
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    return connect(
        connection, epsilon=10**6, delta=delta, unit="id", table="people", bounds={"age": bounds}, unique=True,
        keys={"dept": tuple(map(str, range(draws)))},
    )  # fmt: skip


def repeated(
    values: Sequence[int],
    draws: int,
    seed: int,
    *,
    epsilon: float,
    delta: float = 0,
    bounds: tuple[int, int] = WIDE,
    question: str = EVERYTHING,
) -> Answer:
    """So many independent answers about the same values: as groups that all hold them."""
    asked = opened(values, draws, delta, bounds)
    planned = asked.calibrate(question, epsilon=epsilon)
    found = asked.engine.run(planned.bounded)
    rows = [row for row, keys in found.totals if keys == ("0",)]
    spreads = {c: [(n, cell) for n, cell, _ in counts] for c, counts in found.cell_counts.items()}
    names = [(str(i),) for i in range(draws)]
    everywhere = ExactTotals(
        [(row, keys) for row in rows for keys in names],
        {c: [(n, cell, keys) for keys in names for n, cell in counts] for c, counts in spreads.items()},
    )
    return release(planned, everywhere, Receipt(1, planned.event), bits=seeded_bits(seed))


def truths(values: Sequence[int]) -> dict[str, float | None]:
    """What the columns of EVERYTHING are without noise; None where there is no such thing."""
    n, ordered = len(values), sorted(values)
    mean = Fraction(sum(values), n) if n else None
    variance = None if mean is None else float(sum((v - mean) ** 2 for v in values) / n)

    def quantile(q: Fraction) -> int | None:
        return ordered[max(1, ceil(q * n)) - 1] if n else None

    return {
        "n": n, "u": n, "c": n, "s": sum(values), "m": None if mean is None else float(mean), "v": variance,
        "d": None if variance is None else sqrt(variance), "q": quantile(Fraction(1, 2)), "low": quantile(Fraction(1, 100)),
        "high": quantile(Fraction(9, 10)), "h[0,100)": sum(v < 100 for v in values),
        "h[100,200]": sum(v >= 100 for v in values),
    }  # fmt: skip


def wrong(cell: Estimate, truth: float | None) -> bool:
    """Whether the interval misses the truth; a hair is left to the doubles of the truth itself."""
    return truth is None or not cell.lower - 1e-9 <= truth <= cell.upper + 1e-9


Tally = dict[str, tuple[int, int]]


def tallied(answer: Answer, values: Sequence[int]) -> Tally:
    """Per column: how many cells are flagged, and how many of these are wrong."""
    true = truths(values)
    assert set(true) >= set(answer.columns)
    found = {}
    for i, name in enumerate(answer.columns):
        flagged = [row[i] for _, row in answer.rows if row[i].reliable]
        found[name] = len(flagged), sum(wrong(cell, true[name]) for cell in flagged)
    return found


Values = Callable[[int, tuple[int, int]], list[int]]


def spread_out(n: int, bounds: tuple[int, int]) -> list[int]:
    """Over the middle three quarters."""
    low, high = bounds
    width = high - low
    return [low + width // 8 + (37 * i) % (3 * width // 4) for i in range(n)]


def alike(n: int, bounds: tuple[int, int]) -> list[int]:
    """All at the upper end, with no variance: estimates leave what is possible all the time."""
    return [bounds[1]] * n


def six_sigma(draws: int) -> float:
    """A share that is exceeded with probability below 1e-9 if one cell in twenty is wrong."""
    return 0.05 + 6 * sqrt(0.05 * 0.95 / draws)


@pytest.mark.parametrize(
    ("size", "bounds", "make"),
    pairs_by_day(
        [*((n, delta) for n in TINY for delta in (0, 1e-6)), (10, 0), (40, 0), (1_000, 1e-6)],
        [WIDE, NARROW], [spread_out, alike],
    ),
)  # fmt: skip
def test_few_cells_are_flagged_and_wrong_and_none_over_a_handful_of_rows(
    size: tuple[int, float], bounds: tuple[int, int], make: Values
) -> None:
    n, delta = size
    values, draws = make(n, bounds), 1_000
    found = tallied(repeated(values, draws, 31, epsilon=8, delta=delta, bounds=bounds), values)
    assert all(missed <= six_sigma(draws) * draws for _, missed in found.values()), found
    if n in TINY:  # each with probability below 1e-9, see the head of estimates.py, and the noise is the same every time
        assert all(flagged == 0 for flagged, _ in found.values()), found
    if n == 1_000:
        assert all(found[name][0] >= 0.9 * draws for name in ("n", "u", "c", "s", "m", "q", "high")), "flags say something"


def test_quantiles_of_three_rows_are_not_reliable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the guard on the count some are flagged, and every one of them is wrong."""
    question = "SELECT dept, QUANTILE(age, 0.9) AS high FROM people GROUP BY dept"

    def flags() -> tuple[int, int]:
        values = [101, 108, 110]
        return tallied(repeated(values, 5_000, 5, epsilon=2, bounds=NARROW, question=question), values)["high"]

    assert flags() == (0, 0)
    monkeypatch.setattr(estimates, "is_reliable_count", lambda count, off: True)
    flagged, missed = flags()
    assert flagged == missed > 10


def test_a_variance_that_collapsed_is_not_reliable() -> None:
    """Its interval lies below 0 and is clamped to a point; the same for a mean beyond the declared range."""
    average = Average(0, 200, 100, 0)
    for root in (False, True):
        collapsed = average.estimate_variance(0, -(10**6), 1_000, 10, 10, 10, root=root)
        assert collapsed == Estimate(0.0, 0.0, 0.0, False)
    for total, end in ((10**6, 200.0), (-(10**6), 0.0)):
        assert average.estimate_mean(total, 1_000, 10, 10) == Estimate(end, end, end, False)
    assert average.estimate_variance(0, 5_000_000, 1_000, 10, 100, 10, root=False).reliable
    assert average.estimate_mean(20_000, 1_000, 10, 10).reliable


AVERAGE, PAIR_ERRORS = Average(0, 200, 100, 0), PairStatistics(30, 30, 900, 3)
RANGES: dict[str, tuple[Callable[[int, int], Estimate], tuple[float, float]]] = {
    "mean": (lambda total, n: AVERAGE.estimate_mean(total, n, 30, 3), (0, 200)),
    "variance": (lambda total, n: AVERAGE.estimate_variance(total, 9 * total, n, 30, 900, 3, root=False), (0, 10_000)),
    "deviation": (lambda total, n: AVERAGE.estimate_variance(total, 9 * total, n, 30, 900, 3, root=True), (0, 100)),
    "covariance": (
        lambda total, n: PairAverage(AVERAGE, AVERAGE).estimate_covariance(
            PairStatistics(total, -total, 9 * total, n), PAIR_ERRORS
        ),
        (-10_000, 10_000),
    ),
    "correlation": (
        lambda total, n: PairAverage(AVERAGE, AVERAGE).estimate_correlation(
            PairStatistics(total, -total, 9 * total, n), PAIR_ERRORS, (9 * total, 9 * total), (900, 900)
        ),
        (-1, 1),
    ),
}


@pytest.mark.parametrize("statistic", RANGES)
def test_over_a_count_that_may_be_0_an_interval_is_the_whole_declared_range(statistic: str) -> None:
    """Every count from far below 0 to its own error, with sums on both sides; a count above its error says more."""
    estimate, (low, high) = RANGES[statistic]
    for count in range(-20, 4):
        for total in range(-2_000, 2_001, 50):
            found = estimate(total, count)
            assert (found.lower, found.upper) == pytest.approx((low, high))
            assert found.lower <= low <= found.value <= high <= found.upper
            assert not found.reliable
    assert any(estimate(total, 1_000).upper - estimate(total, 1_000).lower < (high - low) / 2 for total in (-9_000, 9_000))


@pytest.mark.parametrize("epsilon", [1, 8])
def test_averages_of_empty_groups_have_the_declared_range_as_their_interval(epsilon: float) -> None:
    """The noise lifts the count behind an average above its error in at most 1 group of 40, and never to width 0."""
    question = "SELECT dept, AVG(age) AS m, STDDEV(age) AS d, MEDIAN(age) AS q FROM people GROUP BY dept"
    draws = 2_000
    answer = repeated([], draws, 17, epsilon=epsilon, question=question)
    for column, greatest in enumerate((200, 100, 200)):
        cells = [row[column] for _, row in answer.rows]
        assert min(cell.upper - cell.lower for cell in cells) > 0
        whole = sum((cell.lower, cell.upper) == pytest.approx((0, greatest)) for cell in cells)
        assert draws - whole <= (1 / 40 + 6 * sqrt(1 / 40 / draws)) * draws


def test_counts_and_sums_on_the_impossible_side_are_not_reliable() -> None:
    """They are misses for sure, however narrow their intervals are beside them."""
    span = estimates.GridRange
    assert not estimates.estimate_count(-100, 5).reliable
    assert estimates.estimate_count(100, 5).reliable
    for n, bounds, sure in ((-100, (0, 9), False), (100, (-9, 0), False), (-100, (-9, 0), True), (-100, (-9, 9), True)):
        assert estimates.estimate_sum(n, 5, span(*bounds)).reliable is sure


# -- post-processing --------------------------------------------------------------------------------------------------------

Step = Callable[[Answer], Answer]


def total_of(share: Fraction) -> Step:
    def moved(answer: Answer) -> Answer:
        name = answer.columns[0]
        own = sum(max(row[0].value, 0) for _, row in answer.rows)
        return answer.consistent(total={name: Fraction(round(own)) * share})

    return moved


STEPS: dict[str, Step] = {
    "non_negative": Answer.non_negative,
    "integers": Answer.integers,
    "integers of all": lambda answer: answer.integers(*answer.columns),
    "consistent": Answer.consistent,
    "half the total": total_of(Fraction(1, 2)),
    "twice the total": total_of(Fraction(2)),
    "no total": total_of(Fraction(0)),
}


def answers() -> Iterator[Answer]:
    """Large and small groups, with and without noise to speak of."""
    keys = ("a", "b", "c", *(f"nobody {i}" for i in range(6)))
    question = EVERYTHING.replace("HISTOGRAM(age, 0, 100, 200)", "HISTOGRAM(age, 0, 40, 100)")
    for seed, epsilon in enumerate((0.5, 5, 40)):
        for bounds in ((0, 100), (-50, 100)):
            asked = session(epsilon=10**4, keys={"dept": keys}, bounds={"age": bounds})
            yield asked.ask(question, epsilon=epsilon, bits=seeded_bits(seed))


def flags_are_kept() -> bool:
    """After any two steps every flagged cell lies in its own interval, and no flag is new."""
    for raw in answers():
        for steps in [(), *((one,) for one in STEPS), *permutations(STEPS, 2)]:
            answer = raw
            for step in steps:
                answer = STEPS[step](answer)
            for (_, before), (_, after) in zip(raw.rows, answer.rows, strict=True):
                for old, cell in zip(before, after, strict=True):
                    inside = cell.lower <= cell.value <= cell.upper
                    close = 5 * (Fraction(cell.upper) - Fraction(cell.lower)) <= abs(Fraction(cell.value)) * (
                        1 + Fraction(1, 10**12)
                    )
                    if cell.reliable and not (inside and close and old.reliable):
                        return False
    return True


def test_a_reliable_value_lies_in_its_own_interval_after_every_post_processing() -> None:
    assert flags_are_kept()


def test_the_property_notices_a_flag_that_is_kept_without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Estimate, "adjust", lambda self, value, lower, upper: Estimate(value, lower, upper, self.reliable))
    assert not flags_are_kept()


def test_values_that_consistent_moved_outside_of_their_interval_are_not_reliable() -> None:
    raw = session().ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=5, bits=seeded_bits(1))
    assert all(row[0].reliable for _, row in raw.rows)
    moved = raw.consistent(total={"n": 2_000})
    values = project_to_total([Fraction(row[0].value) for _, row in raw.rows], Fraction(2_000), positive=True)
    assert [row[0].value for _, row in moved.rows] == [pytest.approx(float(value)) for value in values]
    assert not any(row[0].reliable for _, row in moved.rows)
    assert all(row[0].reliable for _, row in raw.consistent().rows), "those that stayed are as they were"


# -- what is said about it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "relation", "said"),
    [
        (5, "replace", "Replacing one id can change at most 4 groups, each of which loses at most 3 rows and gains at most"),
        (3, "replace", "Replacing one id can change at most 3 groups, each"),
        (5, "add-remove", "Adding or removing one id can change at most 2 groups by 3 rows each;"),
    ],
)  # fmt: skip
def test_the_explanation_names_as_many_groups_as_can_change(keys: int, relation: str, said: str) -> None:
    """The same number as in the sensitivity of every total, in the answer and in the quote."""
    asked = session(
        unique=False, max_groups=2, max_rows=3, neighbours=Neighbours.parse(relation), keys={"dept": tuple("abcde"[:keys])}
    )
    question = "SELECT dept, COUNT(*) AS n, SUM(pay) AS s FROM people GROUP BY dept"
    assert asked.quote(question, epsilon=1).explanation.startswith(said)
    assert asked.ask(question, epsilon=1).explanation.startswith(said)
    bounded = asked.calibrate(question, epsilon=1).bounded
    assert {bounded.sensitivity(measure).l0 for measure in bounded.statistics} == {bounded.changed_groups}


def test_without_groups_rows_go_and_others_come() -> None:
    asked = session(unique=False, max_rows=3, neighbours=Neighbours.REPLACE)
    said = asked.quote("SELECT COUNT(*) AS n FROM people", epsilon=1).explanation
    assert said == "Replacing one id can remove 3 rows and add 3 rows. Limits: 3 rows per id."


def list_false_limits(monkeypatch: pytest.MonkeyPatch | None = None) -> list[str]:
    """List the texts that state limits which no engine applies, or none where one is applied."""
    if monkeypatch is not None:  # the mutant: limits are stated whether or not they are applied
        monkeypatch.setattr("discreet.query.contribution.explain_limits", lambda unit, limits, unique: limits)
    wrong = []
    for unique in (False, True):
        for sql in ("SELECT COUNT(*) AS n FROM people", "SELECT dept, SUM(pay) AS s FROM people GROUP BY dept"):
            asked = session(unique=unique)
            for said in (asked.quote(sql, epsilon=1).explanation, asked.ask(sql, epsilon=1).explanation):
                stated = "Limits:" in said or "within the limits" in said
                if stated == unique or ("no limit is applied" in said) != unique:
                    wrong.append(said)
    return wrong


def test_limits_are_stated_where_they_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list_false_limits()
    assert list_false_limits(monkeypatch)


@pytest.mark.parametrize("confidence", [0.95, np.float64(0.95), Fraction(19, 20), Decimal("0.95")])
def test_a_confidence_of_95_percent_is_shown_as_such(confidence: Any) -> None:
    question = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
    answer = session().ask(question, epsilon=1, confidence=confidence)
    quoted = session().quote(question, epsilon=1, confidence=confidence)
    assert repr(float(answer.confidence)) == repr(quoted.to_dict()["confidence"]) == "0.95"
    assert "probability ≥ 95%." in answer.explanation


@pytest.mark.parametrize(
    "confidence",
    [Fraction(1, 3), Fraction(2, 3), Fraction(19, 20), 1 - Fraction(3, 10**11), MAX_CONFIDENCE, MIN_CONFIDENCE, 0.999],
)
def test_a_confidence_is_never_taken_for_less(confidence: Any) -> None:
    assert read_decimal(check_confidence(confidence), "confidence") >= read_decimal(confidence, "confidence")
    assert check_confidence(check_confidence(confidence)) == check_confidence(confidence)
