"""The campaigns of kills and of failing disks: `python -m tests.support.crash_harness kills EVERY SEED ASKS`.

A child asks questions of a ledger and tells, in a file, what it paid for and what it showed. It is killed just before its
k-th system call that changes a file, for every k; or from its k-th such call on the disk fails. Then the ledger is checked
against what was told, and the same child is run again to its end.
"""

import errno
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

from discreet.errors import LedgerUnavailable
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.account import CachedAnswer
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AnswerRecorded, Debit, FailureRecorded
from discreet.ledger.quarantine import FailureKind
from tests.support.system_calls import Fault, traced

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
PRICE = Fraction(1, 1000)
LOSS = compose(Claim(PRICE, Fraction(0)))


@dataclass(frozen=True)
class Scene:
    """What the child does: opens the accounts, then asks, each answer of its own size."""

    seed: int
    asks: int
    place: str
    names: tuple[str, str] = ("all", "hr")
    hasty: bool = False  # the wrong twin shows an answer before it is recorded

    def play(self, tell: int) -> None:
        ledger = open_ledger(self.place, create=True)
        known = {account.name for account in ledger.list_accounts()}
        for name, parent in zip(self.names, (None, self.names[0]), strict=True):
            if name not in known:
                ledger.open_account(name, 1, parent=parent)
        hr, sizes = ledger.get_account(self.names[1]), random.Random(self.seed)
        for i in range(self.asks):
            size = sizes.choice((10, 300, 6000))
            paid = hr.reserve(LOSS, measurement=f"m{i}", id=f"q{i}")
            if isinstance(paid, CachedAnswer):
                shown = paid.answer
            else:
                os.write(tell, f"paid {i} {paid.entry}\n".encode())
                shown = os.urandom(size).hex().encode()
                if self.hasty:
                    os.write(tell, f"shown {i} {shown.decode()}\n".encode())
                shown = hr.record(paid, shown)
            os.write(tell, f"shown {i} {shown.decode()}\n".encode())
        ledger.quarantine.record_failure(self.names[1], FailureKind.RESOURCE)
        os.write(tell, b"failure 0 recorded\n")
        ledger.close()


def played(
    scene: Scene, *, kill_at: int | None = None, fault: Fault | None = None, first: int = 1, trace: bool = True
) -> tuple[int, int, list[list[str]]]:
    """Play the scene in a child; boundaries passed, exit status, and what it told."""
    with tempfile.TemporaryFile(dir=MEMORY) as told:

        def child() -> None:
            try:
                scene.play(told.fileno())
            except LedgerUnavailable as refused:
                os.write(told.fileno(), f"failed {' '.join(str(refused).split())}\n".encode())

        passed, status = traced(child, kill_at, fault, first) if trace else (0, undisturbed(child))
        told.seek(0)
        return passed, status, [line.split(maxsplit=2) for line in told.read().decode().splitlines() if line.count(" ") >= 2]


def undisturbed(run: Callable[[], None]) -> int:
    """The exit status of a child that nobody watches."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except BaseException:
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wrong(scene: Scene, told: list[list[str]]) -> list[str]:
    """What the ledger has against what was told before the kill."""
    problems: list[str] = []
    try:
        ledger = open_ledger(scene.place, create=True)
    except Exception as error:
        return [f"cannot be opened: {error!r}"]
    report = check_ledger(ledger)
    if not report.is_valid:
        problems.append(f"does not hold: {report.problem}")
    entries, mine = tuple(ledger.iter_entries()), scene.names[1]
    debits = {entry.id: entry.number for entry in entries if isinstance(entry, Debit) and entry.account == mine}
    answers = {entry.debit: entry.answer for entry in entries if isinstance(entry, AnswerRecorded) and entry.account == mine}
    failures = sum(isinstance(entry, FailureRecorded) and entry.source == mine for entry in entries)
    for kind, i, rest in told:
        if kind != "failure" and f"q{i}" not in debits:
            problems.append(f"free answer or lost debit: {kind} {i}")
        elif kind == "paid" and debits[f"q{i}"] != int(rest):
            problems.append(f"debit {i} moved")
        elif kind == "shown" and answers.get(debits[f"q{i}"]) != rest.encode():
            problems.append(f"shown and not recorded: {i}")
    if failures < sum(kind == "failure" for kind, _, _ in told):
        problems.append("lost failure")
    for account in report.accounts:
        if account.name in scene.names and account.budget.spent != len(debits) * PRICE:
            problems.append(f"{account.name} spent {account.budget.spent} for {len(debits)} debits")
    ledger.close()
    return problems


def again(scene: Scene, told: list[list[str]]) -> list[str]:
    """What is wrong now, and after the same child was run again to its end."""
    problems = wrong(scene, told)
    _, status, later = played(scene, trace=False)
    problems += wrong(scene, told + later)
    second = {i: rest for kind, i, rest in later if kind == "shown"}
    if status != 0 or len(second) != scene.asks:
        problems.append(f"did not finish afterwards ({status})")
    if any(second.get(i) != rest for kind, i, rest in told if kind == "shown"):
        problems.append("a retry shows another answer")
    if open_ledger(scene.place).get_account(scene.names[1]).state.debits != scene.asks:
        problems.append("double debit")
    return problems


def kills(scenes: Iterator[Scene], every: int = 1) -> dict[str, Any]:
    """Killed at every boundary of the scene (or every so many), each time somewhere else."""
    boundaries, _, _ = played(next(scenes))
    died, problems = 0, []
    points = range(1, boundaries + 1, every)
    for point in points:
        scene = next(scenes)
        _, status, told = played(scene, kill_at=point)
        died += status == -signal.SIGKILL
        problems += [f"at {point}: {problem}" for problem in again(scene, told)]
    return {"points": len(points), "hit": died, "problems": problems}


WRITES, SYNCS = frozenset({"pwrite64", "ftruncate"}), frozenset({"fsync", "fdatasync"})
FAULTS = {
    "full": Fault(WRITES, errno=errno.ENOSPC),
    "write error": Fault(WRITES, errno=errno.EIO),
    "sync error": Fault(SYNCS, errno=errno.EIO),
    "short write": Fault(frozenset({"pwrite64"}), short=True),
}


def faults(scenes: Iterator[Scene], every: int = 3) -> dict[str, Any]:
    """The disk fails from the k-th call on, for every kind of failure and every so many k."""
    points, hit, problems, said = 0, 0, [], set()
    for name, fault in FAULTS.items():
        calls = 1
        while True:
            scene = next(scenes)
            _, status, told = played(scene, fault=fault, first=calls)
            failed = [" ".join(line[1:]) for line in told if line[0] == "failed"]
            said |= {words.partition(": ")[2] for words in failed}
            told = [line for line in told if line[0] != "failed"]
            points, hit = points + 1, hit + bool(failed)
            if status != 0:
                problems.append(f"{name} at {calls}: an error that is not LedgerUnavailable")
            problems += [f"{name} at {calls}: {problem}" for problem in again(scene, told)]
            if not failed and (not fault.short or calls > 60):
                break
            calls += every
    return {"points": points, "hit": hit, "problems": problems, "said": sorted(said)}


def main(kind: str, every: str, seed: str, asks: str, *more: str) -> None:
    """Each scene in a file of its own, in memory where there is one; or, in a database, with accounts of its own."""
    hasty, url = "hasty" in more, next((word for word in more if "://" in word), None)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        scenes = (
            Scene(int(seed), int(asks), url, (f"all {i}", f"hr {i}"), hasty)
            if url
            else Scene(int(seed), int(asks), f"{folder}/{i}.ledger", hasty=hasty)
            for i in count()
        )
        print(json.dumps({"kills": kills, "faults": faults}[kind](scenes, int(every))))


if __name__ == "__main__":
    main(*sys.argv[1:])
