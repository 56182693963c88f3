"""`audit`: how a mechanism, a claim and neighbours become a game, and the game a finding."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

from discreet._numbers import Number, check_int, check_positive, check_probability
from discreet.auditor.claims import Claim, Point, format_claim, sample_curve
from discreet.auditor.evidence import (
    REPETITION,
    Candidate,
    CertifiedEvent,
    certify_events,
    certify_repetition,
    find_candidates,
    select_finalists,
)
from discreet.auditor.finding import Finding
from discreet.auditor.neighbours import Domain, generate_pairs
from discreet.auditor.outputs import Outputs, concatenate
from discreet.auditor.sampling import MAX_NUMBERS_HELD, MIN_OUTPUTS, Columns, Pair, Sampler, make_sampler
from discreet.auditor.scores import MAX_COLUMNS, learn_scores, select_informative_columns
from discreet.auditor.worker_pool import RestartSampler, WorkerPool
from discreet.errors import BadParameter
from discreet.units import Neighbours

# What an audit may spend, in answers or in seconds, and what it has spent.


MAX_SAMPLES = 40_000_000
OVERRUN_SHARE = 0.05
"""By this share, and a second, may counting overrun the time."""


@dataclass
class SamplingBudget:
    """Answers, seconds, or both."""

    samples: int | None
    seconds: float | None
    start: float = field(default_factory=time.monotonic)
    spent: int = 0
    sampler_seconds: float = 0.0  # seconds in the black box
    timed_outputs: int = 0  # answers that came in them

    def record_outputs(self, answers: int, seconds: float) -> None:
        """So many answers were given."""
        self.spent += answers
        self.timed_outputs += answers
        self.sampler_seconds += seconds

    def reset_rate(self) -> None:
        """Do not reckon with the first answers, which may be slow."""
        self.sampler_seconds, self.timed_outputs = 0.0, 0

    @property
    def seconds_per_output(self) -> float:
        """Seconds an answer."""
        return self.sampler_seconds / max(1, self.timed_outputs)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def remaining(self) -> int:
        """How many more answers there may be."""
        found = MAX_SAMPLES if self.samples is None else self.samples - self.spent
        if self.seconds is not None:
            found = min(found, int((self.seconds - self.elapsed) / max(self.seconds_per_output, 1e-9)))
        return max(0, min(found, MAX_SAMPLES))

    @property
    def end_time(self) -> float:
        """When the time is over."""
        return inf if self.seconds is None else self.start + self.seconds

    @property
    def deadline(self) -> float:
        """When nothing is waited for any longer."""
        return inf if self.seconds is None else self.end_time + 1 + OVERRUN_SHARE * self.seconds

    @property
    def spent_share(self) -> float:
        """The part of it that is spent."""
        by_count = 0.0 if self.samples is None else self.spent / self.samples
        return min(1.0, max(by_count, 0.0 if self.seconds is None else self.elapsed / self.seconds))


# Three rounds, each of which learns, selects and certifies on answers of its own.
#
# The first looks at all pairs briefly, the second at the most telling ones, the third spends what is left on the best. A
# round
# that certifies a violation is the last one, unless the sharpest bound is wanted. α is divided over the rounds (a quarter, a
# quarter, a half), in each over eight tests (seven finalists, one repetition), and in each test over both proportions; so
# everything that is certified holds together with the stated confidence. Only the pair that looked best is certified, on
# answers drawn after its finalists are fixed, so neither pairs nor directions are paid for.


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


DEFAULT_SECONDS = 20.0
MIN_CALLS = 100
"""At least so many calls fit into the time, or their limit is shortened: with fewer nothing could be certified."""


def audit(
    mechanism: Any,
    claim: Claim,
    neighbours: Sequence[Any] | None = None,
    *,
    confidence: Number = 0.999,
    samples: int | None = None,
    seconds: float | None = None,
    domain: Domain = (0, 1),
    relation: Neighbours = Neighbours.ADD_REMOVE,
    limit: float = 1.0,
    workers: int = 0,
    restart: bool = False,
    sharp: bool = False,
    progress: Progress | None = None,
) -> Finding:
    """Attack a mechanism and certify what it leaks.

    `mechanism` is any callable of one input, an object with `sample(input, n)`, or a mechanism of discreet. `claim` is an ε,
    (ε, δ), `Rho`, `Mu`, `RenyiPoint` or a loss. `neighbours` are pairs of inputs; without them lists of numbers in `domain`
    are tried. `samples` or `seconds` say how much may be spent in all; a call may take `limit` seconds, and a hundredth of
    `seconds`. With `workers` the calls are made in that many processes, and the mechanism must be a function at the top of a
    module, or "module:function"; with `restart` every call starts a process of its own, so that a seed that is set once per
    program shows. With `sharp` the audit goes on after a violation, for the best bound that its means allow.

    >>> from discreet import Laplace
    >>> found = audit(Laplace(1), 0.5, [(0, 1)], samples=200_000)
    >>> found.violation, 0.5 < found.certified_epsilon <= 1
    (True, True)
    """
    if not (callable(mechanism) or (isinstance(mechanism, str) and (workers or restart)) or _can_sample(mechanism)):
        raise BadParameter("mechanism", type(mechanism).__name__, "cannot be called", "give a function of one input")
    alpha = float(1 - check_probability(confidence, "confidence"))
    pairs = generate_pairs(domain, relation) if neighbours is None else [_parse_pair(each) for each in neighbours]
    if not pairs:
        raise BadParameter("neighbours", "empty", "there is nothing to tell apart", "give at least one pair of inputs")
    most = None if samples is None else check_int(samples, "samples", 1000)
    time = None if samples is not None and seconds is None else float(check_positive(seconds or DEFAULT_SECONDS, "seconds"))
    one = float(check_positive(limit, "limit"))
    with _open_sampler(mechanism, one if time is None else min(one, time / MIN_CALLS), workers, restart) as playing:
        game = AuditRounds(
            playing,
            format_claim(claim),
            sample_curve(claim),
            float(confidence),
            alpha,
            SamplingBudget(most, time),
            progress,
            sharp,
        )
        return game.run(pairs)


def _can_sample(mechanism: Any) -> bool:
    return hasattr(mechanism, "sample") or hasattr(mechanism, "release")


@contextmanager
def _open_sampler(mechanism: Any, limit: float, workers: int, restart: bool) -> Iterator[Sampler]:
    """Somebody who answers, until the audit is over."""
    if restart:
        yield RestartSampler(mechanism, workers or 1, limit)
    elif not workers:
        yield make_sampler(mechanism, limit)
    else:
        with WorkerPool(mechanism, workers, limit) as crowd:
            yield crowd


def _parse_pair(given: Any) -> Pair:
    if isinstance(given, Pair):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return Pair(given[0], given[1])
    raise BadParameter("neighbours", type(given).__name__, "not a pair", "give (one input, its neighbour)")
