"""The race: `python -m tests.ledger.racing PLACE PROCESSES THREADS DEBITS` prints what every racer got as JSON.

All pay the same small price from four accounts under one parent until each is refused. The parent's budget is exactly DEBITS
prices, the children's together are twice that.
"""

import json
import os
import sys
import threading
from fractions import Fraction
from typing import Any

from discreet.errors import BudgetExceeded
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger

CHILDREN = 4


def spend(place: str, racer: int, threads: int, price: Fraction) -> int:
    """One process: its threads share a ledger; how many debits it got."""
    ledger, paid = open_ledger(place), []
    loss = compose(Claim(price, Fraction(0)))

    def run(thread: int) -> None:
        name = f"child {(racer + thread) % CHILDREN}"
        account, i = ledger.get_account(name), 0
        while True:
            try:
                account.reserve(loss, measurement=f"{racer} {thread} {i}", id=f"{racer} {thread} {i}")
            except BudgetExceeded:
                return
            paid.append(name)
            i += 1

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return len(paid)


def race(place: str, processes: int, threads: int, debits: int) -> dict[str, Any]:
    """Start all racers, wait for all, add up."""
    ledger, price = open_ledger(place, create=True), Fraction(1, debits)
    ledger.open_account("all", 1)
    for child in range(CHILDREN):
        ledger.open_account(f"child {child}", Fraction(1, 2), parent="all")
    ledger.close()
    ears = []
    for racer in range(processes):
        ear, mouth = os.pipe()
        if os.fork() == 0:
            code = 1
            try:
                os.write(mouth, str(spend(place, racer, threads, price)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(mouth)
        ears.append(ear)
    statuses = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(processes)]
    told = [int(os.read(ear, 100) or b"0") for ear in ears]
    report = check_ledger(ledger)
    spent = {account.name: str(account.budget.spent / price) for account in report.accounts}
    entries = report.entries - 1 - CHILDREN
    return {"told": sum(told), "statuses": statuses, "entries": entries, "spent": spent, "problem": report.problem}


if __name__ == "__main__":
    print(json.dumps(race(sys.argv[1], *map(int, sys.argv[2:5]))))
