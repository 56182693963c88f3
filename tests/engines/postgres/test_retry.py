"""PostgreSQL fails half-way: the debit stays, there is no answer, and a retry with the same id is answered without another
charge. Spark's retries are in tests/engines/spark."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from discreet import BadParameter
from tests.support.failed_queries import COUNTS, FileLedger, count_by_dept
from tests.support.postgres_server import READER, Server, cluster, database, start_server, stop_server

SLOW = "CREATE OR REPLACE VIEW staff AS SELECT p.* FROM people p, (SELECT pg_sleep(60)) s"
FAST = "CREATE OR REPLACE VIEW staff AS SELECT * FROM people"


def create_staff(server: Server) -> None:
    server.create_people()
    server.run(FAST)


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


def when_reading(owner: psycopg.Connection[object], act: str) -> None:
    """Wait until a reader fetches rows, and then select this of its backend."""
    found = f"SELECT {act} FROM pg_stat_activity WHERE usename = %s AND query LIKE 'FETCH%%' AND state = 'active' " \
            "AND datname = current_database()"  # fmt: skip
    while not owner.execute(found, [READER]).fetchall():  # type: ignore[arg-type]
        time.sleep(0.05)


@contextmanager
def dropped(server: Server) -> Iterator[None]:
    server.run(SLOW)
    with meanwhile(lambda: when_reading(server.owner, "pg_terminate_backend(pid)")):
        yield
    server.run(FAST)


@contextmanager
def cancelled(server: Server) -> Iterator[None]:
    server.run(SLOW)
    with meanwhile(lambda: when_reading(server.owner, "pg_cancel_backend(pid)")):
        yield
    server.run(FAST)


@contextmanager
def forbidden(server: Server) -> Iterator[None]:
    server.run(f"REVOKE SELECT ON staff FROM {READER}")
    yield
    server.run(f"GRANT SELECT ON staff TO {READER}")


@contextmanager
def gone(server: Server) -> Iterator[None]:
    server.run("ALTER VIEW staff RENAME TO former")
    yield
    server.run("ALTER VIEW former RENAME TO staff")


@pytest.mark.parametrize("trouble", [dropped, cancelled, forbidden, gone])
@pytest.mark.parametrize("reconnect", [False, True])
def test_a_failed_query_is_answered_later_and_charged_once(
    trouble: Callable[[Server], object], reconnect: bool, postgres: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create_staff(postgres)
    ledger = FileLedger(tmp_path)
    session = ledger.session(postgres.reader, table="staff")
    with trouble(postgres):  # type: ignore[attr-defined]
        ledger.check_failure(session, caplog)
    ledger.check_retry(ledger.session(postgres.reader, table="staff") if reconnect else session)


def test_another_id_is_another_debit(postgres: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The mutant of a retry: it is charged twice, and the file shows it."""
    create_staff(postgres)
    ledger = FileLedger(tmp_path)
    session = ledger.session(postgres.reader, table="staff")
    with forbidden(postgres):
        ledger.check_failure(session, caplog)
    spent = ledger.spent
    assert count_by_dept(session, id="tuesday", fresh=True) == COUNTS
    assert ledger.spent == 2 * spent
    with pytest.raises(BadParameter, match="another measurement"):
        count_by_dept(ledger.session(postgres.reader, table="people"))  # not what monday was charged for


def test_a_timeout(postgres: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    create_staff(postgres)
    ledger = FileLedger(tmp_path)
    session = ledger.session(f"{postgres.reader}&options=-cstatement_timeout%3D200", table="staff")
    postgres.run(SLOW)
    ledger.check_failure(session, caplog)
    postgres.run(FAST)
    ledger.check_retry(ledger.session(postgres.reader, table="staff"))


def test_public_tables_that_could_not_be_copied_again(
    postgres: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A new connection needs the copies; without the right to make them it is closed again."""
    create_staff(postgres)
    ledger, name = FileLedger(tmp_path), postgres.owner.info.dbname
    (tmp_path / "depts.csv").write_text("dept,floor\na,up\nb,down\n")
    session = ledger.session(postgres.reader, table="staff", public={"depts": tmp_path / "depts.csv"})
    postgres.run(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
    session.engine.connection.close()  # type: ignore[attr-defined]
    ledger.check_failure(session, caplog)
    postgres.run(f"GRANT TEMPORARY ON DATABASE {name} TO PUBLIC")
    query = "SELECT floor, COUNT(*) AS n FROM staff JOIN depts USING (dept) GROUP BY floor"
    assert {keys[0] for keys, _ in session.ask(query, epsilon=1000).rows} == {"up", "down"}
    ledger.check_retry(session)


def test_a_server_that_is_restarted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once between two queries, and once in the middle of one."""
    name = f"own{uuid4().hex[:12]}"
    with cluster(name) as address:
        mine, reader = database(address)
        ledger = FileLedger(tmp_path)
        with psycopg.connect(mine, autocommit=True) as owner:
            create_staff(Server(owner, mine, reader))
            session = ledger.session(reader, table="staff")
            owner.execute(SLOW)

        def stop() -> None:
            with psycopg.connect(mine, autocommit=True) as owner:
                when_reading(owner, "1")
            stop_server(name, "fast")

        with meanwhile(stop):
            ledger.check_failure(session, caplog)
        start_server(name)
        with psycopg.connect(mine, autocommit=True) as owner:
            owner.execute(FAST)
        ledger.check_retry(session)
        stop_server(name, "fast")
        ledger.check_failure(session, caplog, id="tuesday", fresh=True)
        start_server(name)
        assert count_by_dept(session, id="tuesday", fresh=True) == COUNTS
