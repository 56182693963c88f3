"""Sessions of accounts under one root: the same query is the same measurement, is paid for once, and is certified from the
account that paid."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.engines.base import OutOfResources
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed, QueryRefused, SourceQuarantined
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AccountOpened, hash_measurement
from discreet.ledger.keys import load_key
from discreet.ledger.quarantine import FailureKind
from discreet.ledger.verify import verify
from discreet.query.calibrate import AccuracyTarget, Calibrator
from discreet.query.quote import make_quote
from discreet.query.record import measurement_spec
from discreet.session.connect import open_session as open_with_account
from discreet.session.options import SourceOptions
from discreet.session.session import Session
from tests.support.ledger_sessions import open_session, read_spent
from tests.support.people import BY_DEPARTMENT, COUNTS, session

HALF = Fraction(1, 2)
MEAN = "SELECT AVG(pay) AS m FROM people"


@pytest.fixture
def family(charged_folder: Path) -> Path:
    """The folder with children of hr: ada with half of its ε, bob with a quarter, and frugal with little δ."""
    with open_ledger(charged_folder / "hr.ledger") as ledger:
        ledger.open_account("ada", 1, 1e-6, parent="hr")
        ledger.open_account("bob", HALF, 1e-6, parent="hr")
        ledger.open_account("frugal", 1, 1e-12, parent="hr")
        ledger.open_account("pure/ada", 1, parent="pure")
        ledger.open_account("pure/bob", 1, parent="pure")
    return charged_folder


def hash_of(session: Session, sql: str, epsilon: Fraction) -> str:
    return hash_measurement(session.executor.describe(session.calibrate(sql, epsilon=epsilon)))


@pytest.mark.parametrize("keys", [{"dept": tuple(COUNTS)}, {}])
def test_a_siblings_answer_is_free_and_certified_from_the_account_that_paid(family: Path, keys: Any) -> None:
    paid = open_session(family, "ada", keys=keys).ask(BY_DEPARTMENT, epsilon=HALF)
    spent = read_spent(family)
    bob, key = open_session(family, "bob", keys=keys), load_key(family / "hr.key")
    found = bob.ask(BY_DEPARTMENT, epsilon=HALF, id="mine")
    assert (found.rows, found.charged, paid.charged) == (paid.rows, False, True)
    assert (read_spent(family), read_spent(family, "bob")) == (spent, 0)
    certificate = bob.certify(found, key)
    assert certificate["guarantee"]["account"] == "ada"
    with open_ledger(family / "hr.ledger") as ledger:
        assert verify(certificate, public=key.public, ledger=ledger).is_valid
        assert check_ledger(ledger).is_valid
    with pytest.raises(BadParameter, match="no debit of account 'pure'"):
        open_session(family, "pure").certify(found, key)


def test_an_interrupted_query_of_a_sibling_is_continued(family: Path) -> None:
    class FailingEngine:
        def __init__(self, engine: Any) -> None:
            self.identity, self.origins, self.lock = engine.identity, engine.origins, engine.lock

        def run(self, bounded: Any) -> Any:
            raise OutOfResources

    ada, bob = open_session(family, "ada"), open_session(family, "bob")
    with pytest.raises(EngineFailed):
        replace(ada, engine=FailingEngine(ada.engine)).ask(BY_DEPARTMENT, epsilon=HALF, id="x")  # type: ignore[arg-type]
    spent = read_spent(family)
    answer = bob.ask(BY_DEPARTMENT, epsilon=HALF)
    assert (answer.charged, read_spent(family, "bob"), read_spent(family)) == (False, 0, spent)
    assert open_session(family, "ada").ask(BY_DEPARTMENT, epsilon=HALF, id="x").rows == answer.rows
    assert verify(bob.certify(answer, load_key(family / "hr.key")), ledger=open_ledger(family / "hr.ledger")).is_valid


@pytest.mark.parametrize("more", [{"bounds": {"pay": "auto"}}, {"pilot": Fraction(1, 10)}])
def test_queries_with_steps_are_found_in_their_own_account_only_and_have_certificates(family: Path, more: Any) -> None:
    pilot = more.get("pilot")
    options: dict[str, Any] = {"epsilon": HALF} if pilot is None else {"error": "20%", "pilot": pilot}
    declared = {} if pilot is not None else more
    for account in ("pure/ada", "pure/bob"):
        asker = open_session(family, account, **declared)
        answer = asker.ask(MEAN, **options)
        assert answer.charged
        cost = read_spent(family, account)
        assert cost > 0
        certificate = asker.certify(answer, load_key(family / "hr.key"))
        assert certificate["guarantee"]["account"] == account
        with open_ledger(family / "hr.ledger") as ledger:
            assert verify(certificate, ledger=ledger).is_valid
        again = open_session(family, account, **declared).ask(MEAN, **options)
        assert (again.rows, again.charged, read_spent(family, account)) == (answer.rows, False, cost)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), HALF])
def test_a_family_has_one_split_of_delta(family: Path, epsilon: Fraction) -> None:
    sessions = [open_session(family, name, keys={}) for name in ("hr", "ada", "bob")]
    hashes = {hash_of(each, BY_DEPARTMENT, epsilon) for each in sessions}
    assert len(hashes) == 1
    own = Calibrator(sessions[2].account.budget, sessions[2].delta)  # a mutant: the account's own limits
    measurement = own.calibrate(sessions[2].outline(BY_DEPARTMENT), epsilon)
    assert hash_measurement(sessions[2].executor.describe(measurement)) not in hashes


def test_a_child_never_spends_more_delta_than_it_has(family: Path) -> None:
    for name in ("bob", "frugal"):
        child = open_session(family, name, keys={})
        for _ in range(100):
            try:
                child.ask(BY_DEPARTMENT, epsilon=Fraction(1, 5), fresh=True)
            except BudgetExceeded:
                break
        budget = child.account.budget
        assert 0 < budget.delta_spent <= budget.delta_limit
        assert budget.spent > budget.limit / 2, "δ lasts as long as the budget"
    with open_ledger(family / "hr.ledger") as ledger:
        assert check_ledger(ledger).is_valid


def test_a_child_without_delta_cannot_select_keys(charged_folder: Path) -> None:
    from discreet.accounting.currencies import Pure

    with open_ledger(charged_folder / "hr.ledger") as ledger:
        ledger.open_account("root", 2, 1e-6, Pure())
        ledger.open_account("child", 1, 0, Pure(), parent="root")
    with pytest.raises(QueryRefused, match="keys of dept are not declared"):
        open_session(charged_folder, "child", keys={}).quote(BY_DEPARTMENT, epsilon=HALF)


def test_a_child_of_an_earlier_version_keeps_its_own_split(family: Path) -> None:
    with open_ledger(family / "hr.ledger") as ledger, ledger.store.read_transaction() as transaction:
        opening, root = transaction.read_opening("bob"), transaction.read_opening("hr")
    assert opening is not None
    assert root is not None
    assert (root.split or None, opening.split) == (None, "root")
    old = AccountOpened(**{name: getattr(opening, name) for name in opening.__struct_fields__ if name != "split"})
    state = old.to_account(root.to_account(None))
    assert (state.own_split, state.family_budget) == (True, state.budget)
    assert opening.to_account(root.to_account(None)).family_budget == root.to_account(None).budget
    assert AccountOpened.of(state, old.number, bytes.fromhex(old.previous)) == old


# Sources and quotes.


def test_a_named_source_is_found_wherever_it_is(family: Path) -> None:
    def ask(file: str, identity: str | None) -> Any:
        options = SourceOptions(
            source=family / file, table="people", unit="id", unique=True, keys={"dept": tuple(COUNTS)},
        )  # fmt: skip
        account = open_ledger(family / "hr.ledger").get_account("ada")
        served = open_with_account(options, account, account.initial_state.delta, identity=identity)
        assert served.engine.identity != identity, "failures stay with where the data is"
        return served.ask(BY_DEPARTMENT, epsilon=Fraction(1, 4))

    (family / "moved.parquet").write_bytes((family / "people.parquet").read_bytes())
    first, moved = ask("people.parquet", "serve:people"), ask("moved.parquet", "serve:people")
    assert (moved.rows, moved.charged) == (first.rows, False)
    assert first.reference.measurement["source"] == "serve:people"
    assert ask("people.parquet", None).charged, "the same file under its own name is another source"
    with pytest.raises(BadParameter, match="identity"):
        ask("people.parquet", "")


def test_a_named_source_is_quarantined_by_where_it_is(family: Path) -> None:
    with open_ledger(family / "hr.ledger") as ledger:
        ledger.quarantine.record_failure(str(family / "people.parquet"), FailureKind.DECODING)
        account = ledger.get_account("ada")
    options = SourceOptions(source=family / "people.parquet", unit="id")
    with pytest.raises(SourceQuarantined):
        open_with_account(options, account, account.initial_state.delta, identity="serve:people")


@pytest.mark.parametrize(
    ("sql", "more"),
    [(BY_DEPARTMENT, {"epsilon": HALF}), (f"{BY_DEPARTMENT} ORDER BY n LIMIT 1", {"error": "5%", "size": 100})],
)
def test_a_quote_needs_neither_engine_nor_account(sql: str, more: Any) -> None:
    opened = session(2, 1e-6)
    target = AccuracyTarget(more.get("epsilon"), more.get("error"), more.get("size"))
    calibrator = Calibrator(opened.account.budget, opened.delta)
    assert make_quote(calibrator, opened.outline(sql), target, sql, opened.notes) == opened.quote(sql, **more)


def test_a_measurement_computed_from_a_snapshot_is_the_one_that_is_charged(family: Path) -> None:
    """As a process without the data computes it: from declarations and from the accounts as they were."""
    bob = open_session(family, "bob", keys={})
    state = bob.account.state  # type: ignore[attr-defined]
    calibrator = Calibrator(state.budget, state.delta, state.family_budget)
    measurement = calibrator.calibrate(bob.outline(BY_DEPARTMENT), Fraction(1, 4))
    answer = bob.ask(BY_DEPARTMENT, epsilon=Fraction(1, 4))
    assert answer.reference is not None
    assert measurement_spec(measurement, bob.engine.identity) == answer.reference.measurement
