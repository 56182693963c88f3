"""A quote is free, so reading and pricing a question is bounded work: counted here in calls of functions, not in seconds."""

from collections.abc import Callable
from cProfile import Profile
from fractions import Fraction
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import QueryRefused
from discreet._numbers import smallest_where, sqrt_up
from discreet.accounting.currencies import Currency, Rdp, Zcdp
from discreet.mechanisms import Gaussian, Laplace
from discreet.query.builder import col, count, select
from discreet.query.calibrate import COMPARISON_CONFIDENCE, SCALE_TOLERANCE, find_smallest_epsilon, least_error_mechanism
from discreet.query.contribution import MAX_SEARCHED_STATISTICS, MAX_STATISTICS, STATISTICS_PER_QUANTILE
from discreet.query.parser import MAX_TOKENS
from discreet.query.validate import (
    MAX_COLUMNS,
    MAX_GROUPINGS,
)
from discreet.session.session import Session
from discreet.units import Sensitivity
from tests.support.people import session

TOO_WIDE = r"^The answer has more than 300 columns\. Ask for at most 300 at once\.$"
MOST_CALLS = 5_500_000
"""Python makes about ten million in a second."""


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, those written in C among them."""
    profile = Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def columns(*texts: str) -> str:
    return f"SELECT {', '.join(f'{text} AS a{i}' for i, text in enumerate(texts))} FROM people"


def tree(leaves: int) -> str:
    """A sum that is wide and not deep."""
    return "age" if leaves == 1 else f"({tree(leaves // 2)}+{tree(leaves - leaves // 2)})"


def nested_between(levels: int) -> str:
    """An expression that doubles with each level, where BETWEEN is written as two comparisons."""
    return "age" if levels == 0 else f"CASE WHEN {nested_between(levels - 1)} BETWEEN 0 AND 1 THEN 1 ELSE 2 END"


SUMS = columns(*(f"SUM(age + {i})" for i in range(MAX_STATISTICS)))
VARIANCES = columns(*(f"VARIANCE(age + {i})" for i in range(MAX_STATISTICS // 3)))
QUANTILES = columns(*(f"QUANTILE(age, 0.{i + 10})" for i in range((MAX_STATISTICS - 1) // STATISTICS_PER_QUANTILE)))
FEW_SUMS = columns(*(f"SUM(age + {i})" for i in range(MAX_SEARCHED_STATISTICS)))
FEW_TREES = columns(*(f"SUM({tree(60)} + {i})" for i in range(MAX_SEARCHED_STATISTICS)))
FEW_QUANTILES = columns(
    *(f"QUANTILE(pay, 0.{i + 1}7)" for i in range((MAX_SEARCHED_STATISTICS - 1) // STATISTICS_PER_QUANTILE))
)
WHERE = "SELECT COUNT(*) AS n FROM people WHERE "
AT_THE_LIMIT: dict[str, tuple[str, dict[str, Any]]] = {
    "sums": (SUMS, {"epsilon": 1}),
    "variances": (VARIANCES, {"epsilon": 9}),
    "quantiles": (QUANTILES, {"epsilon": 1}),
    "an error for sums": (FEW_SUMS, {"error": 100}),
    "an error for wide sums": (FEW_TREES, {"error": "1%", "size": 1000}),
    "an error for quantiles": (FEW_QUANTILES, {"error": "0.2%", "size": 1000}),
    "a list": (WHERE + f"age IN ({','.join('1' * (MAX_TOKENS // 2 - 10))})", {"epsilon": 1}),
    "conditions": (WHERE + " AND ".join(["age<9"] * 1900), {"epsilon": 1}),
    "cases": (columns("SUM(CASE " + " ".join(f"WHEN age > {i} THEN {i}" for i in range(800)) + " END)"), {"epsilon": 1}),
    "depth": (columns(*(f"SUM({'(' * 25}age{'+1)' * 25} + {i})" for i in range(90))), {"epsilon": 1}),
    "nested BETWEEN": (columns(f"SUM({nested_between(11)})"), {"epsilon": 1}),
    "functions": (columns(*(f"SUM(ROUND(COALESCE(GREATEST(age, {i}), pay) / 7, 1))" for i in range(90))), {"epsilon": 1}),
    "keys": ("SELECT COUNT(*) AS n FROM people GROUP BY age // 1, pay // 1", {"epsilon": 1}),
}
SESSIONS: dict[str, dict[str, Any]] = {"pure": {}, "rdp": {"delta": 1e-6, "currency": "rdp(16)"}}
IN_RDP = ("variances", "an error for sums")  # whose work grows most with the currency


@pytest.mark.parametrize(
    ("name", "account"),
    [(name, account) for name in AT_THE_LIMIT for account in SESSIONS if account == "pure" or name in IN_RDP],
)
def test_whatever_is_accepted_is_quoted_in_bounded_work(name: str, account: str) -> None:
    sql, price_of = AT_THE_LIMIT[name]
    asked = session(**SESSIONS[account])
    asked.quote("SELECT COUNT(*) AS n FROM people", epsilon=1).to_dict()  # whatever is imported
    assert calls(lambda: asked.quote(sql, **price_of).to_dict()) < MOST_CALLS


@pytest.mark.parametrize(
    ("sql", "price_of", "told"),
    [
        # reading stops at the first column that is too many, so how many follow is not known
        (columns(*["COUNT(*)"] * 900), {"epsilon": 1}, TOO_WIDE),
        (columns(*(f"SUM(age+{i})" for i in range(700))), {"epsilon": 1}, TOO_WIDE),
        (columns(*(f"VARIANCE(age + {i})" for i in range(101))), {"epsilon": 1}, "needs 303 statistics. Ask for fewer"),
        (columns(*(f"QUANTILE(age, 0.{i + 10})" for i in range(60))), {"epsilon": 1}, "1 statistic and 60 quantiles"),
        (columns(*(f"COUNT(DISTINCT age // {i + 1})" for i in range(31))), {"epsilon": 1},
         "0 statistics and 31 distinct counts, which count as 10 each"),
        (columns(*(f"SUM(age + {i})" for i in range(MAX_SEARCHED_STATISTICS + 1))), {"error": 9},
         "fewer columns.* or give epsilon="),
        (columns(*(f"SUM(age + {i})" for i in range(31))), {"error": 9},
         f"31 statistics .*at most {MAX_SEARCHED_STATISTICS}, or"),
        (columns(f"SUM({nested_between(17)})"), {"epsilon": 1}, "too long once each BETWEEN is written as two comparisons"),
        (WHERE + "age" + "[1]" * 4000 + " = 1", {"epsilon": 1}, "words and signs"),
        (WHERE + "dept = '" + "x" * 20_000 + "'", {"epsilon": 1}, "20,000 characters"),
        (WHERE + "\x00" * 10**6, {"epsilon": 1}, "20,000 characters"),
        ("SELECT COUNT(*) AS n FROM people GROUP BY " + ", ".join(f"age // {i + 1}" for i in range(900)), {"epsilon": 1},
         f"grouped by 900 columns. Group by at most {MAX_GROUPINGS}"),
        ("SELECT COUNT(*) AS n FROM people GROUP BY " + ", ".join(f"age // {i + 1}" for i in range(9)), {"epsilon": 1},
         "more than 1,000,000 combinations"),
    ],
)  # fmt: skip
def test_more_is_refused_at_once_and_unpaid(sql: str, price_of: dict[str, Any], told: str) -> None:
    asked = session()
    made = calls(lambda: _refused(asked, sql, price_of, told))
    assert made < MOST_CALLS
    assert asked.account.budget.spent == 0


def _refused(asked: Session, sql: str, price_of: dict[str, Any], told: str) -> None:
    for ask in (asked.quote, asked.ask):
        with pytest.raises(QueryRefused, match=told):
            ask(sql, **price_of)


def test_questions_in_python_have_the_same_limits() -> None:
    many = {f"a{i}": (col("age") + i).sum() for i in range(MAX_COLUMNS + 1)}
    with pytest.raises(QueryRefused, match=TOO_WIDE):
        session().quote(select(**many), epsilon=1)
    with pytest.raises(QueryRefused, match="304 statistics"):
        session().quote(select(n=count(), **{f"a{i}": (col("age") + i).variance() for i in range(101)}), epsilon=1)


def brute_force(threshold: Fraction) -> Fraction:
    """The least decimal of three digits that is not below the threshold, by trying them all in its power of ten."""
    power = next(power for power in range(-9, 4) if threshold <= Fraction(10) ** (power + 1))
    return next(value for digits in range(100, 1001) if (value := digits * Fraction(10) ** (power - 2)) >= threshold)


@settings(deadline=None)
@given(
    st.floats(1e-9, 1020).map(Fraction),
    st.sampled_from([1, 2, 0.5, 0.1, 5]),
    st.sampled_from([None, 0.5, 0.01]),
    st.booleans(),
)
def test_the_search_finds_the_least_of_three_digits_in_few_looks(
    threshold: Fraction, power: float, step: float | None, silent: bool
) -> None:
    """For errors that fall with any power of ε, in steps or not, and where too little ε buys nothing at all."""
    looks = 0

    def excess(epsilon: Fraction) -> float:
        nonlocal looks
        looks += 1
        if silent and epsilon < threshold:
            return inf
        ratio = float(threshold / epsilon) ** power
        rounded = ratio if step is None else max(step, ratio // step * step)
        return max(rounded, 1.0000001) if epsilon < threshold else min(rounded, 1.0)

    assert find_smallest_epsilon(excess) == brute_force(threshold)
    assert looks <= 40


def test_the_search_refuses_what_no_epsilon_reaches_and_stops_at_the_least() -> None:
    with pytest.raises(QueryRefused, match="up to 1024"):
        find_smallest_epsilon(lambda epsilon: 2.0)
    with pytest.raises(QueryRefused, match="up to 1024"):
        find_smallest_epsilon(lambda epsilon: inf)
    assert find_smallest_epsilon(lambda epsilon: 0.0) == Fraction(1, 10**9)


@settings(deadline=None)
@given(st.floats(1e-200, 1e200), st.floats(1e-200, 1e200), st.floats(-1, 1), st.booleans())
def test_a_guess_changes_nothing_but_the_number_of_looks(end: float, start: float, off: float, good: bool) -> None:
    looks = 0

    def holds(x: float) -> bool:
        nonlocal looks
        looks += 1
        return x >= end

    alone = smallest_where(holds, start)
    before, looks = looks, 0
    assert smallest_where(holds, start, guess=end * (1 + off * (1e-15 if good else 0.5))) == alone
    assert looks <= (10 if good else before + 6)


CURRENCIES = (Zcdp(), Rdp(Fraction(3, 2)), Rdp(Fraction(16)))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(CURRENCIES), st.integers(1, 5), st.integers(0, 40), st.integers(1, 999), st.integers(-14, 2))
def test_the_noise_is_the_one_that_a_plain_search_chooses(
    currency: Currency, l0: int, bits: int, digits: int, power: int
) -> None:
    moved, share = Sensitivity(l0=l0, linf=1 << bits), digits * Fraction(10) ** (power - 2)
    order = 1 if isinstance(currency, Zcdp) else currency.order  # type: ignore[union-attr]
    gaussian = Gaussian(sqrt_up(moved.l2_squared * order / (2 * share)))
    scale = smallest_where(
        lambda s: currency.cost(Laplace(s).event(moved))[0] <= share, float(gaussian.sigma), SCALE_TOLERANCE
    )
    laplace = Laplace(Fraction(scale))
    assert least_error_mechanism(moved, currency, share) == min(
        (laplace, gaussian), key=lambda noise: noise.error(COMPARISON_CONFIDENCE)
    )
