"""The log has room ahead, and what is in it is what was committed, wherever a crash cuts it."""

import os
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import discreet.ledger.sqlite
import discreet.streams.state
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.sqlite import SqliteStore
from discreet.ledger.wal import LOG_BYTES, LOG_STEP_BYTES, MAX_EXTENSION_BYTES, WriteAheadLog
from discreet.streams.state import StreamState

SMALL = compose(Claim(Fraction(1, 1000), Fraction(0)))


class NeverExtends(WriteAheadLog):
    """A mutant: the log grows with every commit."""

    def extend(self) -> None:
        pass


class ForgetsThatThereIsRoom(WriteAheadLog):
    """A mutant: the log is extended at every commit."""

    def extend(self) -> None:
        assert self._file is not None
        os.pwrite(self._file.fileno(), bytes(LOG_STEP_BYTES), os.fstat(self._file.fileno()).st_size)


class BeginsTooEarly(WriteAheadLog):
    """A mutant: the zeros begin in the last frame."""

    def extend(self) -> None:
        assert self._file is not None
        length = os.fstat(self._file.fileno()).st_size
        super().extend()
        if os.fstat(self._file.fileno()).st_size != length:
            os.pwrite(self._file.fileno(), bytes(200), length - 200)


def use(monkeypatch: pytest.MonkeyPatch, kind: type[WriteAheadLog]) -> None:
    for module in (discreet.ledger.sqlite, discreet.streams.state):
        monkeypatch.setattr(module, "WriteAheadLog", kind)


def debit(ledger: Ledger, i: int) -> None:
    ledger.get_account("hr").reserve(SMALL, measurement=f"m{i}")


def list_lengths(path: Path, times: int, others: int = 1) -> list[int]:
    """The length of the log after each of some debits, by some connections in turns."""
    ledgers = [open_ledger(path, create=True) for _ in range(others)]
    ledgers[0].open_account("hr", 100)
    lengths = []
    for i in range(times):
        debit(ledgers[i % others], i)
        lengths.append(Path(f"{path}-wal").stat().st_size)
    for ledger in ledgers:
        ledger.close()
    return lengths


@pytest.mark.parametrize("others", [1, 2])
def test_few_commits_make_the_log_longer(folder: Path, others: int) -> None:
    lengths = list_lengths(folder / "l", 100, others)
    assert len(set(lengths)) <= 10
    assert lengths[-1] <= 2 * 100 * 6000 + LOG_STEP_BYTES  # at most about twice what was written


@pytest.mark.parametrize("mutant", [NeverExtends, ForgetsThatThereIsRoom])
def test_a_log_that_grows_with_every_commit_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mutant: type[WriteAheadLog]
) -> None:
    use(monkeypatch, mutant)
    assert len(set(list_lengths(folder / "l", 100))) > 90


def test_a_log_is_extended_by_a_bounded_length_and_to_a_bounded_length(folder: Path) -> None:
    database, log = str(folder / "d"), folder / "d-wal"
    log.write_bytes(b"x" * 100)
    for _ in range(100):
        before = log.stat().st_size
        extended = WriteAheadLog(database)
        extended.extend()
        extended.extend()  # it has room
        length = log.stat().st_size
        if before >= LOG_BYTES:
            assert length == before
            break
        assert length % LOG_STEP_BYTES == 0
        assert before < length <= before + min(before, MAX_EXTENSION_BYTES) + LOG_STEP_BYTES
        with log.open("ab") as file:
            file.write(b"x")  # SQLite has filled it, and goes on
        extended.close()
    else:
        pytest.fail("it is extended for ever")
    assert length <= LOG_BYTES + MAX_EXTENSION_BYTES + LOG_STEP_BYTES


def find_lost(folder: Path) -> str | None:
    """What is wrong with the files as a crash leaves them after each of some commits, or within the zeros behind one."""
    ledger = open_ledger(folder / "l", create=True)
    ledger.open_account("hr", 100)
    for i in range(40):
        filled = (folder / "l-wal").stat().st_size
        debit(ledger, i)
        length = (folder / "l-wal").stat().st_size
        cuts = {length} if length == filled else {*range(length - LOG_STEP_BYTES, length, 9000), length - 1, length}
        for cut in sorted(cuts):
            copy = folder / f"{i} {cut}"
            copy.mkdir()
            for name in ("l", "l-wal"):
                shutil.copy(folder / name, copy / name)
            if cut < length and not (copy / "l-wal").read_bytes()[cut:].strip(b"\0"):
                os.truncate(copy / "l-wal", cut)
            report = check_ledger(open_ledger(copy / "l"))
            if report.problem or report.entries != i + 2:
                return f"{report.entries} entries after {i + 1} debits: {report.problem}"
    return None


def test_no_commit_is_lost_or_added_wherever_a_crash_cuts_the_log(folder: Path) -> None:
    assert find_lost(folder) is None


def test_zeros_over_a_frame_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, BeginsTooEarly)
    try:
        found = find_lost(folder)
    except Exception as error:
        found = str(error)
    assert found is not None


class Full:
    """A file on a disk that is full."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_a_disk_without_room_ahead_refuses_no_commit_that_fits(folder: Path) -> None:
    ledger = open_ledger(folder / "l", create=True)
    ledger.open_account("hr", 100)
    store = ledger.store
    assert isinstance(store, SqliteStore)
    log: Any = store._log
    log._file = Full(log._file)
    for i in range(10):
        debit(ledger, i)
    assert check_ledger(ledger).entries == 11


def test_a_log_that_is_not_there_is_not_extended(folder: Path) -> None:
    log = WriteAheadLog(str(folder / "nothing"))
    log.extend()
    log.close()
    assert not list(folder.iterdir())


def test_a_closed_ledger_leaves_no_log_and_no_handle(folder: Path) -> None:
    ledger = open_ledger(folder / "l", create=True)
    ledger.open_account("hr", 100)
    debit(ledger, 0)
    ledger.close()
    assert [each.name for each in folder.iterdir()] == ["l"]
    debit(ledger, 1)  # it is opened again; an empty log is not extended: there may be no second commit
    assert 0 < (folder / "l-wal").stat().st_size < LOG_STEP_BYTES
    debit(ledger, 2)
    assert (folder / "l-wal").stat().st_size % LOG_STEP_BYTES == 0


def count_lengths_of_state(path: Path) -> int:
    state = StreamState(path, "c0ffee", 1, 100)
    lengths = set()
    for step in range(1, 41):
        units = [(f"unit {step * 100 + i}", 1, 0) for i in range(10)]
        state.freeze(step, units, lambda counts: [counts], None, counters=1, at_most=3, apart=1, max_groups=1, max_rows=1)
        lengths.add(Path(f"{path}-wal").stat().st_size)
    state.close()
    assert not Path(f"{path}-wal").exists()
    return len(lengths)


def test_the_log_of_a_stream_has_room_ahead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_lengths_of_state(folder / "s") <= 8
    use(monkeypatch, NeverExtends)
    assert count_lengths_of_state(folder / "t") > 35
