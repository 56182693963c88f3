"""Publish a workload for a steward: one debit, one folder, on a table that is served.

The plan comes from the browser, so it may name queries, errors and a budget, and nothing else: a source, a ledger or a path
in it is refused. Source, policy, account and key are those of the service.

**What.** A quote holds the hash of all that would be measured. It is written once, a steward approves no publication without
one, and the worker publishes what has the same hash and nothing else: as for an ask, a policy that was changed since gets
nothing past an approval. Who proposed it must still be allowed to ask when the worker takes it. What a token with a ration
proposed is charged to the account of the token.

**When.** The debit is in the ledger before any row is read. The answers are recorded at the end of a class, counted from the
start: the class follows from the queries, and from the time that they took only if they took longer. So are failures of the
engine. Until then nothing in the ledger, in its head or in the control database tells how long the rows took. What no row
decides is refused at once. A worker that is stopped before the end puts the job back; another one continues the debit.
"""

import threading
import tomllib
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from discreet.engines.base import owner_log
from discreet.errors import (
    BadParameter,
    BudgetExceeded,
    DiscreetError,
    EngineFailed,
    LedgerUnavailable,
    QueryRefused,
    SourceRefused,
)
from discreet.ledger.entries import hash_measurement
from discreet.remote.wire import to_problem
from discreet.serve.control.errors import ControlUnavailable
from discreet.serve.control.model import Job, Publication, PublicationState, Role, Snapshot
from discreet.serve.control.store import Control
from discreet.serve.quoting import build_account
from discreet.serve.rounding import round_parents, round_refusal
from discreet.serve.schedule import MAX_OVERRUNS, choose_class, find_end_of_class
from discreet.serve.worker.alerts import Alerts
from discreet.serve.worker.holding import ClosedForNow, Held, HeldAccount
from discreet.serve.worker.refusals import (
    CHANGED,
    CLOSED_TABLE,
    MAX_ATTEMPTS,
    RETRY_SECONDS,
    WORKER,
    WorkerStops,
    check_asker,
    check_pause,
)
from discreet.serve.worker.released import ReleasedTables
from discreet.serve.worker.tables import Tables
from discreet.workload.forecast import forecast_budgets
from discreet.workload.planning import WorkloadPlan, plan_for_session
from discreet.workload.publishing import Publication as Published
from discreet.workload.publishing import publish
from discreet.workload.spec import parse_workload

ALLOWED = {"title", "confidence", "questions", "budget"}
ALLOWED_BUDGET = {"epsilon"}
GIVE_WAY_SECONDS = 0.02
"""Between two queries of a publication."""


class Publisher:
    """Quotes and publishes workloads for one worker."""

    def __init__(
        self, control: Control, tables: Tables, alerts: Alerts, released: ReleasedTables | None, is_stopping: threading.Event
    ) -> None:
        self.control, self.tables, self.alerts = control, tables, alerts
        self.released, self.is_stopping = released, is_stopping

    def run(self, job: Job) -> dict[str, Any]:
        """Quote or publish, as the job's `step` says."""
        found = self.control.find_publication(job.subject)
        if found is None:
            raise BadParameter("publication", repr(job.subject), "there is no such publication", "check its id")
        if job.payload.get("step") == "quote":
            return {"quote": self.quote(found)}
        if found.state is not PublicationState.RUNNING:
            raise BadParameter("publication", found.state.value, "it was not approved", "approve it first")
        return {"entry": self.publish(job, found)}

    def quote(self, found: Publication) -> dict[str, Any]:
        """Store what a publication would cost, and what half, the same and twice the budget would buy. No row is read."""
        if found.quote is not None:  # a job may run twice, and stewards may have approved by now what they saw
            return found.quote
        try:
            plan, _ = self.plan(found)
            budgets = [each.to_dict() for each in forecast_budgets(plan)]
        except (LedgerUnavailable, ControlUnavailable):
            raise
        except DiscreetError as refused:
            self._fail(found, refused)
        except Exception:  # whose text may hold anything
            owner_log.exception("a publication could not be quoted")
            self._fail(found, CLOSED_TABLE)
        cost = plan.cost.to_dict()
        del cost["remaining"]  # those who read the publication see its quote, and the balance is its proposer's
        quote = {"cost": cost, "fits": plan.fits, "budgets": budgets, "measurement": _hash_plan(plan)}
        quote["slowest"] = self._find_slowest(found.table, plan)
        return self.control.quote_publication(found.id, quote)

    def plan(self, found: Publication) -> tuple[WorkloadPlan, HeldAccount]:
        """Return the plan of a publication with its noise, on the table and the account of who asked for it."""
        _check_keys(found.plan)
        entry, grant = check_asker(self.control, found.by, found.table, found.token)
        paying = grant.account if found.account is None else found.account
        if not f"{paying}/".startswith(f"{grant.account}/"):
            raise QueryRefused("The account of the publication is not below that of the grant", "propose it again")
        try:
            session, account = self.tables.open_session(found.table, paying, entry.policy_hash)
        except SourceRefused as refused:
            owner_log.warning("%s", refused)
            raise CLOSED_TABLE from None
        check_pause(grant, account, found.debit_id)
        parsed = parse_workload(f'source = "{found.table}"\n{found.plan}', Path())
        workload = replace(parsed, ledger=self.tables.config.ledger, account=paying, id=found.debit_id, text="")
        workload = workload if workload.title else replace(workload, title=found.title)
        return plan_for_session(workload, session), account

    def publish(self, job: Job, found: Publication) -> int:
        """Charge the account once, answer all queries, and record and show them at the end of a class.

        Returns:
            The number of the debit.
        """
        started = self.tables.clock.now()
        try:
            if job.attempts > MAX_ATTEMPTS:
                raise EngineFailed
            plan, account = self.plan(found)
            if found.quote is None or found.quote.get("measurement") != _hash_plan(plan):
                raise CHANGED
            self._check_budget(found, plan, account)
        except (LedgerUnavailable, ControlUnavailable):
            raise
        except DiscreetError as refused:
            self._fail(found, refused)

        def wait() -> None:
            self._wait_for_class(started, found, plan)

        held: Held | None = None
        try:
            with account.hold(wait) as held:
                published, files = self._write(found, plan)
        except (LedgerUnavailable, ControlUnavailable, WorkerStops):
            raise
        except (EngineFailed, ClosedForNow):
            wait()
            self._record_failures(held)
            self.alerts.send("engine failed", found.table)
            self._fail(found, EngineFailed())
        except BudgetExceeded as refused:  # others spent it since the check; how much remains of a parent is theirs
            self._fail(found, round_refusal(refused, self._read_lineage(account)) if plan.fits else refused)
        except DiscreetError as refused:  # by policy or cost, before any row was read
            self._fail(found, refused)
        except Exception:
            owner_log.exception("a publication failed")
            wait()
            self._fail(found, EngineFailed())
        self.control.change_publication(found.id, found.state, PublicationState.PUBLISHED, files=files, by=WORKER)
        self._mirror()
        if self.released is not None:
            queries = {each.name: str(each.sql) for each in plan.workload.questions}
            self.released.add_publication(found, published.answers, published.cost, published.entry, queries)
        return published.entry

    def _check_budget(self, found: Publication, plan: WorkloadPlan, account: HeldAccount) -> None:
        """Refuse what does not fit the account and its parents in whole percents, as for an ask: whether a cost is refused
        would tell an analyst what others spent. Stewards see the exact balance."""
        person = self.control.find_person(found.by)
        if (person is not None and person.role is Role.STEWARD) or account.has_debit(found.debit_id):
            return
        shown = build_account(round_parents(self._read_lineage(account)))
        if plan.fits:
            shown.charge_together([each.event for each in plan.measurements], plan.terms.certified_delta)

    def _read_lineage(self, account: HeldAccount) -> list[Snapshot]:
        states, _ = self.tables.read_accounts(account)
        return [*map(Snapshot.of, states)]

    def _find_slowest(self, table: str, plan: WorkloadPlan) -> float | None:
        """Return the longest class of a query of the plan: an ask of the table may wait for one of them."""
        entry = self.tables.get_entry(table)
        classes = [choose_class(entry.classes, entry.seconds_per_pass, each) for each in plan.bounded_queries]
        return max((each for each in classes if each is not None), default=None)

    def _give_way(self, share: float) -> None:
        """Let asks that wait for the engine go before the next query: a lock may be taken again before others wake."""
        self.is_stopping.wait(GIVE_WAY_SECONDS)

    def _write(self, found: Publication, plan: WorkloadPlan) -> tuple[Published, dict[str, str]]:
        """Return what was published, and its files."""
        with TemporaryDirectory(dir=self.tables.config.state) as folder:
            place, key = Path(folder) / "published", self.tables.config.key
            published = publish(plan, place, key=key, spreadsheet=True, progress=self._give_way)
            (published.folder / "plan.toml").write_text(found.plan, encoding="utf-8")
            return published, {path.name: b64encode(path.read_bytes()).decode() for path in published.folder.iterdir()}

    def _wait_for_class(self, started: float, found: Publication, plan: WorkloadPlan) -> None:
        """Wait until the class of a publication has passed since `started`. One that takes longer than the class of its
        queries is an overrun, as of an ask: when it is shown tells about the rows."""
        entry, clock = self.tables.get_entry(found.table), self.tables.clock
        elapsed = clock.now() - started
        planned, end = (
            find_end_of_class(entry.classes, entry.seconds_per_pass, plan.bounded_queries, each) for each in (0.0, elapsed)
        )
        if end is not None and clock.wait(self.is_stopping, started + end):
            raise WorkerStops
        if planned is not None and end is not None and end > planned:
            self._count_overrun(found)

    def _count_overrun(self, found: Publication) -> None:
        grant = self.control.find_grant(found.by, found.table)
        try:
            with self.control.transaction():
                if grant is not None:
                    self.control.count_trouble(grant.account, "overrun", limit=MAX_OVERRUNS)
                self.control.count_overrun(found.table)
        except ControlUnavailable:
            return
        self.alerts.send("overrun", found.table)

    def _record_failures(self, held: Held | None) -> None:
        """Append the failures of the engine to the ledger; again in a moment if it cannot be reached."""
        while held is not None and held.failed:
            try:
                held.record_failures()
            except LedgerUnavailable as error:
                owner_log.warning("a failure waits: %s", error)
                if self.is_stopping.wait(RETRY_SECONDS):
                    raise WorkerStops from None

    def _fail(self, found: Publication, refused: DiscreetError) -> NoReturn:
        """End a publication. What was charged stays charged."""
        error = CLOSED_TABLE if isinstance(refused, SourceRefused) else refused
        self._mirror()
        self.control.change_publication(
            found.id, found.state, PublicationState.FAILED, problem=to_problem(error), by=WORKER
        )  # fmt: skip
        raise error

    def _mirror(self) -> None:
        for state in self.tables.mirror():
            if state.parent is None:
                self.alerts.send_budget(state)


def _hash_plan(plan: WorkloadPlan) -> str:
    """Return the hash of all that would be measured: queries, bounds, noise. It holds also what the policy says of them."""
    measured = [*map(plan.session.executor.describe, plan.measurements)]
    return hash_measurement({"plan": measured, "certified_delta": str(plan.terms.certified_delta)})


def _check_keys(text: str) -> None:
    try:
        plan = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadParameter("plan", "this text", f"not TOML ({error})", "correct that line") from None
    for key in plan.keys() - ALLOWED:
        raise BadParameter(f"plan.{key}", "given", "the service states it itself", "leave it out")
    budget = plan.get("budget", {})
    for key in budget.keys() - ALLOWED_BUDGET if isinstance(budget, dict) else ():
        raise BadParameter(f"plan.budget.{key}", "given", "the service states it itself", "leave it out")
