"""What ε and δ mean, and what they do not."""

from collections.abc import Sequence
from fractions import Fraction
from math import exp, log

from discreet._numbers import Number
from discreet.accounting.basic import Point
from discreet.accounting.risk import advantage
from discreet.accounting.textbook import group_privacy, outcome_range, parallel_composition
from discreet.events import Claim
from discreet.lab.exercises.solution import Solution
from discreet.mechanisms import Laplace
from discreet.mechanisms.unsafe import NameAndShame
from discreet.testing import seeded_bits
from discreet.units import Neighbours

LN_FIVE_QUARTERS = log(1.25)


def outcomes(epsilon: Number = LN_FIVE_QUARTERS, probabilities: Sequence[float] = (0.2, 0.5)) -> Solution:
    """What P'(E) can be, given P(E) and ε.

    >>> outcomes().answer
    'P = 0.2 → [0.16, 0.25]; P = 0.5 → [0.4, 0.6]'
    """
    ranges = {p: outcome_range(epsilon, p) for p in probabilities}
    shown = "; ".join(f"P = {p:g} → [{r.lower:.4g}, {r.upper:.4g}]" for p, r in ranges.items())
    return Solution(
        ("E is bounded by e^ε·P and e^−ε·P; so is its complement, and the tighter of the two counts.",
         f"e^ε = {exp(epsilon):.4g}"),
        shown,
        {f"P = {p:g}": [r.lower, r.upper] for p, r in ranges.items()},
    )  # fmt: skip


def cells(epsilon: Number = 1, genders: int = 2, colours: int = 4) -> Solution:
    """Counts by gender and hair colour: the cells are disjoint parts of the people."""
    cell = Point(Fraction(epsilon), Fraction(0))
    every = [cell] * (genders * colours)
    comes, moves = (
        parallel_composition(*every),
        parallel_composition(*every, neighbours=Neighbours.REPLACE, inside=Point(Fraction(0), Fraction(0))),
    )
    return Solution(
        (f"{len(every)} counts, each {float(epsilon):g}-private; one person is in one cell",
         f"adding up would say {float(epsilon) * len(every):g}"),
        f"{float(comes.epsilon):g} if a person comes or goes, {float(moves.epsilon):g} if one is replaced",
        {"cells": len(every), "add or remove": float(comes.epsilon), "replace": float(moves.epsilon)},
    )  # fmt: skip


def rules_of_thumb(n: int = 10_000) -> Solution:
    """Why ε = 0.1 is strong, 1 good, 1/n useless, and why δ is far below 1/n."""
    edge = {eps: advantage(Claim(Fraction(eps), Fraction(0))).upper for eps in (0.1, 1.0, 10.0)}
    whole_table = group_privacy(Point(Fraction(1, n), Fraction(0)), n)
    useless = advantage(Claim(Fraction(whole_table.epsilon), Fraction(0))).upper
    exposed = {name: NameAndShame(delta).expected_exposures(n) for name, delta in _deltas(n).items()}
    return Solution(
        (*(f"ε = {eps:g}: whoever guesses who took part has at most {by:.4g} more hits than false alarms"
           for eps, by in edge.items()),
         f"ε = 1/n: all {n:,} people replaced cost ε = {float(whole_table.epsilon):g}; any two tables at all are told apart "
         f"with an advantage of {useless:.3f} at most, so nothing can be learned",
         *(f"δ = {name}: naming each person with probability δ is allowed, and exposes {people:g} of them on average"
           for name, people in exposed.items())),
        "ε of 0.1 to 1, above 1/n; δ at most 1/n²",
        {"advantage": {f"{eps:g}": by for eps, by in edge.items()}, "between any two tables": useless, "exposed": exposed},
    )  # fmt: skip


def _deltas(n: int) -> dict[str, Fraction]:
    return {"1/n": Fraction(1, n), "1/n²": Fraction(1, n * n)}


def no_promise(epsilon: float = 0.5, n: int = 10_000) -> Solution:
    """A study finds that smokers fall ill. What Anna, who smokes, is spared by privacy, and what she is not."""
    noise = Laplace.for_epsilon(epsilon, sensitivity=1)
    ill = 3 * n // 10
    with_her, without_her = (noise.release(people, seeded_bits(31)) / n for people in (ill + 1, ill))
    return Solution(
        ("Before the study everybody took a smoker's risk for 1%.",
         f"After it: {with_her:.4f} if Anna took part, {without_her:.4f} if she did not.",
         f"Her taking part changed what anybody learns by a factor of e^{epsilon:g} at most; the study changed her risk, "
         "and her premium, thirtyfold. If her smoking was known before, it still is.",
         "Whether the study should be made at all is not a question of ε."),
        "no privacy where there was none, no freedom from harm, no policy",
        {"before": 0.01, "with her": with_her, "without her": without_her, "factor": exp(epsilon)},
    )  # fmt: skip
