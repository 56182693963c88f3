"""Kills of a stream: `python -m tests.support.stream_crashes EVERY [hasty] [merging]` prints the outcome as JSON.

A child opens a stream and ticks it, and reports what it showed. It is killed just before its k-th system call that
changes a file, for every k. Then the ledger, the owner's state and the reports are compared, and the same child is run
again to its end, over rows that have changed.
"""

import json
import os
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import scipy.special  # noqa: F401 - a stream imports it when it first needs it: every child would take 0.3 s for it

from discreet.accounting.currencies import parse_currency
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.streams import state as owner_state
from discreet.streams.mechanism import Participation, calibrate_stream
from discreet.streams.schedule import Schedule
from discreet.streams.state import HASH_BYTES, Contribution, Measured, StreamState
from discreet.streams.stream import Stream, StreamDesign, debit_horizon
from tests.support.crash_harness import run_untraced
from tests.support.ledger_locations import MEMORY
from tests.support.system_calls import run_traced

STEPS, AMOUNT = 3, Fraction(1, 8)
TAKEN = Participation(2, 1)
NAME, HASH = "visits", "c0ffee"


class ScriptedStream(Stream):
    """A stream over rows that are others at every attempt: whatever was not frozen would show."""

    def _read_contributions(self, step: int) -> list[Contribution]:
        again = [(f"p{i}", 1, 0) for i in range(5 + os.urandom(1)[0] % 20)]
        return [*again, (f"new at {step}", 1, 0)]  # one counts in any case, so that every run writes as often


class HastyStream(ScriptedStream):
    """A mutant: every attempt draws noise of its own, and it is shown before it is recorded."""

    def _freeze(self, step: int) -> Measured:
        super()._freeze(step)
        measured = self.design.mechanism.measure(self._take_counts(), step)
        report(step, measured)
        return measured

    def _check_state(self, step: int) -> None:
        super()._check_state(step)

    def _check_record(self, step: int, measured: Measured | None) -> None:
        """See nothing."""


def report(step: int, measured: object) -> None:
    """Write what was shown."""
    os.write(REPORTS, f"{json.dumps([step, measured])}\n".encode())


@dataclass(frozen=True)
class Scenario:
    """A ledger and a state in a folder."""

    folder: Path
    hasty: bool = False

    def open(self) -> Stream:
        """Open the ledger, the account and the stream, as far as they are not."""
        ledger = open_ledger(self.folder / "hr.ledger", create=True)
        if not ledger.list_accounts():
            ledger.open_account("hr", 3, Fraction(1, 10**6))
        account = ledger.get_account("hr")
        mechanism, event = calibrate_stream(STEPS, TAKEN, parse_currency("zcdp"), AMOUNT)
        schedule = Schedule.parse("day", "2026-03-01")
        design = StreamDesign(NAME, "rows", None, "", "n", (), ((),), "day", schedule, STEPS, TAKEN, "id", mechanism)
        entry = debit_horizon(account, design, event, HASH)
        state = StreamState(self.folder / "state.sqlite", HASH, entry, STEPS)
        kind = HastyStream if self.hasty else ScriptedStream
        return kind(design, HASH, entry, account, SESSION, SESSION, state)  # type: ignore[arg-type]

    def play(self) -> None:
        """Tick every step and report what is shown."""
        stream = self.open()
        for step in range(1, STEPS + 1):
            stream.tick(step)
            report(step, stream._measured[step - 1].tolist())


def count_events(state: StreamState) -> Counter[bytes]:
    """In how many steps each unit counted, as the file says."""
    found = Counter[bytes](dict(state._connection.execute("SELECT unit, events FROM units")))
    for (units,) in state._connection.execute("SELECT units FROM recent"):
        found.update(units[start : start + HASH_BYTES] for start in range(0, len(units), HASH_BYTES))
    return found


ENGINE = SimpleNamespace(has_new_files=lambda: False)
SESSION: Any = SimpleNamespace(executor=SimpleNamespace(engine=ENGINE))  # a scripted stream reads no source
REPORTS = -1
AGAIN = "a step was shown twice, with other noise"


def play(scenario: Scenario, *, kill_at: int | None = None, trace: bool = True) -> tuple[int, int, list[list[Any]]]:
    """Play a scenario in a child; return the boundaries that it passed, its exit status, and what it showed."""
    global REPORTS
    with tempfile.TemporaryFile(dir=MEMORY) as file:
        REPORTS = file.fileno()
        passed, status = run_traced(scenario.play, kill_at) if trace else (0, run_untraced(scenario.play))
        file.seek(0)
        return passed, status, [json.loads(line) for line in file.read().decode().splitlines()]


def find_problems(scenario: Scenario, before: list[list[Any]]) -> list[str]:
    """Run the child again to its end, and compare everything."""
    problems = list[str]()
    _, status, after = play(scenario, trace=False)
    if status != 0:
        problems.append(f"did not finish afterwards ({status})")
    shown = dict(after)
    if any(shown.get(step) != measured for step, measured in [*before, *after]):
        problems.append(AGAIN)
    stream = scenario.open()
    assert stream.state is not None
    if [stream.state.read_measured(step) for step in range(1, STEPS + 1)] != [shown.get(i) for i in range(1, STEPS + 1)]:
        problems.append("the state holds other noise than was shown")
    most = max(count_events(stream.state).values())
    if most > TAKEN.at_most:
        problems.append(f"a unit counted {most} times")
    checked = check_ledger(open_ledger(scenario.folder / "hr.ledger"))
    if not checked.is_valid:
        problems.append(f"the ledger is not valid: {checked.problem}")
    if stream.account.budget.spent > AMOUNT:
        problems.append("the horizon was debited twice")
    return problems


def main(every: str, *more: str) -> None:
    """Kill the child at every boundary, or every so many, each time with another folder."""
    if "merging" in more:
        owner_state.MERGE_AT = 0  # lists of units are added to the table at every step; else at none of so few
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:

        def make(name: str) -> Scenario:
            place = Path(folder) / name
            place.mkdir()
            return Scenario(place, "hasty" in more)

        boundaries, _, _ = play(make("first"))
        killed, problems, points = 0, [], range(1, boundaries + 1, int(every))
        for point in points:
            scenario = make(str(point))
            _, status, shown = play(scenario, kill_at=point)
            killed += status == -signal.SIGKILL
            problems += [f"at {point}: {each}" for each in find_problems(scenario, shown)]
            if "hasty" in more and any(AGAIN in each for each in problems):
                break  # the mutant is found
        print(json.dumps({"points": len(points), "hit": killed, "problems": problems}))


if __name__ == "__main__":
    main(*sys.argv[1:])
