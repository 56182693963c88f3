"""Three rounds, each of which learns, selects and certifies on answers of its own.

The first looks at all pairs briefly, the second at the most telling ones, the third spends what is left on the best. A round
that certifies a violation is the last one, unless the sharpest bound is wanted. α is divided over the rounds (a quarter, a
quarter, a half), in each over eight tests (seven finalists, one repetition), and in each test over both proportions; so
everything that is certified holds together with the stated confidence. Only the pair that looked best is certified, on
answers drawn after its finalists are fixed, so neither pairs nor directions are paid for.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from discreet.auditor.answers import Answers, together
from discreet.auditor.certify import TWICE, Certified, counted, repeats
from discreet.auditor.claims import Point
from discreet.auditor.events import Candidate, candidates, finalists
from discreet.auditor.finding import Finding
from discreet.auditor.game import LEAST, ROOM, Columns, Pair, Player
from discreet.auditor.purse import Purse
from discreet.auditor.scores import learn
from discreet.auditor.telling import MOST_COLUMNS, most_telling
from discreet.errors import BadParameter

SHARES = (0.25, 0.25, 0.5)
TESTS = 8
WHOLE = (0.4, 0.7, 1.0)
"""The part of the purse beyond which a round looks at no further pair."""
FEWEST = 60
TRIED, TRIED_AGAIN, KEPT = 20_000, 120_000, (4, 1)
"""Answers a side that a pair is explored with at most, in the first two rounds; how many pairs each of them leaves."""
MOST_LEARNED = 600_000
CHUNK, CALLS, BREATH = 250_000, 5000, 0.2
"""Answers to one side before it is the other's turn: drawn in bulk, called, and, if there is a clock, as come in so long."""
REPEATS = 300
PLAIN = 5.0
"""Standard errors above the claim that are hardly an accident."""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Explored:
    """What was chosen for a pair, and how telling it is: by what exceeds the claim if that is plain, else by what tells the
    two inputs apart at all."""

    place: int
    telling: tuple[float, float]
    chosen: list[Candidate]
    columns: Columns
    cost: float  # seconds an answer


@dataclass
class Rounds:
    """One audit."""

    player: Player
    claim: str
    points: tuple[Point, ...]
    confidence: float
    alpha: float
    purse: Purse
    progress: Progress | None
    sharp: bool = False
    seen: dict[int, tuple[Answers, Answers]] = field(default_factory=dict)  # what was learned from, by pair

    def played(self, pairs: list[Pair]) -> Finding:
        """All of it."""
        order, found = list(range(len(pairs))), list[Certified]()
        self._warm(pairs[0])
        for turn, share in enumerate(SHARES):
            alpha = self.alpha * share / TESTS
            explore, certify = self._plan(turn, len(order))
            if turn and certify < FEWEST:  # the last round, which spends all that is left on one pair, may still have enough
                order = order[:1]
                continue
            looked: list[Explored] = []
            for i in order:
                if not looked or self.purse.part <= WHOLE[turn]:
                    looked.append(self._explored(i, pairs[i], explore, certify, alpha, len(order)))
            looked.sort(key=lambda each: each.telling, reverse=True)
            broken = [each for each in found if each.evidence.violates]
            fresh = self._counted(pairs, looked[0], certify, turn, alpha)
            found = [*fresh, *broken] if fresh else found
            if turn == 0 and not any(each.evidence.violates for each in found):
                found += self._repeated(pairs[looked[0].place], alpha)
            if not self.sharp and any(each.evidence.violates for each in found):
                break
            order = [each.place for each in looked[: KEPT[min(turn, 1)]]]
        return self._told(found)

    def _warm(self, pair: Pair) -> None:
        """The first answers may be slow, and are not reckoned with."""
        n = 1000 if self.player.quick else 3
        self._ask(pair.left, n, self.purse.until, ())
        self.purse.forget()
        self._ask(pair.right, n, self.purse.until, ())

    def _plan(self, turn: int, pairs: int) -> tuple[int, int]:
        """Answers a side: to explore each pair with, and to certify on."""
        left, widest = self.purse.left, MOST_LEARNED // max(1, self._width() // 3)
        if turn == 0:
            each = max(FEWEST, min(TRIED, int(0.06 * left / (2 * pairs + 2))))
            return min(each, widest), each
        if turn == 1:
            each = min(TRIED_AGAIN, int(0.2 * left / (2 * pairs + 2)))
            return min(each, widest), each
        explore = min(MOST_LEARNED, int(0.12 * left))
        return min(explore, widest), int(0.97 * left / 2) - explore

    def _width(self) -> int:
        """How many numbers of an answer are kept: many take longer to learn from."""
        return max((len(side.columns) for sides in self.seen.values() for side in sides), default=1)

    def _wide(self, seen: tuple[Answers, Answers]) -> bool:
        """Whether an answer has more numbers than are kept: others are chosen every time, and old answers lack them."""
        return max(len(side.columns) for side in seen) >= MOST_COLUMNS

    def _haste(self, pairs: int) -> float:
        """When to stop exploring one side of one of so many pairs, or counting how often its answers repeat."""
        if self.purse.seconds is None:
            return inf
        return min(self.purse.until, time.monotonic() + self.purse.seconds * (0.15 / pairs + 0.01))

    def _scanned(self, data: Any, n: int, until: float) -> Answers:
        """Up to n answers with all of their numbers, as many as there is room for."""
        first = self._ask(data, min(n, LEAST), until)
        more = min(n, ROOM // max(1, len(first.columns))) - len(first)
        return first if more <= 0 or time.monotonic() > until else together([first, self._ask(data, more, until)])

    def _ask(self, data: Any, n: int, until: float, columns: Columns = None) -> Answers:
        begun = time.monotonic()
        found = self.player.answers(data, n, until, columns)
        self.purse.pay(len(found), time.monotonic() - begun)
        if self.progress is not None:
            self.progress(self.purse.part)
        return found

    def _explored(self, i: int, pair: Pair, explore: int, certify: int, alpha: float, pairs: int) -> Explored:
        """Learn on the first part of the answers, of which all numbers are looked at, and choose on the rest."""
        heard, waited, before = self.purse.heard, self.purse.waited, self.seen.get(i)
        learnt = max(LEAST, int((0.4 if before is None or self._wide(before) else 0.2) * explore))
        inputs, patience = (pair.left, pair.right), self._haste(pairs)
        scanned = [self._scanned(inputs[0], learnt, _half_way(patience)), self._scanned(inputs[1], learnt, patience)]
        telling = most_telling(scanned[0], scanned[1])
        train = [side.only(telling.columns) for side in scanned]
        late, patience = time.monotonic() > patience, self._haste(pairs)
        select = [
            side.part(0, 0) if late else self._ask(data, max(LEAST, explore - len(side)), until, telling.columns)
            for data, side, until in zip(inputs, train, (_half_way(patience), patience), strict=True)
        ]
        cost = max(1e-9, (self.purse.waited - waited) / max(1, self.purse.heard - heard))
        fresh = [together(parts) for parts in zip(train, select, strict=True)]
        if late or min(map(len, fresh)) < 4 * LEAST:  # too few to part; what is certified is drawn later in any case
            train = select = fresh
        if before is not None and set(before[0].columns) == set(telling.columns):
            train = [together(parts) for parts in zip(before, train, strict=True)]
            fresh = [together(parts) for parts in zip(before, fresh, strict=True)]
        self.seen[i] = fresh[0], fresh[1]
        scores = learn(train[0], train[1], telling)
        found = list(candidates(scores, select[0], select[1], self._points(pair), certify, alpha))
        chosen = finalists(found)
        excess = max(each.sigmas for each in chosen)
        how_telling = (excess if excess > PLAIN else 0.0, max(each.apart for each in found))
        return Explored(i, how_telling, chosen, telling.columns, cost)

    def _points(self, pair: Pair) -> tuple[Point, ...]:
        return self.points if pair.changes == 1 else tuple(point.twice() for point in self.points)

    def _counted(self, pairs: list[Pair], best: Explored, certify: int, turn: int, alpha: float) -> list[Certified]:
        """The finalists of the best pair on fresh answers: fewer where they are slow, decided before the first of them."""
        n, left = certify, self.purse.until - time.monotonic()
        if left < inf:
            fitting = left / (2 * best.cost)
            last = turn == len(SHARES) - 1 or fitting < 2 * FEWEST  # half of so few would leave too few for another round
            n = max(1, min(certify, int(fitting if last else fitting / 2)))
        chunk = CHUNK if self.player.quick else CALLS if left == inf else max(1, min(CALLS, int(BREATH / best.cost)))
        return counted(self._ask, pairs[best.place], best.chosen, best.columns, n, chunk, alpha, self.purse.deadline)

    def _repeated(self, pair: Pair, alpha: float) -> list[Certified]:
        n = min(REPEATS, self.purse.left // 20)
        if n < FEWEST:
            return []
        self.purse.used += 4 * n
        return repeats(self.player.again, pair, self._points(pair), n, alpha, min(self._haste(2), self.purse.deadline))

    def _told(self, found: list[Certified]) -> Finding:
        if not found:
            raise BadParameter("seconds", f"{self.purse.seconds:g}", "too short for a single round", "give more time")
        broken = [each for each in found if each.evidence.violates]
        broken = [each for each in broken if each.event != TWICE] or broken  # the plainer story, where there are two
        best = max(broken or found, key=lambda each: each.evidence.margin)
        claimed = best.evidence.point.claimed
        return Finding(
            violation=bool(broken),
            claim=self.claim,
            certified_epsilon=best.evidence.epsilon,
            delta=claimed.delta,
            claimed_epsilon=claimed.epsilon,
            confidence=self.confidence,
            pair=str(best.pair),
            event=best.event,
            likelier=best.likelier,
            resolution=None if broken else min(each.evidence.resolution() for each in found),
            evidence=best.evidence,
            points=self.points,
            samples=self.purse.used,
            seconds=self.purse.elapsed,
        )


def _half_way(until: float) -> float:
    """The middle of the time from now until then."""
    now = time.monotonic()
    return until if until == inf else now + max(0.0, until - now) / 2
