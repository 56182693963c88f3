"""Synthetic rows from end to end: debits, records that are found again, bounds on contributions, files, publications."""

import json
from fractions import Fraction
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet import synthesize, synthesize_publication
from discreet.accounting.currencies import Zcdp
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed, QueryRefused, SourceQuarantined, SourceRefused
from discreet.events import ExponentialEvent, GaussianEvent, repeat
from discreet.ledger import open_ledger
from discreet.session.executor import Executor
from discreet.session.session import Session
from discreet.synthesis.adaptive import Round
from discreet.synthesis.cells import Cells
from discreet.synthesis.files import WARNING
from discreet.synthesis.synthesis import plan_synthesis
from discreet.tabulation.files import Measurements
from discreet.testing import seeded_bits

DEPTS, CITIES = ("a", "b", "c"), ("x", "y")
COLUMNS = ["dept", "city", "level"]
SLACK = Fraction(1, 10**9)
"""What an account rounds up."""
KEYS = {"dept": [*DEPTS], "city": [*CITIES], "level": ["low", "high"]}


def write_people(folder: Path, rows: int = 400) -> Path:
    rng = np.random.default_rng(7)
    lines = ["id,dept,city,level,age,w"]
    for i in range(rows):
        dept = rng.choice(DEPTS, p=[0.5, 0.3, 0.2])
        level = "high" if rng.random() < (0.9 if dept == "a" else 0.1) else "low"
        lines.append(f"{i},{dept},{rng.choice(CITIES)},{level},{rng.integers(18, 70)},{i % 4 / 2}")
    place = folder / "people.csv"
    place.write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path)


def connect(place: Path, **given: Any) -> Any:
    options: dict[str, Any] = {"unit": "id", "unique": True, "epsilon": 50, "delta": 1e-6, "keys": KEYS}
    return discreet.connect(str(place), **(options | given))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    place = tmp_path / "hr.ledger"
    open_ledger(place, create=True).open_account("hr", Fraction(6, 5), Fraction(1, 10**6), Zcdp())
    return place


def connect_ledger(place: Path, ledger: Path, **given: Any) -> Any:
    return connect(place, epsilon=None, delta=0, ledger=ledger, account="hr", **given)


def test_a_tree_is_one_debit_of_what_its_event_costs(people: Path) -> None:
    session = connect(people, currency="zcdp")
    plan = plan_synthesis(session, COLUMNS, epsilon=2)
    found = synthesize(session, COLUMNS, epsilon=2, bits=seeded_bits(1))
    assert plan.charge == discreet.zcdp(plan.synthesis.event)  # type: ignore[union-attr]
    assert plan.charge <= session.account.budget.spent <= plan.charge * (1 + SLACK)
    limit = Zcdp().amount(Fraction(2), session.delta)
    assert limit * (1 - Fraction(1, 1000)) <= plan.charge <= limit, "nearly all that ε buys, and no more"
    assert [table.margin for table in found.tables][:3] == [(0,), (1,), (2,)]
    assert len(found.tables) == 5
    assert found.tainted
    again = plan_synthesis(session, COLUMNS, epsilon=2)
    assert again.synthesis == plan.synthesis, "what was spent does not decide the plan: a retry finds it"


def test_the_rows_follow_the_data_where_noise_is_small(people: Path) -> None:
    found = synthesize(connect(people), COLUMNS, epsilon=50, rows=4000, bits=seeded_bits(3))
    frame = found.to_records()
    shares = [np.mean([row[2] == "high" for row in frame if row[0] == dept]) for dept in DEPTS]
    assert shares[0] > 0.8
    assert max(shares[1:]) < 0.25
    assert (0, 2) in [table.margin for table in found.tables], "the edge that depends most is chosen"


def test_a_ledger_returns_the_same_rows_and_charges_nothing(people: Path, ledger: Path) -> None:
    sessions = [connect_ledger(people, ledger) for _ in range(2)]
    first, again = (synthesize(session, COLUMNS, epsilon=1) for session in sessions)
    assert (first.charged, again.charged) == (True, False)
    assert (first.codes == again.codes).all()
    for one, other in zip(first.tables, again.tables, strict=True):
        assert (one.margin, one.noise) == (other.margin, other.noise)
        assert (one.values == other.values).all()
    drawn = synthesize(sessions[1], COLUMNS, epsilon=1, rows=77, seed=5)
    assert (len(drawn), drawn.charged) == (77, False), "drawing is free"
    assert (first.codes[:77] != drawn.codes).any()
    fresh = synthesize(sessions[0], ["dept"], epsilon=Fraction(1, 10))
    assert fresh.charged


def test_an_id_belongs_to_one_synthesis(people: Path, ledger: Path) -> None:
    session = connect_ledger(people, ledger)
    synthesize(session, COLUMNS, epsilon=Fraction(1, 2), id="mine")
    assert not synthesize(session, COLUMNS, epsilon=Fraction(1, 2), id="mine").charged
    with pytest.raises(BadParameter, match="its columns are others"):
        synthesize(session, COLUMNS[:2], epsilon=Fraction(1, 2), id="mine")


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The reads of the data."""
    reads: list[object] = []
    join = Cells.join.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(Cells, "join", classmethod(lambda cls, *given: reads.append(given) or join(cls, *given)))
    return reads


@pytest.mark.parametrize("model", ["tree", "adaptive"])
def test_a_budget_that_is_too_small_is_refused_before_a_row_is_read(
    people: Path, unread: list[object], model: str
) -> None:  # fmt: skip
    session = connect(people, epsilon=1, currency="zcdp")
    with pytest.raises(BudgetExceeded, match="would fit"):
        synthesize(session, COLUMNS, epsilon=2, model=model)
    assert session.account.budget.spent == 0
    assert not unread
    synthesize(session, COLUMNS, epsilon=1, model=model)
    assert len(unread) == 1, "the cells are read once"


def test_what_cannot_be_synthesized_is_refused_before_it_is_charged(people: Path, unread: list[object]) -> None:
    session = connect(people)

    def refuse(error: type[Exception], text: str, columns: Any = COLUMNS, **given: Any) -> None:
        with pytest.raises(error, match=text):
            synthesize(session, columns, **({"epsilon": 1} | given))

    refuse(QueryRefused, "keys of `age` are not declared", ["dept", "age"])
    refuse(QueryRefused, r"no column `salary`.*computed=", ["dept", "salary"])
    refuse(BadParameter, "columns is", [])
    refuse(BadParameter, "columns is", ["dept", "dept"])
    refuse(BadParameter, "computed is 'decade'", computed={"decade": "age // 10"})
    refuse(BadParameter, "model is 'forest'", model="forest")
    refuse(BadParameter, "rows is", rows=0)
    refuse(BadParameter, "rows is", rows="many")
    refuse(BadParameter, "seed is", seed=-1)
    refuse(BadParameter, "epsilon is", epsilon=0)
    with pytest.raises(BadParameter, match="session is"):
        synthesize(object(), COLUMNS, epsilon=1)  # type: ignore[arg-type]
    assert session.account.budget.spent == 0
    assert not unread


def test_computed_columns_and_conditions(people: Path) -> None:
    session = connect(people, bounds={"age": (18, 70)})
    found = synthesize(session, ["dept", "decade"], computed={"decade": "age // 10"}, where="age >= 40", epsilon=50)
    decades = [row[1] for row in found.to_records()]
    assert {*decades} <= {*range(1, 8)}
    assert np.mean([decade >= 4 for decade in decades]) > 0.95


# -- contributions --------------------------------------------------------------------------------------------------------


def write_visits(folder: Path, heavy: bool) -> Path:
    """Ten units with one row each, and one with rows in every cell, many of them."""
    lines = ["id,dept,city,level"] + [f"{i},a,x,low" for i in range(10)]
    if heavy:
        lines += [f"99,{dept},{city},{level}" for dept, city, level in product(*KEYS.values()) for _ in range(20)]
    place = folder / f"visits{heavy}.csv"
    place.write_text("\n".join(lines) + "\n")
    return place


@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (2, 3), (12, 2)])
def test_a_unit_with_many_rows_moves_tables_by_what_is_charged(tmp_path: Path, groups: int, rows: int) -> None:
    """The bound is reached, so k − 1 would be wrong."""
    tables: list[dict[tuple[int, ...], Any]] = []
    for heavy in (False, True):
        session = connect(write_visits(tmp_path, heavy), unique=False, max_groups=groups, max_rows=rows)
        plan = plan_synthesis(session, COLUMNS, epsilon=1)
        cells = Cells.join(plan.bounded.keys.sizes, session.engine.read_cells(plan.bounded))
        tables.append({margin: cells.table(margin) for margin in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))})
    k = groups * rows
    assert plan.synthesis.rows_per_unit == k
    changes = {margin: np.abs(tables[1][margin] - tables[0][margin]) for margin in tables[0]}
    assert {int(change.sum()) for change in changes.values()} == {k}
    for part, _ in plan.synthesis.event.parts:  # type: ignore[union-attr]
        if isinstance(part, GaussianEvent):
            assert part.sensitivity.l1 >= k
            assert part.sensitivity.l2_squared >= max(int((change**2).sum()) for change in changes.values())


def test_replacing_a_unit_moves_tables_and_scores_twice_as_far(people: Path) -> None:
    plans = [plan_synthesis(connect(people, neighbours=each), COLUMNS, epsilon=1) for each in ("add-remove", "replace")]
    parts: list[dict[type, Any]] = [{type(part): part for part, _ in plan.synthesis.event.parts} for plan in plans]
    assert [each[GaussianEvent].sensitivity.l2_squared for each in parts] == [1, 2]
    assert [each[GaussianEvent].sensitivity.l1 for each in parts] == [1, 2]
    rates = [each.synthesis.selection.rate for each in plans]
    epsilons = [each[ExponentialEvent].epsilon for each in parts]
    assert epsilons[0] / rates[0] * 2 == epsilons[1] / rates[1], "a score moves by 2k"
    assert [float(plan.charge) for plan in plans] == pytest.approx([float(plans[0].charge)] * 2, rel=1e-3)


# -- what an account is charged -------------------------------------------------------------------------------------------


def test_a_pure_account_is_charged_the_certified_curve(people: Path) -> None:
    session = connect(people, epsilon=1, currency="pure")
    found = synthesize(session, COLUMNS, epsilon=1)
    event = plan_synthesis(session, COLUMNS, epsilon=1).synthesis.event  # type: ignore[union-attr]
    assert found.cost is not None
    assert float(session.account.budget.spent) == pytest.approx(discreet.epsilon(event, 1e-6).upper)
    assert 0.99 < float(session.account.budget.spent) <= 1
    with pytest.raises(BadParameter, match="pure ε"):
        synthesize(connect(people, delta=0, currency="pure"), COLUMNS, epsilon=1)


@pytest.mark.parametrize("currency", ["gdp", "rdp(16)"])
def test_other_currencies_are_charged_their_sum(people: Path, currency: str) -> None:
    session = connect(people, epsilon=1, currency=currency)
    plan = plan_synthesis(session, COLUMNS, epsilon=1)
    synthesize(session, COLUMNS, epsilon=1)
    assert plan.charge <= session.account.budget.spent <= min(session.account.budget.limit, plan.charge * (1 + SLACK))


def range_pair(epsilon: float, upper: float) -> list[tuple[float, float]]:
    """The two outcomes of a selection whose loss is `upper` or `upper` − ε: probabilities with and without a unit."""
    q = (1 - exp(upper - epsilon)) / (exp(upper) - exp(upper - epsilon))
    return [(q * exp(upper), q), (1 - q * exp(upper), 1 - q)]


@pytest.mark.parametrize("x", [0.1, 0.5, 1.2])
def test_the_curve_of_selections_holds_if_each_is_chosen_by_the_answers_before(x: float) -> None:
    """All pairs of selections on a grid, the second depending on the outcome of the first. At small ε the worst of them is
    above the worst of those that are fixed before [DDR20], so a curve of these would not do; the certified one does."""
    pairs = np.array([range_pair(1.0, upper) for upper in np.linspace(0.02, 0.98, 49)])  # (selection, outcome, with/without)
    with_unit, without = (pairs[:, :, None, None, i] * pairs[None, None, :, :, i] for i in (0, 1))
    deltas = np.maximum(0, with_unit - exp(x) * without).sum(axis=3)  # first selection, its outcome, second selection
    adaptive, fixed = deltas.max(axis=2).sum(axis=1).max(), deltas.sum(axis=1).max()
    assert adaptive <= discreet.delta(repeat(ExponentialEvent(Fraction(1)), 2), x).upper
    assert adaptive >= fixed
    if x < 0.4:
        assert adaptive > 1.03 * fixed, "choosing by the answers spends more"


# -- the adaptive model ---------------------------------------------------------------------------------------------------


def test_every_round_is_a_debit_and_a_retry_is_free(people: Path, ledger: Path) -> None:
    session = connect_ledger(people, ledger)
    first = synthesize(session, COLUMNS, epsilon=1, model="adaptive", id="rows")
    rounds = len(first.tables) - len(COLUMNS)
    assert session.account.state.debits == 1 + rounds
    assert rounds >= 1
    spent = session.account.budget.spent
    assert spent <= Zcdp().amount(Fraction(1), session.delta)
    again = synthesize(connect_ledger(people, ledger), COLUMNS, epsilon=1, model="adaptive", id="rows")
    assert (first.charged, again.charged) == (True, False)
    assert (first.codes == again.codes).all()
    assert session.account.budget.spent == spent


def test_rounds_after_a_crash_continue_behind_the_last_recorded(
    people: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, runs = Round.run, list[int]()

    def fail_second(self: Round, *given: Any) -> Any:
        runs.append(1)
        if len(runs) == 2:
            raise KeyboardInterrupt
        return run(self, *given)

    monkeypatch.setattr(Round, "run", fail_second)
    session = connect_ledger(people, ledger)
    with pytest.raises(KeyboardInterrupt):
        synthesize(session, COLUMNS, epsilon=1, model="adaptive")
    assert session.account.state.debits == 3, "the third is charged and not answered"
    found = synthesize(connect_ledger(people, ledger), COLUMNS, epsilon=1, model="adaptive")
    assert session.account.state.debits == len(found.tables) - len(COLUMNS) + 1, "no round was charged twice"


@pytest.mark.parametrize("currency", ["pure", "gdp"])
def test_only_an_account_in_rho_pays_for_rounds(people: Path, currency: str) -> None:
    session = connect(people, currency=currency)
    with pytest.raises(BadParameter, match="only ρ of zCDP adds up"):
        synthesize(session, COLUMNS, epsilon=1, model="adaptive")
    assert session.account.budget.spent == 0


# -- failures -------------------------------------------------------------------------------------------------------------


def test_a_failure_is_charged_and_closes_the_source(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = connect(people)
    kind = type(session.engine)

    def fail(*_: Any) -> Any:
        raise EngineFailed

    monkeypatch.setattr(kind, "read_cells", fail)
    with pytest.raises(EngineFailed):
        synthesize(session, COLUMNS, epsilon=1)
    spent = session.account.budget.spent
    assert spent > 0
    with pytest.raises(SourceQuarantined):
        synthesize(session, COLUMNS, epsilon=1)
    assert session.account.budget.spent == spent


# -- files and publications -----------------------------------------------------------------------------------------------


def test_files_say_what_they_are(people: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    found = synthesize(connect(people), COLUMNS, epsilon=1)
    found.to_csv(tmp_path / "rows.csv")
    found.to_parquet(tmp_path / "rows.parquet")
    beside = json.loads((tmp_path / "rows.csv.json").read_text("utf-8"))
    inside = json.loads(parquet.read_schema(tmp_path / "rows.parquet").metadata[b"discreet"])
    assert beside == inside
    assert beside["warning"] == WARNING
    assert beside["distance"].startswith("With 95% confidence")
    assert "Adding or removing one id" in beside["guarantee"][0]
    assert "at δ = 1e-6" in beside["guarantee"][1]
    assert "remaining" not in json.dumps(beside), "what an account holds is not for readers of the rows"
    shown = repr(found)
    assert WARNING in shown
    assert "Cost: ε = " in shown


def test_a_publication_needs_neither_budget_nor_data(people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = connect(people)
    tables = discreet.tabulate(session, [("dept", "level"), ("city",), ()], epsilon=5)
    folder = tmp_path / "published"
    folder.mkdir()
    Measurements.of(tables).write(folder)
    spent = session.account.budget.spent
    people.unlink()

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is charged or read")

    monkeypatch.setattr(Executor, "execute", refuse)
    monkeypatch.setattr(Session, "__init__", refuse)
    found, again = (synthesize_publication(folder, rows=1000) for _ in range(2))
    assert session.account.budget.spent == spent
    assert (found.cost, found.charged) == (None, False)
    assert (found.codes == again.codes).all()
    assert found.names == ("dept", "level", "city")
    assert WARNING in repr(found)
    assert "guarantee of the publication" in found.guarantee[0]
    bounds = {margin: bound for each in found.bounds.tables for margin, bound in each.bounds.items()}  # type: ignore[union-attr]
    assert bounds[0, 1] < 0.2
    assert (0, 2) not in bounds, "no published table holds dept and city"
    assert (synthesize_publication(tables, rows=1000).codes == found.codes).all(), "the tabulation itself says the same"


def test_rows_of_a_conditional_publication_say_so(people: Path, tmp_path: Path) -> None:
    session = connect(people, neighbours="replace", invariants={"city": "The law says so."})
    folder = tmp_path / "published"
    folder.mkdir()
    tables = discreet.tabulate(session, [("dept", "level")], epsilon=5)
    Measurements.of(tables).write(folder)
    paid = discreet.synthesize(session, ["dept", "level"], epsilon=5, rows=10)
    for rows in (paid, synthesize_publication(tables, rows=10), synthesize_publication(folder, rows=10)):
        [said] = [note for note in rows.guarantee if note.startswith("Conditional: ")]
        assert "the same number of rows for each `city`" in said
        rows.to_csv(tmp_path / "rows.csv")
        assert said in json.loads((tmp_path / "rows.csv.json").read_text())["guarantee"]


def test_what_is_no_publication_is_refused(people: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="no such folder"):
        synthesize_publication(tmp_path / "none")
    with pytest.raises(SourceRefused):
        synthesize_publication(tmp_path)
    total = discreet.tabulate(connect(people), [()], epsilon=1)
    with pytest.raises(QueryRefused, match="no column"):
        synthesize_publication(total)
    weighed = discreet.tabulate(connect(people, bounds={"w": (0, 2)}), ["dept"], weight="w", epsilon=1)
    assert weighed.plan.step != 1
    with pytest.raises(QueryRefused, match="steps of"):
        synthesize_publication(weighed)


def test_seeded_noise_is_no_publication(people: Path) -> None:
    found = synthesize_publication(discreet.tabulate(connect(people), ["dept"], epsilon=1, bits=seeded_bits(1)))
    assert "tainted" in found.metadata


@pytest.mark.parametrize("unique", [True, False])
def test_notes_claim_the_limits_that_are_applied(tmp_path: Path, unique: bool) -> None:
    """Under `unique` no row is dropped: that a unit has one row is taken for granted."""
    path = tmp_path / "visits.csv"
    path.write_text("id,sex\n" + "1,f\n" * 15 + "2,m\n")
    session = connect(path, unique=unique, keys={"sex": ["f", "m"]}, epsilon=10**6)
    found = discreet.synthesize(session, ["sex"], epsilon=1000)
    assert len(found) == (16 if unique else 2)
    said = " ".join(repr(found).split())
    assert ("taken for granted" in said) == unique
    assert ("Limits" in said) != unique
