"""Choose among settings privately: whole jobs run a secret number of times, and only the best one leaves [LT19, PS22].

**Theory of operation.** A *job* draws one of the candidates at random, fits it, and releases a score of the fit on the same
records: both with noise, so the job has an event of its own. `select` draws K, runs K jobs afresh, and returns the fit with
the best score. Nothing else leaves: no other fit, no other score, not K.

**Proof.** `accounting.selection`: the best of K runs of a job has a Rényi curve that is known from the job's, the largest
over the candidates in either direction, if K is drawn exactly, stays secret, and the order of outputs is fixed. Here
outputs are compared by score, then by candidate, then by the released integers: a total order, which does not depend on the
records. With a Poisson K, K = 0 returns the first candidate fitted to sums that are all zero, which no record determined. ∎

Time could tell K. So at least as many jobs are run as K exceeds once in some hundred selections, and those beyond K are
thrown away: only a longer run than that shows in the time. Nothing here hides it beyond that.

Fitting with defaults costs ε once; selecting costs two to seven times the ε of one job, or leaves each job so much less.
Prefer settings that were found on public data, and this where there are none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, lgamma, log, prod
from typing import Any

import numpy as np

from discreet._numbers import Number, ceil_digits, sqrt_up, to_rational
from discreet.accounting.cost import Cost
from discreet.accounting.selection import NegativeBinomialRuns, PoissonRuns, Runs, Selection
from discreet.errors import BadParameter
from discreet.events import Composition, GaussianEvent, compose
from discreet.learn.charging import (
    SIGMA_DIGITS,
    Fit,
    FitPlan,
    Fitted,
    NoisyVector,
    Payer,
    Released,
    make_terms,
    read_neighbours,
    run_fit,
    to_plain,
)
from discreet.learn.estimator import Declaration, PrivateEstimator, find_payer
from discreet.learn.features import Ints
from discreet.learn.kmeans import KMeans
from discreet.learn.metrics import Evaluation, Metric
from discreet.learn.records import Records, Rows, to_records
from discreet.learn.scoring import require_own_scores
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import SYSTEM, Bits, uniform_below
from discreet.session.charging import ChargeTerms
from discreet.units import Neighbours, Sensitivity, to_sensitivity

SCORE_SHARE = Fraction(1, 4)
"""The share of a job's μ² for its score."""

RUNS_PER_CANDIDATE = 3
"""Mean runs, by default: each candidate is left out with probability e⁻³."""

STEPS_OF_SEARCH = 16
"""Halvings in the search for the noise of a job."""

LONGEST_SHARE = 0.005
"""How often K exceeds the runs that are always made."""

SMALLER_IS_BETTER = ("log_loss", "inertia")


@dataclass(frozen=True, eq=False)
class Selected:
    """The fit that won: the model, which candidate it was, its noisy score, and what the selection cost."""

    model: PrivateEstimator
    candidate: int
    score: Metric
    cost: Cost
    event: Composition

    def __repr__(self) -> str:
        return f"Selected(candidate={self.candidate}, model={self.model!r}, score={self.score})"


@dataclass(frozen=True)
class Job:
    """One candidate with its noise: fits, and scores the fit on the same records."""

    model: PrivateEstimator
    declared: Declaration
    plan: FitPlan
    score_noise: Gaussian
    metric: str
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def event(self) -> Composition:
        """The event of one run."""
        scored = self.score_noise.event(Sensitivity(l2_squared=self.score_vector.l2_squared))
        return compose(self.plan.event, scored)

    @cached_property
    def score_vector(self) -> NoisyVector:
        """The sums that the score is made of."""
        records = self.declared.records
        assert records is not None
        return self._evaluate(self.model, records).list_vectors(self.declared.neighbours)[0]

    def _evaluate(self, model: PrivateEstimator, records: Records) -> Evaluation:
        task = make_task(self.declared)
        return Evaluation(model, records, self.declared.features, self.declared.target, task, (self.metric,))  # type: ignore[arg-type]

    def fit(self, released: Released) -> PrivateEstimator:
        """Return the model that released sums give: post-processing."""
        model = self.model._copy()
        model._declared_features, model._declared_target = self.declared.features, self.declared.target
        model._show(self.declared, self.plan, released)
        return model

    def run(self, rows: Rows, bits: Bits) -> tuple[Released, Ints]:
        """Fit and score, both with noise."""
        released = self.model._release(self.declared, rows, self.plan.noises, bits)
        assert self.declared.records is not None
        evaluation = self._evaluate(self.fit(released), self.declared.records)
        vector = self.score_vector.name
        return released, evaluation.release(rows, {vector: self.score_noise}, bits)[vector]

    def show_score(self, sums: Ints, confidence: float = 0.95) -> Metric:
        """Return the score that its noisy sums give."""
        assert self.declared.records is not None
        evaluation = self._evaluate(self.model, self.declared.records)
        vector = self.score_vector
        plan = FitPlan((vector,), {vector.name: self.score_noise}, self.plan.terms, None, 0.0)
        found: Metric = evaluation.show(plan, {vector.name: sums}, confidence)[self.metric]
        return found

    @property
    def width(self) -> int:
        """How many integers a fit releases."""
        return sum(prod(shape) for shape in self.shapes.values())

    def flatten(self, released: Released, width: int) -> Ints:
        """Return what a fit released as one list of integers, filled up with zeros."""
        parts = [released[name].ravel() for name in sorted(self.shapes)]
        return np.pad(np.concatenate(parts), (0, width - self.width))

    def unflatten(self, flat: Ints) -> Released:
        """Return what `flatten` wrote."""
        released, start = {}, 0
        for name in sorted(self.shapes):
            size = prod(self.shapes[name])
            released[name], start = flat[start : start + size].reshape(self.shapes[name]), start + size
        return released


def make_task(declared: Declaration) -> str:
    """Return what a model predicts."""
    from discreet.learn.features import CategoryFeature

    if declared.target is None:
        return "clusters"
    return "classes" if isinstance(declared.target, CategoryFeature) else "numbers"


@dataclass(frozen=True)
class SelectionPlan(FitPlan):
    """The noise of all jobs, and the cost of the best of K."""

    selection: Selection

    @cached_property
    def event(self) -> Composition:
        """What a selection guarantees, at the δ of its account: only a Rényi curve is known, and this point of it."""
        return compose(self.selection.claim(self.terms.certified_delta))


def select(
    candidates: Sequence[PrivateEstimator],
    X: Any,
    y: Any = None,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    metric: str | None = None,
    runs: Runs | None = None,
    account: Payer = None,
    neighbours: Neighbours | str | None = None,
    bits: Bits | None = None,
    id: str | None = None,
) -> Selected:
    """Fit candidates chosen at random, a secret number of times, and return the one with the best noisy score: one debit.

    Candidates are unfitted models with the same declared columns and target; their own `epsilon` is not used. `metric` is
    "accuracy", "auc", "log_loss", "r2" or "inertia". `runs` says how K is drawn; by default it is Poisson with three runs
    for each candidate on average.

    >>> import numpy as np
    >>> from discreet.learn import BinnedNB
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 4000)
    >>> X = (np.where(y, 1, 1.2) * generator.normal(0, 1, 4000) ** 2)[:, None] + 3 * y[:, None]
    >>> settings = [BinnedNB(bounds=(0, 12), classes=(0, 1), bins=bins) for bins in (1, 12)]
    >>> found = select(settings, X, y, epsilon=3, delta=1e-6, bits=seeded_bits(1))
    >>> found.candidate, found.model.predict([[0.5], [5.0]]).tolist()
    (1, [0, 1])
    """
    records = to_records(X, y)
    payer = find_payer(records, account)
    terms = check_terms(make_terms(epsilon, delta, payer, "a selection"))
    relation = read_neighbours(neighbours, payer)
    law = PoissonRuns(max(RUNS_PER_CANDIDATE * len(candidates), 6)) if runs is None else runs
    declared = declare_alike(candidates, records, payer, relation)
    first = declared[0]
    records.check(first.features, first.target)
    chosen = choose_metric(metric, make_task(first))
    jobs, plan = plan_jobs(candidates, declared, terms, payer, chosen, law)
    width = max(job.width for job in jobs)
    sums = prod(next(iter(make_shapes(jobs[0]).values())))
    settings = {
        "class": "select", "metric": chosen, "runs": to_plain(str(law)),
        "candidates": [
            {"class": type(each).__name__} | {name: to_plain(value) for name, value in each._list_settings().items()}
            for each in candidates
        ],
    }  # fmt: skip

    def compute(rows: Rows, noises: Mapping[str, Gaussian], source: Bits) -> Released:
        return run_jobs(jobs, law, rows, source, width, sums)

    shapes = {"candidate": (1,), "score": (sums,), "fit": (width,)}
    fitted = run_fit(Fit(records, first.features, first.target, relation, settings, plan, compute, shapes), bits=bits, id=id)
    return show_selected(jobs, fitted)


def check_terms(terms: ChargeTerms) -> ChargeTerms:
    """Refuse an account that is not kept in ε with δ."""
    if terms.certified_delta:
        return terms
    raise BadParameter(
        "account", f"kept in {terms.currency.name}", "of a selection only (ε, δ) is known",
        'open the account with currency="pure" and a δ (discreet ledger open … --currency pure --delta 1e-6)',
    )  # fmt: skip


def declare_alike(
    candidates: Sequence[PrivateEstimator], records: Records, payer: Payer, relation: Neighbours
) -> list[Declaration]:
    """Return what each candidate declares, and refuse candidates that read other columns than the first."""
    if not candidates:
        raise BadParameter("candidates", "empty", "there is nothing to select", "give a list of models")
    found = []
    for each in candidates:
        require_own_scores(each, "candidates")
        declared = each._declare(records)
        found.append(
            Declaration(records, declared.features, declared.target, payer, relation, declared.expected, declared.max_rows)
        )
        if (declared.features, declared.target) != (found[0].features, found[0].target):
            raise BadParameter(
                "candidates", repr(each), "declares other columns or another target than the first", "declare them alike"
            )
    return found


def choose_metric(metric: str | None, task: str) -> str:
    """Return the score by which fits are compared."""
    known = {"classes": ("accuracy", "auc", "log_loss"), "numbers": ("r2",), "clusters": ("inertia",)}[task]
    chosen = known[0] if metric is None else metric
    if chosen not in known:
        raise BadParameter("metric", repr(metric), f"not a score of {task}", f"take {' or '.join(known)}")
    return chosen


def plan_jobs(
    candidates: Sequence[PrivateEstimator], declared: Sequence[Declaration], terms: ChargeTerms, payer: Payer, metric: str,
    runs: Runs,
) -> tuple[list[Job], SelectionPlan]:  # fmt: skip
    """Give every job its noise, so that the best of K costs no more than the limit."""
    mu = find_job_mu(terms, runs)
    while True:
        squared = Fraction(mu) ** 2
        jobs = [make_job(each, what, squared, terms, metric) for each, what in zip(candidates, declared, strict=True)]
        selection = Selection(*(job.event for job in jobs), runs=runs)
        noises = {f"{i}.{name}": each for i, job in enumerate(jobs) for name, each in job.plan.noises.items()}
        noises |= {f"{i}.score": job.score_noise for i, job in enumerate(jobs)}
        plan = SelectionPlan((), noises, terms, payer, mu, selection)
        if plan.charge <= terms.limit:
            return jobs, plan
        mu *= 1 - 1e-4


def make_job(model: PrivateEstimator, declared: Declaration, mu_squared: Fraction, terms: ChargeTerms, metric: str) -> Job:
    """Return a candidate with the noise that this μ² buys for its fit and its score."""
    vectors = model._list_vectors(declared)

    def calibrate(vector: NoisyVector, share: Fraction) -> Gaussian:
        sigma = sqrt_up(vector.l2_squared * vector.times / (share * mu_squared))
        return Gaussian(ceil_digits(sigma, SIGMA_DIGITS))

    noises = {each.name: calibrate(each, each.share * (1 - SCORE_SHARE)) for each in vectors}
    plan = FitPlan(tuple(vectors), noises, terms, declared.payer, float(mu_squared * (1 - SCORE_SHARE)) ** 0.5)
    sketch = Job(model, declared, plan, Gaussian(1), metric, dict(list_shapes(model, declared, noises)))
    noise = calibrate(sketch.score_vector, SCORE_SHARE)
    return Job(model, declared, plan, noise, metric, sketch.shapes)


def list_shapes(
    model: PrivateEstimator, declared: Declaration, noises: Mapping[str, Gaussian]
) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes of what a model releases; of some they depend on the noise."""
    if isinstance(model, KMeans):
        return model.list_shapes(declared, noises)
    return model._list_shapes(declared)


def find_job_mu(terms: ChargeTerms, runs: Runs) -> float:
    """Return about the largest μ of a job such that the best of K costs no more than the limit."""

    def fits(mu: float) -> bool:
        event = GaussianEvent(to_rational(1 / mu), to_sensitivity(1))
        return Selection(event, runs=runs).find_best_order(terms.certified_delta).epsilon <= terms.limit

    low, high = 0.0, 1.0
    while fits(high):
        low, high = high, 2 * high
    for _ in range(STEPS_OF_SEARCH):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0:
        raise BadParameter(
            "epsilon",
            float(terms.limit),
            "so many runs cost more, whatever the noise",
            "give a larger ε or δ, or fewer runs",
        )
    return low


def make_shapes(job: Job) -> Mapping[str, tuple[int, ...]]:
    """Return the shape of the sums of a score."""
    assert job.declared.records is not None
    return job._evaluate(job.model, job.declared.records).list_shapes()


def count_padded_runs(runs: Runs) -> int:
    """Return how many jobs are always run: K exceeds it in at most one of 200 selections.

    >>> count_padded_runs(PoissonRuns(9)), count_padded_runs(NegativeBinomialRuns(1, 0.1))
    (18, 51)
    """
    if isinstance(runs, PoissonRuns):
        mean = float(runs.mean)
        chances = [exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(ceil(4 * mean + 40))]
        return _find_tail(chances, 0)
    assert isinstance(runs, NegativeBinomialRuns)
    eta, gamma = float(runs.eta), float(runs.gamma)
    weights, weight = [], 1.0
    for k in range(1, ceil((20 + 4 * max(eta, 1.0)) / gamma)):
        weights.append(weight)
        weight *= (1 - gamma) * (k + eta) / (k + 1)
    return _find_tail([each / sum(weights) for each in weights], 1)


def _find_tail(chances: Sequence[float], first: int) -> int:
    """Return the least k that is exceeded with probability at most `LONGEST_SHARE`."""
    rest = 1.0
    for place, chance in enumerate(chances):
        rest -= chance
        if rest <= LONGEST_SHARE:
            return first + place
    return first + len(chances)


def run_jobs(jobs: Sequence[Job], runs: Runs, rows: Rows, bits: Bits | None, width: int, sums: int) -> Released:
    """Run the jobs and return the best of the first K; without any, what no record determined."""
    source = bits or SYSTEM
    count = runs.draw(source)
    best: tuple[Any, ...] | None = None
    for run in range(max(count, count_padded_runs(runs))):
        place = int(uniform_below(len(jobs), 1, source)[0])
        job = jobs[place]
        released, score = job.run(rows, source)
        flat = job.flatten(released, width)
        value = job.show_score(score).value
        output = (-value if job.metric in SMALLER_IS_BETTER else value, place, flat.tobytes(), score.tobytes())
        if run < count and (best is None or output > best):
            best = output
    if best is None:
        best = (0.0, 0, np.zeros(width, np.int64).tobytes(), np.zeros(sums, np.int64).tobytes())
    return {
        "candidate": np.array([best[1]], np.int64),
        "fit": np.frombuffer(best[2], np.int64),
        "score": np.frombuffer(best[3], np.int64),
    }


def show_selected(jobs: Sequence[Job], fitted: Fitted) -> Selected:
    """Return the winner from what was released."""
    place = int(fitted.released["candidate"][0])
    job = jobs[place]
    model = job.model.__sklearn_clone__()
    model._keep(job.declared, fitted)
    model._show(job.declared, job.plan, job.unflatten(fitted.released["fit"]))
    shape = next(iter(make_shapes(job).values()))
    score = job.show_score(fitted.released["score"].reshape(shape))
    return Selected(model, place, score, fitted.cost, fitted.event)
