"""Execute a planned workload: one debit for all its queries, through the same executor as `ask`."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from discreet._numbers import check_confidence
from discreet.accounting.cost import Cost
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.entries import Debit
from discreet.noise import Bits
from discreet.query.answer import Answer, IntervalOptions
from discreet.query.record import LedgerReference
from discreet.session.executor import RunOptions
from discreet.workload.planning import WorkloadPlan


@dataclass(frozen=True, slots=True)
class WorkloadAnswers:
    """One answer per query, and where the account keeps all of them."""

    answers: tuple[Answer, ...]
    reference: LedgerReference
    free: bool  # they were recorded before, and nothing was paid now
    cost: Cost  # of the debit that they belong to, which may have been made under another δ
    certified_delta: Fraction  # the δ of the certified point that was charged; 0 where a sum was


def execute_plan(
    plan: WorkloadPlan,
    *,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> WorkloadAnswers:
    """Charge the account once for the composition of all measurements, then answer them."""
    options, intervals = (
        RunOptions(bits, progress, plan.workload.id, fresh),
        IntervalOptions(check_confidence(plan.workload.confidence)),
    )
    execution = plan.session.executor.run_workload(plan.measurements, options, intervals, plan.terms.certified_delta)
    cost, certified_delta = _read_cost(plan, execution.reference.entry)
    return WorkloadAnswers(execution.answers, execution.reference, execution.receipt is None, cost, certified_delta)


def _read_cost(plan: WorkloadPlan, entry: int) -> tuple[Cost, Fraction]:
    """Return what the debit with this number cost, and at which point. An account in memory knows no other debit."""
    account, terms, cost = plan.session.account, plan.terms, plan.cost
    if not isinstance(account, LedgerAccount):
        return cost, terms.certified_delta
    with account.store.read_transaction() as transaction:
        debit = transaction.find_entry(entry)
    assert isinstance(debit, Debit)
    delta = debit.certified_delta if terms.currency.counts_epsilon else terms.delta
    return Cost(plan.event, delta, terms.currency, debit.cost, cost.remaining, cost.limit), debit.certified_delta
