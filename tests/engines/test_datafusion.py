"""DataFusion, the fourth engine, under the suites of the others: the same integers, the same laws."""

from datetime import UTC, date, datetime
from decimal import Decimal
from math import nan
from typing import Any

import pyarrow
import pytest
from datafusion import SessionConfig, SessionContext

from discreet import BadParameter, EngineFailed, SourceRefused, connect
from discreet.engines.datafusion import DataFusion
from discreet.query.table import Kind
from tests.auditor.replaying import AGGREGATES, everything_replayed, replayed
from tests.engines.sparks import arrow
from tests.engines.suites import answering, differences, joined_breaches, joined_differences, reached
from tests.engines.test_postgres import asked
from tests.query.law import broken
from tests.query.mangled import ONE_PERSON, fuzz, unanswered
from tests.query.shape import unlike
from tests.query.worlds import World


def opened(place: World) -> DataFusion:
    return table(arrow(place), "people")


def table(rows: pyarrow.Table, name: str = "t", context: SessionContext | None = None) -> DataFusion:
    context = context or SessionContext()
    context.register_record_batches(name, [rows.to_batches() or [pyarrow.RecordBatch.from_pylist([], rows.schema)]])
    return DataFusion.of(context, name)


def test_the_same_integers() -> None:
    assert differences(opened, range(100, 115), 2) == []
    assert joined_differences(opened, range(5), 1) == []


def test_every_noise_is_given_what_its_loss_covers() -> None:
    found = everything_replayed(opened, range(43_003, 43_005))
    assert found.breaches == []
    assert found.asked == AGGREGATES


def test_types() -> None:
    columns: dict[str, tuple[pyarrow.DataType, list[Any]]] = {
        "uid": (pyarrow.string_view(), ["a", "a ", "A"]),
        "small": (pyarrow.uint8(), [255, 1, None]),
        "n0": (pyarrow.decimal128(38, 0), [Decimal(10) ** 30, Decimal(-7), Decimal(0)]),
        "n2": (pyarrow.decimal128(9, 2), [Decimal("1.25"), Decimal("-1.25"), None]),
        "r": (pyarrow.float32(), [nan, -0.0, 1.5]),
        "d": (pyarrow.date32(), [date(1, 1, 1), date(9999, 12, 31), None]),
        "t": (pyarrow.timestamp("us"), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None]),
        "ns": (pyarrow.timestamp("ns"), [datetime(2024, 2, 29), datetime(1970, 1, 1), None]),
        "b": (pyarrow.bool_(), [True, False, None]),
        "zoned": (pyarrow.timestamp("us", "UTC"), [datetime(2024, 1, 1, tzinfo=UTC)] * 3),
        "wide": (pyarrow.uint64(), [2**64 - 1, 0, None]),
        "raw": (pyarrow.binary(), [b"x", None, None]),
    }
    engine = table(pyarrow.table({name: pyarrow.array(values, kind) for name, (kind, values) in columns.items()}))
    whole, real, moment = Kind.INTEGER, Kind.REAL, Kind.TIMESTAMP
    assert {name: column.kind for name, column in engine.columns().items()} == {
        "uid": Kind.TEXT, "small": whole, "n0": whole, "n2": real, "r": real, "d": Kind.DATE, "t": moment, "ns": moment,
        "b": Kind.BOOLEAN,
    }  # fmt: skip
    found = set(asked(engine, "SELECT d, t, ns, COUNT(*) AS n FROM t GROUP BY d, t, ns"))
    assert found == set(zip(*(columns[name][1] for name in ("d", "t", "ns")), strict=True))
    bounds = {"n0": (-9, 9), "n2": (-1, 2), "r": (-1, 2), "small": (0, 300)}
    sums = asked(
        engine, "SELECT SUM(n0) AS a, SUM(small) AS b, SUM(n2) AS c, SUM(r) AS d, COUNT(r) AS e FROM t", bounds=bounds
    )
    assert sums == {(): (9 - 7, 256, 2**19 // 4, 3 * 2**18, 2)}


def test_sums_are_cut_off_and_do_not_wrap_around() -> None:
    engine = table(pyarrow.table({"uid": range(20_000), "x": [9_000_000_000_000_000] * 20_000}))
    assert asked(engine, "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 2**51 - 1)}, max_rows=2000) == {(): (2**63 - 1,)}


def test_another_reading_of_quotes_reaches_nothing() -> None:
    """In the user's context a backslash would escape a quote; the question's own context has no such setting."""
    odd = SessionContext(SessionConfig({"datafusion.sql_parser.dialect": "MySQL"}))
    engine = table(pyarrow.table({"uid": [1, 2], "s": ["a\\", "b"]}), context=odd)
    assert asked(engine, "SELECT COUNT(*) AS n FROM t WHERE s IN ('a\\', ' OR 1=1 --')") == {(): (1,)}


def test_whoever_has_a_context_asks() -> None:
    context = SessionContext()
    ids = list(range(900))
    context.register_record_batches(
        "people", [pyarrow.table({"id": ids, "dept": ["ab"[i % 3 == 0] for i in ids]}).to_batches()]
    )
    session = connect(context, table="people", unit="id", unique=True, epsilon=1000, keys={"dept": ("a", "b")})
    found = session.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1000).rows
    assert [row[0].value for _, row in found] == [600, 300]
    for wrong in ({"table": "nobody"}, {}):
        with pytest.raises(SourceRefused):
            connect(context, unit="id", epsilon=1, **wrong)  # type: ignore[arg-type]
    with pytest.raises(BadParameter):
        connect(context, table="people", path="x.parquet", unit="id", epsilon=1)


def test_what_it_says_when_it_fails_stays_with_the_owner(caplog: pytest.LogCaptureFixture) -> None:
    engine = table(pyarrow.table({"uid": [1], "s": ["secret"]}))
    with pytest.raises(EngineFailed) as failed:
        list(engine._rows('SELECT CAST("s" AS BIGINT) FROM given'))
    assert "secret" not in str(failed.value)
    assert "secret" in caplog.text


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, 200, 20))
def test_at_length(start: int) -> None:
    seeds = range(start + 20_000, start + 20_020)
    assert differences(opened, seeds, 8) == []
    assert broken(answering(opened), seeds, 4) == []
    assert joined_differences(opened, seeds, 3) == []
    assert joined_breaches(opened, seeds, 2) == []
    assert replayed(opened, seeds, 3).breaches == []


@pytest.mark.nightly
def test_bad_and_hostile_inputs_at_length() -> None:
    assert unlike(lambda place, name: opened(place), range(71_000, 71_012), 150) == []
    assert fuzz(opened, range(50_000, 50_010), 20) > 20
    assert unanswered(opened(ONE_PERSON)) == []
    assert reached(opened) == []
