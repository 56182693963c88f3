"""The curve of one exponential mechanism many times, each chosen after the answers before it, on everyone or
on Poisson samples, between two doubles.

**Theory of operation.** Let V_j(x) be the largest δ at ε = x of j mechanisms whose privacy loss has a range of at most ε,
each chosen after seeing the answers so far. V_0(x) = (1 − e^x)₊. With r for the likelihood ratio of the first answer,
V_{j+1}(x) is the largest mean, under Q, of r·V_j(x − ln r). As a function of e^x, V_j is convex (a largest of sums of
kinks), so r·V_j(x − ln r) is convex in r, and its mean over all r between e^{u−ε} and e^u with mean 1 is largest where only
the two ends occur:

    V_{j+1}(x) = max over 0 ≤ u ≤ ε of P_u·V_j(x − u) + (1 − P_u)·V_j(x − u + ε),  P_u = (1 − e^{u−ε})/(1 − e^{-ε}).

Two candidates whose log odds move by ε have exactly these losses, at every u, so V is attained: it is the curve, and not
only a bound. (For a fixed sequence of mechanisms [DDR20] has the same two ends.)

On the lattice x₀ + ih, h = ε/M:

- *From below* only u = mh are tried, and every x − u and x − u + ε is on the lattice.
- *From above*, take V_j for its chords between lattice points, as functions of e^x: that is not below, by convexity. For u
  between mh and (m + 1)h both terms then stay on one chord each, and with w = e^u the sum is C + aw + b/w with
  b ≥ −e^x·B/(1 − e^{-ε}), −B ≤ 0 the slope of the first chord, as the second one falls too. If b ≥ 0 it is convex in w and
  largest at an end. Else it exceeds its values at the ends by at most |b|·(Δw)²/4w³, which is at most
  (V_j(x − (m + 1)h) − V_j(x − mh))·e^h(e^h − 1)/4(1 − e^{-ε}).

Every term is positive, so a few roundings at each step are all: each step moves the values by 64 of them outwards.

**On a Poisson sample** (`SampledRange`) the ratio of the mixture to Q is y = 1 − q + q·r with r as above, again with mean 1
under Q, so again only the two ends occur. The unit removed, V_{j+1}(x) is the largest mean of G(y) = y·V_j(x − ln y); the
unit added, it is that of G(y) = V_j(x + ln y). Both are convex in y, and linear where V_j is one chord. With w = e^u and
κ = e^{-ε} the ends are y = 1 − q + qκw and 1 − q + qw, and the mean is

    ((w − 1)·G(1 − q + qκw) + (1 − κw)·G(1 − q + qw))/(w(1 − κ)),  1 ≤ w ≤ 1/κ.

Cut the w where either end passes a lattice point. Between two cuts w₀ < w₁ both G are linear in w, A₀ + A₁w and B₀ + B₁w,
so the mean is C + aw + b/w with b = (B₀ − A₀)/(1 − κ): convex, or above its values at the cuts by at most
|b|·(1/√w₀ − 1/√w₁)², the most that 1/w is below its chord. All of this is linear in the values of V_j at the lattice, and
two matrices hold it. Lattice values from above stay above: nothing leans on their being convex.

*From below* a few w are tried, and V_j is taken for the larger of two lines α − β·e^x, which belong to the lattice points
beside the one that is asked for. If no line of V_j is above it, the mean of two of them is a line, and not above V_{j+1}: it
keeps its α and β, which are those of a strategy, P(E) and Q(E). At its own lattice point each line is the best of those
tried.
"""

from dataclasses import dataclass
from math import ceil, exp, expm1, floor, isfinite, log1p

import numpy as np

from discreet.accounting.pld import EPS, Floats, Interval

_WORK = 2e7  # products: about a tenth of a second
_MOST_CELLS = 512
_FEWEST_CELLS = 8


@dataclass(frozen=True, slots=True)
class RepeatedRange:
    """`times` exponential mechanisms of `epsilon` each.

    >>> low, high = RepeatedRange(1.0, 2).bound_delta(1.0)
    >>> 0 < high - low < 1e-4 * high
    True
    """

    epsilon: float
    times: int

    @property
    def cells(self) -> int:
        """M: as many lattice points per ε as the work allows, or 0 if too few."""
        cells = min(_MOST_CELLS, int((_WORK / self.times**2) ** 0.5))
        return cells if cells >= _FEWEST_CELLS and 1e-6 < self.epsilon < 50 else 0

    def bound_delta(self, at: float) -> Interval:
        """δ at ε = `at`."""
        most = self.epsilon * self.times
        if self.cells == 0 or not isfinite(at):
            return 0.0, 1.0
        if at >= most * (1 + 1e-14):
            return 0.0, 0.0
        low, high = self._values(at, 0)
        return float(low[0]), min(1.0, float(high[0]))

    def bound_epsilon(self, target: float, guess: Interval) -> Interval:
        """ε at δ = `target`, which lies in the interval `guess`; between lattice points by convexity.

        The chord of V's upper values is not below V. The next chord, continued, is not above V: with
        t = (e^{x₁} − e^x)/(e^{x₂} − e^{x₁}) for x < x₁ < x₂, V(x) ≥ (1 + t)·V(x₁) − t·V(x₂).
        """
        if self.cells == 0 or not guess[0] < guess[1] < np.inf:
            return guess
        h = self.epsilon / self.cells
        reach = ceil((guess[1] - guess[0]) / h) + 3
        if reach > 4 * self.cells * self.times:
            return guess
        first = max(0.0, guess[0] - h)
        low, high = self._values(first, reach)
        x = first + h * np.arange(reach + 1)
        share = np.linspace(0, 1, 257)
        fine = np.add.outer(x[:-2], h * share)
        t = -np.expm1(-h * (1 - share)) / expm1(h)  # (e^{x₁} − e^x)/(e^{x₂} − e^{x₁})
        below = np.multiply.outer(low[1:-1], 1 + t) - np.multiply.outer(high[2:], t * (1 + 1e-12))
        chord = np.expm1(h * share) / expm1(h)  # the share of e^{x₁} in e^x
        above = np.multiply.outer(high[:-2], 1 - chord) + np.multiply.outer(high[1:-1], chord)
        under, over = fine[below * (1 - 1e-12) > target], fine[above * (1 + 1e-12) <= target]
        return (
            max(guess[0], float(under.max()) * (1 - 1e-12) if under.size else 0.0),
            min(guess[1], float(over.min()) * (1 + 1e-12) if over.size else np.inf),
        )

    def _values(self, first: float, count: int) -> tuple[Floats, Floats]:
        """V from below and from above at first + ih, i = 0 … count."""
        m, h = self.cells, self.epsilon / self.cells
        kept = -np.expm1(h * np.arange(m + 1) - self.epsilon) / -expm1(-self.epsilon)  # P_u at u = ih, exactly 0 at ε
        kept[-1] = 0.0
        rest = np.expm1(h * np.arange(m + 1)) * exp(-self.epsilon) / -expm1(-self.epsilon)
        hidden = exp(h) * expm1(h) / (4 * -expm1(-self.epsilon)) * (1 + 64 * EPS)
        far = m * self.times
        i = np.arange(-far, count + far + 1)
        low = np.maximum(0.0, -np.expm1(first + h * i)) * (1 - 64 * EPS)
        high = np.maximum(0.0, -np.expm1(first + h * i)) * (1 + 64 * EPS) + 2 * EPS * (np.abs(first + h * i) < 1)
        for _ in range(self.times):
            size = len(low) - 2 * m
            best_low, best_high = np.zeros(size), np.zeros(size)
            before: Floats | None = None
            for j in range(m + 1):
                near, away = slice(m - j, m - j + size), slice(2 * m - j, 2 * m - j + size)
                np.maximum(best_low, kept[j] * low[near] + rest[j] * low[away], out=best_low)
                here = kept[j] * high[near] + rest[j] * high[away]
                if before is not None:
                    gap = high[near] - high[m - j + 1 : m - j + 1 + size]  # V at x − jh less V at x − (j − 1)h
                    np.maximum(best_high, np.maximum(here, before) + hidden * gap, out=best_high)
                before = here
            low, high = best_low * (1 - 64 * EPS), best_high * (1 + 64 * EPS)
            high = np.maximum.accumulate(high[::-1])[::-1]  # it falls in spite of rounding, as the slopes above are to
        return low, high


_SAMPLED_WORK = 1e8  # products: about a tenth of a second
_MOST_SAMPLED_CELLS = 160
_TRIED = 1200  # u that bounds from below try, in all rounds together


@dataclass(frozen=True, slots=True)
class SampledRange:
    """`times` exponential mechanisms of `epsilon` each on Poisson samples at `rate`, for the unit that is removed or
    added; from below for the one that is removed only, which costs more.

    >>> low, high = SampledRange(1.0, 1, 0.5, removed=True).bound_delta(0.0)
    >>> low <= 0.5 * (1 - exp(-0.5)) ** 2 / (1 - exp(-1)) <= high < 1.001 * low
    True
    """

    epsilon: float
    times: int
    rate: float
    removed: bool

    @property
    def step(self) -> float:
        """The distance of lattice points: as small as the work allows, or 0 if that is not small."""
        cells = min(_MOST_SAMPLED_CELLS, int((_SAMPLED_WORK / self.times**2) ** (1 / 3)))
        if cells < _FEWEST_CELLS or not 1e-6 < self.epsilon < 20 or not 1e-6 < self.rate < 1:
            return 0.0
        return log1p(self.rate * expm1(self.epsilon)) / cells

    def bound_delta(self, at: float) -> Interval:
        """δ at ε = `at`."""
        if self.step == 0 or not isfinite(at):
            return 0.0, 1.0
        (inside,), (outside,) = self._lines(at, 0) if self.removed else (np.zeros(1), np.zeros(1))
        return max(0.0, float(inside - outside * exp(at)) - 1e-13), min(1.0, float(self._values(at, 0)[0]))

    def bound_epsilon(self, target: float, guess: Interval) -> Interval:
        """ε at δ = `target`, which lies in the interval `guess`: where the chords of the upper values, or the lines, meet
        it."""
        h = self.step
        if h == 0 or not guess[0] < guess[1] < np.inf:
            return guess
        count = ceil((guess[1] - guess[0]) / h) + 1
        if count > 100 * _MOST_SAMPLED_CELLS:
            return guess
        high, nothing = self._values(guess[0], count), np.zeros(count + 1)
        inside, outside = self._lines(guess[0], count) if self.removed else (nothing, nothing)
        share = np.linspace(0, 1, 257)
        chord = np.expm1(h * share) / expm1(h)  # the share of e^{x₁} in e^x
        above = np.multiply.outer(high[:-1], 1 - chord) + np.multiply.outer(high[1:], chord)
        fine = np.add.outer(guess[0] + h * np.arange(count), h * share)
        below = inside[:-1, None] * (1 - 1e-12) - outside[:-1, None] * np.exp(fine) * (1 + 1e-12)
        over, under = fine[above * (1 + 1e-12) <= target], fine[below > target]
        return (
            max(guess[0], float(under.max()) * (1 - 1e-12) if under.size else 0.0),
            min(guess[1], float(over.min()) * (1 + 1e-12) if over.size else np.inf),
        )

    def _lines(self, first: float, count: int) -> tuple[Floats, Floats]:
        """α and β of lines that are not above V and belong to first + ih, i = 0 … count: a relative 1e-13 for every step is
        more than what rounding moves them by."""
        h, q, low = self.step, self.rate, exp(-self.epsilon)
        tried = max(12, min(48, _TRIED // self.times))
        w = np.exp(self.epsilon * (0.2 + 0.8 * (np.arange(tried) + 0.5) / tried))
        y = np.array([q * np.expm1(np.log(w) - self.epsilon), q * (w - 1)])  # less 1; under Q with these chances:
        chance = np.array([(w - 1) / (w * (1 - low)), -np.expm1(np.log(w) - self.epsilon) / (w * (1 - low))])
        loss = np.log1p(y) if self.removed else -np.log1p(y)
        inner, outer = (chance * (1 + y), chance) if self.removed else (chance, chance * (1 + y))
        move = np.floor(-loss / h).astype(np.int64)  # to the lattice point below x − loss
        left, right = int(-move.min()), int(move.max()) + 1
        i = np.arange(-left * self.times, count + right * self.times + 1)
        inside: Floats = (first + h * i < 0).astype(float)  # 1 − e^x, or 0
        outside = inside
        for step in range(1, self.times + 1):
            n = len(inside) - left - right
            x = np.exp(first + h * (i[0] + step * left + np.arange(n)))
            best_inside, best_outside, best = np.zeros(n), np.zeros(n), np.zeros(n)
            for k in range(len(w)):
                found = [np.zeros(n), np.zeros(n)]
                for end in (0, 1):
                    place, at = left + int(move[end, k]), x * exp(-float(loss[end, k]))
                    one, two = slice(place, place + n), slice(place + 1, place + 1 + n)
                    upper = inside[two] - outside[two] * at > inside[one] - outside[one] * at
                    found[0] += inner[end, k] * np.where(upper, inside[two], inside[one])
                    found[1] += outer[end, k] * np.where(upper, outside[two], outside[one])
                value = found[0] - found[1] * x
                better = value > best
                best = np.where(better, value, best)
                best_inside = np.where(better, found[0], best_inside)
                best_outside = np.where(better, found[1], best_outside)
            inside, outside = best_inside * (1 - 1e-13), best_outside * (1 + 1e-13)
        return inside, outside

    def _values(self, first: float, count: int) -> Floats:
        """V from above at first + ih, i = 0 … count.

        The sums have at most some hundred terms, whose sizes add up to at most 8 times the largest value that they meet,
        the first one: V falls.
        """
        means, hidden, left, right = self._matrices()
        i = np.arange(-left * self.times, count + right * self.times + 1)
        x = first + self.step * i
        high: Floats = np.maximum(0.0, -np.expm1(x)) * (1 + 64 * EPS) + 2 * EPS * (np.abs(x) < 1)
        for _ in range(self.times):
            window = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(high, left + right + 1).T)
            mean, extra = means @ window, np.maximum(0.0, hidden @ window)
            best = (np.maximum(mean[:-1], mean[1:]) + extra).max(axis=0)
            high = np.maximum.accumulate((best * (1 + 1e-12) + 1e-13 * window[0])[::-1])[::-1]
        return high

    def _matrices(self) -> tuple[Floats, Floats, int, int]:
        """The means at the cuts, and what they may hide between two of them, as sums over the lattice points from `left`
        before x to `right` after it."""
        h, q, low = self.step, self.rate, exp(-self.epsilon)
        least, most = log1p(q * expm1(-self.epsilon)), log1p(q * expm1(self.epsilon))
        up = np.expm1(h * np.arange(ceil(most / h) + 1)) / q + 1  # where 1 − q + qw is e^{ih}
        down = (np.expm1(-h * np.arange(ceil(-least / h) + 1)) / q + 1) / low
        w = np.unique(np.clip(np.concatenate([[1.0, 1 / low], up, down]), 1.0, 1 / low))
        before, after = (most, -least) if self.removed else (-least, most)
        left, right = ceil(before / h) + 1, ceil(after / h) + 1
        ends: list[Floats] = []
        for y in (q * np.expm1(np.log(w) - self.epsilon), q * (w - 1)):  # less 1
            loss = np.log1p(y) if self.removed else -np.log1p(y)
            rows = np.zeros((len(w), left + right + 1))
            for row, value, ratio in zip(rows, loss.tolist(), (y + 1).tolist(), strict=True):
                place = min(max(left + floor(-value / h), 0), left + right - 1)
                share = min(1.0, max(0.0, expm1(-value - (place - left) * h) / expm1(h)))
                row[place : place + 2] = np.array([1 - share, share]) * (ratio if self.removed else 1.0)
            ends.append(rows)
        near, far = ends
        stay = np.maximum(0.0, -np.expm1(np.log(w) - self.epsilon))
        means = ((w - 1)[:, None] * near + stay[:, None] * far) / (w * (1 - low))[:, None]
        gap = near - far
        size = (1 / np.sqrt(w[:-1]) - 1 / np.sqrt(w[1:])) ** 2 / (1 - low) / np.diff(w)
        hidden = (gap[:-1] * w[1:, None] - gap[1:] * w[:-1, None]) * size[:, None]
        return means, hidden, left, right
