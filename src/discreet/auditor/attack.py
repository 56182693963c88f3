"""`audit`: three rounds, each of which learns, selects and certifies on answers of its own.

The first looks at all pairs briefly, the second at the most telling ones, the third spends what is left on the best. A round
that certifies a violation is the last one. α is divided over the rounds (a quarter, a quarter, a half), in each over eight
tests (seven finalists, one repetition) and in each test over both proportions; so everything that is certified holds
together with the stated confidence. What a round certifies on is drawn after its finalists are fixed, and how many answers
that takes is fixed before the first of them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any

from discreet.auditor.answers import Answers, together
from discreet.auditor.claims import Claimed, Point, curve, words
from discreet.auditor.crowd import Crowd
from discreet.auditor.events import Candidate, candidates, finalists, learn
from discreet.auditor.evidence import Evidence, upper
from discreet.auditor.finding import Finding
from discreet.auditor.game import LEAST, Pair, Player, player
from discreet.auditor.neighbours import Domain, generated
from discreet.errors import BadParameter
from discreet.exact import Number, open_unit, positive, whole
from discreet.units import Neighbours

SHARES = (0.25, 0.25, 0.5)
TESTS = 8
SECONDS = 20.0
MOST_SAMPLES = 40_000_000
FEWEST, TRIED = 60, 4000
MOST_LEARNED = 600_000
CHUNK = 250_000
REPEATS = 300
HASTE = 1.0
"""Seconds that a side of a pair may always be explored for."""
PATIENCE = 1.5
"""Certifying may take this much longer than was asked for; past it the round certifies nothing."""

TWICE = "the same answer comes twice in a row"

Progress = Callable[[float], None]


def audit(
    mechanism: Any,
    claim: Claimed,
    neighbours: Sequence[Any] | None = None,
    *,
    confidence: Number = 0.999,
    samples: int | None = None,
    seconds: float | None = None,
    domain: Domain = (0, 1),
    relation: Neighbours = Neighbours.ADD_REMOVE,
    limit: float = 1.0,
    workers: int = 0,
    progress: Progress | None = None,
) -> Finding:
    """Attack a mechanism and certify what it leaks.

    `mechanism` is any callable of one input, an object with `sample(input, n)`, or a mechanism of discreet. `claim` is an ε,
    (ε, δ), `Rho`, `Mu`, `RenyiPoint` or a loss. `neighbours` are pairs of inputs; without them lists of numbers in `domain`
    are tried. `samples` or `seconds` say how much may be spent in all; a call may take `limit` seconds. With `workers` the
    calls are made in that many processes, and the mechanism must be a function at the top of a module, or "module:function".

    >>> from discreet import Laplace
    >>> found = audit(Laplace(1), 0.5, [(0, 1)], samples=200_000)
    >>> found.violation, 0.5 < found.certified_epsilon <= 1
    (True, True)
    """
    if not (
        callable(mechanism)
        or (workers and isinstance(mechanism, str))
        or hasattr(mechanism, "sample")
        or hasattr(mechanism, "release")
    ):
        raise BadParameter("mechanism", type(mechanism).__name__, "cannot be called", "give a function of one input")
    alpha = float(1 - open_unit(confidence, "confidence"))
    pairs = generated(domain, relation) if neighbours is None else [_pair(each) for each in neighbours]
    if not pairs:
        raise BadParameter("neighbours", "empty", "there is nothing to tell apart", "give at least one pair of inputs")
    purse = _Purse(
        None if samples is None else whole(samples, "samples", 1000),
        None if samples is not None and seconds is None else float(positive(seconds or SECONDS, "seconds")),
    )
    playing = Crowd(mechanism, workers, limit) if workers else player(mechanism, limit)
    game = _Game(playing, words(claim), curve(claim), float(confidence), alpha, purse, progress)
    try:
        return game.played(pairs)
    finally:
        if isinstance(playing, Crowd):
            playing.close()


@dataclass
class _Purse:
    """What may be spent, and what was."""

    samples: int | None
    seconds: float | None
    start: float = field(default_factory=time.monotonic)
    used: int = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def left(self, cost: float) -> int:
        """How many more answers, at this many seconds each."""
        found = MOST_SAMPLES if self.samples is None else self.samples - self.used
        if self.seconds is not None:
            found = min(found, int((self.seconds - self.elapsed) / max(cost, 1e-9)))
        return max(0, min(found, MOST_SAMPLES))

    def until(self, factor: float = 1.0) -> float:
        return float("inf") if self.seconds is None else self.start + factor * self.seconds

    def part(self) -> float:
        by_count = 0.0 if self.samples is None else self.used / self.samples
        return min(1.0, max(by_count, 0.0 if self.seconds is None else self.elapsed / self.seconds))


@dataclass(frozen=True)
class _Certified:
    pair: Pair
    event: str
    likelier: str
    evidence: Evidence


@dataclass
class _Game:
    """One audit."""

    player: Player
    claim: str
    points: tuple[Point, ...]
    confidence: float
    alpha: float
    purse: _Purse
    progress: Progress | None
    seen: dict[int, tuple[list[Answers], list[Answers]]] = field(default_factory=dict)
    costs: dict[int, float] = field(default_factory=dict)  # seconds an answer, by pair
    spent: float = 0.0  # seconds in the black box

    def played(self, pairs: list[Pair]) -> Finding:
        order = list(range(len(pairs)))
        found: list[_Certified] = []
        self._measure(pairs[0])
        for turn, share in enumerate(SHARES):
            alpha = self.alpha * share / TESTS
            explore, certify = self._plan(turn, len(order))
            if turn and certify < FEWEST:
                break
            explore = min(explore, MOST_LEARNED // max(1, self._width() // 3))
            ranked = sorted(
                ((self._explored(i, pairs[i], explore, certify, alpha, len(order)), i) for i in order),
                key=lambda each: each[0][0],
            )
            (_, chosen), best = ranked[-1]
            found = self._certified(pairs[best], chosen, self._affordable(best, certify, turn), alpha) or found
            if turn == 0:
                found += self._repeated(pairs[best], alpha)
            if any(each.evidence.violates for each in found):
                break
            order = [i for _, i in ranked[::-1][: 3 if turn == 0 else 1]]
        return self._told(found)

    def _width(self) -> int:
        """How many numbers an answer has: wide ones take longer to learn from."""
        return max((len(part.columns) for sides in self.seen.values() for side in sides for part in side), default=1)

    def _cost(self) -> float:
        return self.spent / max(1, self.purse.used)

    def _measure(self, pair: Pair) -> None:
        n = 1000 if self.player.quick else 3
        for data in (pair.left, pair.right):
            self._ask(data, n)

    def _plan(self, turn: int, pairs: int) -> tuple[int, int]:
        """Answers a side: to explore each pair with, and to certify on."""
        left = self.purse.left(self._cost())
        if turn == 0:
            each = max(FEWEST, min(TRIED, int(0.06 * left / (2 * pairs + 2))))
            return each, each
        if turn == 1:
            each = min(30_000, int(0.2 * left / (2 * pairs + 2)))
            return each, each
        explore = min(MOST_LEARNED, int(0.12 * left))
        return explore, int(0.97 * left / 2) - explore

    def _haste(self, pairs: int) -> float:
        """When to stop exploring one side of one of so many pairs."""
        return min(self.purse.until(), time.monotonic() + HASTE + 0.3 * (self.purse.seconds or float("inf")) / pairs)

    def _affordable(self, i: int, certify: int, turn: int) -> int:
        """Fewer answers where this pair's are slow; decided before the first of them."""
        left = self.purse.until() - time.monotonic()
        share = 1.0 if turn == len(SHARES) - 1 else 0.5
        return certify if left == float("inf") else max(1, min(certify, int(share * left / (2 * max(self.costs[i], 1e-9)))))

    def _ask(self, data: Any, n: int, until: float = float("inf")) -> Answers:
        begun = time.monotonic()
        found = self.player.answers(data, n, until)
        self.spent += time.monotonic() - begun
        self.purse.used += len(found)
        if self.progress is not None:
            self.progress(self.purse.part())
        return found

    def _explored(
        self, i: int, pair: Pair, explore: int, certify: int, alpha: float, pairs: int
    ) -> tuple[tuple[float, float], list[Candidate]]:
        """The finalists of a pair, and how telling it is: by what exceeds the claim if that is plain, else by what tells
        the two inputs apart at all."""
        before = self.seen.setdefault(i, ([], []))
        begun, spent = self.purse.used, self.spent
        fresh = [self._ask(data, explore, self._haste(pairs)) for data in (pair.left, pair.right)]
        self.costs[i] = (self.spent - spent) / max(1, self.purse.used - begun)
        cuts = [int((0.2 if before[0] else 0.4) * len(side)) for side in fresh]
        train = [together([*old, side.part(0, cut)]) for old, side, cut in zip(before, fresh, cuts, strict=True)]
        select = [side.part(cut, len(side)) for side, cut in zip(fresh, cuts, strict=True)]
        if min(map(len, fresh)) < 4 * LEAST:  # too few to part; what is certified is drawn later in any case
            train, select = [together([*old, side]) for old, side in zip(before, fresh, strict=True)], fresh
        for old, side in zip(before, fresh, strict=True):
            old.append(side)
        found = list(candidates(learn(train[0], train[1]), select[0], select[1], self._points(pair), certify, alpha))
        chosen = finalists(found)
        excess = max(each.sigmas for each in chosen)
        return (excess if excess > 5 else 0.0, max(each.apart for each in found)), chosen

    def _points(self, pair: Pair) -> tuple[Point, ...]:
        return self.points if pair.changes == 1 else tuple(point.twice() for point in self.points)

    def _certified(self, pair: Pair, chosen: list[Candidate], n: int, alpha: float) -> list[_Certified]:
        """The finalists counted on n fresh answers a side; nothing if time ran out on the way."""
        sides = (pair.left, pair.right)
        counts = [[0, 0] for _ in chosen]
        chunk = CHUNK if self.player.quick else max(20, min(5000, int(0.5 / max(self._cost(), 1e-7))))
        for start in range(0, n, chunk):
            if time.monotonic() > self.purse.until(PATIENCE):
                return []
            for side, data in enumerate(sides):
                found = self._ask(data, min(chunk, n - start))
                for each, count in zip(chosen, counts, strict=True):
                    count[side] += each.event.count(found)
        return [
            _Certified(
                pair,
                str(each.event),
                _name(sides[0 if each.left else 1]),
                Evidence(*((a, n, b, n) if each.left else (b, n, a, n)), each.point, alpha),
            )
            for each, (a, b) in zip(chosen, counts, strict=True)
        ]

    def _repeated(self, pair: Pair, alpha: float) -> list[_Certified]:
        """Asked once about the left input, which anybody may do, and then about left or right: with independent noise the
        first answer tells nothing about the second, so "the same again" must obey the claim like any other event."""
        n = min(REPEATS, self.purse.left(self._cost()) // 20)
        if n < FEWEST:
            return []
        local = getattr(self.player, "local", self.player)
        same = [0, 0]
        stop = time.monotonic() + HASTE + 0.1 * (self.purse.seconds or float("inf"))
        for side, data in enumerate((pair.left, pair.right)):
            for _ in range(n):
                if time.monotonic() > stop:
                    return []
                first, second = local.answers(pair.left, 1), local.answers(data, 1)
                same[side] += bool(first.whole[0] == second.whole[0] and first.sort[0] == second.sort[0])
        self.purse.used += 4 * n
        rare = upper(0, n, alpha / 2)
        point = min(self._points(pair), key=lambda each: exp(each.epsilon) * rare + each.delta)
        name = f"{_name(pair.left)} and again"
        return [_Certified(pair, TWICE, name, Evidence(same[0], n, same[1], n, point, alpha))]

    def _told(self, found: list[_Certified]) -> Finding:
        if not found:
            raise BadParameter("seconds", f"{self.purse.seconds:g}", "too short for a single round", "give more time")
        broken = [each for each in found if each.evidence.violates]
        broken = [each for each in broken if each.event != TWICE] or broken  # the plainer story, where there are two
        best = max(broken or found, key=lambda each: each.evidence.margin)
        sharpest = min(each.evidence.resolution() for each in found)
        return Finding(
            violation=bool(broken),
            claim=self.claim,
            certified_epsilon=best.evidence.epsilon,
            delta=best.evidence.point.delta,
            claimed_epsilon=best.evidence.point.epsilon,
            confidence=self.confidence,
            pair=str(best.pair),
            event=best.event,
            likelier=best.likelier,
            resolution=None if broken else sharpest,
            evidence=best.evidence,
            points=self.points,
            samples=self.purse.used,
            seconds=self.purse.elapsed,
        )


def _name(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:60]} … {text[-15:]}"


def _pair(given: Any) -> Pair:
    if isinstance(given, Pair):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return Pair(given[0], given[1])
    raise BadParameter("neighbours", type(given).__name__, "not a pair", "give (one input, its neighbour)")
