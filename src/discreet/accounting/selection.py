"""Private selection: the Rényi divergence of the best of K runs, K being secret and random [LT19, PS22].

A *job* is private and returns an output with a score; here it may first choose one of several candidates at random, by
public weights. `select` runs it K times, afresh each time, and shows the output with the best score and nothing else: no
other output, no score of another run, not K, and not how long it took.

**Proof** of the two bounds. Let Q be the distribution of the job on one data set and Q' on a neighbour, over outputs in the
order of their scores, ties broken by a fixed rule; outputs of a computer are finitely many. With f(t) = E[t^K], the best is
at most y with probability f(Q(≤ y)), so for K ≥ 1 it is y with probability
    A(y) = f(Q(≤ y)) − f(Q(< y)) = Q(y)·E_s[f'(t_s)],  t_s = Q(< y) + s·Q(y), s uniform on [0, 1].
As (u, v) ↦ u^α·v^{1−α} is jointly convex,
    Σ_y A(y)^α·A'(y)^{1−α} ≤ Σ_y Q(y)^α·Q'(y)^{1−α}·E_s[f'(t_s)^α·f'(t'_s)^{1−α}]                                   (*)
with the same s on both sides. 1 − t_s is the probability of "above y, or y and a coin of bias 1 − s", a post-processing of
the job: every guarantee of the job holds for the coins 1 − t_s and 1 − t'_s, in both directions.

*Truncated negative binomial* (η > −1, 0 < γ < 1): f'(t) is proportional to g^{−1−η}, g = γ + (1−γ)(1−t), and rises to
f'(1) = E[K]. So f'(t)^α·f'(t')^{1−α} ≤ E[K]·(g'/g)^{(1+η)(α−1)}. The coins g and g' are post-processing too: for any order
β, g'^β·g^{1−β} ≤ e^{(β−1)·D_β(Q'‖Q)}, and g ≥ γ, so ln(g'/g) ≤ (1 − 1/β)·D_β + ln(1/γ)/β. Hence
    D_α(A‖A') ≤ D_α + (1+η)·((1 − 1/β)·D_β + ln(1/γ)/β) + ln(E[K])/(α−1)                              [PS22, Thm 2]
and, with α = β = ∞, (2+η)·ε for a job of pure ε.

*Poisson* (mean m): f'(t)^α·f'(t')^{1−α} = m·exp(m·((α−1)(1−t') − α(1−t))). If the job is (ε̂, δ̂)-private with
(α−1)·e^ε̂ ≤ α, then 1 − t' ≤ e^ε̂·(1−t) + δ̂ leaves at most m·e^{m(α−1)δ̂}, and the sum in (*) is at most m·e^{(α−1)(D_α + mδ̂)}
[PS22, Thm 6]. K = 0 has probability e^{−m} on either data set and shows a default that no data determined, so
    D_α(A‖A') ≤ ln(e^{−m} + m·e^{(α−1)(D_α + m·δ̂)})/(α−1),
the bound of the theorem with the default counted. Without it the bound is not proven, and for m < 1 it is false: it would be
negative for a job that reads no data.

*Candidates.* With weights w_i, and the name of the candidate as part of the output, e^{(α−1)D_α} of the job is
Σ w_i·e^{(α−1)D_i} and its δ(ε) is Σ w_i·δ_i(ε): at most the largest of each.

Only these bounds are known, so what a selection guarantees is a Rényi curve, and (ε, δ) by conversion; `claim` states it as
an event for an account. Tests compare the bounds with exact divergences of small jobs and with an independent computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from discreet._numbers import (
    Number,
    ceil_float,
    check_positive,
    check_probability,
    format_decimal,
    read_decimal,
    to_rational,
)
from discreet.accounting.conversions import epsilon_from_rdp
from discreet.accounting.elementary import exp_bounds, exp_neg_bounds, log_bounds
from discreet.accounting.neighbours import to_common_neighbours
from discreet.accounting.pure import pure
from discreet.accounting.renyi import ORDERS, BestOrder, renyi
from discreet.errors import BadParameter
from discreet.events import Claim, Event, check_event

if TYPE_CHECKING:
    from discreet.noise.bits import Bits


@dataclass(frozen=True, slots=True, init=False)
class NegativeBinomialRuns:
    """K ≥ 1 runs, P(k) ∝ (1−γ)^k·Π_{j<k} (j + η)/(j + 1): geometric at η = 1, logarithmic at η = 0.

    >>> NegativeBinomialRuns(1, 0.1).mean_bounds[0] == 10, NegativeBinomialRuns(gamma=0.1) == NegativeBinomialRuns(1, 0.1)
    (True, True)
    """

    eta: Fraction
    gamma: Fraction

    def __init__(self, eta: Number = 1, gamma: Number = Fraction(1, 10)) -> None:
        shape = read_decimal(eta, "eta")
        if not -1 < shape <= 100:
            raise BadParameter("eta", format_decimal(shape), "must lie above -1, and be at most 100", "give 0, 1 or 2")
        object.__setattr__(self, "eta", shape)
        object.__setattr__(self, "gamma", check_probability(read_decimal(gamma, "gamma"), "gamma"))

    @property
    def mean_bounds(self) -> tuple[Fraction, Fraction]:
        """E[K] between two rationals: η(1−γ)/(γ(1−γ^η)), and (1/γ − 1)/ln(1/γ) at η = 0."""
        eta, gamma = self.eta, self.gamma
        if eta == 1:
            return 1 / gamma, 1 / gamma
        logs = log_bounds(1 / gamma)
        if eta == 0:
            return (1 / gamma - 1) / logs[1], (1 / gamma - 1) / logs[0]
        # γ^η = e^{−η·ln(1/γ)}, and the quotient is monotone in it
        powers = [bound for end in logs for bound in exp_bounds(-eta * end)]
        ends = [eta * (1 - gamma) / (gamma * (1 - power)) for power in (min(powers), max(powers))]
        return min(ends), max(ends)

    def draw(self, bits: Bits | None = None) -> int:
        """Draw K exactly. It must stay secret, and so must the time that K runs take."""
        from discreet.noise.counts import truncated_negative_binomial  # accounting does without NumPy

        return int(truncated_negative_binomial(self.eta, self.gamma, 1, bits)[0])


@dataclass(frozen=True, slots=True, init=False)
class PoissonRuns:
    """K runs, Poisson with this mean. K may be 0: then a default is shown that does not depend on the data.

    >>> PoissonRuns(10).mean
    Fraction(10, 1)
    """

    mean: Fraction

    def __init__(self, mean: Number) -> None:
        object.__setattr__(self, "mean", check_positive(read_decimal(mean, "mean"), "mean"))

    def draw(self, bits: Bits | None = None) -> int:
        """Draw K exactly. It must stay secret, and so must the time that K runs take."""
        from discreet.noise.counts import poisson  # accounting does without NumPy

        return int(poisson(self.mean, 1, bits)[0])


Runs: TypeAlias = NegativeBinomialRuns | PoissonRuns
"""How the number of runs is drawn."""


@dataclass(frozen=True, slots=True, init=False)
class Selection:
    """The best of K runs of a job that chooses one of several candidates, each with its event, at random.

    >>> from discreet import Gaussian
    >>> job = Gaussian(10).event(1)
    >>> chosen = Selection(job, runs=NegativeBinomialRuns(eta=1, gamma=0.1))
    >>> print(chosen.find_best_order(1e-6))
    ε = 0.9004 at α = 54
    >>> Selection(job, runs=PoissonRuns(10)).find_best_order(1e-6).epsilon < chosen.find_best_order(1e-6).epsilon
    True
    """

    events: tuple[Event, ...]
    runs: Runs

    def __init__(self, *events: Event, runs: Runs) -> None:
        if not events:
            raise BadParameter("events", "missing", "a selection needs a job", "give the event of each candidate")
        for event in events:
            check_event(event)
        if not isinstance(runs, NegativeBinomialRuns | PoissonRuns):
            hint = "give NegativeBinomialRuns(eta, gamma) or PoissonRuns(mean)"
            raise BadParameter("runs", f"of type {type(runs).__name__}", "not a distribution of K", hint)
        object.__setattr__(self, "events", tuple(dict.fromkeys(to_common_neighbours(events))))
        object.__setattr__(self, "runs", runs)

    def renyi(self, order: Number) -> Fraction | float:
        """ε̄ such that the selection is (order, ε̄)-RDP, rounded up; order ∞ is pure ε, ∞ where there is none.

        >>> from discreet import Laplace
        >>> Selection(Laplace(2).event(1), runs=NegativeBinomialRuns(eta=1)).renyi(float("inf"))  # three times ½
        Fraction(3, 2)
        """
        if isinstance(order, float) and order == inf:
            return self._pure()
        exact = to_rational(order, "order")
        if exact <= 1:
            raise BadParameter("order", format_decimal(exact), "must exceed 1", "take an order above 1, or infinity")
        same = self._job_divergence(exact)
        if same == inf:
            return inf
        if isinstance(self.runs, PoissonRuns):
            return self._poisson(exact, to_rational(same), self.runs.mean)
        return to_rational(same) + self._least_ratio() + log_bounds(self.runs.mean_bounds[1])[1] / (exact - 1)

    def find_best_order(self, delta: Number) -> BestOrder:
        """Return the least ε at δ over the orders, by the conversion from RDP [CKS20, Prop. 12]; every ε tried is valid."""
        target = check_probability(delta, "delta")
        tried = [BestOrder(epsilon_from_rdp(order, self.renyi(order), target), order) for order in ORDERS]
        tried.append(BestOrder(ceil_float(self.renyi(inf)), inf))
        return min(tried, key=lambda best: best.epsilon)

    def claim(self, delta: Number) -> Claim:
        """Return the selection as an event for an account: its ε at δ, as a claim.

        >>> from discreet import Laplace
        >>> Selection(Laplace(20).event(1), runs=NegativeBinomialRuns()).claim(1e-6).delta
        Fraction(1, 1000000)
        """
        target = check_probability(read_decimal(delta, "delta"), "delta")
        epsilon = self.find_best_order(target).epsilon
        if epsilon == inf:
            raise BadParameter(
                "delta", format_decimal(target), "no ε holds at it", "give a larger δ, or jobs with more noise"
            )
        return Claim(Fraction(epsilon), target)

    def _pure(self) -> Fraction | float:
        most = max(pure(event) for event in self.events)
        if most == inf or isinstance(self.runs, PoissonRuns):
            return inf  # no bound on the ratio of Poisson tails is used
        return (2 + self.runs.eta) * to_rational(most)

    def _job_divergence(self, order: Fraction) -> Fraction | float:
        return max(_cached_renyi(event, order) for event in self.events)

    def _least_ratio(self) -> Fraction:
        """(1+η)·((1 − 1/β)·D_β + ln(1/γ)/β), the least over β ∈ {1, ORDERS, ∞}."""
        assert isinstance(self.runs, NegativeBinomialRuns)
        tail = log_bounds(1 / self.runs.gamma)[1]
        found = [tail]  # β = 1
        for order in map(Fraction, ORDERS):
            divergence = self._job_divergence(order)
            if divergence != inf:
                found.append((1 - 1 / order) * to_rational(divergence) + tail / order)
        most = max(pure(event) for event in self.events)
        found += [] if most == inf else [to_rational(most)]
        return (1 + self.runs.eta) * min(found)

    def _poisson(self, order: Fraction, same: Fraction, mean: Fraction) -> Fraction:
        point = max(Fraction(0), log_bounds(order / (order - 1))[0])  # e^ε̂ ≤ 1 + 1/(α − 1)
        exponent = (order - 1) * (same + mean * max(_cached_delta(event, point) for event in self.events))
        exponent += log_bounds(mean)[1]
        # ln(e^{−m} + e^x) = x + ln(1 + e^{−m−x}), or the same around −m
        top, gap = max(exponent, -mean), abs(exponent + mean)
        return max(Fraction(0), top + log_bounds(1 + exp_neg_bounds(gap)[1])[1]) / (order - 1)


@lru_cache(maxsize=1 << 12)
def _cached_renyi(event: Event, order: Fraction) -> Fraction | float:
    return renyi(event, order)


@lru_cache(maxsize=1 << 12)
def _cached_delta(event: Event, epsilon: Fraction) -> Fraction:
    from discreet.accounting.curve import delta  # the curve needs NumPy

    return Fraction(delta(event, epsilon).upper)
