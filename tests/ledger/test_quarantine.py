"""Quarantine: the same rule in every place, durable, counted by all processes, and lifted by the owner alone."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter, LedgerCorrupted, LedgerUnavailable, SourceQuarantined, SourceRefused
from discreet.ledger import open_ledger
from discreet.ledger.chain import to_storable
from discreet.ledger.check import check_ledger
from discreet.ledger.owner_state import FileQuarantine, default_state_folder, default_state_path
from discreet.ledger.quarantine import RESOURCE_LIMIT, FailureKind, MemoryQuarantine, Quarantine
from tests.ordinary_user import ordinary_user
from tests.support.console import run
from tests.support.jsonl_store import SCHEME
from tests.support.small_ledger import make_small_ledger

PLACES = ["memory", "state", "sqlite", "postgres", SCHEME]
EXAMPLES = count()
ODD = ["/data/people.csv", "ü/帳簿 #1?'\".csv", "a\0b", "\udc80.csv", "x" * 3000, ""]
Opener = Callable[[], Quarantine]
History = list[tuple[str, int, int]]


@pytest.fixture(params=PLACES)
def open_quarantine(request: pytest.FixtureRequest, folder: Path) -> Opener:
    """A function that opens the same quarantine again, as a new process would."""
    match request.param:
        case "memory":
            quarantine = MemoryQuarantine()
            return lambda: quarantine
        case "state":
            return lambda: FileQuarantine(folder / "state" / "sources.ledger")
        case "sqlite":
            make_small_ledger(folder / "l").close()
            return lambda: open_ledger(folder / "l").quarantine
        case scheme if scheme == SCHEME:
            make_small_ledger(f"{SCHEME}://{folder}/l").close()
            return lambda: open_ledger(f"{SCHEME}://{folder}/l").quarantine
    database = request.getfixturevalue("database")
    make_small_ledger(database).close()
    return lambda: open_ledger(database).get_account("hr").quarantine


def is_quarantined(quarantine: Quarantine, source: str) -> bool:
    try:
        quarantine.check(source)
    except SourceQuarantined as refused:
        return refused.source == source
    return False


operations = st.lists(
    st.tuples(st.sampled_from(["decoding", "resource", "resource", "lift"]), st.integers(0, 2), st.integers(0, 1)),
    max_size=12,
)


def compare_with_model(handles: tuple[Quarantine, Quarantine], names: list[str], history: History) -> None:
    """Assert that every outcome is that of a model of three lines, from two handles in turn."""
    failures: dict[str, list[str]] = {name: [] for name in names}

    def expected(name: str) -> bool:
        return "decoding" in failures[name] or failures[name].count("resource") >= RESOURCE_LIMIT

    for action, source, handle in history:
        name = names[source]
        if action != "lift":
            handles[handle].record_failure(name, FailureKind(action))
            failures[name].append(action)
        elif expected(name):
            handles[handle].lift(name)
            failures[name] = []
        else:
            with pytest.raises(BadParameter, match="is not quarantined"):
                handles[handle].lift(name)
        for each in names:
            assert [is_quarantined(quarantine, each) for quarantine in handles] == [expected(each)] * 2
        listed = {each.source for each in handles[0].list_quarantined()}
        assert [not listed.isdisjoint({each, to_storable(each)}) for each in names] == [expected(each) for each in names]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=operations, names=st.permutations(ODD))
def test_every_quarantine_follows_the_rule(open_quarantine: Opener, names: list[str], history: History) -> None:
    handles = open_quarantine(), open_quarantine()
    example = next(EXAMPLES)  # earlier examples leave their sources there
    compare_with_model(handles, [f"{name} {example}" for name in names], history)
    if hasattr(handles[0], "store"):
        from discreet.ledger.chain import Ledger

        assert check_ledger(Ledger(handles[0].store)).is_valid


class Forgetful(MemoryQuarantine):
    """A mutant that forgets resource failures when a decoding failure of another source comes between."""

    def record_failure(self, source: str, kind: FailureKind) -> None:
        if kind is FailureKind.DECODING:
            self._counts.clear()
        super().record_failure(source, kind)


class Lenient(MemoryQuarantine):
    """A mutant that takes a decoding failure for one of resources."""

    def record_failure(self, source: str, kind: FailureKind) -> None:
        super().record_failure(source, FailureKind.RESOURCE)


@pytest.mark.parametrize("mutant", [Forgetful, Lenient])
def test_the_model_notices_a_mutant(mutant: type[MemoryQuarantine]) -> None:
    history = [("decoding", 0, 0), *[("resource", 1, 0)] * 2, ("decoding", 2, 0), ("resource", 1, 0)]
    quarantine = mutant()
    with pytest.raises(AssertionError):
        compare_with_model((quarantine, quarantine), ODD[:3], history)


def test_the_message_names_nothing_but_the_source() -> None:
    messages = set()
    for kinds in ([FailureKind.DECODING], [FailureKind.RESOURCE] * 3, [FailureKind.RESOURCE] * 2 + [FailureKind.DECODING]):
        quarantine = MemoryQuarantine()
        for kind in kinds:
            quarantine.record_failure("people.csv", kind)
        with pytest.raises(SourceRefused) as refused:
            quarantine.check("people.csv")
        messages.add(str(refused.value))
    assert len(messages) == 1
    assert "discreet source lift" in messages.pop()


def test_a_failure_is_in_the_chain_and_its_deletion_is_found(sql_location: str) -> None:
    ledger = make_small_ledger(sql_location)
    ledger.quarantine.record_failure("people.csv", FailureKind.DECODING)
    assert check_ledger(ledger).quarantined == ("people.csv",)
    edits = {
        "DELETE FROM discreet_sources": "failures counted",
        "UPDATE discreet_sources SET decoding = 0": "failures counted",
        "UPDATE discreet_sources SET source = 'other.csv'": "not the hash of the source",
        "DELETE FROM discreet_entries WHERE number = (SELECT MAX(number) FROM discreet_entries)": "failures counted",
        "DELETE FROM discreet_entries WHERE kind = 'failure'": "entries are missing",
        "UPDATE discreet_entries SET kind = 'lift' WHERE kind = 'failure'": "differs from the columns",
    }
    for edit, problem in edits.items():
        found = None
        try:
            with ledger.store.write_transaction() as transaction:
                transaction.run(edit, ())
                raise Found(transaction)
        except Found as rolled_back:
            found = rolled_back.problem
        assert problem in str(found), edit
    assert check_ledger(ledger).is_valid


class Found(Exception):
    """What a check finds inside a transaction that is then undone."""

    def __init__(self, transaction: Any) -> None:
        from contextlib import contextmanager

        from discreet.ledger.chain import Ledger

        class Inside:
            location = "here"

            def check_integrity(self) -> None:
                """Nothing but the chain is checked here."""

            @contextmanager
            def read_transaction(self) -> Iterator[Any]:
                yield transaction

        self.problem = check_ledger(Ledger(Inside())).problem  # type: ignore[arg-type]
        super().__init__(self.problem)


RIVAL = """
import sys
from discreet.ledger import open_ledger
from discreet.ledger.owner_state import FileQuarantine
from discreet.ledger.quarantine import FailureKind
quarantine = FileQuarantine(sys.argv[1]) if sys.argv[2] == "state" else open_ledger(sys.argv[1]).quarantine
for i in range(int(sys.argv[3])):
    quarantine.record_failure("people.csv", FailureKind.RESOURCE)
"""


@pytest.mark.parametrize("kind", ["state", "sqlite", "postgres"])
def test_failures_that_processes_record_at_once_all_count(kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """The file of the owner's state does not exist when they begin: they also race to make it."""
    location = str(request.getfixturevalue("database") if kind == "postgres" else folder / "state" / "l")
    if kind != "state":
        (folder / "state").mkdir()
        make_small_ledger(location).close()
    rivals = [subprocess.Popen([sys.executable, "-c", RIVAL, location, kind, "5"]) for _ in range(4)]
    assert [rival.wait() for rival in rivals] == [0] * 4
    ledger = open_ledger(location)
    [found] = ledger.quarantine.list_quarantined()
    assert found.failures.resource == 20
    assert check_ledger(ledger).is_valid


def test_the_state_is_the_owners_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCREET_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "xdg"))
    assert default_state_folder() == folder / "xdg" / "discreet"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(folder / "home"))
    assert default_state_folder() == folder / "home" / ".local" / "state" / "discreet"
    monkeypatch.setenv("DISCREET_STATE", str(folder / "mine"))
    FileQuarantine(default_state_path()).record_failure("people.csv", FailureKind.DECODING)
    assert (folder / "mine").stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in (folder / "mine").iterdir()} == {0o600}
    (folder / "mine").chmod(0o755)
    with pytest.raises(LedgerUnavailable, match="chmod 700"):
        default_state_folder()


@pytest.mark.parametrize("content", [b"", b"no database\n" * 1000, b"SQLite format 3\0"])
def test_a_damaged_state_is_an_error_and_never_an_empty_one(folder: Path, content: bytes) -> None:
    path = folder / "state" / "sources.ledger"
    FileQuarantine(path).record_failure("people.csv", FailureKind.DECODING)
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(content)
    for act in (
        lambda quarantine: quarantine.check("people.csv"),
        lambda quarantine: quarantine.list_quarantined(),
        lambda quarantine: quarantine.record_failure("people.csv", FailureKind.RESOURCE),
    ):
        with pytest.raises((LedgerCorrupted, LedgerUnavailable)):
            act(FileQuarantine(path))


def test_a_database_that_is_no_state_is_an_error(folder: Path) -> None:
    import sqlite3

    path = folder / "state" / "sources.ledger"
    path.parent.mkdir(mode=0o700)
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(LedgerUnavailable):
        FileQuarantine(path).check("people.csv")


def test_a_source_whose_failures_cannot_be_recorded_is_not_queried() -> None:
    with ordinary_user(), TemporaryDirectory() as folder:
        state = Path(folder, "state")
        state.mkdir(mode=0o500)
        with pytest.raises(LedgerUnavailable, match="DISCREET_STATE"):
            FileQuarantine(state / "sources.ledger").check("people.csv")
        state.chmod(0o700)
        FileQuarantine(state / "sources.ledger").check("people.csv")


def test_a_disk_without_room_for_a_failure_is_refused_at_the_first_check(folder: Path) -> None:
    script = """
import resource, signal, sys
from discreet.ledger.owner_state import FileQuarantine
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
FileQuarantine(sys.argv[1]).check("people.csv")
"""
    command = [sys.executable, "-c", script, str(folder / "state" / "sources.ledger")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "discreet.errors.LedgerUnavailable" in done.stderr
    assert "the file of the owner's state cannot be made" in done.stderr
    assert list((folder / "state").iterdir()) == []


def test_the_first_failure_makes_the_file_and_every_check_looks_for_it(folder: Path) -> None:
    path = folder / "state" / "sources.ledger"
    reading, writing = FileQuarantine(path), FileQuarantine(path)
    reading.check("people.csv")
    assert reading.list_quarantined() == ()
    with pytest.raises(BadParameter, match="The quarantined sources are: none"):
        reading.lift("people.csv")
    assert list(path.parent.iterdir()) == []
    writing.record_failure("people.csv", FailureKind.DECODING)
    with pytest.raises(SourceQuarantined):
        reading.check("people.csv")
    path.unlink()
    with pytest.raises(LedgerUnavailable, match="moved, removed or replaced"):  # once opened, it may not disappear
        reading.check("people.csv")


def test_a_state_folder_that_cannot_be_made_says_so(folder: Path) -> None:
    (folder / "file").write_text("in the way")
    with pytest.raises(LedgerUnavailable, match="DISCREET_STATE"):
        FileQuarantine(folder / "file" / "state" / "sources.ledger").check("people.csv")


@pytest.mark.parametrize("kind", ["state", "sqlite"])
def test_the_owner_lists_and_lifts(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_STATE", str(folder / "state"))
    source = str((folder / "people.csv").resolve())
    option = () if kind == "state" else ("--ledger", folder / "l")
    make_small_ledger(folder / "l").close()
    with open_ledger(folder / "l") as ledger:
        quarantine = FileQuarantine(default_state_path()) if kind == "state" else ledger.quarantine
        quarantine.record_failure(source, FailureKind.DECODING)
    listed = run("source", "list", *option, "--json")
    assert json.loads(listed.stdout) == {"quarantined": [{"source": source, "decoding": 1, "resource": 0}]}
    assert source in run("source", "list", *option).stdout
    unknown = run("source", "lift", "other.csv", *option)
    assert unknown.returncode == 2
    assert "people.csv" in unknown.stderr
    monkeypatch.chdir(folder)
    assert json.loads(run("source", "lift", "people.csv", *option, "--json").stdout) == {"lifted": [source]}
    assert "No source is quarantined." in run("source", "list", *option).stdout
    assert run("source", "lift", "people.csv", *option).returncode == 2


def test_quarantine_ends_with_exit_code_4() -> None:
    script = "import discreet.cli as c\nfrom discreet.errors import SourceQuarantined\n" + (
        "def fail(): raise SourceQuarantined('people.csv')\nc.app = fail\nc.main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "'people.csv' is quarantined" in done.stderr
    assert "discreet help ledger#quarantine" in done.stderr


def test_ledger_check_lists_what_is_quarantined(folder: Path) -> None:
    with make_small_ledger(folder / "l") as ledger:
        ledger.quarantine.record_failure("people.csv", FailureKind.DECODING)
    assert "Quarantined: 'people.csv'" in run("ledger", "check", folder / "l").stdout
    assert json.loads(run("ledger", "check", folder / "l", "--json").stdout)["quarantined"] == ["people.csv"]
