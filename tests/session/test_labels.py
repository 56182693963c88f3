"""A label names the state of a source: answers under one label are not reused under another, and one account is charged."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import BadParameter
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.session.connect import connect
from discreet.workload import publish
from tests.support.console import run
from tests.support.schema3_ledger import COUNT, MEAN, PEOPLE, open_session


def test_another_label_is_another_measurement_in_the_same_account(schema3_ledger: str) -> None:
    spent = []
    rows = {}
    for label in (None, "2026-11", "2026-12", "2026-11", None):
        labelled = open_session(schema3_ledger, "hr", label=label)
        answer = labelled.ask(COUNT, epsilon=Fraction(1, 2))
        assert answer.reference is not None
        assert answer.reference.measurement.get("label") == label
        assert rows.setdefault(label, answer.rows) == answer.rows
        spent.append(labelled.account.budget.spent)
    cost = spent[1] - spent[0]
    assert cost > 0
    assert [each - spent[0] for each in spent] == [0, cost, 2 * cost, 2 * cost, 2 * cost]
    assert check_ledger(open_ledger(schema3_ledger)).is_valid


def test_every_step_belongs_to_its_label(folder: Path) -> None:
    """Discovered bounds and the count of a pilot of one month are not reused in the next."""
    for name, options in {"bounds": {"epsilon": 1}, "pilot": {"error": "20%", "pilot": Fraction(1, 4)}}.items():
        ledger = open_ledger(folder / name, create=True)
        ledger.open_account("hr", 50)
        bounds: Any = {"pay": "auto" if name == "bounds" else (0, 200)}
        for months, label in enumerate(("2026-11", "2026-12", "2026-11"), 1):
            month = open_session(str(folder / name), "hr", bounds=bounds, label=label)
            month.ask(MEAN, **options)
            assert ledger.get_account("hr").state.debits == 2 * min(months, 2)
        this, that = (open_session(str(folder / name), "hr", bounds=bounds, label=label) for label in ("2026-11", "2026-12"))
        this.ask(COUNT, epsilon=1, id="x")
        with pytest.raises(BadParameter, match="belongs to another measurement"):
            that.ask(COUNT, epsilon=1, id="x")


@pytest.mark.parametrize("wrong", ["", " 2026-11", "a\nb", 202611])
def test_what_is_no_label_is_refused(wrong: Any) -> None:
    with pytest.raises(BadParameter, match="label is"):
        connect(PEOPLE, unit="id", epsilon=1, label=wrong)


def test_a_label_on_the_command_line_and_in_a_plan(folder: Path) -> None:
    location = folder / "hr.ledger"
    open_ledger(location, create=True).open_account("hr", 9)
    common = ("ask", PEOPLE, COUNT, "--unit", "id", "--epsilon", 1, "--ledger", location, "--json")
    answers = [run(*common, "--label", label).stdout for label in ("2026-11", "2026-12", "2026-11")]
    values = [json.loads(each)["rows"] for each in answers]
    assert values[0] == values[2]
    assert open_ledger(location).get_account("hr").state.debits == 2
    assert run("quote", PEOPLE, COUNT, "--unit", "id", "--epsilon", 1, "--label", "2026-11").returncode == 0
    for number, label in enumerate(("2026-11", "2026-12", "2026-11")):
        (folder / "plan.toml").write_text(
            f'label = "{label}"\nsource = "{PEOPLE}"\nunit = "id"\n[budget]\nepsilon = 1\nledger = "{location}"\n'
            f'[questions.all]\nsql = "{COUNT}"\n'
        )
        published = publish(folder / "plan.toml", folder / str(number))
        assert published.free == (number == 2)
        assert f"labelled `{label}`" in (published.folder / "guarantee.md").read_text()
