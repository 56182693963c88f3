"""Budgets as a tree, and the state of the service.

An account has three marks: spent, promised (asks that were taken and are not answered yet) and remaining. Budgets are for
life: no page changes one. What others spend from, too, is rounded down to whole percents for analysts, and its history is
for stewards alone.
"""

from dataclasses import dataclass
from fractions import Fraction

from fastapi import Response

from discreet import __version__
from discreet.accounting.cost import format_percent_up
from discreet.serve import classroom
from discreet.serve.control.model import AskState, JobState, Scope, Snapshot
from discreet.serve.rounding import round_snapshot
from discreet.serve.web.pages import words
from discreet.serve.web.pages.drawing import Pages, Visit, redirect
from discreet.serve.web.pages.history import (
    HEIGHT,
    WIDTH,
    History,
    Report,
    Step,
    list_steps,
    make_history,
    make_report,
    read_amount,
    state_so_far,
)
from discreet.serve.web.signing_in import Caller

MAX_PROMISED = 200


@dataclass(frozen=True, slots=True)
class Branch:
    """An account with the accounts under it."""

    words: words.BudgetWords
    name: str
    title: str  # the person or the class that it belongs to, if that is known under another name
    is_mine: bool
    is_root: bool
    debits: int | None  # None: it is not shown
    so_far: str | None  # the ε that what was charged guarantees
    history: History | None
    promised_percent: float
    promised_words: str
    children: tuple["Branch", ...]


@dataclass(frozen=True, slots=True)
class Grown:
    """What a tree of accounts is grown from."""

    snapshots: list[Snapshot]
    mine: set[str]
    promised: dict[str, Fraction]
    steps: list[Step]
    is_steward: bool


class Budgets:
    """The pages of accounts and of the service's state."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.control = pages, pages.web, pages.control

    def show(self, visit: Visit) -> Response:
        """Draw the tree of accounts."""
        caller = visit.caller
        mine = {grant.account for grant in self.control.list_grants(person=caller.person.id)}
        if caller.is_steward:
            snapshots = list(self.control.list_snapshots())
        else:
            known = {each.account: each for name in sorted(mine) for each in self.web.find_lineage(name)}
            snapshots = list(known.values())
        promised, steps = (
            self._sum_promised(caller),
            list_steps(self.control, None if caller.is_steward else caller.person.id),
        )
        roots = [each for each in snapshots if each.parent is None]
        trees = [self._grow(each, Grown(snapshots, mine, promised, steps, caller.is_steward)) for each in roots]
        sentences = [
            words.state_budgets(*found)
            for account in sorted(mine)
            if (found := self.pages.find_budgets(caller, account)) is not None
        ]
        return self.pages.show(
            visit, "budgets", trees=trees, sentences=sentences, report=self._find_report(visit, snapshots, mine),
            width=WIDTH, height=HEIGHT,
        )  # fmt: skip

    def _find_report(self, visit: Visit, snapshots: list[Snapshot], mine: set[str]) -> Report | None:
        """Return the certified curve of an account that the caller sees exactly, if it is asked for."""
        wanted = visit.field("report")
        found = next((each for each in snapshots if each.account == wanted), None)
        if found is None or not (visit.caller.is_steward or found.account in mine):
            return None
        self.web.quote_limit.take(visit.caller.limit_key)
        return make_report(self.control, found)

    def _sum_promised(self, caller: Caller) -> dict[str, Fraction]:
        """Return what asks that are on their way will be charged, by account, parents included."""
        sums: dict[str, Fraction] = {}
        person = None if caller.is_steward else caller.person.id
        for state in (AskState.WAITING, AskState.RUNNING):
            for ask in self.control.list_asks(person=person, state=state, limit=MAX_PROMISED).items:
                amount, parts = read_amount(ask.cost), ask.account.split("/")
                for i in range(len(parts)):
                    name = "/".join(parts[: i + 1])
                    sums[name] = sums.get(name, Fraction(0)) + amount
        return sums

    def _grow(self, snapshot: Snapshot, known: "Grown") -> Branch:
        exactly = known.is_steward or snapshot.account in known.mine
        shown = snapshot if exactly else round_snapshot(snapshot)
        share = min(Fraction(1), known.promised.get(snapshot.account, Fraction(0)) / Fraction(snapshot.limit))
        children = sorted(
            (each for each in known.snapshots if each.parent == snapshot.account), key=lambda each: each.account
        )
        has_history = snapshot.parent is None if known.is_steward else snapshot.account in known.mine
        return Branch(
            words=words.describe_snapshot(shown), name=snapshot.account.rpartition("/")[2], title=self._title(snapshot),
            is_mine=snapshot.account in known.mine, is_root=snapshot.parent is None,
            debits=snapshot.debits if exactly and not children else None,
            so_far=state_so_far(snapshot) if exactly else None,
            history=make_history(snapshot, known.steps) if exactly and has_history else None,
            promised_percent=round(100 * float(share), 2), promised_words=format_percent_up(share),
            children=tuple(self._grow(each, known) for each in children),
        )  # fmt: skip

    def _title(self, snapshot: Snapshot) -> str:
        """Return the name of the person of an account under a root, or the title of the class of a root."""
        name = snapshot.account.rpartition("/")[2]
        if snapshot.parent is None:
            found = classroom.find_class(self.control, name)
            return "" if found is None else found.title
        person = self.control.find_person(name) if snapshot.parent == snapshot.root else None
        return "" if person is None or person.name == name else person.name

    def show_state(self, visit: Visit) -> Response:
        """Draw the queue, workers, overruns, the head and versions, for stewards."""
        visit.caller.require(Scope.STEWARD)
        paused = [each for each in self.control.list_grants() if each.paused]
        failed = self.control.list_jobs(state=JobState.FAILED, limit=10)
        checks = [each for each in self.control.list_jobs(subject="ledger", limit=5) if each.kind == "ledger_check"]
        return self.pages.show(
            visit, "state", jobs={each.value: self.control.count_jobs().get(each, 0) for each in JobState},
            asks={each.value: count for each, count in self.control.count_states().items()}, paused=paused, failed=failed,
            checks=checks, head=self.control.last_head(), trail=self.control.trail.head(), running=__version__,
            ledger=self.control.find_setting("ledger_identity"), key=self.control.find_setting("public_key"),
            workers=self.control.list_workers(), overruns=self.control.list_overruns(), tables=self.control.list_tables(),
            seconds=words.format_seconds,
        )  # fmt: skip

    def check_ledger(self, visit: Visit) -> Response:
        """Have a worker check the whole ledger."""
        visit.caller.require(Scope.STEWARD)
        self.control.enqueue("ledger_check", "ledger", by=visit.caller.person.id)
        return redirect("/state")


def add_to(pages: Pages) -> None:
    """Add the pages."""
    budgets = Budgets(pages)
    pages.add("/b", budgets.show)
    pages.add("/state", budgets.show_state, budgets.check_ledger)
