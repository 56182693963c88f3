"""Records of a session: read after the debit, at most so many for each unit, never shown."""

import copy
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.accounting.curve import epsilon as certified
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed, SourceQuarantined
from discreet.learn import Additive, LinearRegression, LogisticRegression
from discreet.learn.session_records import Part
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key
from discreet.session.connect import connect
from discreet.session.session import Session
from discreet.testing import seeded_bits

POLICY: dict[str, Any] = {
    "unit": "id",
    "bounds": {"age": (18, 65), "pay": (0, 120)},
    "keys": {"dept": ["a", "b", "c"], "state": ["here", "gone"]},
}
BUDGETS: dict[str, dict[str, Any]] = {
    "zcdp": {"epsilon": 3, "delta": 1e-6},
    "pure": {"epsilon": 3, "delta": 1e-6, "currency": "pure"},
    "gdp": {"epsilon": 3, "delta": 1e-6, "currency": "gdp"},
    "rdp": {"epsilon": 3, "delta": 1e-6, "currency": "rdp(64)"},
}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A file in which people have one to three rows."""
    rng, path = np.random.default_rng(0), tmp_path / "people.csv"
    lines = ["id,age,dept,pay,state"]
    for person in range(1500):
        for _ in range(rng.integers(1, 4)):
            age, dept = rng.integers(15, 70), rng.choice(["a", "b", "c", "z", ""])
            state = "gone" if rng.random() < 1 / (1 + np.exp(-(age - 40) / 6)) else "here"
            lines.append(f"{person},{age},{dept},{age + rng.normal():.2f},{state}")
    path.write_text("\n".join(lines) + "\n")
    return path


def open_people(path: Path, **more: Any) -> Session:
    return connect(path, **(POLICY | {"epsilon": 3, "delta": 1e-6} | more))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_fit_is_one_debit_and_a_second_fit_is_another(people: Path, budget: str) -> None:
    session = open_people(people, **BUDGETS[budget])
    records = session.records("age", "dept", "pay", target="state")
    before = session.account.budget.remaining
    model = LogisticRegression(epsilon=0.5, delta=1e-7 if budget == "pure" else None, expected=1500, account=session)
    model.fit(records)
    after = session.account.budget.remaining
    cost, limit = before - after, session.account.budget.currency.amount(Fraction(1, 2), session.delta)
    assert 0 < cost <= limit
    assert float(cost) == pytest.approx(float(limit), rel=1e-3)
    first = model.coef_
    model.fit(records)
    assert after - session.account.budget.remaining == cost
    assert not np.array_equal(first, model.coef_)
    assert certified(model.event_, Fraction(1, 10**7 if budget == "pure" else 10**6)).upper <= 0.5


def test_models_of_every_kind_fit_a_session(people: Path) -> None:
    session = open_people(people, unique=False)
    test = {"age": [20, 60], "dept": ["a", "b"]}
    classifier = LogisticRegression(epsilon=1, expected=1500).fit(session.records("age", "dept", target="state"))
    assert [*classifier.predict(test)] == ["here", "gone"]
    assert [*classifier.classes_] == ["here", "gone"]
    regression = LinearRegression(epsilon=0.5, expected=1500).fit(session.records("age", "dept", target="pay"))
    assert regression.predict(test)[1] - regression.predict(test)[0] == pytest.approx(40, abs=12)
    additive = Additive(epsilon=0.5, expected=1500).fit(session.records("age", "dept", target="pay"))
    assert additive.predict(test)[1] > additive.predict(test)[0]
    with pytest.raises(AttributeError, match="regression"):
        additive.predict_proba(test)
    assert session.budget.to_dict()["amount"] > 0


def test_a_budget_that_does_not_last_is_refused_before_rows_are_read(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_people(people, epsilon=0.5)
    monkeypatch.setattr(type(session.engine), "read_records", lambda *_: pytest.fail("rows were read"))
    records = session.records("age", target="state")
    with pytest.raises(BudgetExceeded):
        LogisticRegression(epsilon=1, expected=1500).fit(records)
    wrong = [
        (LogisticRegression(epsilon=0.1, expected=10, bounds={"pay": (0, 1)}), records),
        (LogisticRegression(epsilon=0.1, expected=10, delta=1e-9), records),
        (LogisticRegression(epsilon=0.1, expected=10, neighbours="replace"), records),
        (LinearRegression(epsilon=0.1, expected=10), records),
        (LogisticRegression(epsilon=0.1, expected=10), session.records("age")),
        (LogisticRegression(epsilon=0.1, expected=10, account=open_people(people)), records),
    ]
    for model, given in wrong:
        with pytest.raises(BadParameter):
            model.fit(given)
    with pytest.raises(BadParameter, match="their own target"):
        LogisticRegression(epsilon=0.1, expected=10).fit(records, [1])
    assert session.account.budget.spent == 0


def test_the_debit_comes_before_the_rows_and_stays(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_people(people)

    def fail(*_: Any) -> Any:
        assert session.account.budget.spent > 0
        raise EngineFailed

    monkeypatch.setattr(type(session.engine), "read_records", fail)
    with pytest.raises(EngineFailed):
        LogisticRegression(epsilon=1, expected=1500).fit(session.records("age", target="state"))
    assert session.account.budget.spent > 0
    with pytest.raises(SourceQuarantined):
        LogisticRegression(epsilon=1, expected=1500).fit(session.records("age", target="state"))


def test_a_handle_shows_nothing(people: Path) -> None:
    records = open_people(people).records("age", "dept", target="state")
    assert repr(records) == "Records of people: age, dept, target state (private)"
    for wrong in (len, iter, list):
        with pytest.raises(TypeError):
            wrong(records)  # type: ignore[arg-type]
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(BadParameter, match="private"):
            copied(records)  # type: ignore[operator]
    with pytest.raises(AssertionError):
        records.read(None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        (("id",), {}),
        (("years",), {}),
        ((), {}),
        (("age", "age"), {}),
        (("age",), {"target": "age"}),
        (("age",), {"max_rows": 0}),
    ],
)
def test_wrong_columns_are_refused(people: Path, columns: Any, more: Any) -> None:
    with pytest.raises(BadParameter):
        open_people(people).records(*columns, **more)


# Contribution bounds


def read_encoded(session: Session, max_rows: int = 1, part: int | None = None) -> Any:
    records = session.records("age", "pay", target="state", max_rows=max_rows)
    if part is not None:
        records = records.split("1/3")[part]
    model = LogisticRegression(epsilon=1, expected=10)
    declared = model._declare(records)
    return records.read_rows(session.executor, declared.features, declared.target)


@pytest.mark.parametrize(("max_rows", "most"), [(1, 1500), (2, 3000), (9, 4500)])
def test_a_unit_keeps_so_many_rows_whatever_others_have(people: Path, max_rows: int, most: int) -> None:
    session = open_people(people)
    kept = read_encoded(session, max_rows)
    assert 1500 <= len(kept.target) <= most
    lines = people.read_text().splitlines()
    shuffled = [lines[0], *np.random.default_rng(1).permutation(lines[1:])]
    others = people.with_name("others.csv")
    others.write_text("\n".join(line for line in shuffled if not line.startswith("7,")) + "\n")
    without = read_encoded(connect(others, table="people", **POLICY, epsilon=3, delta=1e-6), max_rows)

    def count(rows: Any) -> dict[tuple[int, ...], int]:
        found: dict[tuple[int, ...], int] = {}
        for row in zip(*rows.design.numbers.T.tolist(), rows.target.tolist(), strict=True):
            found[row] = found.get(row, 0) + 1
        return found

    one, other = count(kept), count(without)
    differing = {row: one.get(row, 0) - other.get(row, 0) for row in {*one, *other}}
    assert all(change >= 0 for change in differing.values())
    assert sum(differing.values()) <= max_rows


def test_several_rows_for_each_unit_need_so_many_times_the_noise(people: Path) -> None:
    session = open_people(people)
    sigmas = []
    for max_rows in (1, 3):
        records = session.records("age", target="state", max_rows=max_rows)
        model = LogisticRegression(epsilon=1, expected=10)
        declared = model._declare(records)
        sigmas.append(model._plan(declared, model._list_vectors(declared)).noises["gradients"].sigma)
    assert sigmas[1] == pytest.approx(3 * sigmas[0], rel=1e-5)


def test_parts_are_disjoint_by_unit_and_together_whole(people: Path) -> None:
    session = open_people(people)
    train, test = session.records("age", target="state").split("1/3")
    salt = session.table.salt
    sides = [[part.holds(salt, unit) for part in (train._part, test._part)] for unit in range(3000)]
    assert all(sum(each) == 1 for each in sides)
    assert 0.28 < np.mean([each[1] for each in sides]) < 0.38
    whole, one, two = read_encoded(session), read_encoded(session, part=0), read_encoded(session, part=1)
    assert len(one.target) + len(two.target) == len(whole.target)
    assert train.split("1/2")[0]._part == Part(Fraction(0), Fraction(1, 3))
    with pytest.raises(BadParameter, match="no key"):
        open_people(people, unit="row").records("age", target="state").split()
    with pytest.raises(BadParameter, match="not a share"):
        session.records("age").split(2)


# Ledgers


def test_a_ledger_records_a_fit_and_certifies_it(people: Path, tmp_path: Path) -> None:
    key = load_key(tmp_path / "key")
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6)
    session = connect(people, **POLICY, ledger=tmp_path / "hr.ledger", account="hr")
    records = session.records("age", "dept", target="state")
    model = LogisticRegression(epsilon=1, expected=1500).fit(records, id="first")
    spent = session.account.budget.spent
    again = LogisticRegression(epsilon=1, expected=1500).fit(records, id="first")
    assert session.account.budget.spent == spent
    assert np.array_equal(again.coef_, model.coef_)
    with pytest.raises(BadParameter, match="id"):
        LogisticRegression(epsilon=1, expected=99, steps=3).fit(records, id="first")
    certificate = model.certify(key)
    assert "fitted" in str(certificate)
    with pytest.raises(BadParameter):
        LogisticRegression(epsilon=0.1, expected=1500).fit(records, bits=seeded_bits(1))
    assert pickle.loads(pickle.dumps(model)).coef_.tolist() == model.coef_.tolist()


def test_arrays_can_be_charged_to_a_session_or_an_account(people: Path, tmp_path: Path) -> None:
    session = open_people(people)
    declared: dict[str, Any] = {"bounds": {"age": (0, 100)}, "classes": (0, 1), "expected": 10}
    X, y = {"age": [1, 2, 3]}, [0, 1, 1]
    LogisticRegression(epsilon=0.5, account=session, **declared).fit(X, y)
    assert session.account.budget.spent > 0
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        account = ledger.open_account("hr", 2, 1e-6)
        model = LogisticRegression(epsilon=0.5, account=account, **declared).fit(X, y)
        assert account.budget.spent > 0
        assert model.certify(load_key(tmp_path / "key"))
        with pytest.raises(BadParameter, match="retry"):
            model.fit(X, y, id="again")
        with pytest.raises(BudgetExceeded):
            model.set_params(epsilon=2).fit(X, y)


def test_a_service_hands_out_no_records() -> None:
    from discreet.remote.client import RemoteSession

    with pytest.raises(BadParameter, match="where the rows are"):
        RemoteSession.records(object(), "age")  # type: ignore[arg-type]


def test_discreet_is_imported_without_models() -> None:
    import subprocess
    import sys

    program = "import sys, discreet; assert not any(name.startswith('discreet.learn') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
    program = "import sys, discreet.learn as l; l.Additive, l.Ridge; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_quote_is_the_cost_of_the_fit_and_charges_nothing(people: Path) -> None:
    session = open_people(people)
    records = session.records("age", "dept", target="pay")
    model = LinearRegression(epsilon=0.5, expected=1500)
    before = session.account.budget.remaining
    quoted = model.quote(records)
    assert session.account.budget.remaining == before
    assert quoted.epsilon == model.fit(records).cost_.epsilon
    assert session.account.budget.remaining < before


def test_a_missing_target_is_named_before_what_is_declared_about_it(people: Path) -> None:
    session = open_people(people)
    for model in (LinearRegression(epsilon=0.5, expected=1500), LogisticRegression(epsilon=0.5, expected=1500)):
        with pytest.raises(BadParameter, match=r'target is missing: .* Name it: records\(…, target="left"\)'):
            model.fit(session.records("age"))
    with pytest.raises(BadParameter, match="`pay` is to be predicted, and its keys are not declared"):
        LogisticRegression(epsilon=0.5, expected=1500).quote(session.records("age", target="pay"))
    with pytest.raises(BadParameter, match="`dept` is to be predicted, and its bounds are not declared"):
        LinearRegression(epsilon=0.5, expected=1500).quote(session.records("age", target="dept"))
