"""An oracle by enumeration: all neighbours of small mechanisms, outcome by outcome.

Nothing here knows of privacy losses, dominating pairs or rewritings. A mechanism is given by its *worlds*: for units 0 … k −
1, each with what it contributes, a world says which distribution the output has when just the units of a set S are in the
data. A sample mixes a world over the subsets of S. Neighbours that differ in a group of k units are D = the first i of them
and D' = the other j, for every i + j = k. An adversary may choose the world of every next event after seeing the answers so
far.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import combinations, combinations_with_replacement, product
from math import comb, exp, expm1, floor, log, log1p
from random import Random

import numpy as np
from numpy.typing import NDArray

from discreet.units import Sensitivity

Masses = NDArray[np.float64]
World = dict[int, Masses]
"""From a set of units, as bits, to the probabilities of the outputs, which are the same for all sets."""

Pair = tuple[Masses, Masses]
MOST_WORLDS = 40


class Mechanism:
    """Worlds: a few *keys*, which are neighbours that a lower end may lean on, and many more."""

    def keys(self, i: int, j: int) -> Iterator[World]:
        """Worlds for i units that are only in D (the first bits) and j that are only in D', where all units make the same
        change, each on its own side, or only the first unit changes anything."""
        raise NotImplementedError

    def others(self, i: int, j: int) -> Iterator[World]:
        """More worlds."""
        return iter(())

    def pairs(self, i: int, j: int, random: Random) -> tuple[list[Pair], list[Pair]]:
        """The two distributions of the keys, and of some or all others."""
        keys, others = list(self.keys(i, j)), list(self.others(i, j))
        some = others if len(others) <= MOST_WORLDS else random.sample(others, MOST_WORLDS)
        return [sides(world, i, j) for world in keys], [sides(world, i, j) for world in some]

    def every(self, i: int, j: int) -> list[Pair]:
        """The two distributions of all worlds."""
        return [sides(world, i, j) for world in (*self.keys(i, j), *self.others(i, j))]


def sides(world: World, i: int, j: int) -> Pair:
    return world[(1 << i) - 1], world[((1 << j) - 1) << i]


def vectors(moved: Sensitivity) -> list[tuple[int, ...]]:
    """All whole changes within all norms, up to the order of coordinates and with signs, the longest first."""
    most = [floor(bound) for bound in (moved.l1, moved.l2_squared) if bound is not None]
    size = min(most if moved.l0 is None else [moved.l0, *most])
    steps = range(floor(moved.linf) + 1)
    found = [
        v
        for v in combinations_with_replacement(steps, max(1, size))
        if (moved.l1 is None or sum(v) <= moved.l1) and sum(x * x for x in v) <= moved.l2_squared
    ]
    return sorted(found, key=lambda v: -sum(x * x for x in v))


@dataclass(frozen=True)
class Noise(Mechanism):
    """Noise on every coordinate; `masses(x, low, high)` are those of x + noise where all positions are within [low,
    high]."""

    moved: Sensitivity
    masses: Callable[[int, int, int], Masses]
    within: tuple[int, int] | None = None  # inputs are clamped to this range

    def keys(self, i: int, j: int) -> Iterator[World]:
        longest = vectors(self.moved)[0]
        nothing, back = (0,) * len(longest), tuple(-x for x in longest)
        bases = {0} if self.within is None else {0, min(j * longest[0], self.within[1]), self.within[1]}
        for base in bases:
            yield self._world((longest,) * i + (back,) * j, base)
            yield self._world((longest,) + (nothing,) * (i + j - 1), base)

    def others(self, i: int, j: int) -> Iterator[World]:
        signed = list({tuple(s * x for x in v) for v in vectors(self.moved) for s in (1, -1)})
        signed += [v[::-1] for v in signed if v[::-1] not in signed]  # units may change different coordinates
        bases = (0,) if self.within is None else tuple(range(self.within[0], self.within[1] + 1))
        for choice in list(product(signed, repeat=i + j))[: 4 * MOST_WORLDS]:
            for base in bases:
                yield self._world(choice, base)

    def _world(self, choice: Sequence[tuple[int, ...]], base: int) -> World:
        dimensions, sets = len(choice[0]), range(1 << len(choice))
        at = {s: [base + sum(v[d] for u, v in enumerate(choice) if s >> u & 1) for d in range(dimensions)] for s in sets}
        if self.within is not None:
            at = {s: [min(max(x, self.within[0]), self.within[1]) for x in place] for s, place in at.items()}
        ends = [(min(p[d] for p in at.values()), max(p[d] for p in at.values())) for d in range(dimensions)]
        return {s: together([self.masses(x, *end) for x, end in zip(p, ends, strict=True)]) for s, p in at.items()}


def together(masses: Sequence[Masses]) -> Masses:
    return reduce(lambda a, b: np.multiply.outer(a, b).ravel(), masses, np.ones(1))


def discrete_laplace(scale: Fraction) -> Callable[[int, int, int], Masses]:
    """Everything below `low`, and everything above `high`, has one ratio for all positions: two outcomes."""
    a = exp(-1 / scale)

    def masses(x: int, low: int, high: int) -> Masses:
        if low == high:
            return np.ones(1)
        inside = [(1 - a) / (1 + a) * a ** abs(o - x) for o in range(low + 1, high)]
        return np.array([a ** (x - low) / (1 + a), *inside, a ** (high - x) / (1 + a)])

    return masses


def clamped_laplace(scale: Fraction, lower: int, upper: int) -> Callable[[int, int, int], Masses]:
    whole = discrete_laplace(scale)
    return lambda x, low, high: whole(x, lower, upper)


def binomial(n: int) -> Callable[[int, int, int], Masses]:
    def masses(x: int, low: int, high: int) -> Masses:
        return np.array([comb(n, o - x) / 2**n if 0 <= o - x <= n else 0.0 for o in range(low, high + n + 1)])

    return masses


def discrete_gaussian(sigma: Fraction, reach: int) -> Callable[[int, int, int], Masses]:
    """Outcomes within `reach` of some position; each has its mass under every position, however small that is."""

    def weight(k: int) -> float:
        return exp(-float(Fraction(k * k) / (2 * sigma**2)))

    total = sum(weight(k) for k in range(-reach, reach + 1))

    def masses(x: int, low: int, high: int) -> Masses:
        return np.array([weight(o - x) / total for o in range(low - reach, high + reach + 1)])

    return masses


@dataclass(frozen=True)
class Response(Mechanism):
    """Every unit has an answer of its own: another one if it is there than if it is not."""

    truth: Fraction
    choices: int

    def keys(self, i: int, j: int) -> Iterator[World]:
        other = float((1 - self.truth) / (self.choices - 1))
        answers = [np.full(self.choices, other), np.full(self.choices, other)]
        answers[0][0] = answers[1][1] = float(self.truth)
        for counted in (range(i + j), range(1)):
            yield {s: together([answers[s >> u & 1] for u in counted]) for s in range(1 << (i + j))}


@dataclass(frozen=True)
class Private(Mechanism):
    """The worst (ε, δ)-private mechanism: distributions M(0), …, M(k) with the optimal trade-off from each to the next.

    Under M(0) outcomes are uniform on [0, 1], and [0, x] has mass g(…g(x)) (t times) under M(t), with
    g(x) = min(δ + e^ε·x, 1 − e^-ε(1 − δ − x), 1).
    """

    epsilon: Fraction
    delta: Fraction

    def keys(self, i: int, j: int) -> Iterator[World]:
        for counted in (i + j, 1):  # all units count, or the first one only
            masses = self.chain(counted)
            signs = [1] * i + [-1] * j
            lowest = sum(sign < 0 for sign in signs[:counted])

            def place(s: int, signs: list[int] = signs[:counted], lowest: int = lowest) -> int:
                return lowest + sum(sign for u, sign in enumerate(signs) if s >> u & 1)

            yield {s: masses[place(s)] for s in range(1 << (i + j))}

    def chain(self, length: int) -> list[Masses]:
        eps, gap = float(self.epsilon), float(self.delta)
        kink = (1 - gap) / (1 + exp(eps))

        def step(x: float) -> float:
            return min(gap + exp(eps) * x, 1 - exp(-eps) * (1 - gap - x), 1.0)

        def back(y: float) -> float:
            return (y - gap) * exp(-eps) if y <= 1 - kink else 1 - gap - exp(eps) * (1 - y)

        cuts = {0.0, 1.0}
        for start in (kink, 1.0):
            y = start
            for _ in range(length + 1):
                cuts.add(min(max(y, 0.0), 1.0))
                y = back(y)
                if y <= 0:
                    break
        points = sorted(cuts)
        masses = []
        for _ in range(length + 1):
            masses.append(np.array([points[0], *np.diff(points)]))
            points = [step(x) for x in points]
        return [np.append(one, max(0.0, 1 - float(one.sum()))) for one in masses]


@dataclass(frozen=True)
class Selection(Mechanism):
    """A key is shown with probability `shown[n]` if n units have it. Each unit is in `groups` keys."""

    shown: tuple[float, ...]
    groups: int

    def keys(self, i: int, j: int) -> Iterator[World]:
        """The first unit alone, in keys that nobody else has or in those where it matters most."""
        rises = np.diff(self.shown)
        for n in {0, int(rises[1:].argmax()) + 1}:
            yield self._world([(n, (0,))] * self.groups, i + j)

    def others(self, i: int, j: int) -> Iterator[World]:
        """All units share their keys, or each has its own."""
        units = i + j
        for owners in ([tuple(range(units))], [(u,) for u in range(units)]):
            for counts in combinations_with_replacement(range(len(self.shown) - units), self.groups * len(owners)):
                yield self._world(list(zip(counts, owners * self.groups, strict=True)), units)

    def _world(self, held: list[tuple[int, tuple[int, ...]]], units: int) -> World:
        return {s: together([self._key(n + sum(s >> u & 1 for u in owner)) for n, owner in held]) for s in range(1 << units)}

    def _key(self, n: int) -> Masses:
        return np.array([self.shown[n], 1 - self.shown[n]])


def threshold_shown(scale: Fraction, threshold: int) -> tuple[float, ...]:
    a = exp(-1 / scale)

    def tail(t: int) -> float:  # P(noise ≥ t)
        return a**t / (1 + a) if t >= 0 else 1 - a ** (1 - t) / (1 + a)

    return (0.0, *(tail(threshold - n) for n in range(1, threshold + 4)))


def optimal_shown(epsilon: Fraction, delta: Fraction) -> tuple[float, ...]:
    eps, gap, chances = float(epsilon), float(delta), [0.0]
    while chances[-1] < 1 - 1e-12 and len(chances) < 40:
        last = chances[-1]
        chances.append(min(exp(eps) * last + gap, 1 - exp(-eps) * (1 - last - gap), 1.0))
    return (*chances, 1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Choice(Mechanism):
    """One of two candidates, by the difference of their scores, which a unit moves by at most ε."""

    epsilon: Fraction
    flip: bool
    at: float  # the ε at which δ is read: where the worst start for one unit lies is known then

    def keys(self, i: int, j: int) -> Iterator[World]:
        eps, units = float(self.epsilon), i + j
        for start in (-units * eps / 2, 0.0, -units * eps, *self._worst_starts(units * eps)):
            yield self._world(start + j * eps, (1,) * i + (-1,) * j)
        for start in (-eps / 2, 0.0, -eps):
            yield self._world(start, (1,) + (0,) * (units - 1))

    def others(self, i: int, j: int) -> Iterator[World]:
        eps = float(self.epsilon)
        for start in (0.0, -eps, -eps / 2, eps / 2, *self._worst_starts(eps)):
            for moves in product((1, 0, -1), repeat=i + j):
                yield self._world(start, moves)

    def _worst_starts(self, size: float) -> list[float]:
        """Where a move by `size` makes P/Q take the values e^u and e^(u − size), u half way between ε and `size`."""
        u = (min(max(self.at, 0.0), size) + size) / 2
        if not 0 < u < size:
            return []
        low = (1 - exp(u - size)) / (exp(u) - exp(u - size))
        return [float(np.log(low / (1 - low)))]

    def _world(self, start: float, moves: tuple[int, ...]) -> World:
        eps, sets = float(self.epsilon), range(1 << len(moves))
        return {s: self._masses(start + eps * sum(m for u, m in enumerate(moves) if s >> u & 1)) for s in sets}

    def _masses(self, gap: float) -> Masses:
        if self.flip:
            worse = exp(-abs(gap)) / 2
            return np.array([1 - worse, worse] if gap >= 0 else [worse, 1 - worse])
        first = 1 / (1 + exp(-gap))
        return np.array([first, 1 - first])


@dataclass(frozen=True)
class Sampled(Mechanism):
    """A Poisson sample."""

    inner: Mechanism
    rate: Fraction

    def keys(self, i: int, j: int) -> Iterator[World]:
        yield from map(self._mix, self.inner.keys(i, j))
        if isinstance(self.inner, Choice):  # P − e^ε·Q of a sample is that of everyone at another ε, up to a factor
            q, at = float(self.rate), self.inner.at
            rest = 1 - (1 - q) * exp(at)
            moved = [log1p(expm1(at) / q), *([at + log(q / rest)] if rest > 0 else [])]
            yield from (self._mix(world) for t in moved for world in replace(self.inner, at=t).keys(i, j))

    def others(self, i: int, j: int) -> Iterator[World]:
        return map(self._mix, self.inner.others(i, j))

    def _mix(self, world: World) -> World:
        q = float(self.rate)

        def chance(t: int, s: int) -> float:
            return float(q ** t.bit_count() * (1 - q) ** (s & ~t).bit_count())

        return {s: np.sum([chance(t, s) * world[t] for t in world if t & ~s == 0], axis=0) for s in world}


@dataclass(frozen=True)
class Both(Mechanism):
    """Two events on the same sample."""

    one: Mechanism
    two: Mechanism

    def keys(self, i: int, j: int) -> Iterator[World]:
        yield from self._product(list(self.one.keys(i, j)), list(self.two.keys(i, j)))

    def others(self, i: int, j: int) -> Iterator[World]:
        yield from self._product(list(self.one.others(i, j))[:10], list(self.two.others(i, j))[:10])

    def _product(self, first: list[World], second: list[World]) -> Iterator[World]:
        for a, b in product(first, second):
            yield {s: together([a[s], b[s]]) for s in a}


@dataclass(frozen=True)
class OneOf(Mechanism):
    """Releases about disjoint parts of the units: each unit is in one branch."""

    branches: tuple[Mechanism, ...]

    def keys(self, i: int, j: int) -> Iterator[World]:
        """All units are in one branch."""
        for branch in self.branches:
            yield from branch.keys(i, j)

    def others(self, i: int, j: int) -> Iterator[World]:
        for branch in self.branches:
            yield from list(branch.others(i, j))[:20]
        for home in product(range(len(self.branches)), repeat=i + j):
            yield from self._at_home(home, i)

    def _at_home(self, home: tuple[int, ...], i: int) -> Iterator[World]:
        """Worlds in which unit u is in branch home[u]."""
        parts = []
        for branch, mechanism in enumerate(self.branches):
            members = [u for u in range(len(home)) if home[u] == branch]
            if members:
                first = sum(u < i for u in members)
                parts.append((members, list(mechanism.keys(first, len(members) - first))))
        for choice in product(*(worlds for _, worlds in parts)):
            held = [(world, members) for world, (members, _) in zip(choice, parts, strict=True)]
            yield {s: together([world[_subset(s, members)] for world, members in held]) for s in range(1 << len(home))}


def _subset(s: int, members: list[int]) -> int:
    """The set s among these members only, renumbered."""
    return sum(1 << place for place, u in enumerate(members) if s >> u & 1)


@dataclass(frozen=True)
class Share(Mechanism):
    """m of n units without replacement, their values 0 … `top` added up under noise; a group of i replaces i units."""

    masses: Callable[[int, int, int], Masses]
    top: int
    n: int
    m: int

    def keys(self, i: int, j: int) -> Iterator[World]:
        """One unit has the largest value, or the least, and all others have the least."""
        least = (0,) * (self.n - 1)
        yield from self._both((self.top, *least), (0, *least), i + j)

    def others(self, i: int, j: int) -> Iterator[World]:
        size, values = i + j, range(self.top + 1)
        for rest in combinations_with_replacement(values, self.n - size):
            for old, new in combinations(combinations_with_replacement(values, size), 2):
                yield from self._both(old + rest, new + rest, size)

    def _both(self, old: tuple[int, ...], new: tuple[int, ...], units: int) -> Iterator[World]:
        """D is the data before or after; the first bit of a set of units says which of the two it stands for."""
        for one, two in ((old, new), (new, old)):
            masses = self._output(one), self._output(two)
            yield {s: masses[0 if s & 1 else 1] for s in range(1 << units)}

    def _output(self, data: tuple[int, ...]) -> Masses:
        samples = list(combinations(data, self.m))
        high = self.m * self.top
        return np.asarray(sum((self.masses(sum(sample), 0, high) for sample in samples), np.zeros(1)) / len(samples))


def worst(parts: Sequence[Sequence[Pair]], epsilon: float) -> float:
    """δ(ε) if every next world is chosen after seeing the answers so far: no bound from above may be below this."""

    def most(remaining: Sequence[Sequence[Pair]], p: Masses, q: Masses) -> Masses:
        if not remaining:
            return np.maximum(0.0, p - exp(epsilon) * q)
        found = [
            most(remaining[1:], np.multiply.outer(p, a).ravel(), np.multiply.outer(q, b).ravel())
            .reshape(len(p), -1)
            .sum(axis=1)
            for a, b in remaining[0]
        ]
        return np.asarray(np.max(found, axis=0))

    return float(most(parts, np.ones(1), np.ones(1))[0])


def worst_fixed(parts: Sequence[Sequence[Pair]], epsilon: float) -> float:
    """δ(ε) if all worlds are chosen beforehand: no bound from below may be above this."""
    found = 0.0
    for choice in product(*parts):
        p, q = together([a for a, _ in choice]), together([b for _, b in choice])
        found = max(found, float(np.maximum(0.0, p - exp(epsilon) * q).sum()))
    return found
