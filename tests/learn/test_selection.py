"""Selection among private fits: what it costs, that only the winner leaves, and that K is secret and exact."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet.accounting.currencies import Pure
from discreet.accounting.selection import NegativeBinomialRuns, PoissonRuns, Selection
from discreet.errors import BadParameter, BudgetExceeded
from discreet.learn import BinnedNB, KMeans, LinearRegression, Ridge, StandardScaler, select
from discreet.learn import selection as selection_module
from discreet.learn.charging import make_terms
from discreet.learn.metrics import UNIT
from discreet.learn.records import to_records
from discreet.learn.selection import count_padded_runs, declare_alike, find_job_mu, plan_jobs, run_jobs
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.noise import SYSTEM
from discreet.testing import seeded_bits
from discreet.units import Neighbours

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

FEW = PoissonRuns(4)


def make_data(n: int = 4000) -> tuple[Any, Any]:
    """Two classes that one bin cannot tell apart."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, n)
    return (y + generator.normal(0, 0.4, n))[:, None].clip(-2, 3), y


def make_candidates() -> list[BinnedNB]:
    """A useless setting and a good one."""
    return [BinnedNB(bounds=(-2, 3), classes=(0, 1), bins=bins) for bins in (1, 10)]


def plan(epsilon: float = 2, runs: Any = FEW, relation: Neighbours = Neighbours.ADD_REMOVE) -> Any:
    """Jobs with their noise, and the plan of the selection."""
    X, y = make_data(50)
    candidates = make_candidates()
    declared = declare_alike(candidates, to_records(X, y), None, relation)
    return plan_jobs(candidates, declared, make_terms(epsilon, 1e-6, None), None, "accuracy", runs)


@pytest.mark.parametrize("runs", [FEW, NegativeBinomialRuns(0, 0.1)])
def test_the_best_of_k_costs_no_more_than_was_asked_and_hardly_less(runs: Any) -> None:
    jobs, planned = plan(2, runs)
    independent = Selection(*(job.event for job in jobs), runs=runs).find_best_order(Fraction(1, 10**6)).epsilon
    assert independent <= planned.charge <= 2
    assert independent > 1.98
    single = max(Selection(job.event, runs=runs).find_best_order(Fraction(1, 10**6)).epsilon for job in jobs)
    assert single <= 2


def test_a_job_pays_for_its_score_too() -> None:
    """A mutant would leave the score out of the event of a job."""
    jobs, _ = plan()
    for job in jobs:
        assert len(job.event.parts) == len(job.plan.event.parts) + 1
        fit = sum(part.sensitivity.l2_squared / part.sigma**2 * times for part, times in job.plan.event.parts)
        whole = sum(part.sensitivity.l2_squared / part.sigma**2 * times for part, times in job.event.parts)
        assert abs(float(fit / whole) - 0.75) < 1e-3


def test_more_runs_leave_each_job_less() -> None:
    terms = make_terms(1, 1e-6, None)
    few, many = find_job_mu(terms, PoissonRuns(3)), find_job_mu(terms, PoissonRuns(30))
    assert 0 < many < few < 0.2367, "μ of one Gaussian at ε = 1"


def test_replacing_needs_more_noise() -> None:
    added, replaced = plan()[0][0].score_noise.sigma, plan(relation=Neighbours.REPLACE)[0][0].score_noise.sigma
    assert abs(float(replaced / added) - 2**0.5) < 1e-3


def test_the_better_setting_wins_and_only_it_leaves() -> None:
    X, y = make_data()
    account = MemoryAccount(create_budget(2, 1e-6, Pure()))
    options: Any = {"epsilon": 2, "delta": 1e-6, "account": account, "runs": FEW}
    found = select(make_candidates(), X, y, bits=seeded_bits(1), **options)
    assert found.candidate == 1
    assert found.model.bins == 10
    truth = (found.model.predict(X) == y).mean()
    assert found.score.lower <= truth <= found.score.upper
    assert set(found.model._fitted.released) == {"candidate", "fit", "score"}, "no table of runs, and not K"
    assert account.budget.remaining < Fraction(1, 20)
    with pytest.raises(BudgetExceeded):
        select(make_candidates(), X, y, **options)


class Fixed:
    """Bits of a test: a seeded stream, with K given."""

    def __init__(self, count: int) -> None:
        self.count = count

    def draw(self, bits: Any = None) -> int:
        """Return the number of runs of this test."""
        return self.count


def run(count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[int]]:
    """What leaves after so many runs, and how many jobs were run."""
    X, y = make_data(300)
    jobs, _ = plan()
    rows = to_records(X, y).read(jobs[0].declared.features, jobs[0].declared.target)
    monkeypatch.setattr(selection_module, "count_padded_runs", lambda runs: 7)
    made: list[int] = []
    original = selection_module.Job.run

    def record(self: Any, *given: Any) -> Any:
        made.append(self.model.bins)
        return original(self, *given)

    monkeypatch.setattr(selection_module.Job, "run", record)
    width = max(job.width for job in jobs)
    return run_jobs(jobs, Fixed(count), rows, SYSTEM, width, 2), made  # type: ignore[arg-type]


def test_no_run_leaves_what_no_record_determined(monkeypatch: pytest.MonkeyPatch) -> None:
    released, made = run(0, monkeypatch)
    assert [int(np.abs(each).sum()) for each in released.values()] == [0, 0, 0]
    assert len(made) == 7, "jobs are run all the same, and thrown away"


def test_time_tells_only_runs_beyond_the_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(run(3, monkeypatch)[1]) == 7


def test_runs_beyond_k_never_win_and_the_best_of_the_first_k_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant that takes the best of all jobs, also of those beyond K, or the last of the first K, is noticed."""
    shares = iter([3, 9, 5, 20, 30, 40, 50])

    def pretend(self: Any, rows: Any, bits: Any) -> Any:
        right = next(shares)
        return {"counts": np.full(self.shapes["counts"], right)}, np.array([right * UNIT, (100 - right) * UNIT])

    monkeypatch.setattr(selection_module, "count_padded_runs", lambda runs: 7)
    monkeypatch.setattr(selection_module.Job, "run", pretend)
    jobs, _ = plan()
    released = run_jobs(jobs, Fixed(3), None, SYSTEM, max(job.width for job in jobs), 2)  # type: ignore[arg-type]
    assert released["score"].tolist() == [9 * UNIT, 91 * UNIT]
    assert released["fit"][0] == 9


@pytest.mark.parametrize(
    "runs", [PoissonRuns(9), PoissonRuns(2), NegativeBinomialRuns(1, 0.1), NegativeBinomialRuns(0, 0.2)]
)
def test_the_padding_is_seldom_exceeded(runs: Any) -> None:
    limit = count_padded_runs(runs)
    beyond = sum(runs.draw(seeded_bits(seed)) > limit for seed in range(800))
    assert beyond <= 14  # of 800 at 1 in 200: more have a probability below 1 in 10,000


def test_regressions_and_clusters_are_selected_too() -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (3000, 1))
    y = 0.8 * x[:, 0] + generator.normal(0, 0.1, 3000)
    common: Any = {"bounds": (-1, 1), "target_bounds": (-1, 1), "expected": 3000, "steps": 5}
    found = select([LinearRegression(**common), Ridge(**common)], x, y, epsilon=4, delta=1e-6, runs=FEW)
    assert found.score.value > 0.5
    clusters = [KMeans(count, bounds=(-1, 1), expected=3000) for count in (1, 4)]
    chosen = select(clusters, x, epsilon=4, delta=1e-6, runs=FEW)
    assert chosen.model.cluster_centers_.shape[1] == 1


def test_what_cannot_be_selected_is_refused() -> None:
    X, y = make_data(20)
    with pytest.raises(BadParameter, match="candidates"):
        select([], X, y, epsilon=1, delta=1e-6)
    with pytest.raises(BadParameter, match="candidates"):
        select([StandardScaler(bounds=(-2, 3))], X, epsilon=1, delta=1e-6)
    other = BinnedNB(bounds=(-2, 4), classes=(0, 1))
    with pytest.raises(BadParameter, match="declares other columns"):
        select([make_candidates()[0], other], X, y, epsilon=1, delta=1e-6)
    with pytest.raises(BadParameter, match="metric"):
        select(make_candidates(), X, y, epsilon=1, delta=1e-6, metric="r2")
    with pytest.raises(BadParameter, match="kept in zcdp"):
        select(make_candidates(), X, y, epsilon=1, delta=1e-6, account=MemoryAccount(create_budget(1, 1e-6)))
