"""What is wrong is refused in one sentence, before anything is paid; and small promises that were once broken."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from discreet import Neighbours, col, count, select
from discreet._numbers import MAX_CONFIDENCE, MIN_CONFIDENCE, check_positive, parse_rational, to_rational
from discreet.accounting.currencies import Zcdp, parse_currency
from discreet.errors import BadParameter, DiscreetError, QueryRefused
from discreet.formats import to_arrow, to_polars
from discreet.mechanisms import Laplace
from discreet.mechanisms.weighted_sums import weighted_sum_error
from discreet.query import aggregates, ast
from discreet.query.builder import to_number
from discreet.query.calibrate import read_error
from discreet.query.contribution import bound_contributions
from discreet.query.parser import DUCKDB, parse_sql
from discreet.query.policy import read_policy
from discreet.query.schema import Column, Kind, Table
from discreet.query.statistics import CentredSum, RowCount, UnitCount, ValueCount
from discreet.testing import seeded_bits
from tests.query.people import BY_DEPARTMENT, session

COUNT = "SELECT COUNT(*) AS n FROM people"
MEDIAN = "SELECT dept, MEDIAN(pay) AS m, COUNT(*) AS n FROM people GROUP BY dept"
PEOPLE = Table(
    "people",
    "id",
    {
        "id": Column(Kind.INTEGER),
        "dept": Column(Kind.TEXT, keys=("a", "b", "c")),
        "ok": Column(Kind.BOOLEAN),
        "pay": Column(Kind.REAL).with_bounds(0, 200),
        "drift": Column(Kind.REAL).with_bounds(-3, 5),
    },
    max_groups=2,
    max_rows=3,
)


def of(*aggregates: tuple[str, Any], **more: Any) -> ast.Query:
    return ast.Query("people", aggregates, **more)


CONNECTIONS: list[tuple[dict[str, Any], str]] = [
    ({"unique": "no"}, "unique is 'no'"),
    ({"bounds": {"pay": (0,)}}, "bounds is pay"),
    ({"bounds": {"pay": 5}}, "bounds is pay"),
    ({"bounds": [("pay", 0, 5)]}, "bounds is list"),
    ({"keys": {"dept": 5}}, "keys is dept"),
    ({"keys": {"dept": "abc"}}, "keys is dept: 'abc'"),
    ({"keys": [["a"]]}, "keys is list"),
    ({"keys": {"dept": [["a"]]}}, "keys is"),
    ({"table": 5}, "table is int"),
    ({"policy": 5}, "policy is int"),
    ({"public": ["cities.csv"]}, "public is list"),
    ({"unit": ["id"]}, "no such column"),
    ({"neighbours": "friends"}, "Take add-remove or replace"),
    ({"neighbours": ["replace"]}, "Take add-remove or replace"),
    ({"currency": "euro"}, "Take pure, zcdp"),
    ({"currency": 5}, "currency is int"),
]


@pytest.mark.parametrize(("said", "named_so"), CONNECTIONS)
def test_what_is_said_wrongly_of_a_source_is_refused(said: dict[str, Any], named_so: str) -> None:
    with pytest.raises(BadParameter, match=named_so):
        session(**said)


def test_currencies_and_neighbours_have_the_names_of_the_command_line() -> None:
    opened = session(delta=1e-6, currency="zcdp", neighbours="replace")
    assert opened.account.budget.currency == Zcdp()
    assert opened.neighbours is Neighbours.REPLACE


QUESTIONS: list[tuple[Any, dict[str, Any], str]] = [
    (COUNT, {"bits": 42}, "bits is 42"),
    (COUNT, {"progress": 5}, "progress is 5"),
    (COUNT, {"id": 5}, "id is 5"),
    (COUNT, {"weights": []}, "weights is list"),
    (COUNT, {"weights": "n"}, "weights is str"),
    (COUNT, {"weights": 5}, "weights is int"),
    (COUNT, {"size": 10**400}, "size is inf"),
    (COUNT, {"size": -(10**5000)}, "size is -inf"),
    (MEDIAN, {"confidence": 1 - 1e-15, "simultaneous": True}, "confidence is"),
    (MEDIAN, {"confidence": 1e-300}, "confidence is 1e-300"),
    (MEDIAN, {"confidence": Fraction(1, 10**400)}, "confidence is 0.0"),
    (of(("n", 5)), {}, "The aggregates of Query"),
    (of(("n", aggregates.Sum(None))), {}, "The value of Sum is missing"),  # type: ignore[arg-type]
    (of(("n", aggregates.CountRows()), where=5), {}, "The where of Query is an int"),
    (of(("n", aggregates.CountRows()), where=ast.Not("x")), {}, "The part of Not is a str"),  # type: ignore[arg-type]
    (of(("n", aggregates.CountRows()), groups=["dept"]), {}, "The groups of Query is a list"),
    (select(n=aggregates.Sum(None)), {}, "The value of Sum is missing"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("more", [{}, {"bounds": "auto"}])
@pytest.mark.parametrize(("question", "how", "named_so"), QUESTIONS)
def test_what_is_asked_wrongly_is_refused_unpaid(
    question: Any, how: dict[str, Any], named_so: str, more: dict[str, Any]
) -> None:
    asked = session(**more)
    with pytest.raises(DiscreetError, match=named_so):
        asked.ask(question, epsilon=1, **how)
    assert asked.account.budget.spent == 0


def test_a_quote_refuses_the_same_confidences() -> None:
    for confidence in (1 - 1e-15, 1e-300, 0, 1, float("nan"), "0.95"):
        with pytest.raises(BadParameter, match="confidence is"):
            session().quote(MEDIAN, epsilon=1, confidence=confidence)  # type: ignore[arg-type]
        with pytest.raises(BadParameter, match="confidence is"):
            session().find_epsilon(COUNT, 5, confidence=confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("confidence", "simultaneous", "delta"),
    [*product((MIN_CONFIDENCE, MAX_CONFIDENCE, Fraction(1, 3)), (True, False), (0, 1e-6))],
)
def test_every_confidence_that_is_taken_can_be_kept(confidence: Fraction, simultaneous: bool, delta: float) -> None:
    asked = session(delta=delta, **({"keys": {}} if delta else {}))  # with a δ, keys are selected too
    assert asked.quote(MEDIAN, epsilon=1, confidence=confidence).columns  # type: ignore[arg-type]
    answer = asked.ask(MEDIAN, epsilon=1, confidence=confidence, simultaneous=simultaneous)  # type: ignore[arg-type]
    for _, row in answer.rows:
        assert all(cell.lower <= cell.value <= cell.upper for cell in row)
    assert answer.plot().get_title()


def test_a_tiny_tail_is_shared_out_without_rounding_to_nothing() -> None:
    """The union of the parts is wider than the sum itself is at a tail that is a thousand times as likely, and finite."""
    noise, terms = Laplace(10), ((Fraction(1, 2), 20), (Fraction(1, 3), 3))
    assert (
        weighted_sum_error(noise, terms, 1e-22)
        > weighted_sum_error(noise, terms, 1e-19)
        > weighted_sum_error(noise, terms, 1e-5)
    )


def test_an_error_at_a_tiny_confidence_is_nothing_and_no_accident() -> None:
    assert Laplace(10).error(Fraction(1, 10**400)) == 0
    with pytest.raises(BadParameter, match="confidence"):
        Laplace(10).error(1 - Fraction(1, 10**400))


HUGE = "1e999999999"
READERS: list[Callable[[], Any]] = [
    lambda: read_error(HUGE),
    lambda: read_error(HUGE + "%"),
    lambda: parse_currency(f"rdp({HUGE})"),
    lambda: to_number(HUGE),
    lambda: to_number(Decimal(HUGE)),
    lambda: to_rational(Decimal(HUGE)),
    lambda: to_rational(Decimal("-1e-999999999")),
    lambda: parse_rational(HUGE),
    lambda: parse_rational("0." + "1" * 10**6),
    lambda: parse_rational("1/0"),
    lambda: check_positive(-(10**5000), "scale"),
    lambda: read_policy(f'table = "t"\nunit = "i"\n[columns.i]\nkind = "integer"\nlower = 0\nupper = {HUGE}'),
    lambda: read_policy(f"max_rows = {'9' * 5000}"),
    lambda: read_policy(f"max_rows = {HUGE}{HUGE[2:]}9999999999"),
]


@pytest.mark.parametrize("read", READERS)
def test_numbers_of_a_billion_digits_are_never_written_out(read: Callable[[], Any]) -> None:
    with pytest.raises((BadParameter, QueryRefused)):
        read()


def test_what_can_be_written_is_read() -> None:
    assert parse_rational(" 1e-300 ") == Fraction(1, 10**300)
    assert parse_rational("3/2") == Fraction(3, 2) == parse_currency("rdp(3/2)").order  # type: ignore[union-attr]
    assert parse_rational(f"0{HUGE[1:]}") == 0
    assert to_rational(Decimal("5e-324")) == Fraction(5, 10**324)


def moved(query: str, neighbours: Neighbours, measure: Any) -> Any:
    return bound_contributions(parse_sql(query, PEOPLE), PEOPLE, neighbours).sensitivity(measure)


GROUPED = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"


@pytest.mark.parametrize("measure", [RowCount(), ValueCount(ast.Ref("pay")), UnitCount()])
def test_a_replaced_unit_moves_one_count_once(measure: Any) -> None:
    most = 1 if measure == UnitCount() else 3
    one = moved(COUNT, Neighbours.REPLACE, measure)
    assert (one.l0, one.l1, one.linf) == (1, most, most)
    assert one == moved(COUNT, Neighbours.ADD_REMOVE, measure)
    three = moved(GROUPED, Neighbours.REPLACE, measure)  # three departments, of which a unit has up to two
    assert (three.l0, three.l1, three.linf) == (3, 3 * most, most)


def test_a_replaced_unit_moves_a_sum_by_its_range() -> None:
    one_sided, signed = CentredSum(ast.Ref("pay"), 0), CentredSum(ast.Ref("drift"), 0)
    assert moved(COUNT, Neighbours.REPLACE, one_sided) == moved(COUNT, Neighbours.ADD_REMOVE, one_sided)
    assert moved(COUNT, Neighbours.REPLACE, signed).linf == 2 * moved(COUNT, Neighbours.ADD_REMOVE, signed).linf
    assert moved(COUNT, Neighbours.REPLACE, signed).l0 == 1


@pytest.mark.parametrize("function", ["VAR_SAMP", "var_samp", "VARIANCE_SAMP", "STDDEV_SAMP"])
def test_a_sample_is_no_population(function: str) -> None:
    with pytest.raises(QueryRefused, match="Write VAR_POP or STDDEV_POP"):
        parse_sql(f"SELECT {function}(pay) AS v FROM people", PEOPLE)


@pytest.mark.parametrize("function", ["VAR_POP", "VARIANCE", "STDDEV", "STDDEV_POP"])
def test_a_population_is_one(function: str) -> None:
    assert isinstance(parse_sql(f"SELECT {function}(pay) AS v FROM people", PEOPLE).aggregates[0][1], aggregates.Variance)


@pytest.mark.parametrize(
    "columns",
    [
        "COUNT(*) AS n, SUM(pay) AS n_lower",
        "SUM(pay) AS n_reliable, COUNT(*) AS n",
        'HISTOGRAM(pay, 100) AS h, COUNT(*) AS "h[0,100)"',
        "dept AS n_upper, COUNT(*) AS n",
    ],
)
def test_no_two_columns_of_a_table_have_one_name(columns: str) -> None:
    grouped = " GROUP BY dept" * columns.startswith("dept")
    with pytest.raises(QueryRefused, match="another name"):
        bound_contributions(parse_sql(f"SELECT {columns} FROM people{grouped}", PEOPLE), PEOPLE, Neighbours.ADD_REMOVE)


def test_edges_that_look_the_same_are_refused() -> None:
    with pytest.raises(QueryRefused, match="12 digits"):
        col("pay").histogram(1, "1.0000000000001", "1.0000000000002")


def test_groupings_are_shown_once_and_in_the_order_of_select() -> None:
    query = parse_sql("SELECT ok AS fine, COUNT(*) AS n, dept FROM people GROUP BY dept, ok", PEOPLE)
    assert [group.name for group in query.groups] == ["fine", "dept"]
    assert [g.name for g in parse_sql("SELECT ok, COUNT(*) AS n FROM people GROUP BY dept, ok", PEOPLE).groups] == [
        "ok",
        "dept",
    ]
    for twice in ("dept AS d, dept AS e", "dept, dept"):
        with pytest.raises(QueryRefused, match="select each grouping once"):
            parse_sql(f"SELECT {twice}, COUNT(*) AS n FROM people GROUP BY dept", PEOPLE)


def test_what_no_frame_can_hold_becomes_a_double_outward() -> None:
    far, header = 10**30 + 1, ("n", "n_lower", "n_upper", "k")
    rows = [(far, far, far, 1), (1, 1, 1, 2)]
    for found in (to_arrow(header, rows).to_pydict(), to_polars(header, rows).to_dict(as_series=False)):
        assert found["n"] == [1e30, 1.0]
        assert found["k"] == [1, 2]
        assert found["n_lower"][0] < far < found["n_upper"][0]


def test_a_far_sum_is_shown_in_every_form() -> None:
    answer = session(bounds={"pay": (0, 1e30)}).ask("SELECT SUM(pay) AS s FROM people", epsilon=1)
    assert answer.to_arrow().num_rows == answer.to_polars().height == len(answer.to_pandas()) == 1


JOINS: list[Any] = [("a",), ("a", "b", "c"), 5, ("a", 5), ["a", "b"]]


@pytest.mark.parametrize("on", JOINS)
def test_a_join_is_by_two_names(on: Any) -> None:
    with pytest.raises(QueryRefused, match="one column of either table"):
        select(n=count()).join("cities", on=on)


@pytest.mark.parametrize("listed", ["abc", 5])
def test_keys_of_a_grouping_are_a_list(listed: Any) -> None:
    with pytest.raises(QueryRefused, match="The keys of `dept` are not a list"):
        select(n=count()).group_by("dept", keys={"dept": listed})


@pytest.mark.parametrize("column", [["pay"], 5, None, "nobody"])
def test_bounds_are_found_of_a_column(column: Any) -> None:
    asked = session(bounds="auto")
    with pytest.raises(QueryRefused, match="not a column of numbers"):
        asked.find_bounds(column, epsilon=1)
    assert asked.account.budget.spent == 0


def test_an_rdp_account_says_that_it_has_no_delta_to_give() -> None:
    asked = session(delta=1e-6, currency="rdp(16)", keys={})
    with pytest.raises(QueryRefused, match=r"an account in rdp has no δ to discover them\. Declare them"):
        asked.quote(BY_DEPARTMENT, epsilon=1)


def test_an_outline_needs_no_bounds_that_are_still_to_be_found() -> None:
    asked = session(bounds={"pay": "auto"})
    assert asked.outline("SELECT SUM(pay) AS s FROM people").max_groups == 1
    assert asked.account.budget.spent == 0
    assert asked.ask("SELECT SUM(pay) AS s FROM people", epsilon=8, bits=seeded_bits(1)).rows


def test_a_reader_that_cannot_be_taught_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled sqlglot's attributes are read-only, and its own QUANTILE(x, 0.5, 7) loses the 7."""

    class Compiled:
        __slots__ = ()

    class Dialect:
        tokenize, parser = DUCKDB.tokenize, Compiled

    monkeypatch.setattr("discreet.query.parser.DUCKDB", Dialect)
    with pytest.raises(QueryRefused, match="pip uninstall sqlglotc"):
        session().quote("SELECT COUNT(*) AS n FROM people", epsilon=1)
