"""Opening, versions, failures of the two databases."""

import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import psycopg
import pytest

from discreet.errors import BadParameter
from discreet.serve.control.database import LATEST_VERSION
from discreet.serve.control.errors import ControlUnavailable, StateChanged
from discreet.serve.control.model import Publication, PublicationState
from discreet.serve.control.sqlite import MAX_CONNECTIONS, SqliteDatabase
from discreet.serve.control.store import Control, open_control
from tests.serve.control.sample import add_ada, make_ask
from tests.serve.control.test_tables import make_table


def set_version(location: str, version: object) -> None:
    if location.startswith("postgresql:"):
        with psycopg.connect(location, autocommit=True) as server:
            server.execute("UPDATE control_schema SET version = %s", (version,))
    else:
        connection = sqlite3.connect(location, isolation_level=None)
        connection.execute("UPDATE control_schema SET version = ?", (version,))
        connection.close()


def test_what_was_written_is_there_after_opening_again(sql_location: str) -> None:
    with pytest.raises(ControlUnavailable, match="no control database"):
        open_control(sql_location, create=False)
    with open_control(sql_location) as control:
        ada = add_ada(control)
    with open_control(sql_location, create=False) as control:
        assert control.list_people() == (ada,)


@pytest.mark.parametrize("version", [LATEST_VERSION + 1, -1])
def test_an_unknown_version_is_refused_at_opening_and_in_use(sql_location: str, version: int) -> None:
    with open_control(sql_location) as control:
        add_ada(control)
        set_version(sql_location, version)
        with pytest.raises(ControlUnavailable, match="version"):
            open_control(sql_location)
        with pytest.raises(ControlUnavailable, match="version"):
            control.find_person("ada")
        with pytest.raises(ControlUnavailable, match="version"):
            control.disable_person("ada")
        set_version(sql_location, LATEST_VERSION)
        person = control.find_person("ada")
        assert person is not None
        assert not person.disabled


def test_parallel_openings_make_one_database(sql_location: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: open_control(sql_location), range(4)))
    add_ada(opened[0])
    assert all(control.find_person("ada") for control in opened)
    for control in opened:
        control.close()


def test_the_file_is_for_its_owner_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        with open_control(folder / "control.sqlite") as control:
            add_ada(control)
            modes = {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}


def test_the_page_caches_of_all_connections_together_are_bounded(folder: Path) -> None:
    """SQLite lets each connection keep 2 MB, which a long history of asks fills: 128 MB for the whole pool."""
    database = SqliteDatabase(folder / "control.db", create=True)
    with ExitStack() as stack:
        stack.callback(database.close)
        lent = [stack.enter_context(database.transaction(write=False)) for _ in range(8)]
        limits = [int(each.run("PRAGMA cache_size").fetchone()[0]) for each in lent]
    assert all(limit < 0 for limit in limits)  # in kilobytes, not in pages
    assert MAX_CONNECTIONS * max(-limit for limit in limits) <= 16 * 1024


def test_files_that_are_no_control_database_are_refused(folder: Path) -> None:
    (folder / "text").write_text("no database at all\n" * 100)
    with pytest.raises(ControlUnavailable, match="not a control database"):
        open_control(folder / "text")
    with pytest.raises(ControlUnavailable):
        open_control(folder / "missing" / "control.sqlite")
    with pytest.raises(ControlUnavailable):
        open_control(folder)


def test_an_address_with_a_password_is_not_repeated() -> None:
    with pytest.raises(ControlUnavailable) as refused:
        open_control("postgresql://ada:hidden@127.0.0.1:1/control")
    assert "hidden" not in str(refused.value)


def test_a_server_that_ended_every_connection_is_used_again(database: str) -> None:
    with open_control(database) as control:
        add_ada(control)
        with control.subscribe() as waiting:
            with psycopg.connect(database, autocommit=True) as server:
                server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                    "AND datname = current_database()"
                )
            assert control.find_person("ada") is not None
            while waiting.wait(0.5):
                pass
            with open_control(database) as other:
                other.enqueue("certificate", "x")
            assert waiting.wait(10)


def test_a_taken_id_is_refused_and_leaves_nothing(control: Control) -> None:
    ask = control.add_ask(make_ask())
    with pytest.raises(BadParameter, match="already"):
        control.add_ask(make_ask("other", id=ask.id), by="ada")
    assert control.trail.check() == 0
    assert control.find_ask_by_key("ada", "other") is None


def read_in_child(control: Control) -> bool:
    return control.find_person("ada") is not None and control.claim("child") is not None


def run_in_child(control: Control, result: "object") -> None:
    result.put(read_in_child(control))  # type: ignore[attr-defined]
    control.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # this process may have threads
def test_a_fork_opens_connections_of_its_own(control: Control) -> None:
    add_ada(control)
    control.add_ask(make_ask())
    context = get_context("fork")
    result = context.Queue()
    child = context.Process(target=run_in_child, args=(control, result))
    child.start()
    assert result.get(timeout=30)
    child.join()
    assert control.find_person("ada") is not None
    assert control.claim("parent") is None


def test_settings_proposals_and_publications(control: Control) -> None:
    assert control.find_setting("public_key") is None
    control.set_setting("public_key", "a")
    control.set_setting("public_key", "b", by="worker")
    assert control.find_setting("public_key") == "b"
    assert control.list_settings() == {"public_key": "b"}

    with pytest.raises(BadParameter, match="no such table"):
        control.add_proposal("people", "unit = 'id'", "steward")
    control.register_table(make_table(policy_version=3))
    versions = [control.add_proposal("people", f"# {number}", "steward").version for number in range(2)]
    assert versions == [4, 5]
    assert control.decide_proposal("people", 4, "accepted", by="owner").state == "accepted"
    for version in (4, 9):
        with pytest.raises(StateChanged):
            control.decide_proposal("people", version, "declined", by="owner")
    with pytest.raises(BadParameter):
        control.decide_proposal("people", 5, "open", by="owner")
    assert [each.version for each in control.list_proposals("people", "open")] == [5]
    assert control.find_proposal("people", 6) is None

    publication = Publication(
        id="p1", title="Pay", table="people", plan="", by="ada", state=PublicationState.DRAFT, created=0.0
    )
    control.add_publication(publication, by="ada")
    with pytest.raises(StateChanged):
        control.change_publication("p1", PublicationState.RUNNING, PublicationState.PUBLISHED)
    changed = control.change_publication(
        "p1", PublicationState.DRAFT, PublicationState.RUNNING, by="ada", quote={"epsilon": "1"}
    )
    assert control.find_publication("p1") == changed
    assert control.list_publications(state=PublicationState.RUNNING).items == (changed,)
    assert control.find_publication("p2") is None
