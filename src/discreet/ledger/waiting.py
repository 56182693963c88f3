"""What a process says that waits for another one to leave a ledger, and what it raises when it gives up.

The message goes to the logger `discreet.ledger`. Python prints a warning on stderr unless a program configures the logger,
so a person in a shell or a notebook sees it. It names the ledger, and nothing of what it holds.
"""

import logging

from discreet.errors import LedgerUnavailable

ledger_log = logging.getLogger("discreet.ledger")


def report_waiting(location: str) -> None:
    """Say that another process holds the ledger."""
    ledger_log.warning("waiting for another process that is writing to the ledger %s …", location)


def locked_ledger_error(location: str, seconds: int) -> LedgerUnavailable:
    """Return the error of a ledger that other processes held for so long."""
    reason = f"other processes kept it locked for {seconds} seconds"
    return LedgerUnavailable(location, reason, "wait until they are done or end them, then ask again with the same id")
