"""Rivals for one budget: `python -m tests.support.rivals LOCATION PROCESSES THREADS DEBITS` prints the outcome as JSON.

All debit the same small cost from four accounts under one parent until each is refused. The parent's budget is exactly
DEBITS costs; the children's together are twice that.
"""

import json
import os
import sys
import threading
from fractions import Fraction
from typing import Any

import tests.support.jsonl_store  # noqa: F401  registers a store
from discreet.errors import BudgetExceeded
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger

CHILDREN = 4


def spend(location: str, process: int, threads: int, cost: Fraction) -> int:
    """Debit from all threads of one process, which share a ledger; return how many debits it got."""
    ledger, debits = open_ledger(location), []
    event = compose(Claim(cost, Fraction(0)))

    def run(thread: int) -> None:
        name = f"child {(process + thread) % CHILDREN}"
        account, i = ledger.get_account(name), 0
        while True:
            try:
                account.reserve(event, measurement=f"{process} {thread} {i}", id=f"{process} {thread} {i}")
            except BudgetExceeded:
                return
            debits.append(name)
            i += 1

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return len(debits)


def race(location: str, processes: int, threads: int, debits: int) -> dict[str, Any]:
    """Start all processes, wait for all, add up."""
    ledger, cost = open_ledger(location, create=True), Fraction(1, debits)
    ledger.open_account("all", 1)
    for child in range(CHILDREN):
        ledger.open_account(f"child {child}", Fraction(1, 2), parent="all")
    ledger.close()
    pipes = []
    for process in range(processes):
        reading, writing = os.pipe()
        if os.fork() == 0:
            code = 1
            try:
                os.write(writing, str(spend(location, process, threads, cost)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        pipes.append(reading)
    statuses = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(processes)]
    counted = [int(os.read(pipe, 100) or b"0") for pipe in pipes]
    report = check_ledger(ledger)
    spent = {account.name: str(account.budget.spent / cost) for account in report.accounts}
    entries = report.entries - 1 - CHILDREN
    return {"debits": sum(counted), "statuses": statuses, "entries": entries, "spent": spent, "problem": report.problem}


if __name__ == "__main__":
    print(json.dumps(race(sys.argv[1], *map(int, sys.argv[2:5]))))
