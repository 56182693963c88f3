"""Rivals of one family: `python -m tests.support.family_rivals LOCATION PROCESSES MEASUREMENTS [--mutant]` prints JSON.

Each process asks for all measurements, in an order of its own, from one of four accounts under one root, whose budget is
exactly the cost of all. What each records is its own, so a second answer to a measurement would show. The mutant looks in
its own account only.
"""

import json
import os
import random
import sys
from fractions import Fraction
from typing import Any

import tests.support.jsonl_store  # noqa: F401  registers a store
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.account import CachedAnswer
from discreet.ledger.check import check_ledger

CHILDREN = 4
COST = Fraction(1, 100)


def ask(location: str, process: int, measurements: int, shared: bool) -> list[str]:
    """Reserve and record every measurement; return what was shown."""
    account = open_ledger(location).get_account(f"child {process % CHILDREN}")
    shown, order = [""] * measurements, list(range(measurements))
    random.Random(process).shuffle(order)
    for number in order:
        reserved = account.reserve(compose(Claim(COST, Fraction(0))), measurement=f"m{number}", shared=shared)
        if isinstance(reserved, CachedAnswer):
            shown[number] = reserved.answer.decode()
        else:
            shown[number] = account.record(reserved, f"process {process}".encode()).decode()
    return shown


def race(location: str, processes: int, measurements: int, shared: bool) -> dict[str, Any]:
    """Start all processes, wait for all, and compare what they were shown."""
    total = COST * measurements
    ledger = open_ledger(location, create=True)
    ledger.open_account("all", total if shared else processes * total)
    for child in range(CHILDREN):
        ledger.open_account(f"child {child}", processes * total, parent="all")
    ledger.close()
    pipes = []
    for process in range(processes):
        reading, writing = os.pipe()
        if os.fork() == 0:
            code = 1
            try:
                os.write(writing, json.dumps(ask(location, process, measurements, shared)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        pipes.append(reading)
    for _ in range(processes):
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    shown = [json.loads(os.read(pipe, 1 << 16)) for pipe in pipes]
    report = check_ledger(ledger)
    return {
        "problem": report.problem,
        "debits": sum(account.debits for account in report.accounts),
        "spent": {account.name: str(account.budget.spent) for account in report.accounts},
        "cost": str(total),
        "answers": [len(set(answers)) for answers in zip(*shown, strict=True)],
    }


if __name__ == "__main__":
    print(json.dumps(race(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "--mutant" not in sys.argv)))
