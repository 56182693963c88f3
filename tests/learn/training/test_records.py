"""Records of a session and frames; and H7: one record is one privacy unit, or the cost is that of the group."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from discreet import epsilon
from discreet.accounting.currencies import Pure
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Group
from discreet.learn.session_records import SessionRecords
from discreet.learn.training import PrivateTrainer
from discreet.learn.training import trainer as trainer_module
from discreet.learn.training.quantise import GRID_BITS
from discreet.learn.training.rows import DeclaredRows
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key
from discreet.session.connect import connect
from discreet.session.session import Session
from tests.learn.training.models import BOUND, LOSS, norm_squared

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

POLICY: dict[str, Any] = {
    "unit": "id",
    "unique": False,
    "bounds": {"age": (18, 66), "pay": (0, 120)},
    "keys": {"dept": ["a", "b", "c"], "state": ["here", "gone"]},
}
WIDTH = 2 + 4


def write_people(path: Path, people: int, rows: int = 3, odd: str = "") -> Path:
    """A file in which each person has so many rows, all of them alike."""
    lines = ["id,age,dept,pay,state"]
    for person in range(people):
        age, dept, state = 20 + person % 40, "abcz"[person % 4], ("gone", "here")[person % 2]
        lines += [f"{person},{age},{dept},{age + 1},{state}"] * rows
    path.write_text("\n".join(lines) + "\n" + odd)
    return path


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people.csv", 40)


def open_people(path: Path, **more: Any) -> Session:
    return connect(path, **(POLICY | {"epsilon": 3, "delta": 1e-6, "currency": "pure"} | more))


def make_trainer(model: nn.Module | None = None, loss: Any = LOSS, **changes: Any) -> PrivateTrainer:
    given: dict[str, Any] = {
        "expected": 40, "rate": 1, "steps": 1, "noise": 8, "delta": 1e-7, "chunk": 16,
        "optimizer": lambda weights: torch.optim.SGD(weights, lr=1.0),
    } | changes  # fmt: skip
    return PrivateTrainer(model or nn.Linear(WIDTH, 2), loss, **given)


def test_records_of_a_session_are_paid_by_its_account(people):
    session = open_people(people)
    trainer = make_trainer(noise=None, epsilon=1, steps=3)
    trained = trainer.train(session.records("age", "pay", "dept", target="state"))
    assert session.account.budget.spent == trained.plan.charge > 0
    assert trained.card.facts["unit"] == "id"
    assert trained.reference.measurement["table"] == session.table.name
    again = make_trainer(noise=None, epsilon=1, account=session).train(session.records("age", "pay", "dept", target="state"))
    assert session.account.budget.spent == trained.plan.charge + again.plan.charge


def test_a_session_that_cannot_pay_reads_nothing(people, monkeypatch):
    session = open_people(people, epsilon=Fraction(1, 100))
    monkeypatch.setattr(type(session.engine), "read_records", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(BudgetExceeded):
        make_trainer(noise=None, epsilon=1).train(session.records("age", "pay", "dept", target="state"))
    assert session.account.budget.spent == 0


def test_columns_are_scaled_by_what_is_declared(tmp_path):
    session = open_people(write_people(tmp_path / "p.csv", 5, 1, odd="99,200,q,,nowhere\n"))
    declared = DeclaredRows(session.records("age", "pay", "dept", target="state"))
    features, targets = declared.read()
    assert declared.columns == ("age", "pay", "dept=a", "dept=b", "dept=c", "dept=other")
    order = torch.argsort(features[:, 0])
    assert targets[order].tolist() == [1, 0, 1, 0, 1, -1]  # one that is not declared counts for nothing
    assert features.abs().max() <= 1
    assert features[order[-1]].tolist() == [0.5, 0, 0, 0, 0, 1]
    assert features[order[0], 0].item() == pytest.approx((20 - 42) / 48, abs=1e-4)


def test_numbers_are_predicted_too(people):
    session = open_people(people)
    model = nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))
    trained = make_trainer(model, nn.MSELoss(reduction="none")).train(session.records("age", "dept", target="pay"))
    assert trained.cost.epsilon.upper > 0


@pytest.mark.parametrize(
    ("columns", "changes", "says"),
    [
        ({"target": None}, {}, "target"),
        ({"max_rows": 2}, {}, "max_rows"),
        ({}, {"sums": "float"}, "sums"),
    ],
)
def test_what_is_refused_costs_nothing(people, columns, changes, says):
    session = open_people(people)
    records = session.records("age", "pay", "dept", **({"target": "state"} | columns))
    with pytest.raises(BadParameter, match=says):
        make_trainer(**changes).train(records)
    assert session.account.budget.spent == 0


def test_targets_and_accounts_beside_records_are_refused(people):
    session, other = open_people(people), open_people(people)
    records = session.records("age", "pay", "dept", target="state")
    with pytest.raises(BadParameter, match="targets"):
        make_trainer().train(records, [1, 2])
    with pytest.raises(BadParameter, match="account"):
        make_trainer(account=other).train(records)
    with pytest.raises(BadParameter, match="shape"):
        make_trainer(nn.Linear(3, 2)).train(records)
    assert session.account.budget.spent == other.account.budget.spent == 0


def test_a_session_with_a_ledger_has_checkpoints_and_a_certificate(people, tmp_path):
    open_ledger(tmp_path / "ledger", create=True).open_account("ml", 3, 1e-6, Pure())
    session = connect(people, **POLICY, ledger=tmp_path / "ledger", account="ml")
    trainer = make_trainer(noise=None, epsilon=1, steps=2, every=1, resumes=1)
    trained = trainer.train(session.records("age", "pay", "dept", target="state"), checkpoint=tmp_path / "run.pt")
    certificate = trained.certify(load_key(tmp_path / "key"))
    assert certificate["guarantee"]["epsilon"] <= 1
    with pytest.raises(BadParameter, match="finished"):
        trainer.train(session.records("age", "pay", "dept", target="state"), checkpoint=tmp_path / "run.pt")


def test_frames_are_arrays():
    rows = np.random.default_rng(0).normal(size=(30, 3))
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    trained = make_trainer(nn.Linear(3, 2)).train(frame, pd.Series(np.arange(30) % 2))
    assert trained.cost.epsilon.upper > 0


# H7


@pytest.fixture
def without_noise(monkeypatch):
    monkeypatch.setattr(trainer_module, "_draw_noise", lambda plan, bits: np.zeros(plan.schedule.parameters, np.int64))


def sum_of_file(path: Path, **given: Any) -> list[int]:
    """The sum of one step over a file, in grid steps, to the float's precision."""
    torch.manual_seed(0)
    trainer = make_trainer(expected=1, clip=Fraction(1, 1000), max_rows=given.get("max_rows"))
    records = open_people(path, epsilon=99).records("age", "pay", "dept", target="state", **given)
    trained = trainer.train(records).model
    moved = [a - b for a, b in zip(trainer.model.parameters(), trained.parameters(), strict=True)]
    return [round(float(each) * 1000 * 2**GRID_BITS) for each in torch.cat([m.detach().double().flatten() for m in moved])]


def unit_moves_within_the_norm(tmp_path: Path, **given: Any) -> bool:
    """A person more, with three rows, moves the sum by at most the norm of one record."""
    sums = [sum_of_file(write_people(tmp_path / f"{n}.csv", n), **given) for n in (6, 7)]
    moved = norm_squared([a - b for a, b in zip(*sums, strict=True)])
    return 0 < moved <= BOUND * Fraction(11, 10)  # the weights are rounded floats


def test_a_person_with_several_rows_is_one_record(tmp_path, without_noise):
    assert unit_moves_within_the_norm(tmp_path)


def test_rows_taken_for_people_fail_the_law(tmp_path, without_noise, monkeypatch):
    """The mutant keeps all rows of a person at the price of one."""
    monkeypatch.setattr(SessionRecords, "_bound_units", lambda self, rows, table: [cells for _, cells in rows])
    assert not unit_moves_within_the_norm(tmp_path)


def test_several_records_of_a_unit_are_paid_as_a_group(tmp_path, without_noise):
    sums = [sum_of_file(write_people(tmp_path / f"{n}.csv", n), max_rows=2) for n in (6, 7)]
    moved = norm_squared([a - b for a, b in zip(*sums, strict=True)])
    assert BOUND * 2 < moved <= BOUND * 4 * Fraction(11, 10)
    one, two = (make_trainer(max_rows=rows).plan for rows in (1, 2))
    [(event, _)] = two.event.parts
    assert isinstance(event, Group)
    assert event.size == 2
    assert epsilon(two.event, 1e-7).upper > 1.9 * epsilon(one.event, 1e-7).upper


def test_rows_of_arrays_are_not_taken_for_the_units_of_a_session(people):
    session = open_people(people)
    rows, classes = np.zeros((40, WIDTH), np.float32), np.arange(40) % 2
    with pytest.raises(BadParameter, match=r"session\.records"):
        make_trainer(account=session).train(rows, classes)
    assert session.account.budget.spent == 0
    trained = make_trainer(account=session, max_rows=1, noise=None, epsilon=1).train(rows, classes)
    assert trained.reference.measurement["rows"] == "of arrays"
    assert "row" in make_trainer(noise=8).train(rows, classes).card.facts["unit"]
