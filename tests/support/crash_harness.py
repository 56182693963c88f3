"""Kills and failing disks: `python -m tests.support.crash_harness kills EVERY SEED QUERIES` prints the outcome as JSON.

A child debits measurements of a ledger, records their answers, and reports in a file what it debited and what it showed. It
is killed just before its k-th system call that changes a file, for every k; or the disk fails from its k-th such call on.
Then the ledger is compared with the reports, and the same child is run again to its end.
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
from tests.support.jsonl_store import SCHEME
from tests.support.ledger_locations import MEMORY
from tests.support.system_calls import Fault, run_traced

COST = Fraction(1, 1000)
EVENT = compose(Claim(COST, Fraction(0)))
Reports = list[list[str]]
UNRECORDED, CHANGED = HASTY_PROBLEMS = ("shown and not recorded", "a retry shows another answer")


@dataclass(frozen=True)
class Scenario:
    """What the child does: it opens the accounts, then asks queries, each with an answer of another size."""

    seed: int
    queries: int
    location: str
    accounts: tuple[str, str] = ("all", "hr")
    hasty: bool = False  # a mutant: it shows an answer before it is recorded

    def play(self, reports: int) -> None:
        """Play the scenario and write reports to an open file."""
        ledger = open_ledger(self.location, create=True)
        known = {account.name for account in ledger.list_accounts()}
        for name, parent in zip(self.accounts, (None, self.accounts[0]), strict=True):
            if name not in known:
                ledger.open_account(name, 1, parent=parent)
        hr, sizes = ledger.get_account(self.accounts[1]), random.Random(self.seed)
        for i in range(self.queries):
            size = sizes.choice((10, 300, 6000))
            reserved = hr.reserve(EVENT, measurement=f"m{i}", id=f"q{i}")
            if isinstance(reserved, CachedAnswer):
                answer = reserved.answer
            else:
                os.write(reports, f"debited {i} {reserved.entry}\n".encode())
                answer = os.urandom(size).hex().encode()
                if self.hasty:
                    os.write(reports, f"shown {i} {answer.decode()}\n".encode())
                answer = hr.record(reserved, answer)
            os.write(reports, f"shown {i} {answer.decode()}\n".encode())
        ledger.quarantine.record_failure(self.accounts[1], FailureKind.RESOURCE)
        os.write(reports, b"failure 0 recorded\n")
        ledger.close()


def play(
    scenario: Scenario, *, kill_at: int | None = None, fault: Fault | None = None, first: int = 1, trace: bool = True
) -> tuple[int, int, Reports]:
    """Play a scenario in a child; return the boundaries that it passed, its exit status, and its reports."""
    with tempfile.TemporaryFile(dir=MEMORY) as file:

        def run_child() -> None:
            try:
                scenario.play(file.fileno())
            except LedgerUnavailable as refused:
                os.write(file.fileno(), f"failed {' '.join(str(refused).split())}\n".encode())

        passed, status = run_traced(run_child, kill_at, fault, first) if trace else (0, run_untraced(run_child))
        file.seek(0)
        lines = file.read().decode().splitlines()
        return passed, status, [line.split(maxsplit=2) for line in lines if line.count(" ") >= 2]


def run_untraced(run: Callable[[], None]) -> int:
    """Run in a child without a tracer; return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except BaseException:
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def find_problems(scenario: Scenario, reports: Reports) -> list[str]:
    """Compare the ledger with what was reported before the kill."""
    problems: list[str] = []
    try:
        ledger = open_ledger(scenario.location, create=True)
    except Exception as error:
        return [f"cannot be opened: {error!r}"]
    report = check_ledger(ledger)
    if not report.is_valid:
        problems.append(f"is not valid: {report.problem}")
    entries, name = tuple(ledger.iter_entries()), scenario.accounts[1]
    debits = {entry.id: entry.number for entry in entries if isinstance(entry, Debit) and entry.account == name}
    answers = {entry.debit: entry.answer for entry in entries if isinstance(entry, AnswerRecorded) and entry.account == name}
    failures = sum(isinstance(entry, FailureRecorded) and entry.source == name for entry in entries)
    for kind, i, rest in reports:
        if kind != "failure" and f"q{i}" not in debits:
            problems.append(f"free answer or lost debit: {kind} {i}")
        elif kind == "debited" and debits[f"q{i}"] != int(rest):
            problems.append(f"debit {i} moved")
        elif kind == "shown" and answers.get(debits[f"q{i}"]) != rest.encode():
            problems.append(f"{UNRECORDED}: {i}")
    if failures < sum(kind == "failure" for kind, _, _ in reports):
        problems.append("lost failure")
    for account in report.accounts:
        if account.name in scenario.accounts and account.budget.spent != len(debits) * COST:
            problems.append(f"{account.name} spent {account.budget.spent} for {len(debits)} debits")
    ledger.close()
    return problems


def find_problems_after_retry(scenario: Scenario, reports: Reports) -> list[str]:
    """Return what is wrong now, and after the same child was run again to its end."""
    problems = find_problems(scenario, reports)
    _, status, later = play(scenario, trace=False)
    problems += find_problems(scenario, reports + later)
    second = {i: rest for kind, i, rest in later if kind == "shown"}
    if status != 0 or len(second) != scenario.queries:
        problems.append(f"did not finish afterwards ({status})")
    if any(second.get(i) != rest for kind, i, rest in reports if kind == "shown"):
        problems.append(CHANGED)
    if open_ledger(scenario.location).get_account(scenario.accounts[1]).state.debits != scenario.queries:
        problems.append("double debit")
    return problems


def run_kills(scenarios: Iterator[Scenario], every: int = 1) -> dict[str, Any]:
    """Kill the child at every boundary of the scenario, or every so many, each time with another ledger."""
    boundaries, _, _ = play(next(scenarios))
    killed, problems = 0, []
    points = range(1, boundaries + 1, every)
    for point in points:
        scenario = next(scenarios)
        _, status, reports = play(scenario, kill_at=point)
        killed += status == -signal.SIGKILL
        problems += [f"at {point}: {problem}" for problem in find_problems_after_retry(scenario, reports)]
        if scenario.hasty and all(any(each in problem for problem in problems) for each in HASTY_PROBLEMS):
            break  # the mutant is found
    return {"points": len(points), "hit": killed, "problems": problems}


WRITES, SYNCS = frozenset({"pwrite64", "ftruncate"}), frozenset({"fsync", "fdatasync"})
FAULTS = {
    "full": Fault(WRITES, errno=errno.ENOSPC),
    "write error": Fault(WRITES, errno=errno.EIO),
    "sync error": Fault(SYNCS, errno=errno.EIO),
    "short write": Fault(frozenset({"pwrite64"}), short=True),
}


def run_faults(scenarios: Iterator[Scenario], every: int = 3) -> dict[str, Any]:
    """Let the disk fail from the k-th call on, for every kind of failure and every so many k."""
    points, hit, problems, messages = 0, 0, [], set()
    for name, fault in FAULTS.items():
        calls = 1
        while True:
            scenario = next(scenarios)
            _, status, reports = play(scenario, fault=fault, first=calls)
            failed = [" ".join(line[1:]) for line in reports if line[0] == "failed"]
            messages |= {message.partition(": ")[2] for message in failed}
            reports = [line for line in reports if line[0] != "failed"]
            points, hit = points + 1, hit + bool(failed)
            if status != 0:
                problems.append(f"{name} at {calls}: an error that is not LedgerUnavailable")
            problems += [f"{name} at {calls}: {problem}" for problem in find_problems_after_retry(scenario, reports)]
            if not failed and (not fault.short or calls > 60):
                break
            calls += every
    return {"points": points, "hit": hit, "problems": problems, "messages": sorted(messages)}


def main(kind: str, every: str, seed: str, queries: str, *more: str) -> None:
    """Give each scenario a file of its own, in memory where there is one; or, in a database, accounts of its own."""
    hasty, address = "hasty" in more, next((word for word in more if "://" in word), None)
    prefix = f"{SCHEME}://" if SCHEME in more else ""
    if (
        address
    ):  # its tables are made once: the child whose boundaries are counted must find them, as those that are killed do
        open_ledger(address, create=True).close()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        scenarios = (
            Scenario(int(seed), int(queries), address, (f"all {i}", f"hr {i}"), hasty)
            if address
            else Scenario(int(seed), int(queries), f"{prefix}{folder}/{i}.ledger", hasty=hasty)
            for i in count()
        )
        print(json.dumps({"kills": run_kills, "faults": run_faults}[kind](scenarios, int(every))))


if __name__ == "__main__":
    main(*sys.argv[1:])
