"""One suite for a local session and for a session on a service: the same classes, errors and numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from discreet import col, count, select
from discreet.accounting.cost import Budget, Remaining
from discreet.accounting.currencies import round_up
from discreet.errors import BadParameter, BudgetExceeded, MissingDeclarations, QueryRefused
from discreet.query.answer import Answer, explain_recorded, explain_recorded_on_service
from discreet.query.quote import Quote
from discreet.remote.client import RemoteSession
from discreet.session.asking import Asking
from discreet.session.session import Session
from discreet.testing import seeded_bits
from tests.support.people import BY_DEPARTMENT, EVERYTHING, session
from tests.support.remote_service import serve_session

BUDGETS: dict[str, dict[str, Any]] = {"pure": {"epsilon": 4}, "zcdp": {"epsilon": 4, "delta": 1e-6}}


@dataclass
class Place:
    """A session and a twin of it in the same state, whose answers it must give."""

    asking: Any
    twin: Session
    asked: int = 0

    def ask(self, query: Any, **given: Any) -> tuple[Answer, Answer]:
        """Ask both, with the same bits."""
        twin = self.twin.ask(query, **given, bits=seeded_bits(self.asked))
        local = {"bits": seeded_bits(self.asked)} if isinstance(self.asking, Session) else {}
        answer = self.asking.ask(query, **given, **local)
        self.asked += twin.charged
        return answer, twin


@pytest.fixture(params=["local", "remote"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def open_place(kind: str, budget: dict[str, Any], folder: Path) -> Iterator[Place]:
    if kind == "local":
        yield Place(session(**budget), session(**budget))
        return
    with serve_session(session(**budget), folder) as (remote, _, _http):
        yield Place(remote, session(**budget))


@pytest.fixture(params=BUDGETS)
def place(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Place]:
    with open_place(kind, BUDGETS[request.param], tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module", params=product(["local", "remote"], BUDGETS), ids=" ".join)
def unspent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place for many tests: quotes and refusals leave it as it was, which each of them checks."""
    kind, budget = request.param
    folder = tmp_path_factory.mktemp("unspent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISCREET_STATE", str(folder / "state"))
        with open_place(kind, BUDGETS[budget], folder) as opened:
            yield opened


QUERIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "counts": (BY_DEPARTMENT, {"epsilon": 0.5}),
    "everything": (EVERYTHING, {"epsilon": Fraction(1, 3)}),
    "error": (BY_DEPARTMENT, {"error": 20}),
    "relative error": ("SELECT dept, AVG(pay) AS mean FROM people GROUP BY dept", {"error": "5%", "size": 1000}),
    "weights": (EVERYTHING, {"epsilon": 1, "weights": {"n": 2, "cost": 0.5}}),
    "joint": (BY_DEPARTMENT, {"epsilon": 0.5, "simultaneous": True, "confidence": 0.9}),
    "view": (BY_DEPARTMENT + " HAVING COUNT(*) > 200 ORDER BY n DESC LIMIT 1", {"epsilon": 0.5}),
    "builder": (select(n=count(), mean=col("pay").mean()).where(col("pay") > 60).group_by("dept"), {"epsilon": 0.5}),
}


@pytest.mark.parametrize("name", QUERIES)
def test_answers_have_the_same_numbers_words_and_costs(place: Place, name: str) -> None:
    query, given = QUERIES[name]
    answer, twin = place.ask(query, **given)
    assert type(answer) is Answer
    assert answer.to_dicts() == twin.to_dicts()
    assert (repr(answer), answer.to_json(), answer.event) == (repr(twin), twin.to_json(), twin.event)
    assert place.asking.budget == place.twin.budget
    assert place.asking.remaining == place.twin.remaining


@pytest.mark.parametrize("name", QUERIES)
def test_quotes_are_the_same(unspent: Place, name: str) -> None:
    query, given = QUERIES[name]
    given = {key: each for key, each in given.items() if key != "simultaneous"}
    quote, twin = unspent.asking.quote(query, **given), unspent.twin.quote(query, **given)
    assert type(quote) is Quote
    assert replace(quote, query_text="") == replace(twin, query_text="")
    if isinstance(query, str):
        assert repr(quote) == repr(twin)
    assert unspent.asking.budget.amount == 0


def test_the_interface_is_the_same(place: Place) -> None:
    assert isinstance(place.asking, Asking)
    assert isinstance(place.asking.budget, Budget)
    assert isinstance(place.asking.remaining, Remaining)
    assert place.asking.table == place.twin.table
    assert (place.asking.neighbours, place.asking.delta, place.asking.notes) == (
        place.twin.neighbours, place.twin.delta, place.twin.notes,
    )  # fmt: skip
    assert "privacy unit id" in repr(place.asking)
    assert "Budget: ε = 4 of 4 remaining" in place.asking._repr_html_()
    assert place.asking.find_epsilon(BY_DEPARTMENT, 20) == place.twin.find_epsilon(BY_DEPARTMENT, 20)


def test_a_query_that_was_answered_is_free_and_fresh_noise_is_not(place: Place) -> None:
    first, _ = place.ask(BY_DEPARTMENT, epsilon=0.5)
    again, twin = place.ask(BY_DEPARTMENT, epsilon=0.5)
    assert (again.charged, twin.charged) == (False, False)
    assert again.to_dicts() == first.to_dicts()
    assert twin.reference is not None
    said = explain_recorded(twin.reference.entry)
    assert said in twin.notes or said in twin.explanation
    if not isinstance(place.asking, Session):  # only an owner labels the data, so a service advises something else
        there = explain_recorded_on_service(twin.reference.entry)
        twin = replace(
            twin, notes=tuple(there if each == said else each for each in twin.notes),
            explanation=twin.explanation.replace(said, there),
        )  # fmt: skip
    assert repr(again) == repr(twin)
    fresh, other = place.ask(BY_DEPARTMENT, epsilon=0.5, fresh=True)
    assert fresh.charged
    assert fresh.to_dicts() == other.to_dicts() != first.to_dicts()


def test_an_id_is_charged_once_and_belongs_to_one_query(place: Place) -> None:
    first = place.asking.ask(BY_DEPARTMENT, epsilon=0.5, id="monday")
    spent = place.asking.budget.amount
    assert place.asking.ask(BY_DEPARTMENT, epsilon=0.5, id="monday").to_dicts() == first.to_dicts()
    assert place.asking.budget.amount == spent
    with pytest.raises(BadParameter, match="id"):
        place.asking.ask(EVERYTHING, epsilon=0.5, id="monday")


REFUSED: dict[str, Callable[[Any], Any]] = {
    "too dear": lambda s: s.ask(BY_DEPARTMENT, epsilon=5),
    "no cost": lambda s: s.ask(BY_DEPARTMENT),
    "both": lambda s: s.ask(BY_DEPARTMENT, epsilon=1, error=2),
    "negative": lambda s: s.quote(BY_DEPARTMENT, epsilon=-1),
    "unknown column": lambda s: s.quote("SELECT SUM(wage) AS w FROM people", epsilon=1),
    "no SQL": lambda s: s.ask("DROP TABLE people", epsilon=1),
    "syntax": lambda s: s.quote("SELECT COUNT(* AS n FROM people", epsilon=1),
    "confidence": lambda s: s.ask(BY_DEPARTMENT, epsilon=1, confidence=2),
    "size": lambda s: s.quote("SELECT AVG(pay) AS m FROM people", error="5%"),
    "weights": lambda s: s.quote(BY_DEPARTMENT, epsilon=1, weights={"m": 1}),
    "least": lambda s: s.ask(BY_DEPARTMENT, epsilon=1e-6),
    "simultaneous": lambda s: s.ask(BY_DEPARTMENT, epsilon=1, simultaneous="yes"),
    "pilot of a quote": lambda s: s.quote(BY_DEPARTMENT, error="5%", pilot=0.1),
    "bits": lambda s: s.ask(BY_DEPARTMENT, epsilon=1, bits=3),
    "progress": lambda s: s.ask(BY_DEPARTMENT, epsilon=1, progress=3),
    "id": lambda s: s.ask(BY_DEPARTMENT, epsilon=1, id=7),
    "query": lambda s: s.ask(7, epsilon=1),
}
OWN_WORDS = {"bits", "pilot of a quote"}


def as_a_ledger_charges(error: Exception) -> dict[str, Any]:
    """The fields of a refusal with the cost rounded up, as a ledger charges it; an account in memory charges it exactly."""
    assert isinstance(error, BudgetExceeded)
    assert isinstance(error.cost, Fraction)
    return vars(error) | {"cost": round_up(error.cost)}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_of_the_same_class_with_the_same_words(unspent: Place, name: str) -> None:
    errors: list[Exception] = []
    for each in (unspent.asking, unspent.twin):
        with pytest.raises((BadParameter, BudgetExceeded, QueryRefused)) as refused:
            REFUSED[name](each)
        errors.append(refused.value)
    one, other = errors
    assert type(one) is type(other)
    if name not in OWN_WORDS:
        assert str(one) == str(other)
        assert vars(one) == vars(other) or as_a_ledger_charges(one) == as_a_ledger_charges(other)
    assert unspent.asking.budget == unspent.twin.budget
    assert unspent.asking.budget.amount == 0


@pytest.mark.parametrize(
    "query", ["SELECT SUM(age) AS s FROM people", "SELECT dept, SUM(age) AS s FROM people GROUP BY dept"]
)
@pytest.mark.parametrize("call", ["quote", "ask"])
def test_what_is_not_declared_is_listed_in_both(kind: str, tmp_path: Path, query: str, call: str) -> None:
    """The class and the parameters are the same; a served policy is the steward's, so there is no command to fill in."""
    declared: dict[str, Any] = {"epsilon": 4, "bounds": {"pay": (0, 200)}, "keys": {}}
    with pytest.raises(MissingDeclarations) as local:
        getattr(session(**declared), call)(query, epsilon=1)
    if kind == "local":
        assert "connect(" in local.value.command
        return
    with serve_session(session(**declared), tmp_path) as (remote, _, _http):
        with pytest.raises(MissingDeclarations) as served:
            getattr(remote, call)(query, epsilon=1)
        assert remote.budget.amount == 0
    one, other = served.value, local.value
    assert vars(one).keys() == vars(other).keys()
    assert (one.missing, one.name, one.value, one.line, one.column) == (
        other.missing, other.name, other.value, other.line, other.column,
    )  # fmt: skip
    assert (one.command, one.details) == ("", None)
    assert "Ask a steward to declare bounds for `age`" in str(one)
    assert one.see == other.see


def test_what_fits_is_told_exactly(place: Place) -> None:
    with pytest.raises(BudgetExceeded) as refused:
        place.asking.ask(BY_DEPARTMENT, epsilon=5)
    fitting = refused.value.fitting_epsilon
    assert isinstance(fitting, Fraction)
    place.asking.ask(BY_DEPARTMENT, epsilon=fitting)


def test_progress_ends_at_one_and_sessions_are_not_pickled(place: Place) -> None:
    import copy
    import pickle

    heard: list[float] = []
    place.asking.ask(BY_DEPARTMENT, epsilon=1, progress=heard.append)
    assert all(0 <= share <= 1 for share in heard)
    assert copy.copy(place.asking) is place.asking
    for way in (copy.deepcopy, pickle.dumps):
        with pytest.raises(BadParameter, match="pickled"):
            way(place.asking)
    assert isinstance(place.asking, Session | RemoteSession)
