"""examples/census: the figures that the Census Bureau published, invented people, and two ways to make tables of them."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from discreet.accounting.conversions import epsilon_from_zcdp, epsilon_from_zcdp_classic
from discreet.accounting.curve import epsilon
from discreet.accounting.zcdp import zcdp
from discreet.events import compose
from discreet.ledger.entries import privacy_unit_of
from discreet.tabulation.hierarchy_estimation import estimate_blocks
from discreet.testing import seeded_bits
from tests.support import console

FOLDER = Path(__file__).parent.parent.parent / "examples" / "census"
SHAPE = (2, 2, 2, 2, 3)


class Modules(NamedTuple):
    redistricting: ModuleType
    people: ModuleType
    compare: ModuleType
    plan: ModuleType


@pytest.fixture(scope="module")
def census() -> Iterator[Modules]:
    """The modules of the example, as its scripts import them."""
    sys.path.insert(0, str(FOLDER))
    try:
        import compare
        import people
        import plan
        import redistricting

        yield Modules(redistricting, people, compare, plan)
    finally:
        sys.path.remove(str(FOLDER))
        for name in Modules._fields:
            sys.modules.pop(name, None)


# -- accounting -------------------------------------------------------------------------------------------------------------

SIGMAS = {  # total, race, hispanic, hisp×race, age×race, age×hisp, age×hisp×race, detail
    "US": (None, 34.85, 49.29, 22.04, 22.04, 49.29, 11.95, 4.43),
    "State": (1.10, 27.57, 27.57, 19.50, 19.50, 27.57, 11.58, 4.45),
    "County": (2.17, 38.34, 38.34, 22.91, 22.91, 38.34, 12.06, 4.42),
    "Tract": (2.47, 34.60, 43.76, 2.23, 21.88, 43.76, 11.95, 4.46),
    "Block group": (1.75, 41.77, 41.77, 2.23, 24.11, 41.77, 14.77, 2.02),
    "Block": (89.24, 66.51, 89.24, 43.54, 43.54, 89.24, 23.68, 3.18),
}
PRINTED = ("total", "race", "hispanic", "hispanic × race", "voting age × race", "voting age × hispanic",
           "voting age × hispanic × race", "detail")  # fmt: skip


def test_schema_and_shares(census: Modules) -> None:
    facts = census.redistricting
    assert np.prod([*facts.COLUMNS.values()]) == 2016
    assert Fraction(293764, 114921) == facts.RHO
    assert sum(facts.LEVEL_SHARES.values()) == 1
    assert all(sum(shares.values()) == 1 for shares in facts.QUERY_SHARES.values())
    assert sum(map(len, facts.QUERY_SHARES.values())) == 65


def test_sigmas_are_those_of_the_published_allocation(census: Modules) -> None:
    found = census.redistricting.list_sigmas()
    for level, row in SIGMAS.items():
        shown = [None if query not in found[level] else float(f"{found[level][query]:.2f}") for query in PRINTED]
        assert shown == list(row)
        for query in ("voting age", "institution", "group quarters"):
            assert found[level][query] == found[level]["hispanic"]


def test_what_it_cost_by_three_theorems(census: Modules) -> None:
    facts = census.redistricting
    assert round(epsilon_from_zcdp_classic(facts.RHO, facts.DELTA), 4) == 17.9002
    assert round(epsilon_from_zcdp(facts.RHO, facts.DELTA), 4) == 17.1436
    assert round(epsilon_from_zcdp(facts.RHO, facts.DELTA), 2) == facts.PUBLISHED_EPSILON
    assert round(epsilon_from_zcdp(facts.UNITS_RHO, facts.DELTA), 2) == 2.47
    event = facts.make_event()
    begin = time.process_time()
    certified = epsilon(event, facts.DELTA)
    assert time.process_time() - begin <= 1
    assert 16.46514 <= certified.lower <= 16.46516 <= certified.upper <= 16.46517
    assert [*facts.compare_costs().values()] == sorted(facts.compare_costs().values(), reverse=True)


def test_the_event_is_what_the_allocation_says_and_mutants_are_found(census: Modules) -> None:
    facts = census.redistricting
    event = facts.make_event()
    assert sum(times for _, times in event.parts) == 65
    rho = Fraction(zcdp(event))
    assert rho <= facts.RHO  # σ was rounded up
    assert facts.RHO - rho < Fraction(1, 10**9)
    parts = [part for part, times in event.parts for _ in range(times)]
    without_one = compose(*parts[:-1])
    assert facts.RHO - Fraction(zcdp(without_one)) > Fraction(1, 100)
    assert epsilon(without_one, facts.DELTA).upper < 16.46514


# -- invented people --------------------------------------------------------------------------------------------------------


def test_people_are_invented_from_a_seed(census: Modules) -> None:
    invent = census.people.invent_people
    first, again, other = invent(3000, SHAPE, 1), invent(3000, SHAPE, 1), invent(3000, SHAPE, 2)
    assert np.array_equal(first.count_cells(), again.count_cells())
    assert not np.array_equal(first.count_cells(), other.count_cells())
    assert len(first.codes) == len(set(first.codes)) == np.prod(SHAPE)
    assert first.count_cells().shape == (np.prod(SHAPE), 2016)
    assert first.count_cells().sum() == 3000
    assert (first.count_cells().sum(axis=1) == 0).any()  # empty blocks are listed
    for name, size in census.redistricting.COLUMNS.items():
        assert first.columns[name].min() >= 0
        assert first.columns[name].max() < size


def test_an_impossible_shape_is_refused(census: Modules) -> None:
    for shape in [(2, 2), (0, 1, 1, 1, 1), (1, 1, 1, 10, 1)]:
        with pytest.raises(ValueError, match="states, counties"):
            census.people.list_codes(shape)


# -- two ways to make tables ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned(census: Modules, tmp_path_factory: pytest.TempPathFactory) -> Any:
    population = census.people.invent_people(4000, SHAPE)
    plan = census.compare.plan_census(population, tmp_path_factory.mktemp("census") / "people.parquet")
    return population.count_cells(), plan


def test_the_plan_has_the_noise_and_the_cost_of_the_bureau(census: Modules, planned: Any) -> None:
    facts, (_, plan) = census.redistricting, planned
    assert sum(map(len, plan.noises)) == 59  # institutions are in `hhgq`
    detail = tuple(range(4))
    for level, noises in zip(facts.LEVELS, plan.noises, strict=True):
        assert float(noises[detail].sigma) == pytest.approx(facts.list_sigmas()[level]["detail"], rel=1e-11)
    assert plan.cost.epsilon.upper == pytest.approx(16.4652, abs=0.01)  # some noise is rounded Gaussian
    assert plan.cost.epsilon.upper < facts.PUBLISHED_EPSILON


def test_blocks_display_their_cells_first_and_are_better_for_it(census: Modules, planned: Any) -> None:
    """The mutant: totals first on every level, also where they are known worse than cells."""
    cells, plan = planned
    assert plan.model.totals_first == (True, True, True, True, True, False)
    exact = census.compare.sum_levels(cells, plan)
    source = census.compare.InMemory(census.compare.draw_measurements(exact, plan, seeded_bits(3)))
    mutant = replace(plan.model)
    mutant.__dict__["totals_first"] = (True,) * 6
    errors = []
    for model in (plan.model, mutant):
        (block,) = (each for each in estimate_blocks(model, source) if (each.name, each.level) == ("detail", 5))
        errors.append([np.abs(block.display - exact[5]).sum(), np.abs((block.display - exact[5]).sum(axis=1)).sum()])
    assert errors[0][0] < 0.9 * errors[1][0]
    assert errors[0][1] < 0.9 * errors[1][1]


@pytest.mark.parametrize("exact_states", [False, True])
def test_top_down_adds_up_to_the_last_person(census: Modules, planned: Any, exact_states: bool) -> None:
    cells, plan = planned
    exact = census.compare.sum_levels(cells, plan)
    measured = census.compare.draw_measurements(exact, plan, seeded_bits(1))
    states = exact[1].sum(axis=1) if exact_states else None
    shown = census.compare.estimate_top_down(plan.model, measured, 4000, states)
    assert shown[0].sum() == 4000
    for level, below in enumerate(shown[1:], 1):
        assert below.min() >= 0
        above = np.add.reduceat(below, plan.model.spine.starts[level - 1][:-1], axis=0)
        assert np.array_equal(above, shown[level - 1])
    if exact_states:
        assert np.array_equal(shown[1].sum(axis=1), exact[1].sum(axis=1))


def test_estimates_are_unbiased_and_covered_and_displays_are_neither(census: Modules, planned: Any) -> None:
    """Least squares is unbiased and its intervals cover; what is nonnegative and adds up takes from large cells."""
    cells, plan = planned
    exact = census.compare.sum_levels(cells, plan)
    runs = [census.compare.draw_measurements(exact, plan, seeded_bits(seed)) for seed in range(12)]
    outcomes = {(each.table, each.level): each for each in census.compare.compare(plan, cells, runs)}
    assert len(outcomes) == 4 * 6
    for (table, level), each in outcomes.items():
        assert each.estimate_coverage >= 0.95 or table == "total", (table, level)
        assert each.estimate_rmse < each.half_width
    for level in census.redistricting.LEVELS:
        detail = outcomes["detail", level]
        assert abs(detail.estimate_bias) < 0.35 * abs(detail.top_down_bias)
        assert detail.top_down_bias < -0.2
        assert detail.top_down_rmse < detail.estimate_rmse
    assert outcomes["race", "US"].large_top_down_coverage < 0.6  # the interval does not hold around the display
    assert outcomes["race", "US"].estimate_rmse < outcomes["race", "US"].top_down_rmse


def test_the_script_charges_the_account_and_draws_a_page(
    census: Modules, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "comparison.svg"
    shape = [str(n) for n in (2, 1, 2, 1, 2)]
    census.compare.main(["--people", "500", "--shape", *shape, "--runs", "2", "--exact-states", "--to", str(page)])
    printed = capsys.readouterr().out
    assert "500 invented people" in printed
    assert "Cost: ε = 16.5 at δ = 1e-10" in printed
    assert "Conditional: this holds only among data sets with the same number of rows for each `state`" in printed
    assert page.read_text().startswith("<svg")


def test_exact_states_are_an_invariant_of_the_account(census: Modules, tmp_path: Path) -> None:
    population = census.people.invent_people(500, (1, 1, 2, 1, 2))
    plan = census.compare.plan_census(population, tmp_path / "people.parquet", {"state": census.compare.REASON})
    assert privacy_unit_of(plan.describe()).endswith("among data sets with the same number of rows for each `state`")
    with pytest.raises(Exception, match="without a reason"):
        census.compare.plan_census(population, tmp_path / "people.parquet", {"state": ""})


def test_the_plan_is_published_and_invariants_are_said(census: Modules, tmp_path: Path) -> None:
    plan = census.plan.write_census(tmp_path, 300, (2, 1, 1, 1, 2))
    plan.write_text(plan.read_text() + f'[invariants]\nstate = "{census.compare.REASON}"\n')
    done = console.run("publish", plan, "--to", tmp_path / "tables", "--yes")
    assert done.returncode == 0, done.stderr
    assert "59 tables are measured" in done.stdout
    page = (tmp_path / "tables" / "guarantee.md").read_text()
    assert "**among data sets with the same number of rows for each" in page
    assert census.compare.REASON.rstrip(".") in page
