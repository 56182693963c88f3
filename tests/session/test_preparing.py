"""`prepare`: the file is complete and private or does not exist, and is asked as its source is."""

import logging
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet import connect, prepare
from discreet.engines.base import owner_log
from discreet.engines.duckdb import prepared
from discreet.errors import BadParameter, DiscreetError, QueryRefused, SourceRefused
from discreet.ledger import open_ledger
from discreet.query.policy import write_policy
from discreet.query.schema import Column, Kind
from discreet.session import preparing
from discreet.session.options import SourceOptions
from discreet.session.source import open_source

DECLARED: dict[str, Any] = {
    "max_groups": 2,
    "max_rows": 2,
    "epsilon": 10,
    "delta": 1e-6,
    "bounds": {"pay": (0, 100), "age": (0, 59)},
}
QUERIES = (
    "SELECT dept, COUNT(*) AS n, SUM(pay) AS s FROM people GROUP BY dept",
    "SELECT dept, day, COUNT(*) AS n FROM people WHERE pay > 20 GROUP BY dept, day",
    "SELECT age // 10 AS decade, AVG(pay) AS mean FROM people GROUP BY age // 10",
    "SELECT COUNT(DISTINCT dept) AS n, MEDIAN(pay) AS middle FROM people",
)
ROWS = """SELECT {unit} AS id,
    CASE WHEN i % 11 > 0 THEN 'dept ' || hash(i) % 5 || CASE WHEN i % 7 = 0 THEN 'é' ELSE '' END END AS dept,
    i % 60 AS age, i % 97 AS pay, DATE '2026-01-01' + (hash(i, 1) % 4)::INTEGER AS day FROM range(400) t(i)"""
UNITS = {
    "integers": "CASE WHEN i % 13 > 0 THEN i % 37 END",
    "texts": "CASE WHEN i % 13 > 0 THEN 'ñ' || i % 37 END",
    "spellings": "CASE WHEN i % 13 > 0 THEN CASE WHEN i % 2 = 0 THEN '0' ELSE '' END || i % 20 END",
}


def write_people(path: Path, units: str = "integers") -> Path:
    duckdb.execute(f"COPY ({ROWS.format(unit=UNITS[units])}) TO '{path}'")
    return path


def read_all(source: Any, salt: str, **more: Any) -> list[Any]:
    """The exact integers of every query, with a salt."""
    session = connect(source, unit="id", table="people", **DECLARED, **more)
    found = []
    for sql in QUERIES:
        bounded = session.calibrate(sql, epsilon=1).bounded
        bounded = replace(bounded, table=replace(bounded.table, salt=salt))
        histograms = [sorted(session.engine.read_histogram(bounded, each)) for each in bounded.cell_counts]
        found.append((sorted(session.engine.read_totals(bounded), key=repr), histograms))
    return found


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_prepared_file_is_asked_as_its_source_is(units: str, suffix: str, tmp_path: Path) -> None:
    source = write_people(tmp_path / f"people.{suffix}", units)
    file = prepare(source, unit="id")
    assert file == tmp_path / "people.prepared.duckdb"
    salt = connect(file, epsilon=1).table.salt
    assert len(salt) >= 43  # 256 bits
    assert read_all(file, salt) == read_all(source, salt)
    assert read_all(file, "another") == read_all(source, "another") != read_all(source, salt)


def test_every_file_has_a_salt_of_its_own(tmp_path: Path) -> None:
    source = write_people(tmp_path / "people.parquet")
    files = [prepare(source, unit="id", output=tmp_path / f"{i}.duckdb") for i in range(2)]
    assert len({connect(file, epsilon=1).table.salt for file in files}) == 2


def test_a_replaced_file_keeps_its_salt_for_the_same_unit_and_table(tmp_path: Path) -> None:
    """So recorded answers are found again. Another unit or name gets a salt of its own."""
    source, output = write_people(tmp_path / "people.parquet"), tmp_path / "p.duckdb"
    salts = []
    different: tuple[dict[str, Any], ...] = (
        {"unit": "id"},
        {"unit": "id"},
        {"unit": "age"},
        {"unit": "age", "table": "other"},
    )
    for given in different:
        file = prepare(source, output=output, force=True, **given)
        salts.append(connect(file, epsilon=1).table.salt)
    assert salts[0] == salts[1]
    assert len(set(salts)) == 3


def test_a_glob_needs_an_output(tmp_path: Path) -> None:
    write_people(tmp_path / "people.parquet")
    with pytest.raises(BadParameter, match="output is missing"):
        prepare(f"{tmp_path}/p*.parquet", unit="id")
    assert connect(prepare(f"{tmp_path}/*.parquet", unit="id", output=tmp_path / "p.duckdb"), epsilon=1).table.name == "data"


def test_a_prepared_file_is_not_prepared_again(tmp_path: Path) -> None:
    file = prepare(write_people(tmp_path / "people.parquet"), unit="id")
    with pytest.raises(SourceRefused, match="prepared already"):
        prepare(file, unit="id")


def test_a_wrong_source_or_unit_is_said_before_an_output_that_exists(tmp_path: Path) -> None:
    source, output = write_people(tmp_path / "people.parquet"), tmp_path / "p.duckdb"
    prepare(source, unit="id", output=output)
    for given, unit, words in (
        (source, "idd", "no such column"),
        (tmp_path / "none.csv", "id", "no such file"),
        (source, None, "missing"),
    ):
        with pytest.raises((BadParameter, SourceRefused), match=words):
            prepare(given, unit=unit, output=output)


def test_a_column_of_a_type_that_cannot_be_read_is_said_to_be_one(tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS id, NULL AS none, [1] AS list FROM range(3)) TO '{tmp_path / 'people.parquet'}'")
    for unit in ("none", "list"):
        for call in (prepare, lambda source, unit: connect(source, unit=unit, epsilon=1)):
            with pytest.raises(BadParameter, match=r"of a type that cannot be read\. Store it .* take one of id"):
                call(tmp_path / "people.parquet", unit=unit)


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_people(tmp_path / "people.parquet")
    file = prepare(source, unit="id")

    monkeypatch.setattr(preparing, "may", lambda path, mode: False)
    with pytest.raises(BadParameter, match=r"it cannot be read \(Permission denied\), so it is not replaced"):
        prepare(source, unit="id", output=file, force=True)


def test_a_policy_gives_kinds_and_salt(tmp_path: Path) -> None:
    source = write_people(tmp_path / "people.csv")
    table = open_source(SourceOptions(source=source, unit="id")).table
    policy = tmp_path / "policy.toml"
    policy.write_text(write_policy(replace(table, salt="of the policy")), encoding="utf-8")
    file = prepare(source, policy=policy)
    assert connect(file, epsilon=1).table.salt == "of the policy"
    assert connect(file, policy=policy, epsilon=1).table == connect(source, policy=policy, epsilon=1).table
    assert connect(file, policy=replace(table, name="people"), epsilon=1).table.salt == "of the policy"
    policy.write_text(write_policy(replace(table, salt="another")), encoding="utf-8")
    with pytest.raises(SourceRefused, match="prepared with another salt than the policy has") as refused:
        connect(file, policy=policy, epsilon=1)
    assert "of the policy" not in str(refused.value)


def test_a_prepared_table_has_the_kinds_that_it_was_prepared_with(tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    source.write_text("id,zip\na,00100\nb,00200\n", encoding="utf-8")
    table = open_source(SourceOptions(source=source, unit="id")).table
    assert table.columns["zip"].kind is Kind.TEXT  # for its zeros
    policy = replace(table, columns={**table.columns, "zip": Column(Kind.INTEGER)})
    connect(source, policy=policy, epsilon=1)
    with pytest.raises(BadParameter, match=r"'integer' is declared, and the source holds text there\. Prepare its source"):
        connect(prepare(source, unit="id"), policy=policy, epsilon=1)
    connect(prepare(source, policy=policy, force=True), policy=policy, epsilon=1)


def test_the_file_is_private_from_the_start(tmp_path: Path) -> None:
    """While it is written, it is in a folder that nobody else can enter, with all that the engine writes beside it."""
    source, seen = write_people(tmp_path / "people.parquet"), []

    def look(share: float) -> None:
        for path in tmp_path.rglob("*"):
            if path != source:
                seen.append(path)
                private = path if path.parent == tmp_path else path.parent
                assert stat.S_IMODE(private.stat().st_mode) & 0o077 == 0
                assert not path.name.endswith(".prepared.duckdb") or stat.S_IMODE(path.stat().st_mode) == 0o600
        assert 0 < share <= 1

    before = os.umask(0)
    try:
        file = prepare(source, unit="id", progress=look)
    finally:
        os.umask(before)
    assert len(seen) > 5
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.parquet", "people.prepared.duckdb"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, duckdb.IOException])
def test_an_interrupted_run_leaves_nothing(
    stop: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_people(tmp_path / "people.csv")

    def fail(*given: Any) -> str:
        raise stop

    monkeypatch.setattr(prepared._Writer, "_create_rows", fail)
    with pytest.raises((stop, DiscreetError)):
        prepare(source, unit="id")
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_no_file_is_replaced_unless_it_is_a_prepared_one(tmp_path: Path) -> None:
    source = write_people(tmp_path / "people.parquet")
    file = prepare(source, unit="id")
    before = file.read_bytes()
    with pytest.raises(BadParameter, match="it exists"):
        prepare(source, unit="id")
    assert file.read_bytes() == before
    prepare(source, unit="id", force=True)
    assert file.read_bytes() != before
    other = tmp_path / "other.duckdb"
    with duckdb.connect(other) as connection:
        connection.execute("CREATE TABLE prepared AS SELECT 1 AS version")
    whole = file.read_bytes()
    (tmp_path / "text.duckdb").write_text("no database")
    (tmp_path / "truncated.duckdb").write_bytes(whole[:5_000])
    (tmp_path / "flipped.duckdb").write_bytes(bytes(each ^ 255 for each in whole[:64]) + whole[64:])
    damaged = "it cannot be read as a prepared file, and may be damaged, so it is not replaced. Remove it first"
    for name, words in (
        ("other", "not a prepared file, so it is not replaced"),
        ("text", damaged),
        ("truncated", damaged),
        ("flipped", damaged),
    ):
        path = tmp_path / f"{name}.duckdb"
        before = path.read_bytes()
        with pytest.raises(BadParameter, match=words):
            prepare(source, unit="id", output=path, force=True)
        assert path.read_bytes() == before
    (tmp_path / "link.duckdb").symlink_to(file)
    with pytest.raises(BadParameter, match="a link, so it is not replaced"):
        prepare(source, unit="id", output=tmp_path / "link.duckdb", force=True)


def test_what_cannot_be_prepared_is_refused(tmp_path: Path) -> None:
    source = write_people(tmp_path / "people.parquet")
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (source, {}, "No privacy unit|no privacy unit"),
        (source, {"unit": "idd"}, "no such column. Did you mean 'id'"),
        (source, {"unit": "row"}, "each row is a unit"),
        (source, {"unit": "id", "group_by": ["depth"]}, "Did you mean 'dept'"),
        (source, {"unit": "id", "group_by": "dept"}, "not a list of columns"),
        (source, {"unit": "id", "output": tmp_path / "people.db"}, "does not end in .duckdb"),
        (source, {"unit": "id", "output": tmp_path / "none" / "p.duckdb"}, "nothing can be written there"),
        (tmp_path / "none.csv", {"unit": "id"}, "there is no such file"),
        ("postgresql://db/people", {"unit": "id"}, "only files are prepared"),
        ("people.duckdb", {"unit": "id"}, "only files are prepared"),
        ([1, 2], {"unit": "id"}, "only files are prepared"),
    ]
    for given, options, words in wrong:
        with pytest.raises((BadParameter, SourceRefused), match=words):
            prepare(given, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["people.parquet"]


def test_the_unit_is_the_one_that_was_prepared(tmp_path: Path) -> None:
    file = prepare(write_people(tmp_path / "people.parquet"), unit="id")
    assert connect(file, epsilon=1).table.unit == "id"
    with pytest.raises(BadParameter, match="prepared for the unit 'id'"):
        connect(file, unit="dept", epsilon=1)
    with pytest.raises(BadParameter) as refused:
        connect(file)  # type: ignore[call-overload]
    assert str(refused.value).startswith("epsilon is missing")
    assert "unit" not in str(refused.value)


# -- what an analyst sees -------------------------------------------------------------------------------------------------


def test_nothing_of_the_file_itself_is_seen(tmp_path: Path) -> None:
    """Columns of the file's own are as if they did not exist, and what ran is shown as for the source, without the salt."""
    source = write_people(tmp_path / "people.parquet")
    file = prepare(source, unit="id")
    asked, plain = (connect(each, unit="id", **DECLARED) for each in (file, source))
    assert asked.engine.describe_columns() == plain.engine.describe_columns()
    assert asked.engine.names == plain.engine.names
    assert repr(asked) == repr(plain)
    own = ["unit code", "unit hash", "key 0 code", "key 0 place", "absent thing"]
    refusals = set()
    for name in own:
        for session in (asked, plain):
            with pytest.raises(QueryRefused) as refused:
                session.ask(f'SELECT SUM("{name}") AS s FROM people', epsilon=1)
            refusals.add(str(refused.value).replace(name, "…"))
    assert len(refusals) == 1
    for table in ("rows", "keys 0", "prepared"):
        with pytest.raises(QueryRefused):
            asked.ask(f'SELECT COUNT(*) AS n FROM "{table}"', epsilon=1)
    for sql in QUERIES[:2]:
        answer = asked.ask(sql, epsilon=1)
        shown = repr(answer) + str(answer.to_dict()) + str(answer.pipeline)
        assert asked.table.salt not in shown
        assert not any(name in shown for name in (*own, "keys 0"))


def test_a_prepared_file_is_a_source_of_its_own(tmp_path: Path) -> None:
    """Its answers are recorded under its own address, and found again there, but not for its source: a copy does not follow
    its source."""
    source = write_people(tmp_path / "people.parquet")
    file = prepare(source, unit="id")
    ledger = tmp_path / "hr.ledger"
    open_ledger(ledger, create=True).open_account("hr", 4, 1e-6)
    given: dict[str, Any] = {"unit": "id", "ledger": ledger, "max_groups": 2}
    first = connect(file, **given).ask(QUERIES[0].replace(", SUM(pay) AS s", ""), epsilon=1)
    again = connect(file, **given).ask(QUERIES[0].replace(", SUM(pay) AS s", ""), epsilon=1)
    assert (again.rows, again.reference.entry) == (first.rows, first.reference.entry)
    other = connect(source, **given).ask(QUERIES[0].replace(", SUM(pay) AS s", ""), epsilon=1)
    assert other.reference.entry != first.reference.entry


def test_a_source_that_changed_is_said_to_the_owner_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = write_people(tmp_path / "people.csv")
    file = prepare(source, unit="id")
    owner_log.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.WARNING):
            before = repr(connect(file, epsilon=1))
            assert caplog.text == ""
            source.write_text(source.read_text(encoding="utf-8") + "1,a,2,3,2026-01-01\n", encoding="utf-8")
            assert repr(connect(file, epsilon=1)) == before
            assert "the source changed after it was prepared" in caplog.text
    finally:
        owner_log.removeHandler(caplog.handler)
