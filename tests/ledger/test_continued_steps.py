"""A query that was interrupted is continued step by step: whatever its steps, wherever it stopped, whoever asks again.

The property is run over every sequence of steps, every point between them, the same session or a new one, and an account in
memory or in a ledger, with a budget that holds exactly one run: a retry that paid for anything twice would be refused.
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
from discreet.session.discovery import DiscoveryState
from discreet.session.options import SourceOptions
from discreet.session.session import Session
from discreet.session.source import Source, open_source
from discreet.units import Neighbours
from tests.support.people import COUNTS, people

COUNT = "SELECT COUNT(*) AS n FROM people"
MEAN = "SELECT AVG(pay) AS m FROM people"
MEANS = "SELECT AVG(pay) AS m, AVG(age) AS a FROM people"
PRICE = Fraction(2)
Asking = Callable[[Session, dict[str, Any]], Answer]


@dataclass(frozen=True)
class Sequence:
    """A query, the bounds that are to be found, and how many debits it makes."""

    ask: Asking
    auto: tuple[str, ...]
    debits: int
    budget: Fraction  # of exactly one run; of a pilot more, because what it leads to depends on its answer


def _piloted(session: Session, how: dict[str, Any]) -> Answer:
    return session.ask(MEAN, error="10%", pilot=Fraction(1, 4), **how)


def _found_then_piloted(session: Session, how: dict[str, Any]) -> Answer:
    session.find_bounds("pay", epsilon=1, **(how | ({} if "id" not in how else {"id": f"{how['id']} first"})))
    return _piloted(session, how)


SEQUENCES = {
    "neither": Sequence(lambda session, how: session.ask(COUNT, epsilon=PRICE, **how), (), 1, PRICE),
    "bounds": Sequence(lambda session, how: session.ask(MEAN, epsilon=PRICE, **how), ("pay",), 2, PRICE),
    "two bounds": Sequence(lambda session, how: session.ask(MEANS, epsilon=PRICE, **how), ("pay", "age"), 3, PRICE),
    "pilot": Sequence(_piloted, (), 2, Fraction(50)),
    "both": Sequence(_found_then_piloted, ("pay",), 3, Fraction(50)),
}
HOWS: dict[str, dict[str, Any]] = {
    "same id": {"id": "monday"},
    "same question": {},
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
    left: int
    passed: list[str] = field(default_factory=list)

    def point(self, name: str) -> None:
        self.passed.append(name)
        self.left -= 1
        if self.left == 0:
            raise Crash(name)

    def reserve(self, *given: Any, **named: Any) -> Any:
        self.point("before the debit")
        paid = self.account.reserve(*given, **named)
        self.point("after the debit")
        return paid

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
    place = tmp_path_factory.mktemp("people") / "people.parquet"
    people().execute(f"COPY people TO '{place}'")
    return place


class Remembering:
    """An engine that reads the same rows once: there are many runs here, and what they read is not what is tested."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.known = engine, dict[str, ExactTotals]()

    def run(self, bounded: Any) -> ExactTotals:
        key = repr(bounded)
        if key not in self.known:
            found = self.engine.run(bounded)
            spreads = {spread: tuple(rows) for spread, rows in found.cell_counts.items()}
            self.known[key] = replace(found, totals=tuple(found.totals), cell_counts=spreads)
        return self.known[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


@cache
def declared(source: Path, auto: tuple[str, ...]) -> Source:
    known: dict[str, Any] = {"pay": (0, 200), "age": (0, 100)} | dict.fromkeys(auto, "auto")
    found = open_source(SourceOptions(source=source, unit="id", unique=True, bounds=known, keys={"dept": tuple(COUNTS)}))
    return replace(found, engine=Remembering(found.engine))  # type: ignore[arg-type]


def session_of(source: Path, account: Any, sequence: Sequence) -> Session:
    """A session that knows nothing of any other."""
    return Session.of(declared(source, sequence.auto), account, Fraction(0), Neighbours.ADD_REMOVE)


def accounts(kind: str, folder: Path, limit: Fraction) -> Callable[[], Any]:
    """A function that opens the account again, as a new process would."""
    if kind == "memory":
        kept = MemoryAccount(create_budget(limit, 0))
        return lambda: kept
    open_ledger(folder / "l", create=True).open_account("hr", limit)
    return lambda: open_ledger(folder / "l").get_account("hr")


def debits_and_answers(account: Any) -> tuple[int, int]:
    if isinstance(account, LedgerAccount):
        entries = list(open_ledger(account.store.location).iter_entries())
        return sum(isinstance(entry, Debit) for entry in entries), sum(
            isinstance(entry, AnswerRecorded) for entry in entries
        )
    return len(account._debits), len(account._answers)


def interrupted(session: Session, ask: Asking, how: dict[str, Any], point: int) -> Interrupted | None:
    """Ask until the point where the process ends; None if the query has fewer points."""
    broken = Interrupted(session.account, session.engine, point)
    try:
        ask(replace(session, account=broken, engine=broken), how)
    except Crash:
        return broken
    return None


def continued(
    source: Path, folder: Path, sequence: Sequence, how: dict[str, Any], kind: str, same: bool, point: int
) -> str | None:
    """Interrupt at a point, ask again, and say what is wrong; None if the query has fewer points."""
    opened = accounts(kind, folder, sequence.budget)
    session = session_of(source, opened(), sequence)
    if interrupted(session, sequence.ask, how, point) is None:
        return None
    later = session if same else session_of(source, opened(), sequence)
    try:
        answer = sequence.ask(later, how)
        again = sequence.ask(session_of(source, opened(), sequence), how)
    except Exception as error:
        return f"the retry fails: {error!r}"
    if again.rows != answer.rows:
        return "a second retry shows another answer"
    if debits_and_answers(later.account) != (sequence.debits, sequence.debits):
        return f"{debits_and_answers(later.account)} debits and answers, for {sequence.debits} steps"
    if sequence.budget == PRICE and later.account.budget.spent != PRICE:
        return f"{later.account.budget.spent} was paid"
    if kind == "sqlite" and not check_ledger(open_ledger(later.account.store.location)).is_valid:
        return "the ledger does not hold"
    return ""


@pytest.mark.parametrize("same", [True, False], ids=["same session", "new session"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_query_that_was_interrupted_is_continued(
    source: Path, folder: Path, name: str, how: str, kind: str, same: bool
) -> None:
    sequence, points = SEQUENCES[name], 0
    for point in range(1, 100):
        place = folder / str(point)
        place.mkdir()
        found = continued(source, place, sequence, HOWS[how], kind, same, point)
        if found is None:
            break
        assert found == "", f"interrupted at point {point}"
        points = point
    assert points == 5 * sequence.debits


def test_the_property_notices_a_mutant_that_forgets_ids(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryAccount, "_find_earlier_debit", lambda self, id, measurement, fresh: None)
    found = continued(source, folder, SEQUENCES["bounds"], HOWS["same id"], "memory", True, 3)
    assert found is not None
    assert "fails" in found


def test_the_property_notices_a_mutant_that_forgets_which_bounds_a_query_found(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its retry would ask the same session for another measurement, at the whole price."""
    step = session_of(source, MemoryAccount(create_budget(1, 0)), SEQUENCES["bounds"]).state.columns_by_query
    assert step == {}

    class Forgetful(dict[Any, Any]):
        def setdefault(self, key: Any, default: Any = None) -> Any:
            return default

    def forgetting(*given: Any, **named: Any) -> Session:
        return replace(opened(*given, **named), state=DiscoveryState(columns_by_query=Forgetful()))

    opened = session_of
    monkeypatch.setitem(globals(), "session_of", forgetting)
    found = continued(source, folder, SEQUENCES["bounds"], HOWS["fresh with an id"], "memory", True, 8)
    assert found is not None
    assert "belongs to another measurement" in found


def test_fresh_with_an_id_and_found_bounds_continues_after_a_crash(source: Path, folder: Path) -> None:
    """The engine fails after the debit of the query proper; the retry used to be refused, in the same process because of the
    id and in a new one because of the budget."""
    for same in (True, False):
        (folder / str(same)).mkdir()
        sequence, opened = SEQUENCES["bounds"], accounts("sqlite", folder / str(same), PRICE)
        session, calls = session_of(source, opened(), sequence), []

        class Dies:
            def __init__(self, engine: Any, calls: list[None]) -> None:
                self.engine, self.calls = engine, calls

            def run(self, bounded: Any) -> Any:
                self.calls.append(None)
                if len(self.calls) == 2:
                    raise OutOfResources
                return self.engine.run(bounded)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.engine, name)

        dying: Any = Dies(session.engine, calls)
        with pytest.raises(EngineFailed):
            replace(session, engine=dying).ask(MEAN, epsilon=PRICE, id="x", fresh=True)
        later = session if same else session_of(source, opened(), sequence)
        assert later.account.budget.remaining == 0
        assert later.ask(MEAN, epsilon=PRICE, id="x", fresh=True).rows


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("name", ["bounds", "two bounds", "pilot"])
def test_an_id_that_is_taken_is_noticed_before_a_step_is_paid(
    source: Path, folder: Path, name: str, fresh: bool, kind: str
) -> None:
    """It used to be noticed after the pilot (0.5) or the search for bounds (a quarter of the price)."""
    sequence = SEQUENCES[name]
    taken = {"bounds": "x", "two bounds": "x/bounds of age", "pilot": "x/pilot"}
    for id in ("x", taken[name]):
        (folder / id.replace("/", " ")).mkdir()
        session = session_of(source, accounts(kind, folder / id.replace("/", " "), Fraction(50))(), sequence)
        session.ask(COUNT, epsilon=1, id=id)
        with pytest.raises(BadParameter, match="belongs to another measurement"):
            sequence.ask(session, {"id": "x", "fresh": fresh})
        assert session.account.budget.spent == 1
        if name == "bounds":
            break
    assert sequence.ask(session, {"id": "y", "fresh": fresh}).rows


def test_an_id_of_a_query_that_used_bounds_of_another_says_what_to_do(source: Path, folder: Path) -> None:
    opened = accounts("sqlite", folder, Fraction(50))
    first = session_of(source, opened(), SEQUENCES["bounds"])
    first.ask(MEAN, epsilon=1, id="a")
    answer = first.ask(MEAN, epsilon=1, id="b", fresh=True)
    spent = first.account.budget.spent
    later = session_of(source, opened(), SEQUENCES["bounds"])
    with pytest.raises(BadParameter, match="first ask the queries again that came before it"):
        later.ask(MEAN, epsilon=1, id="b", fresh=True)
    later.ask(MEAN, epsilon=1, id="a")
    assert later.ask(MEAN, epsilon=1, id="b", fresh=True).rows == answer.rows
    assert later.account.budget.spent == spent


def test_asking_again_leaves_better_bounds_that_were_found_since(source: Path, folder: Path) -> None:
    session = session_of(source, accounts("memory", folder, Fraction(50))(), SEQUENCES["bounds"])
    first = session.ask(MEAN, epsilon=1)
    session.find_bounds("pay", epsilon=5)
    other = session.ask("SELECT SUM(pay) AS s FROM people", epsilon=1)
    spent = session.account.budget.spent
    assert session.ask(MEAN, epsilon=1).rows == first.rows
    assert session.ask("SELECT SUM(pay) AS s FROM people", epsilon=1).rows == other.rows
    assert session.account.budget.spent == spent
