"""What the control database holds: people, grants, asks and their states, mirrored accounts. Values and rules, no storage.

The control database knows who may ask what and what was asked. It holds no row of any table, no key and no salt; what it
holds of the ledger (budgets, heads, answers that were released) is a mirror that workers write.
"""

from enum import StrEnum
from fractions import Fraction
from typing import Any

import msgspec

from discreet.accounting.currencies import Filter, parse_currency
from discreet.ledger.account import AccountState


class Role(StrEnum):
    """What a person may do. A steward grants, approves and publishes; an analyst asks; a reader sees released answers; a
    student asks of invented tables only."""

    STEWARD = "steward"
    ANALYST = "analyst"
    READER = "reader"
    STUDENT = "student"


class Scope(StrEnum):
    """What a token may be used for."""

    ASK = "ask"
    READ = "read"
    STEWARD = "steward"


class AskState(StrEnum):
    """Where an ask is on its way. The values are those of the API."""

    APPROVAL = "for approval"
    WAITING = "waiting"
    RUNNING = "running"
    ANSWERED = "answered"
    FAILED = "failed"
    REFUSED = "refused"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"

    @property
    def is_final(self) -> bool:
        """Whether nothing follows it."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[AskState, frozenset[AskState]] = {
    AskState.APPROVAL: frozenset({AskState.WAITING, AskState.DECLINED, AskState.WITHDRAWN}),
    AskState.WAITING: frozenset({AskState.RUNNING, AskState.WITHDRAWN, AskState.REFUSED}),
    AskState.RUNNING: frozenset({AskState.ANSWERED, AskState.FAILED, AskState.REFUSED, AskState.WAITING}),
    AskState.ANSWERED: frozenset(),
    AskState.FAILED: frozenset(),
    AskState.REFUSED: frozenset(),
    AskState.DECLINED: frozenset(),
    AskState.WITHDRAWN: frozenset(),
}
"""Which state may follow which. `RUNNING` goes back to `WAITING` when the worker that ran it is gone."""


class _Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen value with named fields. Times are seconds since 1970 in UTC."""


class Person(_Value, frozen=True, kw_only=True):
    """A person who can sign in. `id` is a short name that is part of account names, such as "ada"."""

    id: str
    name: str
    role: Role
    email: str | None = None
    subject: str | None = None  # issuer and subject of OIDC
    created: float = 0.0
    disabled: bool = False


class Token(_Value, frozen=True, kw_only=True):
    """A bearer token; only the SHA-256 of its secret is stored."""

    id: str
    person: str
    digest: str
    label: str
    scopes: tuple[Scope, ...]
    created: float
    tables: tuple[str, ...] | None = None  # None: all that its person may ask of
    accounts: dict[str, str] = {}  # population → the account of its own ration
    last_used: float | None = None
    expires: float | None = None
    revoked: float | None = None


class Login(_Value, frozen=True, kw_only=True):
    """A browser that is signed in; only the SHA-256 of its cookie is stored."""

    digest: str
    person: str
    csrf: str
    created: float
    expires: float


class Link(_Value, frozen=True, kw_only=True):
    """A link that signs a person in once."""

    digest: str
    person: str
    expires: float
    used: float | None = None


class Rules(_Value, frozen=True, kw_only=True):
    """What may be asked without approval. None sets no limit; what exceeds a limit goes to approval."""

    epsilon_per_ask: str | None = None
    epsilon_per_day: str | None = None
    declared_keys_only: bool = False
    templates: tuple[str, ...] = ()  # if there are any, every other query needs approval; {name} stands for a literal
    fresh: bool = False  # whether new noise for an answered query needs no approval
    two_stewards_above: str | None = None  # above this ε, two stewards approve; the owner's alone to state, in serve.toml


class Population(_Value, frozen=True, kw_only=True):
    """The people whose data several tables hold. Its account is the root: what is promised to them."""

    name: str
    account: str
    epsilon: str
    delta: str
    currency: str


class TableEntry(_Value, frozen=True, kw_only=True):
    """A table that is served, as a worker registered it."""

    name: str
    population: str
    policy: str  # TOML, without the salt
    policy_hash: str  # of the policy with the salt: part of every measurement
    policy_version: int
    identity: str  # what measurements call the source
    neighbours: str
    title: str = ""
    description: str = ""
    rows_at_most: int | None = None
    classes: tuple[float, ...] = ()  # seconds after which answers may leave; none: when they are ready
    seconds_per_pass: float = 0.0  # how long one pass over invented rows of the declared size takes: no row of the table
    label: str | None = None
    rules: Rules = Rules()
    has_fixed_rules: bool = False  # whether serve.toml states them: then stewards cannot change them
    notes: tuple[str, ...] = ()
    public: tuple[dict[str, Any], ...] = ()  # public tables to join to: columns, unique columns, digest; no rows
    invented: bool = False  # whether its rows are invented: the only tables that students may ask of
    is_open: bool = True


RELEASED = "released"
"""The setting that names where released tables are; empty where there is no such place."""


class Grant(_Value, frozen=True, kw_only=True):
    """A person may ask of a table, from an account of theirs."""

    person: str
    table: str
    account: str
    created: float
    by: str
    paused: str | None = None  # why no ask is taken


class Snapshot(_Value, frozen=True, kw_only=True):
    """An account of the ledger as a worker last saw it. Rationals are texts such as "3/8"."""

    account: str
    parent: str | None
    root: str
    currency: str
    limit: str
    delta_limit: str
    delta: str
    spent: str
    delta_spent: str
    debits: int = 0
    privacy_unit: str = ""
    own_split: bool = False  # as in `AccountState`
    entry: int = 0  # the last entry of the ledger when it was taken

    @property
    def budget(self) -> Filter:
        """The limit, and what is spent and remains of it."""
        return Filter(
            parse_currency(self.currency), Fraction(self.limit), Fraction(self.delta_limit), Fraction(self.spent),
            Fraction(self.delta_spent),
        )  # fmt: skip

    @classmethod
    def of(cls, state: AccountState, entry: int = 0) -> "Snapshot":
        """Return the snapshot of an account, as it was when `entry` was the last one of the ledger."""
        budget = state.budget
        return cls(
            account=state.name, parent=state.parent.name if state.parent else None, root=state.lineage[-1].name,
            currency=budget.currency.name, limit=str(budget.limit), delta_limit=str(budget.delta_limit),
            delta=str(state.delta), spent=str(budget.spent), delta_spent=str(budget.delta_spent), debits=state.debits,
            privacy_unit=state.privacy_unit, own_split=state.own_split, entry=entry,
        )  # fmt: skip

    def to_account(self, parent: AccountState | None) -> AccountState:
        """Return the account as it was when the snapshot was taken."""
        return AccountState(
            self.account, self.budget, Fraction(self.delta), parent, self.debits, self.privacy_unit, self.own_split
        )


class AskOptions(_Value, frozen=True, kw_only=True):
    """How a query is asked, besides its ε."""

    error: str | None = None  # as the analyst stated it; the quote turned it into ε
    size: int | None = None
    confidence: float = 0.95
    weights: dict[str, str] | None = None
    simultaneous: bool = False
    fresh: bool = False


class Ask(_Value, frozen=True, kw_only=True):
    """A query that a person asked. `key` is the id that the asker gave; with the person it is the id of the debit."""

    id: str
    key: str
    person: str
    table: str
    account: str
    root: str
    query: str
    options: AskOptions
    epsilon: str  # exact: the quote's
    measurement: str  # the hash of what will be measured; an approval is bound to it
    cost: dict[str, Any]  # as the quote stated it
    state: AskState
    accepted_at: float
    token: str | None = None
    reason: str | None = None  # why it was refused, declined or needs approval
    release_at: float | None = None  # the moment of its class; None: when it is ready
    class_seconds: float | None = None
    answered_at: float | None = None
    answer: dict[str, Any] | None = None  # what `remote.wire` makes of the answer; only from its moment on
    problem: dict[str, Any] | None = None  # of an ask that was refused or failed
    overruns: int = 0
    is_free: bool = False  # whether the debit of another ask pays for its answer, so that nothing was charged for it
    released: str | None = None  # the steward who released its answer for tools that read released tables

    @property
    def debit_id(self) -> str:
        """The id of its debit in the ledger. The person's name comes first, so that no person can take another's ids."""
        return f"{self.person}:{self.key}"


class Comment(_Value, frozen=True, kw_only=True):
    """What an analyst or a steward said about a request."""

    by: str
    at: float
    text: str


class RequestState(StrEnum):
    """What became of a request."""

    OPEN = "open"
    APPROVED = "approved"
    DECLINED = "declined"
    RETURNED = "returned"  # the steward asked back
    WITHDRAWN = "withdrawn"  # with its ask


class Request(_Value, frozen=True, kw_only=True):
    """An ask that needs a steward. An approval holds for this measurement and no other."""

    ask: str
    person: str
    table: str
    purpose: str
    reason: str  # the rule that sent it here
    measurement: str
    state: RequestState
    created: float
    decided_by: str | None = None
    comments: tuple[Comment, ...] = ()
    approvals: tuple[str, ...] = ()  # stewards who approved it, where the rules want two of them


class JobState(StrEnum):
    """Where a job of the queue is."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"


class Job(_Value, frozen=True, kw_only=True):
    """Work for a worker: `ask`, `open_account`, `certificate`, `publication`, `ledger_check`. `subject` is what it is about,
    for an ask its id. A lease that ends frees the job for another worker; running it twice does no harm, because the ledger
    continues a debit by its id."""

    id: str
    kind: str
    subject: str
    payload: dict[str, Any]
    state: JobState
    created: float
    lease_until: float | None = None
    worker: str | None = None
    attempts: int = 0
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None  # a problem


class HeadSeen(_Value, frozen=True, kw_only=True):
    """A head of the ledger that was shown to a client."""

    number: int
    hash: str
    at: float


class Overruns(msgspec.Struct, frozen=True, kw_only=True):
    """How often answers of a table were not ready at their moments, and when the last one was not."""

    times: int
    last: float


class WorkerSlots(msgspec.Struct, frozen=True, array_like=True):
    """What a worker says of itself: how many jobs it runs at once, until when that holds, and the bytes that are free
    where it keeps its state. `uptime` is the same moment as `until`, on the clock of the machine since the start `boot`."""

    slots: int
    until: float
    free: int | None = None
    boot: str | None = None
    uptime: float = 0.0


class TrailEntry(_Value, frozen=True, kw_only=True):
    """One line of the audit trail: who did what, when. Each holds the hash of the line before it."""

    number: int
    at: float
    actor: str
    action: str
    subject: str
    details: dict[str, Any]
    previous: str
    hash: str


class PublicationState(StrEnum):
    """Where a publication is."""

    DRAFT = "draft"
    APPROVAL = "for approval"
    RUNNING = "running"
    PUBLISHED = "published"
    FAILED = "failed"
    DECLINED = "declined"


class Publication(_Value, frozen=True, kw_only=True):
    """A workload that is published as a folder."""

    id: str
    title: str
    table: str
    plan: str  # plan.toml
    by: str
    state: PublicationState
    created: float
    quote: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None
    files: dict[str, str] = {}  # name → base 64, once published
    is_public: bool = False
    approvals: tuple[str, ...] = ()  # as of a request
    account: str | None = None  # what is charged; None: the account of the grant of who proposed it
    token: str | None = None  # with which it was proposed

    @property
    def debit_id(self) -> str:
        """The id of its debit in the ledger."""
        return f"publication:{self.id}"


class Proposal(_Value, frozen=True, kw_only=True):
    """A policy that was written in the browser. It comes into force when the owner accepts it where the worker runs."""

    table: str
    version: int
    policy: str  # TOML, without the salt
    by: str
    at: float
    state: str = "open"  # open, accepted, declined
