"""What is the owner's stays with the owner: the key, the log that quotes values, and the salt."""

import dataclasses
import logging
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet import DiscreetError, Workload, WorkloadQuery, connect, select
from discreet.engines.base import OWNER_LOG_VARIABLE, open_log_file
from discreet.engines.base import owner_log as owner
from discreet.errors import BadParameter, LedgerUnavailable
from discreet.ledger.keys import load_key
from discreet.query.builder import count
from discreet.query.policy import read_policy
from discreet.session.session import Session
from discreet.workload import plan_workload
from tests.support.console import run
from tests.support.people import BY_DEPARTMENT, EVERYTHING, people, session

WIDER = (0o640, 0o644, 0o604, 0o660, 0o666, 0o601, 0o620, 0o777)
SALT = "pepper that nobody guesses"


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_the_owners_log_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "owner.log"
    for _ in range(2):
        handler = open_log_file(str(place))
        handler.emit(logging.makeLogRecord({"msg": "Mr Smith"}))
        handler.stream.close()  # type: ignore[attr-defined]
    assert mode(place) == 0o600
    lines = place.read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["no source: Mr Smith"] * 2


@pytest.mark.parametrize("wider", WIDER, ids=oct)
def test_a_log_or_a_key_that_others_can_use_is_refused(wider: int, tmp_path: Path) -> None:
    log, key = tmp_path / "my log", tmp_path / "my key"
    log.write_text("before\n")
    load_key(key)
    for place in (log, key):
        place.chmod(wider)
    with pytest.raises(BadParameter, match=rf"{OWNER_LOG_VARIABLE}.*chmod 600 '{log}'"):
        open_log_file(str(log))
    with pytest.raises(LedgerUnavailable, match=rf"mode {wider:04o}.*chmod 600 '{key}'"):
        load_key(key)
    assert (mode(log), log.read_text()) == (wider, "before\n")
    key.chmod(0o400)
    assert load_key(key).public


def test_a_log_that_is_no_file_of_its_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").touch(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "dangling", "pipe", "", "missing/log", "/dev/null"):
        with pytest.raises(BadParameter, match=OWNER_LOG_VARIABLE):
            open_log_file(str(tmp_path / name))
    assert not (tmp_path / "elsewhere").exists()


def test_the_command_refuses_before_anything_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").touch(0o644)
    (tmp_path / "log").chmod(0o644)
    monkeypatch.setenv(OWNER_LOG_VARIABLE, str(tmp_path / "log"))
    done = run("ask", tmp_path / "nobody.csv", "SELECT COUNT(*) AS n FROM nobody", "--unit", "id", "--epsilon", "1")
    assert done.returncode == 2
    assert "chmod 600" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_signing_command_refuses_a_key_that_others_can_read(tmp_path: Path) -> None:
    place = tmp_path / "hr.ledger"
    assert run("ledger", "open", place, "--account", "hr", "--epsilon", "1").returncode == 0
    assert run("ledger", "key", place).returncode == 0
    (tmp_path / "hr.ledger.key").chmod(0o644)
    for command in ("key", "head"):
        done = run("ledger", command, place)
        assert done.returncode == 4
        assert "chmod 600" in done.stderr


def salted(**more: Any) -> Session:
    opened = session(**more)
    return replace(opened, table=replace(opened.table, salt=SALT))


def parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """A value and everything that it holds, as far as dataclasses, mappings and sequences go."""
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    inside: list[Any] = []
    if dataclasses.is_dataclass(value):
        inside = [getattr(value, field.name) for field in dataclasses.fields(value) if field.name != "salt"]
    elif isinstance(value, Mapping):
        inside = [*value.values()]
    elif isinstance(value, tuple | list | set | frozenset):
        inside = [*value]
    for each in inside:
        yield from parts(each, seen)


def texts(value: Any) -> Iterator[str]:
    yield from (repr(value), str(value), f"{value}")
    for name in ("_repr_html_", "to_json", "to_csv", "to_dict", "to_dicts"):
        if callable(getattr(value, name, None)):
            yield str(getattr(value, name)())


def reachable() -> dict[str, Callable[[], Any]]:
    """What an analyst can get hold of."""
    builder = select(n=count())
    workload = Workload(
        source=people(), policy=salted().table, table="people", epsilon=1,
        questions=(WorkloadQuery(name="heads", sql=BY_DEPARTMENT, error=20),),
    )  # fmt: skip
    return {
        "session": salted,
        "table": lambda: salted().table,
        "policy": lambda: read_policy(f'table = "t"\nunit = "id"\nsalt = "{SALT}"\n[columns.id]\nkind = "integer"'),
        "outline": lambda: salted().outline(EVERYTHING),
        "measurement": lambda: salted().calibrate(EVERYTHING, epsilon=1),
        "quote": lambda: salted().quote(EVERYTHING, epsilon=1),
        "answer": lambda: salted().ask(EVERYTHING, epsilon=1),
        "selected": lambda: salted(keys=None, delta=1e-6).ask(BY_DEPARTMENT, epsilon=1),
        "tidy": lambda: salted().ask(BY_DEPARTMENT, epsilon=1).consistent().non_negative().integers(),
        "builder": lambda: salted().ask(builder, epsilon=1),
        "workload": lambda: workload,
        "plan": lambda: plan_workload(workload),
    }


@pytest.mark.parametrize("name", reachable())
def test_the_salt_occurs_in_nothing_that_an_analyst_can_print(name: str) -> None:
    for value in parts(reachable()[name](), set()):
        assert not [text for text in texts(value) if SALT in text], type(value)


@pytest.mark.parametrize(
    "sql",
    ["SELECT", "SELECT COUNT(*) FROM other", "SELECT SUM(dept) AS n FROM people", "SELECT MEDIAN(nothing) AS n FROM people"],
)
def test_the_salt_occurs_in_no_refusal(sql: str) -> None:
    for refused in (lambda: salted().ask(sql, epsilon=1), lambda: salted().ask(BY_DEPARTMENT, epsilon=1000)):
        with pytest.raises(DiscreetError) as raised:
            refused()
        assert SALT not in f"{raised.value!r} {raised.value} {vars(raised.value)}"


def test_a_table_that_shows_its_salt_is_the_mutant_that_these_tests_catch() -> None:
    @dataclass(frozen=True)
    class Shown:
        salt: str

    assert any(SALT in text for value in parts({"a": [Shown(SALT)]}, set()) for text in texts(value))


def test_the_owners_log_says_when_and_of_which_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On opening, in validation and in a question; and a value cannot forge an entry."""
    monkeypatch.setenv(OWNER_LOG_VARIABLE, str(tmp_path / "log"))
    (tmp_path / "bad.csv").write_text("id,pay\n" + "1,2\n" * 30_000 + "1,2,3\n")
    with duckdb.connect(str(tmp_path / "view.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, E'Mr\\n2020-01-01T00:00:00+00:00 forged: \\x1b[2J' AS v")
        connection.execute("CREATE VIEW view AS SELECT id, CAST(v AS INTEGER) AS v FROM t")
    handlers = list(owner.handlers)
    for source in ("bad.csv", "view.duckdb"):
        run("ask", tmp_path / source, "SELECT COUNT(*) AS n FROM view", "--table", "view", "--unit", "id", "--epsilon", "1")
        run("policy", "init", tmp_path / source, "--table", "view", "--unit", "id", "--out", "-")
    for handler in set(owner.handlers) - set(handlers):
        owner.removeHandler(handler)
        handler.stream.close()  # type: ignore[attr-defined]
    text = (tmp_path / "log").read_text(encoding="utf-8")
    entries = [line for line in text.splitlines() if not line.startswith("  ")]
    for entry in entries:
        moment, source = entry.partition(" ")[0], entry.partition(" ")[2]
        assert datetime.fromisoformat(moment).tzinfo is not None
        assert source.startswith((f"{tmp_path}/bad.csv", f"{tmp_path}/view.duckdb"))
    assert {f"{tmp_path}/bad.csv" in entry for entry in entries} == {True, False}
    assert "forged" in text
    assert "\x1b" not in text


def test_a_question_that_fails_is_logged_with_its_source(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    duckdb.sql("SELECT range AS id FROM range(10)").write_parquet(str(tmp_path / "people.parquet"))
    place = connect(tmp_path / "people.parquet", unit="id", epsilon=1)
    (tmp_path / "people.parquet").write_bytes(b"gone")
    owner.addHandler(caplog.handler)
    with pytest.raises(DiscreetError, match=OWNER_LOG_VARIABLE):
        place.ask("SELECT COUNT(*) AS n FROM people", epsilon=Fraction(1, 2))
    owner.removeHandler(caplog.handler)
    assert {record.source for record in caplog.records} == {str(tmp_path / "people.parquet")}  # type: ignore[attr-defined]
