"""What a worker refuses, whatever kind of job it runs, and in which words."""

from discreet.errors import EngineFailed, QueryRefused, SourceRefused
from discreet.remote.wire import to_problem
from discreet.serve.control.model import Grant, Person

WORKER = "worker"
"""What the audit trail calls a worker."""

RETRY_SECONDS = 1.0
MAX_ATTEMPTS = 20
"""A job that this many workers took and did not end is one that ends workers; it fails."""

CLOSED_TABLE = SourceRefused("This table cannot be queried at present", "its steward knows why; try again later")
"""What the service says to an analyst of a source that cannot be opened or is quarantined: no path, no reason."""

CHANGED = QueryRefused(
    "What would be measured is not what was quoted or approved: the policy or the budget of the table has changed",
    "ask for a new quote",
)
CONSTANT_FAILURE = to_problem(EngineFailed())


class WorkerStops(Exception):
    """The worker is stopped while a job waits for its moment: nothing is recorded, and the job is put back."""


def check_grant(grant: Grant | None, person: Person | None) -> str | None:
    """Refuse an ask whose grant was taken away while it waited. Returns why its account is paused, if it is: then no ask is
    begun, and one that was paid for before its worker died is continued."""
    if grant is None or person is None or person.disabled:
        raise QueryRefused("You may not ask of this table any more", "ask its steward")
    return grant.paused
