"""Covariances and correlations: over complete pairs, with the stated sensitivity and intervals that hold."""

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from random import Random

import duckdb
import pytest

from discreet import connect
from discreet.accounting.currencies import Receipt
from discreet.errors import QueryRefused
from discreet.query import ast, estimates
from discreet.query.aggregates import Correlation, Covariance
from discreet.query.answer import Answer, ExactTotals, release
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.query.statistics import CentredProduct, Statistic
from discreet.testing import seeded_bits
from discreet.units import Neighbours, Sensitivity
from tests.support.chance import FALSE_POSITIVE, binomial_tail
from tests.support.oracle import reference
from tests.support.random_tables import World
from tests.support.rounds import pairs_by_day
from tests.support.sensitivity_property import as_stated, breaches

TABLE = Table(
    "people",
    "uid",
    {
        "uid": Column(Kind.INTEGER),
        "dept": Column(Kind.TEXT, keys=("a", "b")),
        "x": Column(Kind.INTEGER).with_bounds(0, 100),
        "y": Column(Kind.REAL).with_bounds(-1, 3),
    },
    max_groups=2,
    max_rows=3,
)
TYPES = {"uid": "BIGINT", "dept": "VARCHAR", "x": "INTEGER", "y": "DOUBLE"}
PAIR = ast.Ref("x"), ast.Ref("y")


# -- sensitivity -----------------------------------------------------------------------------------------------------------


def corner(unit: int, x: int, y: float) -> list[dict[str, object]]:
    """A unit with as much as it may bring, at one corner of the two ranges."""
    return [{"uid": unit, "dept": dept, "x": x, "y": y} for dept in ("a", "b") for _ in range(3)]


def measure_change(relation: Neighbours, stated: object = None) -> tuple[list[str], Sensitivity, int]:
    """What is exceeded, the sensitivity of the products, and how far they really move in total."""
    groups = (ast.Grouping("dept", ast.Ref("dept")),)
    query = bound_contributions(ast.Query("people", (("c", Covariance(*PAIR)),), None, groups), TABLE, relation)
    rest = World(TABLE, tuple(corner(1, 3, 0.5)), TYPES)
    before = rest.plus(corner(2, 100, 3.0))
    after = rest if relation is Neighbours.ADD_REMOVE else rest.plus(corner(2, 100, -1.0))
    [product] = [each for each in query.statistics if isinstance(each, CentredProduct)]
    found = [reference(query, place.rows) for place in (before, after)]
    moved = sum(abs(found[0][product].get(key, 0) - found[1][product].get(key, 0)) for key in (("a",), ("b",)))
    return breaches(query, *found, stated or as_stated), query.sensitivity(product), moved  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_sensitivity_of_products_is_reached_and_not_exceeded(relation: Neighbours) -> None:
    exceeded, sensitivity, moved = measure_change(relation)
    assert exceeded == []
    assert moved == sensitivity.l1

    def inside(query: BoundedQuery, statistic: Statistic) -> Sensitivity:  # the mutant: a range that is a little narrower
        if not isinstance(statistic, CentredProduct):
            return as_stated(query, statistic)
        narrow = replace(
            query.table,
            columns={**query.table.columns, "y": Column(Kind.REAL).with_bounds(Fraction(-9, 10), Fraction(29, 10))},
        )
        return as_stated(replace(query, table=narrow), statistic)

    assert measure_change(relation, inside)[0]


def test_products_that_cannot_fit_are_refused() -> None:
    wide = Column(Kind.INTEGER).with_bounds(0, 2**50)
    table = replace(TABLE, columns={**TABLE.columns, "x": wide, "y": wide})
    with pytest.raises(QueryRefused, match="more than 2\\^62"):
        bound_contributions(ast.Query("people", (("c", Covariance(*PAIR)),)), table, Neighbours.ADD_REMOVE)


# -- over complete pairs ---------------------------------------------------------------------------------------------------


def test_a_pair_with_a_missing_value_is_in_no_statistic() -> None:
    rng, connection = Random(5), duckdb.connect()
    connection.execute("CREATE TABLE people (uid BIGINT, x INTEGER, y DOUBLE, z INTEGER)")
    rows = [
        (i, *(None if rng.random() < 0.3 else value for value in (rng.randint(0, 100), rng.choice([-1.0, 0.5, 3.0]), i % 7)))
        for i in range(400)
    ]
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    asked = connect(
        connection, table="people", unit="uid", unique=True, epsilon=10**9, bounds={"x": (0, 100), "y": (-1, 3), "z": (0, 6)}
    )
    pairs = {"x, y": "x, y", "y, x": "y, x", "x, z * 2 + 1": "x, z * 2 + 1", "x + z, y": "x + z, y", "x, x": "x, x"}
    for pair, same in pairs.items():
        sql = f"SELECT COVAR_POP({pair}) AS c, CORR({pair}) AS r FROM people"
        found = asked.ask(sql, epsilon=10**7).to_dicts()[0]
        [(covariance, correlation)] = connection.execute(f"SELECT COVAR_POP({same}), CORR({same}) FROM people").fetchall()
        assert found["c"]["value"] == pytest.approx(covariance, abs=1e-3)
        assert found["r"]["value"] == pytest.approx(correlation, abs=1e-4)


# -- intervals -------------------------------------------------------------------------------------------------------------

DRAWS = 4000
QUERIES = {
    "c": ("COVAR_POP(x, y)", Covariance),
    "r": ("CORR(x, y)", Correlation),
}


def draw(name: str, slope: float, n: int, epsilon: Fraction, delta: Fraction) -> tuple[Answer, float]:
    """Independent answers about the same pairs, as groups that all hold them; and the truth."""
    rng = Random(7)
    pairs = [
        (x, slope * (x - 50) / 25 + (1 - abs(slope)) * rng.uniform(-2, 2) + 1)
        for x in (rng.uniform(0, 100) for _ in range(n))
    ]
    keys = tuple(map(str, range(DRAWS)))
    columns = {**TABLE.columns, "dept": Column(Kind.TEXT, keys=keys), "x": Column(Kind.REAL).with_bounds(0, 100)}
    table = replace(TABLE, columns=columns, max_groups=1, max_rows=1)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (uid BIGINT, dept VARCHAR, x DOUBLE, y DOUBLE)")
    asked = connect(
        connection, table="people", unit="uid", unique=True, epsilon=10**6, delta=delta,
        bounds={"x": (0, 100), "y": (-1, 3)}, keys={"dept": keys},
    )  # fmt: skip
    measurement = asked.calibrate(f"SELECT dept, {QUERIES[name][0]} AS v FROM people GROUP BY dept", epsilon=epsilon)
    rows = [{"uid": i, "dept": "0", "x": x, "y": y} for i, (x, y) in enumerate(pairs)]
    bounded = replace(measurement.bounded, keys=(("0",),), table=replace(table, unique=True))
    exact = reference(bounded, rows)
    totals = tuple(exact[each].get(("0",), 0) for each in measurement.bounded.scalars)
    answer = release(
        measurement, ExactTotals([(totals, (key,)) for key in keys], {}), Receipt(1, measurement.event), bits=seeded_bits(41)
    )
    return answer, true_value(name, dict(zip(measurement.bounded.scalars, totals, strict=True)), measurement.bounded)


def true_value(name: str, totals: dict[Statistic, int], bounded: BoundedQuery) -> float:
    """The clipped statistic, computed in fractions from the exact moments."""
    x, y, products, n, *squares = (Fraction(totals[each]) for each in bounded.scalars)
    covariance = products / n - x * y / n**2
    if name == "c":
        [product] = [each for each in bounded.scalars if isinstance(each, CentredProduct)]
        return float(covariance * product.step_size(bounded.table))
    xx, yy = squares
    return float(covariance) / sqrt((xx / n - (x / n) ** 2) * (yy / n - (y / n) ** 2))


def covers(answer: Answer, truth: float) -> bool:
    """Whether as many intervals hold as they say; a hair is left to the doubles of the truth itself."""
    missed = sum(not row[0].lower - 1e-9 <= truth <= row[0].upper + 1e-9 for _, row in answer.rows)
    return binomial_tail(missed - 1, DRAWS, Fraction(1, 20)) > FALSE_POSITIVE


PAIRS = [(0.9, 1000, Fraction(1)), (-1.0, 300, Fraction(1)), (0.0, 200, Fraction(1)), (0.3, 5, Fraction(1, 2))]
"""A slope, how many pairs, and ε."""


@pytest.mark.parametrize(("name", "pairs", "delta"), pairs_by_day(QUERIES, PAIRS, [Fraction(0), Fraction(1, 10**6)]))
def test_intervals_hold_as_often_as_they_say(name: str, pairs: tuple[float, int, Fraction], delta: Fraction) -> None:
    answer, truth = draw(name, *pairs, delta)
    assert covers(answer, truth)
    assert all(row[0].lower <= row[0].value <= row[0].upper for _, row in answer.rows)
    assert (
        sum(row[0].reliable and not row[0].lower - 1e-9 <= truth <= row[0].upper + 1e-9 for _, row in answer.rows)
        <= DRAWS / 20
    )


@pytest.mark.parametrize("name", QUERIES)
def test_the_coverage_test_notices_an_error_of_the_products_that_is_left_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = estimates._bound_covariance
    monkeypatch.setattr(
        estimates,
        "_bound_covariance",
        lambda noisy, errors: bound(noisy, errors._replace(products=0, left=0, right=0, pairs=0)),
    )
    assert not covers(*draw(name, 0.0, 1000, Fraction(1), Fraction(0)))


def test_a_correlation_of_100_000_people_is_within_a_tenth() -> None:
    """The figure that is promised: half-width at most 0.1 at n = 10⁵ and ε = 1, for values spread over their bounds."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS uid, i % 101 AS x, 40 * ((i * 7919) % 1000) / 1000.0 + (i % 101) * 0.6 AS y "
        "FROM range(100000) t(i)"
    )
    asked = connect(connection, table="people", unit="uid", unique=True, epsilon=1, bounds={"x": (0, 100), "y": (0, 100)})
    sql = "SELECT CORR(x, y) AS r FROM people"
    [quoted] = asked.quote(sql, epsilon=1, size=100_000).columns
    assert quoted.half_widths[0][1] <= 0.1
    estimate = asked.ask(sql, epsilon=1, bits=seeded_bits(1)).rows[0][1][0]
    assert (estimate.upper - estimate.lower) / 2 <= 0.02
    [(truth,)] = connection.execute("SELECT CORR(x, y) FROM people").fetchall()
    assert estimate.lower <= truth <= estimate.upper
    assert estimate.reliable


def test_no_correlation_of_constant_values_is_reliable() -> None:
    """It does not exist: nothing is known but −1 to 1."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS uid, 50 AS x, i % 101 AS y FROM range(10000) t(i)")
    asked = connect(connection, table="people", unit="uid", unique=True, epsilon=1, bounds={"x": (0, 100), "y": (0, 100)})
    estimate = asked.ask("SELECT CORR(x, y) AS r FROM people", epsilon=1, bits=seeded_bits(2)).rows[0][1][0]
    assert (estimate.lower, estimate.upper, estimate.reliable) == (-1, 1, False)


@pytest.mark.parametrize("size", [50, 1000, 100_000])
def test_the_quoted_half_width_of_a_covariance_is_an_upper_bound(size: int) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS SELECT i AS uid, i % 2 * 100 AS x, i % 2 * 100 AS y FROM range({size}) t(i)")
    asked = connect(connection, table="people", unit="uid", unique=True, epsilon=10, bounds={"x": (0, 100), "y": (0, 100)})
    sql = "SELECT COVAR_POP(x, y) AS c FROM people"
    estimate = asked.ask(sql, epsilon=2, bits=seeded_bits(3)).rows[0][1][0]
    [quoted] = asked.quote(sql, epsilon=2, size=size * 9 // 10).columns
    assert (estimate.upper - estimate.lower) / 2 <= quoted.half_widths[0][1]


def test_how_pairs_are_asked() -> None:
    query = parse_sql("SELECT COVAR_POP(x, y) AS c, CORR(x, y) AS r FROM people", TABLE)
    assert query.aggregates == (("c", Covariance(*PAIR)), ("r", Correlation(*PAIR)))
    for wrong, hint in {
        "COVAR_SAMP(x, y)": "Write COVAR_POP",
        "REGR_SLOPE(x, y)": "ask for COVAR_POP",
        "CORR(x, dept)": "cannot be computed with",
        "CORR(x, y, TRUE)": "A third argument is not supported",
    }.items():
        with pytest.raises(QueryRefused, match=f"(?i){hint}"):
            bound_contributions(parse_sql(f"SELECT {wrong} AS v FROM people", TABLE), TABLE, Neighbours.ADD_REMOVE)
