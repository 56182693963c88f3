"""Nothing that an analyst writes reaches the engine as text; what is not supported is refused, with what to do instead."""

from contextlib import suppress
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pytest

from discreet.accounting import currencies
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import QueryRefused
from discreet.ledger.memory import MemoryAccount
from discreet.query import aggregates, ast
from discreet.query.ast import to_sql
from discreet.query.parser import DUCKDB, parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.query.validate import check_query
from discreet.session.session import Session
from discreet.units import Neighbours
from tests.support import people, random_tables
from tests.support.hostile_sql import EDGES, HOSTILE, SHARES, TRICKS
from tests.support.mangled_queries import ONE_PERSON, PEOPLE, Opening, fuzz, unanswered
from tests.support.random_tables import bounded, stored, text, world

STAFF = Table(
    "people",
    "id",
    {
        "id": Column(Kind.INTEGER),
        "dept": Column(Kind.TEXT, keys=("a", "b", "c")),
        "ok": Column(Kind.BOOLEAN),
        "pay": Column(Kind.REAL).with_bounds(0, 200),
        "day": Column(Kind.DATE),
    },
)


class Untouchable(DuckDB):
    """An engine that must not run."""

    def __init__(self) -> None:
        pass

    def read_totals(self, bounded: Any) -> Any:
        raise AssertionError(f"this reached the engine: {bounded.query}")


def session() -> Session:
    return Session(
        Untouchable(),
        PEOPLE,
        MemoryAccount(currencies.pure_filter(1)),
        currencies.pure_filter(1).limit * 0,
        Neighbours.ADD_REMOVE,
    )


def test_there_are_enough() -> None:
    assert len(set(HOSTILE)) >= 300


def test_hostile_texts_are_refused() -> None:
    place = session()
    for hostile in HOSTILE:
        with pytest.raises(QueryRefused) as refusal:
            place.ask(hostile, epsilon=1)  # the engine's own assertion names what would have been answered
        assert len(str(refusal.value)) < 1000, hostile[:200]
    assert place.account.budget == currencies.pure_filter(1)


def test_quantiles_and_histograms_are_refused_by_their_form() -> None:
    """Whatever can be answered, these cannot be read."""
    pieces = [*TRICKS, *(f"QUANTILE(age, {share})" for share in SHARES), *(f"HISTOGRAM(age{edges})" for edges in EDGES)]
    read = []
    for piece in pieces:
        with suppress(QueryRefused):
            check_query(parse_sql(f"SELECT {piece} AS x FROM people", PEOPLE), PEOPLE)
            read.append(piece)
    assert read == []


@pytest.mark.parametrize("hostile", [None, 1, b"SELECT COUNT(*) FROM people", ["SELECT"]])
def test_what_is_no_text_is_refused(hostile: Any) -> None:
    with pytest.raises(QueryRefused):
        parse_sql(hostile, PEOPLE)


def _in_duckdb() -> Opening:
    connection = duckdb.connect()
    return lambda place: stored(place, connection)


def test_no_statement_reaches_the_engine_and_raises() -> None:
    assert fuzz(_in_duckdb(), range(40_000, 40_020), 20) > 50


def test_long_and_deep_queries_are_answered() -> None:
    assert unanswered(stored(ONE_PERSON, duckdb.connect())) == []


def test_a_written_query_reads_back_the_same() -> None:
    for seed in range(300):
        rng = Random(seed)
        place = world(rng)
        bounded_query, _ = bounded(rng, place)
        assert parse_sql(text(bounded_query.query), place.table) == bounded_query.query, text(bounded_query.query)


def test_what_is_written_for_people_reads_back() -> None:
    for seed in range(200):
        query = random_tables.random_query(Random(seed))
        table = random_tables.policy(Random(seed), unique=False, text_units=False)
        assert parse_sql(to_sql(query, "uid"), table) == query


@pytest.mark.parametrize("function", ["VAR_SAMP", "var_samp", "VARIANCE_SAMP", "STDDEV_SAMP"])
def test_a_sample_variance_is_refused(function: str) -> None:
    with pytest.raises(QueryRefused, match=f"`{function}` is not supported. Write VAR_POP or STDDEV_POP"):
        parse_sql(f"SELECT {function}(pay) AS v FROM people", STAFF)


@pytest.mark.parametrize("function", ["VAR_POP", "VARIANCE", "STDDEV", "STDDEV_POP"])
def test_a_population_variance_is_read(function: str) -> None:
    assert isinstance(parse_sql(f"SELECT {function}(pay) AS v FROM people", STAFF).aggregates[0][1], aggregates.Variance)


def test_groupings_are_shown_once_and_in_the_order_of_select() -> None:
    query = parse_sql("SELECT ok AS fine, COUNT(*) AS n, dept FROM people GROUP BY dept, ok", STAFF)
    assert [group.name for group in query.groups] == ["fine", "dept"]
    assert [g.name for g in parse_sql("SELECT ok, COUNT(*) AS n FROM people GROUP BY dept, ok", STAFF).groups] == [
        "ok",
        "dept",
    ]
    for twice in ("dept AS d, dept AS e", "dept, dept"):
        with pytest.raises(QueryRefused, match="Select each grouping once"):
            parse_sql(f"SELECT {twice}, COUNT(*) AS n FROM people GROUP BY dept", STAFF)


def test_a_parser_that_cannot_be_configured_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled sqlglot's attributes are read-only, and its own QUANTILE(x, 0.5, 7) loses the 7."""

    class Compiled:
        __slots__ = ()

    class Dialect:
        tokenize, parser = DUCKDB.tokenize, Compiled

    monkeypatch.setattr("discreet.query.parser.DUCKDB", Dialect)
    with pytest.raises(QueryRefused, match="pip uninstall sqlglotc"):
        people.session().quote("SELECT COUNT(*) AS n FROM people", epsilon=1)


COUNT = "SELECT COUNT(*) AS n FROM people"
REFUSED = [
    # names
    ("SELECT SUM(Payy) AS s FROM people", 12, "The column `Payy` is not declared", "did you mean `pay`?"),
    ("SELECT SUM(people.payy) AS s FROM people", 12, "The column `people.payy` is not declared", "did you mean `pay`?"),
    (
        "SELECT SUM(salary) AS s FROM people",
        12,
        "The column `salary` is not declared",
        "use one of `id`, `dept`, `ok`, `pay`, `day`",
    ),
    ("SELECT SUM(staff.pay) AS s FROM people", 12, "The table `staff` is not known here", "write people.pay, or pay alone"),
    ("SELECT COUNT(*) AS n FROM poeple", 27, "The table `poeple` is not known", "write FROM people"),
    ("SELECT COUNT(*) AS n FROM read_csv('x')", 27, "The table `read_csv` is not known", "write FROM people"),
    # quotes
    (
        f'{COUNT} WHERE dept = "north"',
        47,
        '"north" is in double quotes, which name a column, and no such column is declared',
        "write 'north' in single quotes if you mean the text; otherwise use one of `id`, `dept`, `ok`, `pay`, `day`",
    ),
    (
        f"{COUNT} WHERE dept = north",
        47,
        "The column `north` is not declared",
        "write 'north' in single quotes if you mean the text; otherwise use one of `id`, `dept`, `ok`, `pay`, `day`",
    ),
    (
        f"{COUNT} WHERE 'dept' = 'a'",
        40,
        "'dept' is a text, because it is in single quotes, where a column or a number is expected",
        "write dept, without single quotes",
    ),
    (
        "SELECT SUM(pay - DATE '2024-01-01') AS s FROM people",
        18,
        "`DATE '2024-01-01'` stands where a column or a number is expected",
        "compare the column with dates: day BETWEEN DATE '2024-01-01' AND DATE '2024-12-31'",
    ),
    ("SELECT SUM(pay ** 2) AS s FROM people", 16, "`**` is not supported", "write x * x"),
    (
        "SELECT SUM('pay') AS s FROM people",
        12,
        "'pay' is a text, because it is in single quotes, where a column or a number is expected",
        "write pay, without single quotes",
    ),
    # constants
    (
        f"{COUNT} WHERE dept = 1",
        47,
        "The column `dept` holds text values, and `1` is not one",
        "write a constant such as 'a'",
    ),
    (
        f"{COUNT} WHERE pay = 'a'",
        46,
        "The column `pay` holds real values, and `'a'` is not one",
        "write a constant such as 1.5",
    ),
    (
        f"{COUNT} WHERE day > 'soon'",
        46,
        "The column `day` holds date values, and `'soon'` is not one",
        "write a constant such as DATE '2024-12-31'",
    ),
    (
        f"{COUNT} WHERE pay < 1e16",
        46,
        "The number `1e16` is too large or too fine",
        "write at most 10^15, with at most 15 decimals",
    ),
    # functions and signs
    ("SELECT AVERAGE(pay) AS a FROM people", 8, "`AVERAGE` is not supported", "did you mean AVG?"),
    ("SELECT quantil(pay, 0.5) AS a FROM people", 8, "`quantil` is not supported", "did you mean QUANTILE?"),
    (
        "SELECT SUM(pay / id) AS a FROM people",
        18,
        "`/` divides by a constant only, not by `id`: a division can fail on a row",
        "divide by a number (x / 12), divide the answers, or bin with x // 10",
    ),
    ("SELECT SUM(pay / 0.0) AS a FROM people", 18, "`/` divides by zero", "divide by a number that is not 0"),
    ("SELECT SUM(pay % 2) AS a FROM people", 16, "`%` is not supported", "bin with x // 10"),
    ("SELECT SUM(2 + pay % 2) AS a FROM people", 20, "`%` is not supported", "bin with x // 10"),
    (
        "SELECT SUM(TRUNC(pay)) AS a FROM people",
        12,
        "`TRUNC` is not supported",
        "write FLOOR(x), or CEIL(x) where x is negative",
    ),
    (
        "SELECT SUM(FLOOR(pay, 2)) AS a FROM people",
        12,
        "A second argument of FLOOR or CEIL is not supported",
        "leave it out, or write ROUND(x, 2)",
    ),
    ("SELECT SUM(ROUND(pay, 99)) AS a FROM people", 23, "ROUND takes -15 to 15 digits", "write ROUND(x, 2)"),
    ("SELECT SUM(rond(pay)) AS a FROM people", 12, "`rond` is not supported", "did you mean ROUND?"),
    (
        "SELECT SUM(CAST(pay AS INT)) AS a FROM people",
        12,
        "`CAST` is not supported",
        "declare the column's kind in the policy: a cast can fail on a row; of a timestamp, write DATE_TRUNC('day', at)",
    ),
    (
        "SELECT SUM(pay::INT) AS a FROM people",
        15,
        "`::` is not supported",
        "declare the column's kind in the policy: a cast can fail on a row; of a timestamp, write DATE_TRUNC('day', at)",
    ),
    (
        "SELECT SUM(LEN(dept)) AS a FROM people",
        12,
        "`LEN` is not supported",
        "compare the column with texts: dept = 'a', dept IN ('a', 'b'), or dept LIKE 'a%'",
    ),
    # dates
    (
        "SELECT SUM(YEAR(pay)) AS a FROM people",
        12,
        "`YEAR` takes a date or a timestamp, and `pay` is of kind real",
        "name a column of dates, or declare its kind in the policy",
    ),
    (
        "SELECT SUM(EXTRACT(epoch FROM day)) AS a FROM people",
        12,
        "`epoch` is not a part of a date that can be taken",
        "use one of year, quarter, month, day, hour, isodow",
    ),
    (
        f"{COUNT} WHERE DAYOFWEEK(day) = 1",
        40,
        "`DAYOFWEEK` is not supported",
        "write ISODOW(day): Monday = 1 to Sunday = 7; engines number other days of the week differently",
    ),
    (
        "SELECT SUM(DATE_TRUNC('month', day)) AS a FROM people",
        12,
        "`DATE_TRUNC` is a date, where a number is expected",
        "group by it, count its distinct values, or compare it with a date",
    ),
    (
        f"{COUNT} GROUP BY DATE_TRUNC('hour', day)",
        43,
        "`hour` is not a period that DATE_TRUNC knows",
        "use one of day, week, month, quarter, year",
    ),
    (
        f"{COUNT} GROUP BY DATE_TRUNC('month', day, 'UTC')",
        43,
        "`DATE_TRUNC` takes two arguments, not 3",
        "write DATE_TRUNC('month', day), with one of day, week, month, quarter and year",
    ),
    (
        f"{COUNT} WHERE day > TIMESTAMPTZ '2024-01-01'",
        46,
        "The column `day` holds date values, and `TIMESTAMPTZ '2024-01-01'` is not one",
        "write a constant such as DATE '2024-12-31'",
    ),
    (
        f"{COUNT} WHERE YEAR(day) = '2024'",
        52,
        "'2024' is a text, because it is in single quotes, where a column or a number is expected",
        "write 2024, without single quotes",
    ),
    (
        f"{COUNT} WHERE day > NOW()",
        46,
        "`NOW` is not supported",
        "compare the column with dates: day BETWEEN DATE '2024-01-01' AND DATE '2024-12-31'",
    ),
    (
        f"{COUNT} WHERE day > CURRENT_DATE",
        46,
        "`CURRENT_DATE` is not supported",
        "compare the column with dates: day BETWEEN DATE '2024-01-01' AND DATE '2024-12-31'",
    ),
    (
        "SELECT MODE(pay) AS a FROM people",
        8,
        "`MODE` is not supported",
        "count each value: SELECT x, COUNT(*) AS n FROM … GROUP BY x",
    ),
    (
        "SELECT KURTOSIS(pay) AS a FROM people",
        8,
        "`KURTOSIS` is not supported",
        "use COUNT, SUM, AVG, VARIANCE, STDDEV, MIN, MAX, MEDIAN, QUANTILE, HISTOGRAM, COVAR_POP or CORR",
    ),
    # patterns
    (
        f"{COUNT} WHERE dept ILIKE 'a%'",
        45,
        "`ILIKE` is not supported",
        "write LIKE, which tells capitals from small letters, or dept LIKE 'a%' OR dept LIKE 'A%'",
    ),
    (
        f"{COUNT} WHERE dept LIKE 'a!%' ESCAPE '!'",
        56,
        "`ESCAPE` is not supported",
        "leave ESCAPE out, and write _ for a character that is % or _ itself",
    ),
    (
        f"{COUNT} WHERE dept LIKE 'a\\%'",
        50,
        "A pattern of LIKE holds a backslash, which engines read differently",
        "use _ for that one character",
    ),
    (
        f'{COUNT} WHERE dept LIKE "a%"',
        50,
        'LIKE takes a text in single quotes, not `"a%"`',
        "write column LIKE 'a%', where % is any text and _ any one character",
    ),
    (
        f"{COUNT} WHERE pay LIKE '1%'",
        40,
        "LIKE takes a text, and the column `pay` is of kind real",
        "compare it with =, < or BETWEEN",
    ),
    (
        f"{COUNT} WHERE dept LIKE '%a%b%c%'",
        50,
        "A pattern of LIKE has more than 3 separate %, which takes long on long texts",
        "use fewer, or several LIKE joined by AND",
    ),
    (
        "SELECT COUNT(*) + 1 AS n FROM people",
        8,
        "The aggregate `COUNT` stands inside of an expression",
        "ask for the aggregate alone, and compute with the answer: post-processing is free",
    ),
    (
        "SELECT QUANTILE(pay, 2) AS q FROM people",
        8,
        "A quantile takes a share between 0 and 1, not `2`",
        "write QUANTILE(column, 0.9)",
    ),
    (
        "SELECT COUNT(DISTINCT dept, id) AS n FROM people",
        8,
        "COUNT(DISTINCT …) takes one column, or bins of one",
        "write COUNT(DISTINCT column) or COUNT(DISTINCT column // 10)",
    ),
    # clauses
    (
        f"{COUNT} ORDER BY pay",
        43,
        "ORDER BY names `pay`, which is no column of the answer",
        "use one of `n`, or an aggregate such as COUNT(*)",
    ),
    (
        f"{COUNT} HAVING pay > 5",
        41,
        "HAVING names `pay`, which is no column of the answer",
        "use one of `n`, or an aggregate such as COUNT(*)",
    ),
    (f"{COUNT} LIMIT 0", 40, "LIMIT takes an integer of at least 1, not `0`", "write LIMIT 3"),
    ("SELECT COUNT(*) AS n FROM people AS p", 27, "An alias of a table is not supported", "write the table's own name"),
    (
        "SELECT dept, COUNT(*) AS n FROM people",
        8,
        "`dept` is neither in GROUP BY nor aggregated",
        "add it to GROUP BY, or aggregate it, for example with AVG(…)",
    ),
    (f"{COUNT} WHERE ok OR", 43, "The SQL cannot be parsed near `OR`", "check commas, parentheses and quotes"),
]


@pytest.mark.parametrize(("query", "column", "reason", "hint"), REFUSED, ids=[query for query, *_ in REFUSED])
def test_a_refusal_quotes_what_was_written_and_says_what_works(query: str, column: int, reason: str, hint: str) -> None:
    with pytest.raises(QueryRefused) as refusal:
        parse_sql(query, STAFF)
    assert (refusal.value.reason, refusal.value.hint) == (reason, hint)
    assert (refusal.value.line, refusal.value.column) == (1, column)


def test_long_tokens_are_cut_in_a_refusal() -> None:
    with pytest.raises(QueryRefused) as refusal:
        parse_sql(f"{COUNT} WHERE pay = {'1' * 10_000}", STAFF)
    assert refusal.value.reason == f"The number `{'1' * 60}…` is too large or too fine"


def test_an_invisible_character_is_named() -> None:
    with pytest.raises(QueryRefused, match=r"invisible character U\+200B"):
        parse_sql("SELECT COUNT(*) AS n FROM pe\u200bople", STAFF)


def test_operands_of_a_chain_are_one_list_from_left_to_right() -> None:
    where = parse_sql(f"{COUNT} WHERE ok AND (pay > 1) AND (ok AND pay > 2) AND ((ok))", STAFF).where
    ok, compare = ast.Compare(ast.Order.EQUAL, ast.Ref("ok"), ast.Constant(True)), ast.Compare
    one, two = (compare(ast.Order.MORE, ast.Ref("pay"), ast.Number(n)) for n in map(Fraction, (1, 2)))
    assert where == ast.All((ok, one, ast.All((ok, two)), ok))


def test_nullif_takes_a_number_with_a_sign() -> None:
    """It is one number, and so compared before clipping."""
    for nullif in ("NULLIF(pay, -999)", "NULLIF(pay, (-999))"):
        [(_, total)] = parse_sql(f"SELECT SUM({nullif}) AS s FROM people", STAFF).aggregates
        assert total == aggregates.Sum(ast.NullIf(ast.Ref("pay"), ast.Number(Fraction(-999))))
