"""One (ε, δ) point by the basic rules: sums of ε and sums of δ, no trade between the two.

Noise without a finite ε (Gaussian, binomial) has no basic point: ε is ∞ there; ask the certified curve instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from discreet.accounting.leak import split_delta
from discreet.accounting.pure import pure
from discreet.exact import ceil_float
from discreet.loss import Event


@dataclass(frozen=True, slots=True)
class Point:
    """P(E) ≤ e^epsilon·P'(E) + delta for every event, in both directions."""

    epsilon: Fraction | float
    delta: Fraction | float

    def __iter__(self) -> Iterator[float]:  # `epsilon, delta = point` gives doubles, rounded up
        yield ceil_float(self.epsilon)
        yield ceil_float(self.delta)


def basic_composition(event: Event) -> Point:
    """Σε and Σδ [DKMNN06, basic composition]; a leak of δ in front of an ε-private core is (ε, δ)-private.

    The last step is P(E) ≤ (1−δ)·P'(E) + δ ≤ e^ε·(1−δ)·Q'(E) + δ ≤ e^ε·Q(E) + δ.

    >>> from discreet.loss import Claim
    >>> basic_composition(Claim(Fraction(1, 2), Fraction(1, 10**6)) * 3)
    Point(epsilon=Fraction(3, 2), delta=Fraction(3, 1000000))
    """
    core, delta = split_delta(event)
    if delta >= 1:
        return Point(Fraction(0), Fraction(1))
    return Point(pure(core), delta)
