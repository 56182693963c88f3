"""What people see of an account that others spend from, too: whole percents, rounded down.

The exact balance of a root moves with every debit, so it would tell an analyst when others asked and for how much.
Everything that an analyst is shown or refused by follows from rounded parents: budgets, quotes, whether a cost fits, and
refusals. So nothing can be found out by trying costs, and the last percent of a root is out of the reach of analysts who ask
from an account under it.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import msgspec

from discreet.errors import DELTA_CURRENCY, BudgetExceeded
from discreet.ledger.account import state_in_epsilon
from discreet.serve.control.model import Snapshot


def round_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot whose remaining budget and δ are rounded down to whole percents.

    >>> shown = Snapshot(account="a", parent=None, root="a", currency="pure", limit="2", delta_limit="0", delta="0",
    ...     spent="1/3", delta_spent="0")
    >>> round_snapshot(shown).budget.remaining
    Fraction(83, 50)
    """
    spent, delta_spent = _round_up(snapshot.spent, snapshot.limit), _round_up(snapshot.delta_spent, snapshot.delta_limit)
    return msgspec.structs.replace(snapshot, spent=spent, delta_spent=delta_spent, debits=0)


def _round_up(spent: str, limit: str) -> str:
    whole = Fraction(limit)
    return spent if whole <= 0 else str(whole - Fraction(floor(100 * (whole - Fraction(spent)) / whole), 100) * whole)


def round_parents(lineage: Sequence[Snapshot]) -> list[Snapshot]:
    """Return an account as it is, and its parents, which others spend from, too, rounded."""
    return [*lineage[:1], *map(round_snapshot, lineage[1:])]


def round_refusal(refused: BudgetExceeded, lineage: Sequence[Snapshot]) -> BudgetExceeded:
    """Return a refusal of the ledger that states what remains of an account and of its rounded parents."""
    shown = round_parents(lineage)
    own = shown[0].budget
    counts_delta = refused.currency == DELTA_CURRENCY
    remaining = min(
        each.budget.delta_limit - each.budget.delta_spent if counts_delta else each.budget.remaining for each in shown
    )
    fitting = min(each.budget.fitting_epsilon(Fraction(each.delta)) for each in shown)
    if refused.fitting_epsilon is not None:
        fitting = min(fitting, refused.fitting_epsilon)
    limit = None if counts_delta else min((each.budget for each in shown), key=lambda budget: budget.remaining).limit
    stated = BudgetExceeded(refused.currency, cost=refused.cost, remaining=remaining, limit=limit)
    return state_in_epsilon(stated, own.currency, Fraction(shown[0].delta), fitting)
