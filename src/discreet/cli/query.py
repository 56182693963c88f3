"""What `discreet ask` and `discreet quote` share: the cost of a query as typed, and the session that it runs in."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.cli.options import collect_pairs, parse_weight
from discreet.cli.output import parse_number
from discreet.errors import BadParameter, DiscreetError
from discreet.session.options import SourceOptions

if TYPE_CHECKING:
    from discreet.session.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArguments:
    """A query as typed: its SQL, its cost or error, and the account that pays."""

    sql: str
    epsilon: str | None
    error: str | None
    size: int | None
    weight: list[str] | None
    confidence: float
    delta: str
    currency: str | None
    ledger: str | None
    account: str | None
    budget: str | None = None
    pilot: str | None = None

    def parse_cost(self) -> dict[str, Any]:
        """What `Session.ask` and `Session.quote` take: ε, or an error and what it is relative to."""
        if (self.epsilon is None) == (self.error is None):
            given = "missing" if self.epsilon is None else "given with --error"
            raise BadParameter("--epsilon", given, "a query has either a cost or an error", "give --epsilon or --error")
        cost: dict[str, Any] = {
            "size": self.size,
            "weights": collect_pairs(map(parse_weight, self.weight), "--weight") if self.weight else None,
        }
        cost["confidence"] = self.confidence
        if self.epsilon is not None:
            cost["epsilon"] = parse_number(self.epsilon, "epsilon")
        else:
            cost["error"] = self.error
        return cost if self.pilot is None else cost | {"pilot": parse_number(self.pilot, "pilot")}

    def open_session(self, options: SourceOptions) -> "tuple[Session, dict[str, Any]]":
        """The session, and the cost of the query as `Session.ask` and `Session.quote` take it.

        The budget is that of the ledger's account, or --budget, or exactly the cost of the query. Where the unit or the ε is
        missing, all that is missing is listed."""
        try:
            return self._open_session(options)
        except BadParameter as refused:
            raise self._list_missing(options, refused) from None

    def _list_missing(self, options: SourceOptions, refused: BadParameter) -> BadParameter:
        """Return what is missing besides the unit or the ε; what was refused, if it is neither of them."""
        if (refused.name, refused.value) not in {("unit", "missing"), ("--epsilon", "missing")}:
            return refused
        from discreet.query.schema import ROW
        from discreet.session.connect import open_account
        from discreet.session.missing import find_missing, make_error
        from discreet.session.source import open_source

        without_unit, without_cost = options.unit is None and options.policy is None, self.epsilon is self.error is None
        try:
            delta = parse_number(self.delta, "delta")
            if self.ledger is not None:
                delta = open_account(None, 0, None, self.ledger, self.account)[1]
            opened = open_source(replace(options, unit=ROW) if without_unit else options)
            found = find_missing(self.sql, opened.table, auto_bounds=opened.auto_bounds, discovers_keys=delta > 0)
        except DiscreetError:
            return refused
        return make_error(replace(found, unit=without_unit, epsilon=without_cost), refused, options)

    def _open_session(self, options: SourceOptions) -> "tuple[Session, dict[str, Any]]":
        from discreet.session.connect import open_account, open_session

        cost, delta = self.parse_cost(), parse_number(self.delta, "delta")
        if self.ledger is not None:
            self._check_ledger_options(delta)
            return open_session(options, *open_account(None, 0, None, self.ledger, self.account)), cost
        if self.pilot is not None and self.budget is None:
            raise BadParameter(
                "--pilot", self.pilot, "the cost of the query then depends on a private answer", "fix --budget beforehand"
            )
        limit = cost.get("epsilon") if self.budget is None else parse_number(self.budget, "budget")
        account, delta = open_account(1 if limit is None else limit, delta, self.currency, None, self.account)
        session = open_session(options, account, delta)
        if limit is not None:
            return session, cost
        epsilon = session.find_epsilon(self.sql, **cost)
        return replace(session, account=open_account(epsilon, delta, self.currency, None, None)[0]), cost

    def _check_ledger_options(self, delta: Fraction) -> None:
        for flag, given in (("--budget", self.budget), ("--delta", delta or None), ("--currency", self.currency)):
            if given is not None:
                reason = "the account of the ledger has its own, which cannot be changed"
                raise BadParameter(flag, given, reason, "leave it out")
