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

from discreet.auditor.answers import Outputs, concatenate
from discreet.auditor.certify import REPETITION, CertifiedEvent, certify_events, certify_repetition
from discreet.auditor.claims import Point
from discreet.auditor.events import Candidate, find_candidates, select_finalists
from discreet.auditor.finding import Finding
from discreet.auditor.game import MAX_NUMBERS_HELD, MIN_OUTPUTS, Columns, Pair, Sampler
from discreet.auditor.purse import SamplingBudget
from discreet.auditor.scores import learn_scores
from discreet.auditor.telling import MAX_COLUMNS, select_informative_columns
from discreet.errors import BadParameter

ALPHA_SHARES = (0.25, 0.25, 0.5)
TESTS_PER_ROUND = 8
SPENT_LIMITS = (0.4, 0.7, 1.0)
"""The part of the purse beyond which a round looks at no further pair."""
MIN_CERTIFIED = 60
MAX_EXPLORED, MAX_EXPLORED_AGAIN, PAIRS_KEPT = 20_000, 120_000, (4, 1)
"""Answers a side that a pair is explored with at most, in the first two rounds; how many pairs each of them leaves."""
MAX_LEARNED = 600_000
CHUNK_DRAWN, CHUNK_CALLED, CHUNK_SECONDS = 250_000, 5000, 0.2
"""Answers to one side before it is the other's turn: drawn in bulk, called, and, if there is a clock, as come in so long."""
MAX_REPEATS = 300
PLAIN_SIGMAS = 5.0
"""Standard errors above the claim that are hardly an accident."""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class ExploredPair:
    """What was chosen for a pair, and how telling it is: by what exceeds the claim if that is plain, else by what tells the
    two inputs apart at all."""

    index: int
    separation: tuple[float, float]
    finalists: list[Candidate]
    columns: Columns
    seconds_per_output: float  # seconds an answer


@dataclass
class AuditRounds:
    """One audit."""

    sampler: Sampler
    claim: str
    points: tuple[Point, ...]
    confidence: float
    alpha: float
    budget: SamplingBudget
    progress: Progress | None
    sharp: bool = False
    training_outputs: dict[int, tuple[Outputs, Outputs]] = field(default_factory=dict)  # what was learned from, by pair

    def run(self, pairs: list[Pair]) -> Finding:
        """All of it."""
        order, found = list(range(len(pairs))), list[CertifiedEvent]()
        self._warm_up(pairs[0])
        for turn, share in enumerate(ALPHA_SHARES):
            alpha = self.alpha * share / TESTS_PER_ROUND
            explore, certify = self._plan_round(turn, len(order))
            if (
                turn and certify < MIN_CERTIFIED
            ):  # the last round, which spends all that is left on one pair, may still have enough
                order = order[:1]
                continue
            looked: list[ExploredPair] = []
            for i in order:
                if not looked or self.budget.spent_share <= SPENT_LIMITS[turn]:
                    looked.append(self._explore(i, pairs[i], explore, certify, alpha, len(order)))
            looked.sort(key=lambda each: each.separation, reverse=True)
            broken = [each for each in found if each.evidence.is_violation]
            fresh = self._certify(pairs, looked[0], certify, turn, alpha)
            found = [*fresh, *broken] if fresh else found
            if turn == 0 and not any(each.evidence.is_violation for each in found):
                found += self._certify_repetition(pairs[looked[0].index], alpha)
            if not self.sharp and any(each.evidence.is_violation for each in found):
                break
            order = [each.index for each in looked[: PAIRS_KEPT[min(turn, 1)]]]
        return self._make_finding(found)

    def _warm_up(self, pair: Pair) -> None:
        """The first answers may be slow, and are not reckoned with."""
        n = 1000 if self.sampler.is_fast else 3
        self._draw(pair.left, n, self.budget.end_time, ())
        self.budget.reset_rate()
        self._draw(pair.right, n, self.budget.end_time, ())

    def _plan_round(self, turn: int, pairs: int) -> tuple[int, int]:
        """Answers a side: to explore each pair with, and to certify on."""
        left, widest = self.budget.remaining, MAX_LEARNED // max(1, self._width() // 3)
        if turn == 0:
            each = max(MIN_CERTIFIED, min(MAX_EXPLORED, int(0.06 * left / (2 * pairs + 2))))
            return min(each, widest), each
        if turn == 1:
            each = min(MAX_EXPLORED_AGAIN, int(0.2 * left / (2 * pairs + 2)))
            return min(each, widest), each
        explore = min(MAX_LEARNED, int(0.12 * left))
        return min(explore, widest), int(0.97 * left / 2) - explore

    def _width(self) -> int:
        """How many numbers of an answer are kept: many take longer to learn from."""
        return max((len(side.columns) for sides in self.training_outputs.values() for side in sides), default=1)

    def _is_wide(self, seen: tuple[Outputs, Outputs]) -> bool:
        """Whether an answer has more numbers than are kept: others are chosen every time, and old answers lack them."""
        return max(len(side.columns) for side in seen) >= MAX_COLUMNS

    def _exploration_deadline(self, pairs: int) -> float:
        """When to stop exploring one side of one of so many pairs, or counting how often its answers repeat."""
        if self.budget.seconds is None:
            return inf
        return min(self.budget.end_time, time.monotonic() + self.budget.seconds * (0.15 / pairs + 0.01))

    def _draw_all_columns(self, data: Any, n: int, until: float) -> Outputs:
        """Up to n answers with all of their numbers, as many as there is room for."""
        first = self._draw(data, min(n, MIN_OUTPUTS), until)
        more = min(n, MAX_NUMBERS_HELD // max(1, len(first.columns))) - len(first)
        return first if more <= 0 or time.monotonic() > until else concatenate([first, self._draw(data, more, until)])

    def _draw(self, data: Any, n: int, until: float, columns: Columns = None) -> Outputs:
        begun = time.monotonic()
        found = self.sampler.draw(data, n, until, columns)
        self.budget.record_outputs(len(found), time.monotonic() - begun)
        if self.progress is not None:
            self.progress(self.budget.spent_share)
        return found

    def _explore(self, i: int, pair: Pair, explore: int, certify: int, alpha: float, pairs: int) -> ExploredPair:
        """Learn on the first part of the answers, of which all numbers are looked at, and choose on the rest."""
        heard, waited, before = self.budget.timed_outputs, self.budget.sampler_seconds, self.training_outputs.get(i)
        learnt = max(MIN_OUTPUTS, int((0.4 if before is None or self._is_wide(before) else 0.2) * explore))
        inputs, patience = (pair.left, pair.right), self._exploration_deadline(pairs)
        scanned = [
            self._draw_all_columns(inputs[0], learnt, _find_midpoint(patience)),
            self._draw_all_columns(inputs[1], learnt, patience),
        ]
        telling = select_informative_columns(scanned[0], scanned[1])
        train = [side.keep_columns(telling.columns) for side in scanned]
        late, patience = time.monotonic() > patience, self._exploration_deadline(pairs)
        select = [
            side.select_rows(0, 0)
            if late
            else self._draw(data, max(MIN_OUTPUTS, explore - len(side)), until, telling.columns)
            for data, side, until in zip(inputs, train, (_find_midpoint(patience), patience), strict=True)
        ]
        cost = max(1e-9, (self.budget.sampler_seconds - waited) / max(1, self.budget.timed_outputs - heard))
        fresh = [concatenate(parts) for parts in zip(train, select, strict=True)]
        if late or min(map(len, fresh)) < 4 * MIN_OUTPUTS:  # too few to part; what is certified is drawn later in any case
            train = select = fresh
        if before is not None and set(before[0].columns) == set(telling.columns):
            train = [concatenate(parts) for parts in zip(before, train, strict=True)]
            fresh = [concatenate(parts) for parts in zip(before, fresh, strict=True)]
        self.training_outputs[i] = fresh[0], fresh[1]
        scores = learn_scores(train[0], train[1], telling)
        found = list(find_candidates(scores, select[0], select[1], self._points(pair), certify, alpha))
        chosen = select_finalists(found)
        excess = max(each.sigmas for each in chosen)
        how_telling = (excess if excess > PLAIN_SIGMAS else 0.0, max(each.separation for each in found))
        return ExploredPair(i, how_telling, chosen, telling.columns, cost)

    def _points(self, pair: Pair) -> tuple[Point, ...]:
        return self.points if pair.distance == 1 else tuple(point.for_two_units() for point in self.points)

    def _certify(self, pairs: list[Pair], best: ExploredPair, certify: int, turn: int, alpha: float) -> list[CertifiedEvent]:
        """The finalists of the best pair on fresh answers: fewer where they are slow, decided before the first of them."""
        n, left = certify, self.budget.end_time - time.monotonic()
        if left < inf:
            fitting = left / (2 * best.seconds_per_output)
            last = (
                turn == len(ALPHA_SHARES) - 1 or fitting < 2 * MIN_CERTIFIED
            )  # half of so few would leave too few for another round
            n = max(1, min(certify, int(fitting if last else fitting / 2)))
        chunk = (
            CHUNK_DRAWN
            if self.sampler.is_fast
            else CHUNK_CALLED
            if left == inf
            else max(1, min(CHUNK_CALLED, int(CHUNK_SECONDS / best.seconds_per_output)))
        )
        return certify_events(
            self._draw, pairs[best.index], best.finalists, best.columns, n, chunk, alpha, self.budget.deadline
        )

    def _certify_repetition(self, pair: Pair, alpha: float) -> list[CertifiedEvent]:
        n = min(MAX_REPEATS, self.budget.remaining // 20)
        if n < MIN_CERTIFIED:
            return []
        self.budget.spent += 4 * n
        return certify_repetition(
            self.sampler.count_repeats,
            pair,
            self._points(pair),
            n,
            alpha,
            min(self._exploration_deadline(2), self.budget.deadline),
        )

    def _make_finding(self, found: list[CertifiedEvent]) -> Finding:
        if not found:
            raise BadParameter("seconds", f"{self.budget.seconds:g}", "too short for a single round", "give more time")
        broken = [each for each in found if each.evidence.is_violation]
        broken = [each for each in broken if each.event != REPETITION] or broken  # the plainer story, where there are two
        best = max(broken or found, key=lambda each: each.evidence.margin)
        claimed = best.evidence.point.claimed_point
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
            resolution=None if broken else min(each.evidence.compute_resolution() for each in found),
            evidence=best.evidence,
            points=self.points,
            samples=self.budget.spent,
            seconds=self.budget.elapsed,
        )


def _find_midpoint(until: float) -> float:
    """The middle of the time from now until then."""
    now = time.monotonic()
    return until if until == inf else now + max(0.0, until - now) / 2
