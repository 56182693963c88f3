"""A query that was interrupted is continued step by step: for all its steps, from every point, by any session.

The property is tested over every sequence of steps, every point between them, the same session or a new one, and an account
in memory or in a ledger, with a budget for exactly one run: a retry that debited anything twice would be refused. By day,
every point of every two of these; all together at night.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from discreet.engines.base import OutOfResources
from discreet.errors import BadParameter, EngineFailed
from discreet.ledger import open_ledger
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AnswerRecorded, Debit
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.query.answer import Answer, ExactTotals
from discreet.session.discovery_state import DiscoveryState
from discreet.session.options import SourceOptions
from discreet.session.session import Session
from discreet.session.source import Source, open_source
from discreet.units import Neighbours
from tests.support.people import COUNTS, people
from tests.support.rounds import pairs_by_day

COUNT = "SELECT COUNT(*) AS n FROM people"
MEAN = "SELECT AVG(pay) AS m FROM people"
MEANS = "SELECT AVG(pay) AS m, AVG(age) AS a FROM people"
COST = Fraction(2)
Asking = Callable[[Session, dict[str, Any]], Answer]


@dataclass(frozen=True)
class Sequence:
    """A query, the columns whose bounds are discovered, and how many debits it makes."""

    ask: Asking
    auto: tuple[str, ...]
    debits: int
    budget: Fraction  # for exactly one run; with a pilot more, because the cost then depends on its answer


def _ask_with_pilot(session: Session, how: dict[str, Any]) -> Answer:
    return session.ask(MEAN, error="10%", pilot=Fraction(1, 4), **how)


def _find_bounds_and_ask_with_pilot(session: Session, how: dict[str, Any]) -> Answer:
    session.find_bounds("pay", epsilon=1, **(how | ({} if "id" not in how else {"id": f"{how['id']} first"})))
    return _ask_with_pilot(session, how)


SEQUENCES = {
    "neither": Sequence(lambda session, how: session.ask(COUNT, epsilon=COST, **how), (), 1, COST),
    "bounds": Sequence(lambda session, how: session.ask(MEAN, epsilon=COST, **how), ("pay",), 2, COST),
    "two bounds": Sequence(lambda session, how: session.ask(MEANS, epsilon=COST, **how), ("pay", "age"), 3, COST),
    "pilot": Sequence(_ask_with_pilot, (), 2, Fraction(50)),
    "both": Sequence(_find_bounds_and_ask_with_pilot, ("pay",), 3, Fraction(50)),
}
HOWS: dict[str, dict[str, Any]] = {
    "same id": {"id": "monday"},
    "same query": {},
    "fresh with an id": {"id": "monday", "fresh": True},
}


class Crash(BaseException):
    """A process that ends here."""


@dataclass
class Interrupted:
    """An account and an engine during whose work the process ends, at the k-th of these points: before and after a debit,
    while rows are read, before and after an answer is recorded."""

    account: Any
    engine: Any
    remaining: int
    passed: list[str] = field(default_factory=list)

    def point(self, name: str) -> None:
        self.passed.append(name)
        self.remaining -= 1
        if self.remaining == 0:
            raise Crash(name)

    def reserve(self, *given: Any, **named: Any) -> Any:
        self.point("before the debit")
        reserved = self.account.reserve(*given, **named)
        self.point("after the debit")
        return reserved

    def record(self, *given: Any) -> Any:
        self.point("before the record")
        shown = self.account.record(*given)
        self.point("after the record")
        return shown

    def run(self, bounded: Any) -> Any:
        self.point("while rows are read")
        return self.engine.run(bounded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine if hasattr(self.engine, name) else self.account, name)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("people") / "people.parquet"
    people().execute(f"COPY people TO '{file}'")
    return file


class Remembering:
    """An engine that reads the same rows once: there are many runs here, and reading is not what is tested."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.known = engine, dict[str, ExactTotals]()

    def run(self, bounded: Any) -> ExactTotals:
        key = repr(bounded)
        if key not in self.known:
            found = self.engine.run(bounded)
            cells = {statistic: tuple(rows) for statistic, rows in found.cell_counts.items()}
            self.known[key] = replace(found, totals=tuple(found.totals), cell_counts=cells)
        return self.known[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


@cache
def open_cached_source(source: Path, auto: tuple[str, ...]) -> Source:
    bounds: dict[str, Any] = {"pay": (0, 200), "age": (0, 100)} | dict.fromkeys(auto, "auto")
    found = open_source(SourceOptions(source=source, unit="id", unique=True, bounds=bounds, keys={"dept": tuple(COUNTS)}))
    return replace(found, engine=Remembering(found.engine))  # type: ignore[arg-type]


def open_session(source: Path, account: Any, sequence: Sequence) -> Session:
    """Open a session that shares nothing with others but the account."""
    return Session.of(open_cached_source(source, sequence.auto), account, Fraction(0), Neighbours.ADD_REMOVE)


def account_opener(kind: str, folder: Path, limit: Fraction) -> Callable[[], Any]:
    """Return a function that opens the account again, as a new process would."""
    if kind == "memory":
        account = MemoryAccount(create_budget(limit, 0))
        return lambda: account
    open_ledger(folder / "l", create=True).open_account("hr", limit)
    return lambda: open_ledger(folder / "l").get_account("hr")


def count_debits_and_answers(account: Any) -> tuple[int, int]:
    if isinstance(account, LedgerAccount):
        entries = list(open_ledger(account.store.location).iter_entries())
        return sum(isinstance(entry, Debit) for entry in entries), sum(
            isinstance(entry, AnswerRecorded) for entry in entries
        )
    return len(account._debits), len(account._answers)


def interrupt(session: Session, ask: Asking, how: dict[str, Any], point: int) -> Interrupted | None:
    """Ask until the point where the process ends; return None if the query has fewer points."""
    broken = Interrupted(session.account, session.engine, point)
    try:
        ask(replace(session, account=broken, engine=broken), how)
    except Crash:
        return broken
    return None


def find_problem(
    source: Path, folder: Path, sequence: Sequence, how: dict[str, Any], kind: str, same: bool, point: int
) -> str | None:
    """Interrupt at a point, ask again, and return what is wrong; None if the query has fewer points."""
    open_account = account_opener(kind, folder, sequence.budget)
    session = open_session(source, open_account(), sequence)
    if interrupt(session, sequence.ask, how, point) is None:
        return None
    later = session if same else open_session(source, open_account(), sequence)
    try:
        answer = sequence.ask(later, how)
        again = sequence.ask(open_session(source, open_account(), sequence), how)
    except Exception as error:
        return f"the retry fails: {error!r}"
    if again.rows != answer.rows:
        return "a second retry shows another answer"
    if count_debits_and_answers(later.account) != (sequence.debits, sequence.debits):
        return f"{count_debits_and_answers(later.account)} debits and answers, for {sequence.debits} steps"
    if sequence.budget == COST and later.account.budget.spent != COST:
        return f"{later.account.budget.spent} was debited"
    if kind == "sqlite" and not check_ledger(open_ledger(later.account.store.location)).is_valid:
        return "the ledger is not valid"
    return ""


@pytest.mark.parametrize(
    ("name", "how", "kind", "later"), pairs_by_day(SEQUENCES, HOWS, ["memory", "sqlite"], ["same session", "new session"])
)
def test_a_query_that_was_interrupted_is_continued(
    source: Path, folder: Path, name: str, how: str, kind: str, later: str
) -> None:
    sequence, points, same = SEQUENCES[name], 0, later == "same session"
    for point in range(1, 100):
        own = folder / str(point)
        own.mkdir()
        found = find_problem(source, own, sequence, HOWS[how], kind, same, point)
        if found is None:
            break
        assert found == "", f"interrupted at point {point}"
        points = point
    assert points == 5 * sequence.debits


def test_the_property_notices_a_mutant_that_forgets_ids(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryAccount, "_find_earlier_debit", lambda self, id, measurement, fresh: None)
    found = find_problem(source, folder, SEQUENCES["bounds"], HOWS["same id"], "memory", True, 3)
    assert found is not None
    assert "fails" in found


def test_the_property_notices_a_mutant_that_forgets_which_bounds_a_query_discovered(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its retry would ask the same session for another measurement, at the whole cost."""
    step = open_session(source, MemoryAccount(create_budget(1, 0)), SEQUENCES["bounds"]).state.columns_by_query
    assert step == {}

    class Forgetful(dict[Any, Any]):
        def setdefault(self, key: Any, default: Any = None) -> Any:
            return default

    def forgetting(*given: Any, **named: Any) -> Session:
        return replace(opened(*given, **named), state=DiscoveryState(columns_by_query=Forgetful()))

    opened = open_session
    monkeypatch.setitem(globals(), "open_session", forgetting)
    found = find_problem(source, folder, SEQUENCES["bounds"], HOWS["fresh with an id"], "memory", True, 8)
    assert found is not None
    assert "belongs to another measurement" in found


def test_fresh_with_an_id_and_discovered_bounds_continues_after_a_crash(source: Path, folder: Path) -> None:
    """The engine fails after the debit of the query itself. The retry was once refused: in the same process because of the
    id, in a new one because of the budget."""
    for same in (True, False):
        (folder / str(same)).mkdir()
        sequence, open_account = SEQUENCES["bounds"], account_opener("sqlite", folder / str(same), COST)
        session, calls = open_session(source, open_account(), sequence), []

        class FailingEngine:
            def __init__(self, engine: Any, calls: list[None]) -> None:
                self.engine, self.calls = engine, calls

            def run(self, bounded: Any) -> Any:
                self.calls.append(None)
                if len(self.calls) == 2:
                    raise OutOfResources
                return self.engine.run(bounded)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.engine, name)

        failing: Any = FailingEngine(session.engine, calls)
        with pytest.raises(EngineFailed):
            replace(session, engine=failing).ask(MEAN, epsilon=COST, id="x", fresh=True)
        later = session if same else open_session(source, open_account(), sequence)
        assert later.account.budget.remaining == 0
        assert later.ask(MEAN, epsilon=COST, id="x", fresh=True).rows


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("name", ["bounds", "two bounds", "pilot"])
def test_an_id_that_is_taken_is_refused_before_a_step_is_debited(
    source: Path, folder: Path, name: str, fresh: bool, kind: str
) -> None:
    """It was once refused only after the pilot (0.5) or the discovery of bounds (a quarter of the cost)."""
    sequence = SEQUENCES[name]
    taken = {"bounds": "x", "two bounds": "x/bounds of age", "pilot": "x/pilot"}
    for id in ("x", taken[name]):
        (folder / id.replace("/", " ")).mkdir()
        session = open_session(source, account_opener(kind, folder / id.replace("/", " "), Fraction(50))(), sequence)
        session.ask(COUNT, epsilon=1, id=id)
        with pytest.raises(BadParameter, match="belongs to another measurement"):
            sequence.ask(session, {"id": "x", "fresh": fresh})
        assert session.account.budget.spent == 1
        if name == "bounds":
            break
    assert sequence.ask(session, {"id": "y", "fresh": fresh}).rows


def test_the_refusal_of_an_id_of_a_query_with_bounds_of_another_states_what_to_do(source: Path, folder: Path) -> None:
    open_account = account_opener("sqlite", folder, Fraction(50))
    first = open_session(source, open_account(), SEQUENCES["bounds"])
    first.ask(MEAN, epsilon=1, id="a")
    answer = first.ask(MEAN, epsilon=1, id="b", fresh=True)
    spent = first.account.budget.spent
    later = open_session(source, open_account(), SEQUENCES["bounds"])
    with pytest.raises(BadParameter, match="first ask the queries again that came before it"):
        later.ask(MEAN, epsilon=1, id="b", fresh=True)
    later.ask(MEAN, epsilon=1, id="a")
    assert later.ask(MEAN, epsilon=1, id="b", fresh=True).rows == answer.rows
    assert later.account.budget.spent == spent


def test_a_retry_does_not_undo_better_bounds_that_were_discovered_since(source: Path, folder: Path) -> None:
    session = open_session(source, account_opener("memory", folder, Fraction(50))(), SEQUENCES["bounds"])
    first = session.ask(MEAN, epsilon=1)
    session.find_bounds("pay", epsilon=5)
    other = session.ask("SELECT SUM(pay) AS s FROM people", epsilon=1)
    spent = session.account.budget.spent
    assert session.ask(MEAN, epsilon=1).rows == first.rows
    assert session.ask("SELECT SUM(pay) AS s FROM people", epsilon=1).rows == other.rows
    assert session.account.budget.spent == spent
