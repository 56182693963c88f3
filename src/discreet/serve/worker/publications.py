"""Publish a workload for a steward: one debit, one folder, on a table that is served.

The plan comes from the browser, so it may name queries, errors and a budget, and nothing else: a source, a ledger or a path
in it is refused. Source, policy, account and key are those of the service.
"""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.errors import BadParameter, QueryRefused
from discreet.serve.control.model import Publication
from discreet.serve.control.store import Control
from discreet.serve.worker.holding import HeldAccount
from discreet.serve.worker.tables import Tables
from discreet.workload.forecast import forecast_budgets
from discreet.workload.planning import WorkloadPlan, plan_for_session
from discreet.workload.publishing import Publication as Published
from discreet.workload.publishing import publish
from discreet.workload.spec import parse_workload

ALLOWED = {"title", "confidence", "questions", "budget"}
ALLOWED_BUDGET = {"epsilon"}


def plan_publication(tables: Tables, control: Control, publication: Publication) -> tuple[WorkloadPlan, HeldAccount]:
    """Return the plan of a publication with its noise, on the table and the account of who asked for it; and the account."""
    _check_keys(publication.plan)
    entry, grant = control.find_table(publication.table), control.find_grant(publication.by, publication.table)
    if entry is None or grant is None:
        raise QueryRefused("You may not ask of this table", "ask its steward for a grant")
    session, account = tables.open_session(publication.table, grant.account, entry.policy_hash)
    parsed = parse_workload(f'source = "{publication.table}"\n{publication.plan}', Path())
    workload = replace(
        parsed, ledger=tables.config.ledger, account=grant.account, id=f"publication:{publication.id}", text=""
    )
    return plan_for_session(workload, session), account


def quote_workload(tables: Tables, control: Control, publication: Publication) -> dict[str, Any]:
    """Return what a publication would cost, and what half, the same and twice the budget would buy. No row is read."""
    plan, _ = plan_publication(tables, control, publication)
    return {"cost": plan.cost.to_dict(), "fits": plan.fits, "budgets": [each.to_dict() for each in forecast_budgets(plan)]}


@contextmanager
def hold_failures(account: HeldAccount, wait: Callable[[], None]) -> Iterator[None]:
    """Record the failures of this block after `wait` alone: an analyst who asks meanwhile does not learn of them."""
    with account.hold(answers=False) as held:
        try:
            yield
        except Exception:
            wait()
            held.record_failures()
            raise


def publish_workload(
    tables: Tables, control: Control, publication: Publication, folder: Path, wait: Callable[[], None]
) -> Published:
    """Charge the account once, answer all queries and write the folder. A failure leaves after `wait`."""
    plan, account = plan_publication(tables, control, publication)
    with hold_failures(account, wait):
        published = publish(plan, folder, key=tables.config.key, spreadsheet=True)
    (folder / "plan.toml").write_text(publication.plan, encoding="utf-8")
    return published


def _check_keys(text: str) -> None:
    try:
        plan = tomllib.loads(text)
    except ValueError as error:
        raise BadParameter("plan", "this text", f"not TOML ({error})", "correct that line") from None
    for key in plan.keys() - ALLOWED:
        raise BadParameter(f"plan.{key}", "given", "the service states it itself", "leave it out")
    budget = plan.get("budget", {})
    for key in budget.keys() - ALLOWED_BUDGET if isinstance(budget, dict) else ():
        raise BadParameter(f"plan.budget.{key}", "given", "the service states it itself", "leave it out")
