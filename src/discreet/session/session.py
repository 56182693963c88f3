"""A session: one analyst, one source, one account.

The budget and its currency are fixed when the account is opened. Every query is calibrated and charged before any row is
read, and stays charged whatever happens afterwards: a refund would make the balance a function of the data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from discreet import __version__, ledger, noise, session
from discreet import query as queries
from discreet._numbers import Number
from discreet.accounting.cost import Budget, Cost, Remaining, warn_of_weak_budget
from discreet.accounting.currencies import largest_epsilon
from discreet.engines.base import Engine
from discreet.errors import BadParameter, MissingDeclarations, QueryRefused
from discreet.formats import count_things, make_html_notes
from discreet.ledger.account import Account, validate_name, warn_of_unrelated
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.entries import privacy_unit_of
from discreet.ledger.owner_state import open_quarantine
from discreet.ledger.quarantine import MemoryQuarantine, Quarantine
from discreet.query.missing import OPEN_WITH_DELTA, SET_DELTA
from discreet.query.schema import Table
from discreet.session.asking import Asking
from discreet.session.discovery_state import DiscoveryState
from discreet.session.missing import find_missing, make_error
from discreet.session.options import SourceOptions
from discreet.session.source import Source
from discreet.text import to_printable
from discreet.units import Invariant, Neighbours, describe_conditional, invariants_to_json

if TYPE_CHECKING:
    from discreet.query.calibrate import EpsilonChoice
    from discreet.query.record import LedgerReference
    from discreet.session.discovery import PaidStep

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _lists_missing(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Turn the refusal of a query that lacks declarations into one that lists all of them. For methods of a session whose
    first parameter is the query."""

    @wraps(method)
    def run(*args: _Arguments.args, **given: _Arguments.kwargs) -> _Result:
        try:
            return method(*args, **given)
        except QueryRefused as refused:
            asked: Any = args[0]
            raise asked._list_missing(args[1] if len(args) > 1 else given["query"], refused) from None

    return run


@dataclass(frozen=True, repr=False)
class Session(Asking):
    """What `connect` returns. Immutable, but for the account and `state`, which holds what was discovered. `print`, a shell
    and a notebook show the source, what is declared about it, and the budget.

    >>> from discreet.session.connect import connect
    >>> connect("examples/people.csv", unit="id", unique=True, epsilon=1)
    Session on people: privacy unit id (add or remove one unit), one row per id.
    Budget: ε = 1 of 1 remaining, 0% spent.
    Column types were inferred from the file. Declare them in a policy (`discreet policy init`).
    """

    engine: Engine
    table: Table
    account: Account
    delta: Fraction  # at which the budget promises its ε
    neighbours: Neighbours
    notes: tuple[str, ...] = ()
    auto_bounds: frozenset[str] = frozenset()  # columns whose bounds shall be discovered privately
    quarantine: Quarantine = field(default_factory=MemoryQuarantine, repr=False, compare=False)
    label: str | None = None  # which state of the source is queried, for example "2026-11"
    identity: str | None = None  # what measurements call the source, if not as its engine does
    options: SourceOptions | None = field(default=None, repr=False, compare=False)  # as the source was opened
    account_notes: tuple[str, ...] = ()  # on other accounts of the ledger: no part of an answer, which others may get
    state: DiscoveryState = field(default_factory=DiscoveryState, repr=False, compare=False)
    ungrouped_notes: tuple[str, ...] | None = None  # `notes`, as they read for a query without groups, if otherwise
    invariants: tuple[Invariant, ...] = ()  # exact counts that are public: all guarantees are conditional on them

    @property
    def executor(self) -> "session.Executor":
        """What reserves, runs and records. Made for the first query; one for all threads, because it remembers failures.

        Measurements of a source with an identity hold the hash of its whole policy: a service quotes them without the salt,
        and knows none of what a query makes of the policy by joining public tables.
        """
        made: dict[str, session.Executor] = vars(self)
        if "_executor" not in made:  # of two threads, the first one's is taken
            from discreet.query.record import policy_hash

            policy = None if self.identity is None else policy_hash(self.table)
            executor = session.Executor(
                self.engine, self.account, self.delta, self.quarantine, self.label, self.identity, policy, self.invariants
            )
            made.setdefault("_executor", executor)
        return made["_executor"]

    @property
    def discovery(self) -> "session.Discovery":
        """What discovers bounds and sizes."""
        return session.Discovery(self.executor, self.table, self.neighbours, self.auto_bounds, self.state)

    def __copy__(self) -> "Session":
        """Return the session itself: it is frozen, and a copy would share its account."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled or copied deeply: two sessions would each spend the whole of what remains."""
        raise BadParameter(
            "session",
            "to be pickled or copied deeply",
            "the copy could spend the same budget again",
            "share it among threads; in another process, connect again to an account in a ledger",
        )

    @classmethod
    def of(
        cls,
        source: Source,
        account: Account,
        delta: Fraction,
        neighbours: Neighbours,
        label: str | None = None,
        identity: str | None = None,
        invariants: tuple[Invariant, ...] = (),
    ) -> "Session":
        """Return a session over an open source; refuse a source that is quarantined or has cells that cannot be read.

        `identity` is what measurements call the source: it is the owner's word that it is the same data wherever they are
        stored. Failures stay with where the data is.
        """
        quarantine = open_quarantine(account, lasting=source.engine.lasting, anchor=source.engine.anchor)
        for origin in source.engine.origins:
            quarantine.check(origin)
        source.validate()
        warning = None
        if isinstance(account, LedgerAccount):
            stated = {"invariants": invariants_to_json(invariants)} if invariants else {}
            about = privacy_unit_of({"unit": source.table.unit, "neighbours": neighbours.definition, **stated})
            warning = warn_of_unrelated(account.initial_state, account.list_unrelated(about))
        said = (describe_conditional(invariants),) if invariants else ()
        return cls(
            source.engine, source.table, account, delta, neighbours, (*said, *source.notes), source.auto_bounds, quarantine,
            None if label is None else read_label(label), None if identity is None else validate_name(identity, "identity"),
            source.options, () if warning is None else (warning,), invariants=invariants,
            ungrouped_notes=None if source.ungrouped_notes is None else (*said, *source.ungrouped_notes),
        )  # fmt: skip

    @property
    def budget(self) -> Budget:
        """The account's budget: the ε that remains at δ, the share that is spent, and both in the account's currency."""
        return Budget.of(self.account.budget, self.delta)

    @property
    def remaining(self) -> Remaining:
        """What can still be spent: a query at this ε fits the account and every parent of it."""
        if isinstance(self.account, LedgerAccount):
            return Remaining.of([(each.budget, each.delta) for each in self.account.state.lineage])
        return Remaining.of([(self.account.budget, self.delta)])

    def _list_lines(self) -> list[str]:
        from discreet.query.quote import explain_currency

        table, unit = self.table, self.table.unit
        groups, rows = count_things(table.max_groups, "group"), count_things(table.max_rows, "row")
        limits = f"one row per {unit}" if table.unique else f"at most {groups} per {unit}, {rows} per {unit} and group"
        limits = limits if table.unit_columns else "which is an assumption of the owner: each row is one person"
        return [
            f"Session on {table.name}: privacy unit {unit} ({self.neighbours.definition}), {limits}.",
            str(self.budget),
            *self._describe_parents(),
            *explain_currency(self.account.budget.currency, self._opened_epsilon, self.delta)[:1],
            *self.notes,
            *self.list_account_notes(),
        ]

    def list_notes(self, *, grouped: bool) -> tuple[str, ...]:
        """What is not declared about the source, as far as it concerns queries with groups, or without."""
        return self.notes if grouped or self.ungrouped_notes is None else self.ungrouped_notes

    def list_plan_notes(self, cost: Cost, asked: Fraction | None, what: str, *, grouped: bool = True) -> tuple[str, ...]:
        """What is said of a plan that is charged as one, as of a query: what is not declared about the source, why its cost
        is another ε than was asked for, and what the budget does not promise. `what` is the plan in words: "these tables
        together"; `asked` is None where an error was asked for, and no ε."""
        why_other = None if asked is None else cost.explain_epsilon(asked, what)
        return (
            *self.list_notes(grouped=grouped),
            *([] if why_other is None else [why_other]),
            *self.budget_warnings,
        )

    def list_account_notes(self) -> tuple[str, ...]:
        """What is to be said of the account: that its budget promises next to nothing, that others add up with it."""
        return (*self.budget_warnings, *self.account_notes)

    @property
    def budget_warnings(self) -> tuple[str, ...]:
        """Which part of the whole budget promises next to nothing."""
        return warn_of_weak_budget(self._opened_epsilon, self.delta)

    def _describe_parents(self) -> list[str]:
        if not isinstance(self.account, LedgerAccount) or self.account.initial_state.parent is None:
            return []
        names = " and ".join(f'"{each.name}"' for each in self.account.initial_state.lineage[1:])
        return [f"Capped by {names}: {str(self.remaining)[0].lower()}{str(self.remaining)[1:]}"]

    @property
    def _opened_epsilon(self) -> Fraction:
        budget = self.account.budget
        return largest_epsilon(budget.currency, budget.limit, self.delta)

    def __repr__(self) -> str:
        return "\n".join(map(to_printable, self._list_lines()))

    def _repr_html_(self) -> str:
        return make_html_notes(self._list_lines())

    @property
    def calibrator(self) -> "queries.Calibrator":
        """Calibration against this account, as it is now."""
        return self.executor.calibrator

    def outline(self, query: "queries.QueryLike") -> "queries.BoundedQuery":
        """Return a query with its sensitivities. Bounds that are still to be discovered are stood in for by placeholders."""
        return self.discovery.outline(query)

    @_lists_missing
    def calibrate(
        self, query: "queries.QueryLike", *, epsilon: Number, weights: Mapping[str, Number] | None = None
    ) -> "queries.Measurement":
        """Return a query with its noise and its event. No row is read."""
        bounded, target = self.discovery.bound(query), queries.AccuracyTarget(epsilon, weights=weights)
        calibrator = self.calibrator
        choice = calibrator.choose_epsilon(bounded, target)
        return calibrator.calibrate(bounded, choice.epsilon, choice.weights)

    @_lists_missing
    def _quote(self, query: "queries.QueryLike", target: "queries.AccuracyTarget") -> "queries.Quote":
        from discreet.query.quote import make_quote

        bounded = self.discovery.bound(query)
        notes = (*self.list_notes(grouped=bool(bounded.query.groups)), *self.list_account_notes())
        return make_quote(self.calibrator, bounded, target, query, notes)

    @_lists_missing
    def _ask(
        self,
        query: "queries.QueryLike",
        target: "queries.AccuracyTarget",
        pilot: Number | None,
        options: "session.RunOptions",
        intervals: "queries.IntervalOptions",
    ) -> "queries.Answer":
        from discreet.query.missing import columns_without_bounds
        from discreet.session.discovery import BUDGET_SHARE

        if options.purpose:
            raise BadParameter("purpose", repr(options.purpose), "only the steward of a service reads it", "leave it out")
        discovered = self.discovery.discover_for_query(query, target, options) if self.auto_bounds else ()
        steps: list[PaidStep] = list(discovered)
        rest = 1 - BUDGET_SHARE if steps else Fraction(1)
        bounds = self.state.bounds | {each.column: each for each in discovered}
        bounded, depends_on = self.discovery.bound(query, bounds), []
        if bounds:
            unbounded = columns_without_bounds(bounded.query, self.table)
            depends_on = [bounds[name].reference for name in unbounded if name in bounds]
        if pilot is not None:
            found = self.discovery.run_pilot(bounded, pilot, target, options, depends_on)
            target = replace(target, size=found.size)
            steps.append(found)
            depends_on.append(found.reference)
        calibrator = self.executor.calibrator
        choice = calibrator.choose_epsilon(bounded, target)
        measurement = calibrator.calibrate(bounded, choice.epsilon, choice.weights, rest)
        return _answer(self, measurement, choice, options, intervals, depends_on, steps)

    def ask_calibrated(
        self,
        measurement: "queries.Measurement",
        *,
        epsilon: Fraction,
        confidence: float = 0.95,
        simultaneous: bool = False,
        id: str | None = None,
        fresh: bool = False,
    ) -> "queries.Answer":
        """Charge the account for what `calibrate` returned for this ε, then answer it as `ask` does."""
        from discreet.query.calibrate import EpsilonChoice

        options, intervals = session.RunOptions(id=id, fresh=fresh), queries.IntervalOptions(confidence, simultaneous)
        return _answer(self, measurement, EpsilonChoice(epsilon), options, intervals)

    def _list_missing(self, query: "queries.QueryLike", refused: QueryRefused) -> QueryRefused:
        """Return what a refused query lacks, all at once; the refusal itself if it lacks nothing."""
        if isinstance(refused, MissingDeclarations):
            return refused
        discovers_keys = self.delta > 0 and self.account.budget.currency.spends_delta
        try:
            missing = find_missing(query, self.table, auto_bounds=self.auto_bounds, discovers_keys=discovers_keys)
        except QueryRefused:
            return refused
        if not missing.count:
            return refused
        if isinstance(self.account, LedgerAccount):  # its δ cannot be changed
            missing, hint = replace(missing, fixed_delta=True), refused.hint.replace(SET_DELTA, OPEN_WITH_DELTA)
            refused = QueryRefused(refused.reason, hint, refused.line, refused.column)
        return make_error(missing, refused, self.options)

    def find_bounds(
        self, column: str, *, epsilon: Number, id: str | None = None, fresh: bool = False, bits: "noise.Bits | None" = None
    ) -> tuple[Fraction, Fraction]:
        """Discover the bounds of a numeric column privately, at this ε; later queries use them."""
        return self.discovery.discover_column(column, epsilon, session.RunOptions(bits, id=id, fresh=fresh)).bounds

    @_lists_missing
    def _find_epsilon(self, query: "queries.QueryLike", target: "queries.AccuracyTarget") -> Fraction:
        return self.calibrator.choose_epsilon(self.discovery.bound(query), target).epsilon

    def records(self, *columns: str, target: str | None = None, max_rows: int = 1) -> Any:
        """Return `SessionRecords` for models of `discreet.learn`: these columns, and what is predicted.

        A handle that only `fit` reads, once it is paid: it has no length, no rows to look at, and is not copied. A unit has
        at most `max_rows` records; which of its rows they are is decided by a salted hash. Bounds, categories and classes
        are those of the policy, unless the model has its own.
        """
        above = import_module("discreet.learn.session_records")  # a layer above this one
        return above.make_records(self, columns, target, max_rows)

    def certify(self, answer: "queries.Answer", key: "ledger.keys.SigningKey") -> dict[str, Any]:
        """Return the certificate of an answer (release.json): signed, and checked by `discreet verify`. Only answers that
        a ledger recorded have one."""
        from discreet.ledger.certificate import make_certificate
        from discreet.query.answer import require_answer

        if not isinstance(self.account, LedgerAccount) or require_answer(answer).reference is None:
            raise BadParameter("answer", "not recorded", "only a ledger's answers have a certificate", "ask with a ledger")
        reference: LedgerReference = answer.reference
        return make_certificate(
            self.account, reference.entry, measurement=reference.measurement, answer=reference.record,
            depends_on=reference.after, software=f"discreet {__version__}", key=key, tainted=answer.tainted,
        )  # fmt: skip


def _answer(
    asked: "Session",
    measurement: "queries.Measurement",
    choice: "EpsilonChoice",
    options: "session.RunOptions",
    intervals: "queries.IntervalOptions",
    depends_on: "Sequence[LedgerReference]" = (),
    steps: "Sequence[PaidStep]" = (),
) -> "queries.Answer":
    """Reserve, run and record a measurement; `steps` are what was paid on the way to it."""
    from discreet.query.answer import explain_recorded
    from discreet.session.discovery import combine_costs

    answer = asked.executor.run(measurement, options, intervals, depends_on)
    noted = asked.list_notes(grouped=bool(measurement.bounded.query.groups))
    explanation = " ".join((answer.explanation, *noted, *choice.notes))
    recorded = [] if answer.charged or answer.reference is None else [explain_recorded(answer.reference.entry)]
    notes = (*recorded, *asked.budget_warnings)
    if steps:
        combined = combine_costs(asked.calibrator, replace(answer, explanation=explanation), steps)
        return replace(combined, notes=(*combined.notes, *notes))
    why_other = None if answer.cost is None else answer.cost.explain_epsilon(choice.epsilon)  # than was asked for
    return replace(answer, explanation=explanation, notes=(*([] if why_other is None else [why_other]), *notes))


def read_label(label: str) -> str:
    """Check a label: a text that every ledger can hold.

    >>> read_label(202611)
    Traceback (most recent call last):
    discreet.errors.BadParameter: label is 202611: it is not a text. Name the state of the source, label="2026-11".
    """
    if not isinstance(label, str):
        raise BadParameter("label", repr(label), "it is not a text", 'name the state of the source, label="2026-11"')
    return validate_name(label, "label")
