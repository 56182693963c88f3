"""The account that pays for a plan; or, to look at a plan whose account is not open yet, one with the plan's own budget."""

from fractions import Fraction
from shlex import quote

from discreet._numbers import read_decimal
from discreet.errors import BadParameter, DiscreetError, LedgerUnavailable
from discreet.ledger.account import Account
from discreet.paths import exists, is_postgres
from discreet.workload.spec import PlanOptions


def find_account(workload: PlanOptions, *, assume: bool = False) -> tuple[tuple[Account, Fraction], str]:
    """Return the account of a plan with its δ, and why it is an assumed one: empty if it is the real one.

    With `assume` an account that is not open yet, or a ledger that does not exist yet, is taken to have the plan's own
    budget. Else the refusal has the command that opens it.
    """
    try:
        return workload.open_account(), ""
    except (LedgerUnavailable, BadParameter) as refused:
        if not _is_not_open_yet(workload, refused):
            raise
        if not assume:
            raise _explain_missing_account(workload, refused) from None
        return workload.assume_account(), _explain_assumed_account(workload)


def _is_not_open_yet(workload: PlanOptions, refused: DiscreetError) -> bool:
    """Whether the ledger is a file that does not exist, or does not have the account."""
    if isinstance(refused, BadParameter):
        return refused.name == "budget.account" and workload.account is not None
    ledger = str(workload.ledger)
    return not is_postgres(ledger) and "://" not in ledger and not exists(ledger, lambda _: refused)


def _explain_missing_account(workload: PlanOptions, refused: DiscreetError) -> DiscreetError:
    """Return the refusal with the command that opens the account of the plan; a misspelt account keeps its suggestion."""
    if not isinstance(refused, LedgerUnavailable):
        return refused
    hint = f"check budget.ledger, or open the account of the plan: {_format_open_command(workload)}"
    error = LedgerUnavailable(refused.where, refused.reason, hint)
    error.see = refused.see
    return error


def _format_open_command(workload: PlanOptions) -> str:
    epsilon, delta = (
        f"{float(read_decimal(number)):.12g}".replace("e-0", "e-") for number in (workload.epsilon, workload.assumed_delta)
    )
    more = f" --delta {delta} --currency pure" if read_decimal(workload.assumed_delta) else ""
    return (
        f"discreet ledger open {quote(str(workload.ledger))} --account {quote(workload.account or 'main')} "
        f"--epsilon {epsilon}{more}"
    )


def _explain_assumed_account(workload: PlanOptions) -> str:
    command = _format_open_command(workload)
    return (
        f"The account of the plan is not open yet. This is for a new one with the budget of the plan: {command} "
        "(with another δ or currency the numbers differ)."
    )
