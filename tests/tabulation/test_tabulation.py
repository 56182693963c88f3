"""Tabulations from end to end: one debit, tables that add up, intervals that cover, records that are found again."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.accounting.currencies import Zcdp
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed, QueryRefused, SourceQuarantined
from discreet.events import Composition
from discreet.ledger import open_ledger
from discreet.tabulation.plan import plan_tabulation
from discreet.tabulation.tabulation import Tabulation, tabulate
from discreet.tabulation.wanted import WantedTable
from discreet.testing import seeded_bits

DEPTS, CITIES = ("a", "b", "c"), ("x", "y")
TABLES = [("dept", "city"), "dept", "city", ()]


def write_people(folder: Path, rows: int = 600) -> Path:
    rng = np.random.default_rng(7)
    lines = ["id,dept,city,w,age"]
    for i in range(rows):
        dept, city = rng.choice(DEPTS, p=[0.6, 0.3, 0.1]), rng.choice(CITIES)
        lines.append(f"{i},{dept},{city},{rng.integers(0, 5)},{rng.integers(18, 70)}")
    place = folder / "people.csv"
    place.write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path)


def connect(place: Path, **given: Any) -> Any:
    options: dict[str, Any] = {
        "unit": "id", "unique": True, "epsilon": 50, "delta": 1e-6, "keys": {"dept": [*DEPTS], "city": [*CITIES]},
        "bounds": {"w": (0, 5), "age": (18, 70)},
    }  # fmt: skip
    options |= given
    return discreet.connect(str(place), **options)


def exact_counts(place: Path) -> dict[tuple[str, str], int]:
    counts = {(dept, city): 0 for dept in DEPTS for city in CITIES}
    for line in place.read_text().splitlines()[1:]:
        _, dept, city, *_ = line.split(",")
        counts[dept, city] += 1
    return counts


def test_all_tables_add_up_and_displays_to_the_last_unit(people: Path) -> None:
    found = tabulate(connect(people), TABLES, epsilon=1)
    fine = found["dept_city"]
    for name, axis in (("dept", 1), ("city", 0)):
        np.testing.assert_allclose(fine.estimate.sum(axis=axis), found[name].estimate, atol=1e-8)
        assert fine.display is not None
        assert (fine.display.sum(axis=axis) == found[name].display).all()
    np.testing.assert_allclose(fine.estimate.sum(), found["total"].estimate, atol=1e-8)
    assert fine.display is not None
    assert fine.display.sum() == found["total"].display
    assert (fine.display >= 0).all()


def test_one_debit_is_what_the_curve_says(people: Path) -> None:
    session = connect(people, currency="zcdp")
    found = tabulate(session, TABLES, epsilon=1)
    assert isinstance(found.plan.event, Composition)
    squares = sum(1 / noise.sigma**2 for noise in found.plan.noises.values())
    assert session.account.budget.spent == found.plan.charge
    assert found.plan.charge == pytest.approx(float(squares / 2), rel=1e-12), "ρ = Σ 1/2σ² for one row"
    assert discreet.epsilon(found.plan.event, 1e-6).upper <= 1


def test_replacing_costs_twice_as_much_for_the_same_noise(people: Path) -> None:
    plans = [plan_tabulation(connect(people, neighbours=each), TABLES, epsilon=1) for each in ("add-remove", "replace")]
    rho = [float(sum(parts[0].sensitivity.l2_squared / parts[0].sigma ** 2 for parts in plan.event.parts)) for plan in plans]
    sums = [float(sum(1 / noise.sigma**2 for noise in plan.noises.values())) for plan in plans]
    totals = [float(1 / plan.noises[()].sigma ** 2) if () in plan.noises else 0.0 for plan in plans]
    assert rho[0] == pytest.approx(sums[0])
    assert rho[1] == pytest.approx(2 * (sums[1] - totals[1]) + totals[1]), "one number moves by one row"


@pytest.mark.parametrize("sigma_scale", [1, 30])
def test_intervals_cover_the_exact_counts(people: Path, sigma_scale: int) -> None:
    """The whole road, 2,000 times; at ε = 50 σ is below 1. The share of the cells that one run covers is a number in [0, 1]
    with mean at least 0.95, independent of other runs: by Hoeffding its mean over n = 2,000 runs is below 0.95 − t with
    probability e^(−2nt²), 1e-9 at t = 0.072. `test_intervals` judges the half-widths themselves more closely."""
    session = connect(people, epsilon=10**6)
    plan = plan_tabulation(session, TABLES, epsilon=Fraction(50, sigma_scale))
    exact = exact_counts(people)
    truth = np.array([[exact[dept, city] for city in CITIES] for dept in DEPTS])
    truths = {"dept_city": truth, "dept": truth.sum(axis=1), "city": truth.sum(axis=0), "total": truth.sum()}
    covered = []
    measured = dict.fromkeys(plan.noises)
    from discreet.tabulation.measuring import sum_cells

    exact_tables = sum_cells(session.engine.read_cells(plan.wanted.bounded), plan.sizes, measured)
    for run in range(2000):
        bits = seeded_bits(run)
        noisy = {margin: noise.release(exact_tables[margin].copy(), bits) for margin, noise in plan.noises.items()}
        tables = Tabulation(plan, noisy, None, True).tables  # type: ignore[arg-type]
        inside = [((each.lower <= truths[name]) & (truths[name] <= each.upper)).ravel() for name, each in tables.items()]
        covered.append(np.concatenate(inside).mean())
    assert np.mean(covered) >= 0.95 - 0.0721


def test_a_wanted_error_is_met_at_the_least_cost(people: Path) -> None:
    wanted = [WantedTable(("dept", "city"), error=20), WantedTable(("dept",), error=25)]
    plan = plan_tabulation(connect(people), wanted)
    widths = [plan.half_width(margin) for margin in plan.wanted.margins]
    assert widths[0] <= 20
    assert widths[1] <= 25
    assert max(widths[0] / 20, widths[1] / 25) > 0.995, "no more noise would do"


@pytest.mark.parametrize("kind", [int, float, Fraction, Decimal, np.float64, np.int64])
def test_numbers_of_any_kind_are_the_same_number(people: Path, kind: Any) -> None:
    expected = plan_tabulation(connect(people), [WantedTable("dept", weight=2), WantedTable("city")], epsilon=1)
    found = plan_tabulation(connect(people), [WantedTable("dept", weight=kind(2)), WantedTable("city")], epsilon=kind(1))
    assert found.noises == expected.noises


def test_weights_of_rows_are_added_up(people: Path) -> None:
    found = tabulate(connect(people), ["dept"], weight="w", epsilon=50)["dept"]
    sums = dict.fromkeys(DEPTS, 0)
    for line in people.read_text().splitlines()[1:]:
        _, dept, _, weight, _ = line.split(",")
        sums[dept] += int(weight)
    assert [*sums.values()] == pytest.approx(found.estimate, abs=6 * found.sd)


def test_sql_says_the_same_as_a_list(people: Path) -> None:
    query = "SELECT dept, city, COUNT(*) AS n FROM people GROUP BY CUBE(dept, city)"
    plans = [plan_tabulation(connect(people), tables, epsilon=1) for tables in (query, TABLES)]
    assert plans[0].noises == plans[1].noises
    assert [table.name for table in plans[0].wanted.tables] == ["dept_city", "dept", "city", "total"]


def test_a_ledger_returns_what_it_recorded_and_charges_nothing(people: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "hr.ledger"
    open_ledger(ledger, create=True).open_account("hr", Fraction(6, 5), Fraction(1, 10**6), Zcdp())
    sessions = [connect(people, epsilon=None, delta=0, ledger=ledger, account="hr") for _ in range(2)]
    first, again = (tabulate(session, TABLES, epsilon=1) for session in sessions)
    assert (first.charged, again.charged) == (True, False)
    for name in first:
        assert (first[name].estimate == again[name].estimate).all()
    other = tabulate(sessions[0], TABLES[:2], epsilon=Fraction(1, 2))
    assert other.charged
    with pytest.raises(BudgetExceeded):
        tabulate(sessions[0], TABLES[:3], epsilon=1)


def refused_cases() -> Iterator[tuple[dict[str, Any], Any, str]]:
    yield {}, [], "no table is wanted"
    yield {}, ["dept", "dept"], "two tables have this name"
    yield {}, ["pay"], "no column `pay`"
    yield {"keys": {"dept": [*DEPTS]}}, ["city"], "keys of `city` are not declared"
    yield {}, [WantedTable(("dept",), error=5), WantedTable(("city",))], "errors or by weights, not by both"
    yield {}, "SELECT AVG(w) AS m FROM people GROUP BY CUBE(dept)", "do not add up"
    yield {"delta": 0}, ["dept"], "Gaussian noise, which has no pure"


@pytest.mark.parametrize(("given", "tables", "said"), [*refused_cases()])
def test_what_cannot_be_tabulated_is_refused_before_any_charge(
    people: Path, given: dict[str, Any], tables: Any, said: str
) -> None:
    session = connect(people, **given)
    with pytest.raises((BadParameter, QueryRefused), match=said.replace("`", ".")):
        tabulate(session, tables, epsilon=1)
    assert session.account.budget.spent == 0


def test_several_rows_of_a_unit_are_bounded_once_for_all_tables(tmp_path: Path) -> None:
    """A unit with 30 rows in three departments keeps two cells and one row in each, in every table alike."""
    place = tmp_path / "people.csv"
    rows = [f"{unit},{dept},{city}" for unit in range(40) for dept in DEPTS for city in CITIES for _ in range(5)]
    place.write_text("\n".join(["id,dept,city", *rows]) + "\n")
    session = discreet.connect(
        str(place),
        unit="id",
        max_groups=2,
        max_rows=1,
        epsilon=10**6,
        delta=1e-6,
        keys={"dept": [*DEPTS], "city": [*CITIES]},
    )
    plan = plan_tabulation(session, TABLES, epsilon=1000)
    assert plan.wanted.bounded.max_change == 2
    found = tabulate(session, TABLES, epsilon=1000)
    assert found["total"].estimate == pytest.approx(80, abs=2)
    assert found["dept"].estimate.sum() == pytest.approx(80, abs=2)


def test_a_failure_is_charged_and_closes_the_source(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for queries: whether the rows could be read is one bit about them, so it is paid for and cannot be asked again."""
    session = connect(people)

    def fail(*_: Any, **__: Any) -> Any:
        raise EngineFailed

    monkeypatch.setattr(type(session.engine), "read_cells", fail)
    with pytest.raises(EngineFailed):
        tabulate(session, ["dept"], epsilon=1)
    assert session.account.budget.spent > 0
    monkeypatch.undo()
    with pytest.raises(SourceQuarantined):
        tabulate(session, ["city"], epsilon=1)


@pytest.mark.parametrize(
    ("tables", "options", "said"),
    [
        (5, {}, "tables is of type int"),
        (["dept", {"city": 1}], {}, "not the columns of a table"),
        (["dept", "q"], {"columns": {"q": "age +"}}, "'q': 'age [+]': not an expression"),
        (["dept"], {"columns": {"q": "age // 10"}}, "columns is 'q': no table is by it"),
        (["dept"], {"columns": {"dept": "age // 10"}}, "would be hidden"),
        ({"a": "dept", "A": "city"}, {}, "on some disks"),
        (["Display"], {"columns": {"Display": "age // 10"}}, "every table has a column of this name"),
        (["q"], {"columns": {"q": "agee // 10"}}, "^columns is 'q': 'agee // 10': The column"),
    ],
)
def test_each_refusal_is_about_what_was_written(people: Path, tables: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        tabulate(connect(people), tables, epsilon=1, **options)


def test_a_refusal_of_errors_is_in_epsilon(people: Path) -> None:
    with pytest.raises(QueryRefused, match="and ε = 1 is given"):
        plan_tabulation(connect(people), [WantedTable("dept", error=3)], epsilon=1)
    with pytest.raises(QueryRefused, match="and ε = 50 is given"):
        plan_tabulation(connect(people), [WantedTable("dept", error=Fraction(1, 1000))])


def test_a_row_with_an_undeclared_key_counts_in_no_table_and_notes_say_so(people: Path) -> None:
    counts, session = exact_counts(people), connect(people, keys={"dept": [*DEPTS], "city": ["x"]}, epsilon=5000)
    found = tabulate(session, ["dept", "city", ()], epsilon=4000)  # the noise is 0 nearly surely
    kept = [counts[dept, "x"] for dept in DEPTS]
    assert found["dept"].estimate.round().tolist() == kept
    assert found["total"].estimate.round() == sum(kept)
    assert "a key that is not declared, in any column of the tables, counts in no table" in found.list_notes()[0]
    assert "not declared" not in tabulate(session, [()], epsilon=1).list_notes()[0]  # no column, so all rows count


def test_a_weight_that_buys_nothing_is_named(people: Path) -> None:
    light = WantedTable("dept", weight=1e-30)
    assert (
        "The weight of dept is so small"
        in plan_tabulation(connect(people), [WantedTable(()), light], epsilon=1).list_notes()[0]
    )
    assert not any("weight" in note for note in plan_tabulation(connect(people), ["dept", ()], epsilon=1).list_notes())


def find_wrong_cvs(found: Tabulation) -> list[str]:
    """List the printed cells whose coefficient of variation is not 100·sd/estimate to two digits, or is there below 0."""
    wrong = []
    for table in found.values():
        header, *lines = table.list_lines()
        place = header.split().index("cv") - len(header.split())
        for line, estimate in zip(lines, table.estimate.ravel().tolist(), strict=True):
            shown = [each for each in line.split() if each.endswith("%")]
            expected = 100 * table.sd / estimate if estimate > 0 else None
            is_right = (
                not shown
                if expected is None
                else len(shown) == 1
                and (
                    abs(float(shown[0].rstrip("%").replace(",", "")) / expected - 1) <= 0.05
                    and line.split()[place] == shown[0]
                )
            )
            wrong += [] if is_right else [line]
    return wrong


def test_printed_tables_have_coefficients_of_variation(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tabulate(connect(people), TABLES, epsilon=0.05)
    assert not find_wrong_cvs(found)
    monkeypatch.setattr("discreet.tabulation.tables.format_cv", lambda estimate, sd: f"{100 * sd / abs(estimate) / 2:.2g}%")
    assert find_wrong_cvs(found)
