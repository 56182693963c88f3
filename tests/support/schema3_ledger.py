"""The ledger that a version with schema 3 wrote, with its key, certificates and a signed head (tests/ledger/golden)."""

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from discreet.ledger.sql_store import MIGRATIONS
from discreet.session.connect import connect
from discreet.session.session import Session

GOLDEN = Path(__file__).parent.parent / "ledger" / "golden"
CERTIFICATES = ("count", "mean", "piloted")
PEOPLE = Path(__file__).parent.parent.parent / "examples" / "people.csv"
COUNT = "SELECT COUNT(*) AS n FROM people"
MEAN = "SELECT AVG(pay) AS mean FROM people"


def read_golden(name: str) -> Any:
    """Read a certificate, or the signed head."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.fixture(params=["sqlite", "postgres"])
def schema3_ledger(request: pytest.FixtureRequest, folder: Path) -> str:
    """A copy of the ledger: its file, or its tables as that version made them in a database. The key is in `folder`."""
    file = folder / "hr.ledger"
    for suffix in ("", ".key"):
        shutil.copyfile(GOLDEN / f"schema3.ledger{suffix}", f"{file}{suffix}")
        os.chmod(f"{file}{suffix}", 0o600)
    if request.param == "sqlite":
        return str(file)
    import psycopg

    database = str(request.getfixturevalue("database"))
    with psycopg.connect(database) as there, sqlite3.connect(file) as here:
        for statement in (each for version in MIGRATIONS[:3] for each in version):
            there.execute(statement.format(key="BIGINT PRIMARY KEY", bytes="BYTEA"))  # type: ignore[arg-type]
        there.execute("CREATE TABLE discreet_schema (version BIGINT NOT NULL)")
        for table in ("schema", "entries", "accounts", "facts"):
            rows = here.execute(f"SELECT * FROM discreet_{table}").fetchall()
            marks = ", ".join(["%s"] * len(rows[0]))
            there.cursor().executemany(f"INSERT INTO discreet_{table} VALUES ({marks})", rows)  # type: ignore[arg-type]
    here.close()
    return database


def open_session(ledger: str, account: str, **more: Any) -> Session:
    """Open the session that asked the queries of the ledger; its source was at another path."""
    session = connect(PEOPLE, policy=GOLDEN / "policy.toml", ledger=ledger, account=account, **more)
    session.engine.identity = "/srv/data/people.csv"  # type: ignore[misc]
    return session
