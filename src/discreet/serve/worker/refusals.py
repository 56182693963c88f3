"""What a worker refuses, whatever kind of job it runs, and in which words."""

from discreet.errors import EngineFailed, QueryRefused, SourceRefused
from discreet.remote.wire import to_problem
from discreet.serve.control.model import Grant, TableEntry
from discreet.serve.control.store import Control
from discreet.serve.rules import find_refusal
from discreet.serve.worker.holding import HeldAccount

WORKER = "worker"
"""What the audit trail calls a worker."""

RETRY_SECONDS = 1.0
MAX_ATTEMPTS = 20
"""A job that this many workers took and did not end is one that ends workers; it fails."""

CLOSED_TABLE = SourceRefused("This table cannot be queried at present", "its steward knows why; try again later")
"""What the service says to an analyst of a source that cannot be opened or is quarantined: no path, no reason."""

CHANGED = QueryRefused(
    "What would be measured is not what was quoted or approved: the policy or the budget of the table has changed, or the "
    "service was upgraded to a version that measures in another way",
    "ask for a new quote",
)
CONSTANT_FAILURE = to_problem(EngineFailed())


class WorkerStops(Exception):
    """The worker is stopped while a job waits for its moment: nothing is recorded, and the job is put back."""


def check_asker(control: Control, person: str, table: str, token: str | None) -> tuple[TableEntry, Grant]:
    """Return the table and the grant of a person who asked, as they are now. What they may not ask any more, because they
    were shut out, have another role or a token that was revoked, or lost the grant, is refused when a worker takes it:
    between asking and an approval there may be days."""
    with control.reading():
        entry, grant = control.find_table(table), control.find_grant(person, table)
        asker = control.find_person(person)
        used = None if token is None else control.find_token_by_id(token)
    if entry is None:
        raise CLOSED_TABLE
    if grant is None or asker is None:
        raise QueryRefused("You may not ask of this table any more", "ask its steward")
    refusal = find_refusal(asker, used, grant, entry)
    if refusal is not None:
        raise refusal
    return entry, grant


def check_pause(grant: Grant, account: HeldAccount, debit: str) -> None:
    """Refuse to begin what a paused account asked. What was paid for before its worker died is continued."""
    if grant.paused is not None and not account.has_debit(debit):
        raise QueryRefused(f"Your account is paused: {grant.paused}", "ask the steward of the table to resume it")
