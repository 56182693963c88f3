"""No debit costs less than the policy's `least_epsilon` buys, in any currency, by any way of asking."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from discreet.accounting.currencies import Currency, Gdp, Pure, Rdp, Zcdp, amount_or_zero
from discreet.errors import BadParameter, BudgetExceeded, QueryRefused
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.query.policy import read_policy, write_policy
from discreet.query.schema import DEFAULT_LEAST_EPSILON, Table
from discreet.session.connect import connect
from discreet.session.discovery_state import DiscoveryState
from discreet.session.session import Session
from discreet.workload import Workload, WorkloadQuery, publish
from discreet.workload.planning import plan_workload
from tests.support.console import run
from tests.support.people import people

COUNT = "SELECT COUNT(*) AS n FROM people"
MEAN = "SELECT AVG(pay) AS m FROM people"
PURE = Pure()
CURRENCIES: list[Currency] = [PURE, Zcdp(), Gdp(), Rdp(Fraction(1000))]
FACTORS = (Fraction(1, 1000), Fraction(999, 1000), Fraction(1), Fraction(4))
LEASTS = [DEFAULT_LEAST_EPSILON, Fraction(1, 8)]
Asking = Callable[[Session, Fraction], object]

WAYS: dict[str, tuple[Asking, Fraction]] = {  # how to ask, and the part of ε that its smallest debit pays
    "ask": (lambda session, epsilon: session.ask(COUNT, epsilon=epsilon), Fraction(1)),
    "bounds in a query": (lambda session, epsilon: session.ask(MEAN, epsilon=epsilon), Fraction(1, 4)),
    "find_bounds": (lambda session, epsilon: session.find_bounds("pay", epsilon=epsilon), Fraction(1)),
    "pilot": (lambda session, epsilon: session.ask(COUNT, error="20%", pilot=epsilon), Fraction(1)),
}


@cache
def declared() -> Session:
    return connect(people(), table="people", unit="id", unique=True, epsilon=1, bounds={"pay": "auto"})


def opened(least: Fraction, currency: Currency = PURE) -> Session:
    """A session that knows nothing of any other."""
    delta, found = Fraction(0) if currency == PURE else Fraction(1, 10**6), declared()
    account = MemoryAccount(create_budget(1000, delta, currency))
    table = replace(found.table, least_epsilon=least)
    return replace(found, account=account, delta=delta, table=table, state=DiscoveryState())


def debits(session: Session) -> list[Fraction]:
    """What each debit of a session in memory cost, in its currency."""
    account: Any = session.account
    return [Fraction(account.budget.currency.cost(receipt.event)[0]) for _, receipt in account._debits.values()]


@pytest.mark.parametrize("least", LEASTS, ids=str)
@pytest.mark.parametrize("currency", CURRENCIES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_no_debit_is_below_the_least(way: str, currency: Currency, least: Fraction) -> None:
    ask, _ = WAYS[way]
    for factor in FACTORS:
        session = opened(least, currency)
        said = outcome(ask, session, least * factor)
        if "least_epsilon" in said or "too small at this δ" in said:
            assert session.account.budget.spent == 0
            assert debits(session) == []
        else:
            assert factor >= 1
            floor = amount_or_zero(currency, least, session.delta)
            assert all(paid >= floor * (1 - Fraction(1, 1 << 20)) for paid in debits(session))
            assert debits(session)


def outcome(ask: Asking, session: Session, epsilon: Fraction) -> str:
    """What a refusal says. So little may be paid that noise hides every magnitude and every size: that is refused after it
    is paid."""
    try:
        ask(session, epsilon)
    except (BadParameter, QueryRefused) as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("currency", CURRENCIES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_the_boundary_is_where_the_smallest_debit_costs_the_least(way: str, currency: Currency) -> None:
    """In a pure account an ε of least/part is allowed and the smallest debit then costs exactly the least."""
    ask, part = WAYS[way]
    least = Fraction(1, 8) if currency != Rdp(Fraction(1000)) else Fraction(1)
    session = opened(least, currency)
    pricing = session.calibrator
    allowed = next(
        least * Fraction(k, 64)
        for k in range(64, 64 * 5)
        if currency.amount(least * Fraction(k, 64), session.delta) * part >= currency.amount(least, session.delta)
    )
    assert (allowed == least) == (part == 1)
    outcome(ask, session, allowed)
    assert debits(session)
    refused = opened(least, currency)
    with pytest.raises(BadParameter, match="least_epsilon"):
        ask(refused, allowed - Fraction(1, 64) * least)
    assert debits(refused) == []
    assert pricing.budget.spent == 0


def test_the_property_notices_a_mutant_that_compares_the_query_and_not_the_debit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its search for bounds reads rows for a quarter of the least ε."""
    monkeypatch.setattr("discreet.query.calibrate.amount_or_zero", lambda *_: Fraction(0))
    session = opened(DEFAULT_LEAST_EPSILON)
    outcome(WAYS["bounds in a query"][0], session, DEFAULT_LEAST_EPSILON)
    assert min(debits(session)) < DEFAULT_LEAST_EPSILON


def test_asking_with_almost_no_epsilon_is_refused_unpaid() -> None:
    session = opened(DEFAULT_LEAST_EPSILON)
    with pytest.raises(BadParameter, match=r"epsilon is 1e-9: it is below the policy's least_epsilon = 0\.0001\. Give at"):
        session.ask(COUNT, epsilon=Fraction(1, 10**9))
    with pytest.raises(BadParameter, match="pilot is"):
        session.ask(COUNT, error="5%", pilot=Fraction(1, 10**9))
    with pytest.raises(BadParameter, match="least_epsilon"):
        session.quote(COUNT, epsilon=Fraction(1, 10**9))
    assert session.account.budget.spent == 0


@pytest.mark.parametrize("currency", CURRENCIES[:3], ids=str)
def test_an_error_that_needs_less_is_raised_and_says_so(currency: Currency) -> None:
    least = Fraction(12345, 100_000)
    session = opened(least, currency)
    needed = opened(Fraction(1, 10**6), currency).find_epsilon(COUNT, 10_000)
    assert needed < least
    assert session.find_epsilon(COUNT, 10_000) == least
    quoted = session.quote(COUNT, error=10_000)
    answer = session.ask(COUNT, error=10_000)
    said = "This error needs an ε below the policy's least_epsilon, so ε was raised to 0.12345."
    assert said in quoted.notes
    assert said in answer.explanation
    assert debits(session) == pytest.approx([float(currency.amount(least, session.delta))])
    again = session.ask(COUNT, error=10_000)
    assert said in again.explanation
    assert again.rows == answer.rows
    exact = session.ask(COUNT, epsilon=least)  # the same measurement; nobody raised anything
    assert exact.rows == answer.rows
    assert said not in exact.explanation
    assert said not in session.ask(COUNT, error=2).explanation


def plan(folder: Path, least: str, epsilon: str, error: str) -> Workload:
    (folder / "policy.toml").write_text(
        f'table = "people"\nunit = "id"\nunique = true\nleast_epsilon = {least}\n[columns.id]\nkind = "integer"\n'
    )
    return Workload(
        source="examples/people.csv", policy=folder / "policy.toml", epsilon=Fraction(epsilon),
        questions=(WorkloadQuery(name="all", sql=COUNT, error=None if error == "" else Fraction(error)),
                   WorkloadQuery(name="more", sql="SELECT COUNT(*) AS m FROM people WHERE id > 5",
                                 error=Fraction(error or 100))),
    )  # fmt: skip


@pytest.mark.parametrize("delta", [0, Fraction(1, 10**6)])
@pytest.mark.parametrize("currency", [None, "zcdp"])
def test_a_publication_is_one_debit(tmp_path: Path, delta: Any, currency: str | None) -> None:
    """Its questions may each cost less; together they cost no less than the least ε, or are raised to it."""
    if currency and not delta:
        return
    workload = replace(plan(tmp_path, "0.25", "1", "10000"), delta=delta, currency=currency)
    solved = plan_workload(workload)
    floor = amount_or_zero(solved.terms.currency, Fraction(1, 4), solved.session.delta)
    assert solved.is_raised
    assert floor <= solved.charge <= floor * Fraction(101, 100)
    assert "least_epsilon" in " ".join(solved.notes)
    assert not plan_workload(replace(plan(tmp_path, "0.0001", "1", "10000"), delta=delta, currency=currency)).is_raised
    whole = plan_workload(replace(plan(tmp_path, "0.25", "1", ""), delta=delta, currency=currency))
    assert not whole.is_raised
    tight = plan_workload(replace(plan(tmp_path, "0.25", "0.25", "10000"), delta=delta, currency=currency))
    assert tight.fits
    assert tight.charge >= floor * Fraction(999, 1000)
    with pytest.raises(BadParameter, match=r"budget\.epsilon is 0\.2: it is below the policy's least_epsilon = 0\.25"):
        plan_workload(replace(plan(tmp_path, "0.25", "0.2", "10000"), delta=delta, currency=currency))


def test_a_raised_publication_says_so(tmp_path: Path) -> None:
    made = publish(plan(tmp_path, "0.25", "1", "10000"), tmp_path / "out")
    assert "raised to 0.25" in (made.folder / "guarantee.md").read_text()


def test_a_policy_declares_it(tmp_path: Path) -> None:
    text = 'table = "people"\nunit = "id"\n[columns.id]\nkind = "integer"\n'
    assert read_policy(text).least_epsilon == DEFAULT_LEAST_EPSILON == Fraction(1, 10_000)
    declared = read_policy(f"least_epsilon = 0.01\n{text}")
    assert declared.least_epsilon == Fraction(1, 100)
    assert read_policy(write_policy(declared)) == declared
    assert "least_epsilon = 0.01" in write_policy(declared, template=True)
    for wrong in ("0", "-1", "true", '"0.1"', "nan"):
        with pytest.raises(BadParameter, match="least_epsilon"):
            read_policy(f"least_epsilon = {wrong}\n{text}")
    for value in (0, -1, float("nan")):
        with pytest.raises(BadParameter, match="least_epsilon"):
            Table("people", "id", declared.columns, least_epsilon=value)  # type: ignore[arg-type]
    assert run("policy", "init", "examples/people.csv", "--unit", "id", "--out", tmp_path / "p.toml").returncode == 0
    assert "least_epsilon = 0.0001" in (tmp_path / "p.toml").read_text()
    (tmp_path / "strict.toml").write_text(f"least_epsilon = 0.5\n{text}")
    asked = ("ask", "examples/people.csv", COUNT, "--policy", tmp_path / "strict.toml")
    refused = run(*asked, "--epsilon", "0.1")
    assert refused.returncode == 2
    assert "least_epsilon = 0.5" in refused.stderr
    raised = json.loads(run(*asked, "--error", "10000", "--json").stdout)
    assert "raised to 0.5" in raised["explanation"]
    quoted = run("quote", *asked[1:], "--error", "10000", "--json")
    assert "raised to 0.5" in " ".join(json.loads(quoted.stdout)["notes"])


def test_no_refusal_proposes_an_epsilon_that_is_below_the_least() -> None:
    for left, said in (
        (Fraction(1, 2), "epsilon=0.5 would fit"),
        (Fraction(1, 16), r"ε = 0\.0625 remains\. Nothing usable remains: the policy accepts no query below ε = 0\.125"),
    ):
        session = opened(Fraction(1, 8))
        session = replace(session, account=MemoryAccount(create_budget(1 + left, 0)))
        session.ask(COUNT, epsilon=1)
        with pytest.raises(BudgetExceeded, match=said):
            session.ask(COUNT, epsilon=1, fresh=True)
        with pytest.raises(BudgetExceeded, match=said):
            session.ask(MEAN, epsilon=1)
