"""What `ask` says of a source and of a cost, everything that is charged as one plan says too."""

from fractions import Fraction
from pathlib import Path

import discreet
from discreet.session.session import Session
from discreet.synthesis.synthesis import plan_synthesis
from discreet.tabulation.plan import plan_tabulation
from discreet.tabulation.wanted import WantedTable
from discreet.workload.tabulations import publish_tables

INFERRED = "Column types were inferred from the file."


def connect(**options: object) -> Session:
    given = {"unit": "id", "epsilon": 1, "delta": 1e-6, "keys": {"dept": ["sales", "research", "legal"]}}
    return discreet.connect("examples/people.csv", **(given | options))  # type: ignore[arg-type, return-value]


def tell_why(notes: object) -> str:
    """The reason for another ε, without what it is the ε of."""
    [said] = [note for note in map(str, notes) if "was asked for" in note]  # type: ignore[call-overload]
    return str(said).partition(" is ε = ")[2]


def test_every_plan_says_what_a_query_says(tmp_path: Path) -> None:
    answer = connect().ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1)
    limits = "max_groups and max_rows are not declared"
    assert INFERRED in answer.explanation
    assert limits in answer.explanation
    tables, rows = discreet.tabulate(connect(), ["dept"], epsilon=1), discreet.synthesize(connect(), ["dept"], epsilon=1)
    for notes in (tables.list_notes(), tables.plan.list_notes(), rows.list_notes()):
        assert any(INFERRED in note for note in notes)
        assert any(limits in note for note in notes)
        assert tell_why(notes) == tell_why(answer.notes)
    assert tell_why(plan_synthesis(connect(), ["dept"], epsilon=1).list_notes()) == tell_why(answer.notes)
    published = publish_tables("examples/tables.toml", tmp_path / "people")
    assert INFERRED in (published.folder / "guarantee.md").read_text()


def test_a_policy_and_an_error_need_no_note() -> None:
    declared = connect(policy="examples/people.policy.toml")
    assert not any(INFERRED in note for note in plan_tabulation(declared, ["dept"], epsilon=1).list_notes())
    by_error = plan_tabulation(connect(epsilon=5), [WantedTable("dept", error=20)])
    assert by_error.terms.limit > 0
    assert not any("was asked for" in note for note in by_error.list_notes())


def test_a_weak_budget_is_told(tmp_path: Path) -> None:
    weak = connect(epsilon=50)
    assert weak.budget_warnings
    assert set(weak.budget_warnings) <= set(plan_tabulation(weak, ["dept"], epsilon=Fraction(1, 2)).list_notes())
    assert set(weak.budget_warnings) <= set(plan_synthesis(weak, ["dept"], epsilon=Fraction(1, 2)).list_notes())
