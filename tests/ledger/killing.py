"""The campaigns of kills and of failing disks: `python -m tests.ledger.killing kills SEED ASKS` prints JSON.

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
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.errors import LedgerFailed
from discreet.ledger import ledger_at
from discreet.ledger.check import check
from discreet.ledger.entry import Answered, Debit
from discreet.ledger.store import Recorded
from discreet.loss import Claim, compose
from tests.ledger.tracer import Fault, traced

PRICE = Fraction(1, 1000)
LOSS = compose(Claim(PRICE, Fraction(0)))


@dataclass(frozen=True)
class Scene:
    """What the child does: opens the accounts, then asks, each answer of its own size."""

    seed: int
    asks: int
    hasty: bool = False  # the wrong twin shows an answer before it is recorded

    def play(self, path: Path, tell: int) -> None:
        ledger = ledger_at(path, create=True)
        names = {account.name for account in ledger.accounts()}
        for name, parent in (("all", None), ("hr", "all")):
            if name not in names:
                ledger.open(name, 1, parent=parent)
        hr, sizes = ledger.account("hr"), random.Random(self.seed)
        for i in range(self.asks):
            size = sizes.choice((10, 300, 6000))
            paid = hr.reserve(LOSS, measurement=f"m{i}", id=f"q{i}")
            if isinstance(paid, Recorded):
                shown = paid.answer
            else:
                os.write(tell, f"paid {i} {paid.entry}\n".encode())
                shown = os.urandom(size).hex().encode()
                if self.hasty:
                    os.write(tell, f"shown {i} {shown.decode()}\n".encode())
                shown = hr.record(paid, shown)
            os.write(tell, f"shown {i} {shown.decode()}\n".encode())
        ledger.close()


def played(
    scene: Scene, path: Path, *, kill_at: int | None = None, fault: Fault | None = None, first: int = 1, trace: bool = True
) -> tuple[int, int, list[list[str]]]:
    """Play the scene in a child; boundaries passed, exit status, and what it told."""
    with tempfile.TemporaryFile(dir=path.parent) as told:

        def child() -> None:
            try:
                scene.play(path, told.fileno())
            except LedgerFailed as refused:
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


def wrong(path: Path, told: list[list[str]]) -> list[str]:
    """What the ledger has against what was told before the kill."""
    problems: list[str] = []
    if not path.exists():
        return ["answers without a ledger"] if told else []
    try:
        ledger = ledger_at(path, create=True)
    except Exception as error:
        return [f"cannot be opened: {error!r}"]
    report = check(ledger)
    if not report.holds:
        problems.append(f"does not hold: {report.problem}")
    debits = {entry.id: entry.number for entry in ledger.entries() if isinstance(entry, Debit)}
    answers = {entry.debit: entry.answer for entry in ledger.entries() if isinstance(entry, Answered)}
    for kind, i, rest in told:
        if f"q{i}" not in debits:
            problems.append(f"free answer or lost debit: {kind} {i}")
        elif kind == "paid" and debits[f"q{i}"] != int(rest):
            problems.append(f"debit {i} moved")
        elif kind == "shown" and answers.get(debits[f"q{i}"]) != rest.encode():
            problems.append(f"shown and not recorded: {i}")
    for account in report.accounts:
        if account.kept.spent != len(debits) * PRICE:
            problems.append(f"{account.name} spent {account.kept.spent} for {len(debits)} debits")
    ledger.close()
    return problems


def again(scene: Scene, path: Path, told: list[list[str]]) -> list[str]:
    """What is wrong now, and after the same child was run again to its end."""
    problems = wrong(path, told)
    _, status, later = played(scene, path, trace=False)
    problems += wrong(path, told + later)
    second = {i: rest for kind, i, rest in later if kind == "shown"}
    if status != 0 or len(second) != scene.asks:
        problems.append(f"did not finish afterwards ({status})")
    if any(second.get(i) != rest for kind, i, rest in told if kind == "shown"):
        problems.append("a retry shows another answer")
    if sum(account.debits for account in ledger_at(path).accounts()) != scene.asks:
        problems.append("double debit")
    for file in path.parent.glob(f"{path.stem}.*"):
        file.unlink()
    return problems


def kills(scene: Scene, folder: Path) -> dict[str, Any]:
    """Killed at every boundary of the scene."""
    boundaries, _, _ = played(scene, folder / "undisturbed.ledger")
    died, problems = 0, []
    for point in range(1, boundaries + 1):
        path = folder / f"killed at {point}.ledger"
        _, status, told = played(scene, path, kill_at=point)
        died += status == -signal.SIGKILL
        problems += [f"at {point}: {problem}" for problem in again(scene, path, told)]
    return {"points": boundaries, "hit": died, "problems": problems}


WRITES, SYNCS = frozenset({"pwrite64", "ftruncate"}), frozenset({"fsync", "fdatasync"})
FAULTS = {
    "full": Fault(WRITES, errno=errno.ENOSPC),
    "write error": Fault(WRITES, errno=errno.EIO),
    "sync error": Fault(SYNCS, errno=errno.EIO),
    "short write": Fault(frozenset({"pwrite64"}), short=True),
}


def faults(scene: Scene, folder: Path) -> dict[str, Any]:
    """The disk fails from the k-th call on, for every kind of failure and every third k."""
    points, hit, problems, said = 0, 0, [], set()
    for name, fault in FAULTS.items():
        calls = 1
        while True:
            path = folder / f"{name} at {calls}.ledger"
            _, status, told = played(scene, path, fault=fault, first=calls)
            failed = [" ".join(line[1:]) for line in told if line[0] == "failed"]
            said |= {words.partition(": ")[2] for words in failed}
            told = [line for line in told if line[0] != "failed"]
            points, hit = points + 1, hit + bool(failed)
            if status != 0:
                problems.append(f"{name} at {calls}: an error that is not LedgerFailed")
            problems += [f"{name} at {calls}: {problem}" for problem in again(scene, path, told)]
            if not failed and (not fault.short or calls > 60):
                break
            calls += 3
    return {"points": points, "hit": hit, "problems": problems, "said": sorted(said)}


def campaign(kind: str, scene: Scene) -> dict[str, Any]:
    """One campaign in a folder of its own, in memory where there is one: what is tested is order, not the disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        return {"kills": kills, "faults": faults}[kind](scene, Path(name))


if __name__ == "__main__":
    print(json.dumps(campaign(sys.argv[1], Scene(int(sys.argv[2]), int(sys.argv[3]), hasty="hasty" in sys.argv))))
