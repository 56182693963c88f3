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
  between mh and (m + 1)h both terms then stay on one chord each, with slopes −B and −B', and with w = e^u the sum is
  C + aw + b/w, b = −e^x·(B − B')/(1 − e^{-ε}). If b ≥ 0 it is convex in w and largest at an end. Else it exceeds the larger
  of its values at the ends by at most |b| times the most that 1/w is below its chord, (e^{-mh/2} − e^{-(m+1)h/2})². With
  D(x) = V_j(x − (m + 1)h) − V_j(x − mh) that is tanh(h/4)·(D(x) − e^{-ε}·D(x + ε))₊/(1 − e^{-ε}).
- After j rounds the losses add up to at most jε in size: V_j(x) is 0 from x = jε on, and 1 − e^x up to x = −jε.

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
from math import ceil, exp, expm1, floor, isfinite, log1p, tanh

import numpy as np

from discreet.accounting.pld import EPS, Floats, Interval
from discreet.accounting.range_cells import bound_half_line

_WORK = 1.7e7  # products: about a tenth of a second
_MOST_CELLS = 4096
_MOST_TIMES = 4096
_FEWEST_CELLS = 8
_FINE_WORK = 1e6  # lattice points in all rounds together: less than a tenth of a second
_MOST_FINE_CELLS = 3000
_FEWEST_FINE_CELLS = 24


@dataclass(frozen=True, slots=True)
class RepeatedRange:
    """`times` exponential mechanisms of `epsilon` each.

    >>> low, high = RepeatedRange(1.0, 2).bound_delta(1.0)
    >>> 0 < high - low < 1e-4 * high
    True
    """

    epsilon: float
    times: int

    def choose_cells(self, first: float, last: float, work: float) -> int:
        """M: as many lattice points per ε as the work at all x that matter allows, or 0 if too few."""
        if not 1e-6 < self.epsilon < 50 or self.times > _MOST_TIMES:
            return 0
        r = np.arange(1, self.times + 1)
        right, left = last / self.epsilon + self.times - r, first / self.epsilon - self.times + r
        places = float(np.maximum(0.0, np.minimum(right, r) - np.maximum(left, -r)).sum()) + 1.0
        cells = min(_MOST_CELLS, int((work / places) ** 0.5))
        return cells if cells >= _FEWEST_CELLS else 0

    def bound_delta(self, at: float) -> Interval:
        """δ at ε = `at`."""
        cells = self.choose_cells(at, at, _WORK) if isfinite(at) else 0
        if cells == 0:
            return 0.0, 1.0
        if at >= self.epsilon * self.times * (1 + 1e-14):
            return 0.0, 0.0
        low, high = self._values(at, 0, cells)
        return float(low[0]), min(1.0, float(high[0]))

    def bound_epsilon(self, target: float, guess: Interval) -> Interval:
        """ε at δ = `target`, which lies in the interval `guess`: a coarse lattice first, to look at fewer x on the other."""
        found = self._bound_epsilon(target, guess, _WORK / 32)
        fine = self._bound_epsilon_by_cells(target, found)
        return fine if fine is not None else self._bound_epsilon(target, found, _WORK)

    def _bound_epsilon_by_cells(self, target: float, guess: Interval) -> Interval | None:
        """The same on a finer lattice, where only the u that may be the worst are tried (`range_cells`); None if that fails.

        Between its points V is convex as in `_bound_epsilon`.
        """
        if not 0 <= guess[0] < guess[1] < np.inf or self.times > _MOST_TIMES or not 1e-6 < self.epsilon < 50:
            return None
        r = np.arange(1, self.times + 1)
        places = float(np.minimum(r, guess[1] / self.epsilon + self.times - r).sum())
        cells = min(_MOST_FINE_CELLS, int(_FINE_WORK / places))
        values = (
            bound_half_line(self.epsilon, self.times, guess[1], cells, 1e-10 * target)
            if cells >= _FEWEST_FINE_CELLS
            else None
        )
        if values is None:
            return None
        (low, high), h = values, self.epsilon / cells
        i, j = int((low > target).sum()) - 1, int((high > target).sum()) - 1
        if not (0 <= i <= len(low) - 3 and 0 <= j <= len(high) - 2):
            return None
        share = np.linspace(0, 1, 4097)
        t = -np.expm1(-h * (1 - share)) / expm1(h)
        below = low[i + 1] * (1 + t) - high[i + 2] * t * (1 + 1e-12)
        chord = np.expm1(h * share) / expm1(h)
        above = high[j] * (1 - chord) + high[j + 1] * chord
        under, over = share[below * (1 - 1e-12) > target], share[above * (1 + 1e-12) <= target]
        lower = h * (i + (float(under.max()) if under.size else 0.0))
        upper = h * (j + (float(over.min()) if over.size else 1.0))
        return max(guess[0], lower * (1 - 1e-12)), min(guess[1], upper * (1 + 1e-12))

    def _bound_epsilon(self, target: float, guess: Interval, work: float) -> Interval:
        """The same on one lattice, between its points by convexity.

        The chord of V's upper values is not below V. The next chord, continued, is not above V: with
        t = (e^{x₁} − e^x)/(e^{x₂} − e^{x₁}) for x < x₁ < x₂, V(x) ≥ (1 + t)·V(x₁) − t·V(x₂).
        """
        cells = self.choose_cells(*guess, work) if guess[0] < guess[1] < np.inf else 0
        h = self.epsilon / max(1, cells)
        reach = ceil((guess[1] - guess[0]) / h) + 3 if cells else 0
        if not 0 < reach <= 4 * cells * self.times:
            return guess
        first = max(0.0, guess[0] - h)
        low, high = self._values(first, reach, cells)
        share = np.linspace(0, 1, 4097)
        i = min(max(int((low > target).sum()) - 1, 0), reach - 2)  # where V crosses the target: other x are not worth a look
        j = min(max(int((high > target).sum()) - 1, 0), reach - 1)
        t = -np.expm1(-h * (1 - share)) / expm1(h)  # (e^{x₁} − e^x)/(e^{x₂} − e^{x₁})
        below = low[i + 1] * (1 + t) - high[i + 2] * t * (1 + 1e-12)
        chord = np.expm1(h * share) / expm1(h)  # the share of e^{x₁} in e^x
        above = high[j] * (1 - chord) + high[j + 1] * chord
        under = (first + h * (i + share))[below * (1 - 1e-12) > target]
        over = (first + h * (j + share))[above * (1 + 1e-12) <= target]
        lower = float(under.max()) if under.size else first + h * i if low[i] > target else 0.0
        return (
            max(guess[0], lower * (1 - 1e-12)),
            min(guess[1], float(over.min()) * (1 + 1e-12) if over.size else np.inf),
        )

    def _values(self, first: float, count: int, m: int) -> tuple[Floats, Floats]:
        """V from below and from above at first + ih, i = 0 … count, h = ε/m."""
        h, rest_of_one = self.epsilon / m, -expm1(-self.epsilon)
        kept = -np.expm1(h * np.arange(m + 1) - self.epsilon) / rest_of_one  # P_u at u = ih, exactly 0 at ε
        kept[-1] = 0.0
        rest = np.expm1(h * np.arange(m + 1)) * exp(-self.epsilon) / rest_of_one
        between = tanh(h / 4) / rest_of_one * (1 + 64 * EPS)
        far = m * self.times
        x = first + h * np.arange(-far, count + far + 1)
        low, high = _unit_kink(x)
        for done in range(1, self.times + 1):
            drop = high[: -m - 1] - high[1:-m]
            hidden = np.append(drop - exp(-self.epsilon) * (high[m:-1] - high[m + 1 :]), 0.0)
            hidden = between * (np.maximum(0.0, hidden) + 8 * EPS * high[:-m])
            hidden[1:] = np.maximum(hidden[1:], hidden[:-1])  # of the u before and of those after each
            x = x[m:-m]
            edge = self.epsilon * done * (1 + 1e-12)
            start, end = int(np.searchsorted(x, -edge)), int(np.searchsorted(x, edge))
            before, (low, high) = (low, high), _unit_kink(x)
            best_low, best_high, size = np.zeros(end - start), np.zeros(end - start), end - start
            for j in range(m + 1):
                near, away = (slice(k, k + size) for k in (start + m - j, start + 2 * m - j))
                np.maximum(best_low, kept[j] * before[0][near] + rest[j] * before[0][away], out=best_low)
                np.maximum(best_high, kept[j] * before[1][near] + rest[j] * before[1][away] + hidden[near], out=best_high)
            low[start:end], high[start:end] = best_low * (1 - 64 * EPS), best_high * (1 + 64 * EPS)
            low[end:], high[end:] = 0.0, 0.0
        return low, high


def _unit_kink(x: Floats) -> tuple[Floats, Floats]:
    """(1 − e^x)₊ from below and from above."""
    value = -np.expm1(np.minimum(x, 0.0))
    near = 2 * EPS * (np.abs(x) < 1)
    return np.maximum(0.0, value * (1 - 64 * EPS) - near), value * (1 + 64 * EPS) + near


_SAMPLED_WORK = 1e8  # products: about a tenth of a second
_MOST_SAMPLED_CELLS = 160
_ONE_THREAD = 1 << 17  # products of one multiplication that OpenBLAS leaves to one thread
_MOST_X = 700.0  # e^x stays a double
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
        return max(0.0, float(inside - outside * exp(min(at, _MOST_X))) - 1e-13), min(1.0, float(self._values(at, 0)[0]))

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
        below = inside[:-1, None] * (1 - 1e-12) - outside[:-1, None] * np.exp(np.minimum(fine, _MOST_X)) * (1 + 1e-12)
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
        x = first + h * np.arange(-left * self.times, count + right * self.times + 1)
        if x[-1] > _MOST_X:
            return np.zeros(count + 1), np.zeros(count + 1)  # never above V
        chances = np.stack([inner, outer], axis=-1)[..., None]
        at = np.exp(-loss)
        lines = _kink_lines(x)
        margin = np.array([[1 - 1e-13], [1 + 1e-13]])
        for done in range(1, self.times + 1):
            x = x[left : len(x) - right]
            start, end = self._find_open(x, done)
            n, power = end - start, np.exp(x[start:end])
            best_lines, best = np.zeros((2, n)), np.zeros(n)
            inside_more, outside_more = lines[:, 1:] - lines[:, :-1]
            for k in range(len(w)):
                found = np.zeros((2, n))
                for j in (0, 1):
                    place = start + left + int(move[j, k])
                    one, two = slice(place, place + n), slice(place + 1, place + 1 + n)
                    upper = inside_more[one] > outside_more[one] * (power * at[j, k])
                    found += chances[j, k] * np.where(upper, lines[:, two], lines[:, one])
                value = found[0] - found[1] * power
                better = value > best
                np.copyto(best, value, where=better)
                np.copyto(best_lines, found, where=better)
            lines = _kink_lines(x)
            lines[:, start:end] = best_lines * margin
        return lines[0], lines[1]

    def _values(self, first: float, count: int) -> Floats:
        """V from above at first + ih, i = 0 … count.

        The sums have at most some hundred terms, whose sizes add up to at most 8 times the largest value that they meet,
        the first one: V falls.
        """
        means, hidden, left, right = self._matrices()
        i = np.arange(-left * self.times, count + right * self.times + 1)
        x = first + self.step * i
        _, high = _unit_kink(x)
        width, size = left + right + 1, len(x) - left - right
        # Filled anew at every step: arrays of this size, made anew, would cost more than what is computed in them.
        space = [np.empty((rows, size)) for rows in (width, len(means), len(hidden), len(hidden))]
        for done in range(1, self.times + 1):
            x = x[left : len(x) - right]
            start, end = self._find_open(x, done)
            before, (_, high) = high, _unit_kink(x)
            if start < end:
                window, mean, extra, best = (one[:, : end - start] for one in space)
                window[:] = np.lib.stride_tricks.sliding_window_view(before[start : end + width - 1], width).T
                _multiply(means, window, mean)
                _multiply(hidden, window, extra)
                np.maximum(mean[:-1], mean[1:], out=best)
                best += np.maximum(0.0, extra, out=extra)
                high[start:end] = best.max(axis=0) * (1 + 1e-12) + 1e-13 * window[0]
            high = np.maximum.accumulate(high[::-1])[::-1]
        return high

    def _find_open(self, x: Floats, done: int) -> tuple[int, int]:
        """Between which two places of x the losses of so many rounds, whatever was chosen, can add up to more or to less:
        left of them V is 1 − e^x, right of them 0. Where x is rounded by more than the edges are moved, |x| < 1, and
        `_unit_kink` adds more than that."""
        least, most = log1p(self.rate * expm1(-self.epsilon)), log1p(self.rate * expm1(self.epsilon))
        edges = np.array((least, most) if self.removed else (-most, -least)) * (done * (1 + 1e-9))
        start, end = np.searchsorted(x, edges).tolist()
        return start, end

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


def _kink_lines(x: Floats) -> Floats:
    """α and β of the line of 1 − e^x where x < 0, else of 0: neither is ever above V."""
    return np.tile((x < 0).astype(float), (2, 1))


def _multiply(matrix: Floats, window: Floats, product: Floats) -> None:
    """Fill in the product, a few columns at a time: so small ones are not spread over threads, which cost more than they
    save."""
    size = max(64, _ONE_THREAD // matrix.size)
    for i in range(0, window.shape[1], size):
        np.matmul(matrix, window[:, i : i + size], out=product[:, i : i + size])
