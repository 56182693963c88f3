"""`audit`: attack a mechanism on neighbouring inputs and certify a lower bound on its ε.

Theory of operation
-------------------
An audit has three rounds. The first explores all pairs of inputs briefly, the second the most promising ones, the third
spends the rest of the sampling budget on the best. Each round learns scores, selects events and certifies them on outputs
of its own. A round that certifies a violation is the last one, unless the sharpest bound is asked for (`sharp`).

**Proof** that everything which is certified holds together with the stated confidence 1 − α. α is divided over the rounds
(a quarter, a quarter, a half), in each round over eight tests (seven finalists and one test for repeated noise), and in
each test over both proportions (`evidence`); the union bound adds these up to α. Only the pair that looked best is
certified, on outputs drawn after its finalists are fixed, so the number of pairs and directions that were tried does not
enter. Calls are assumed to be independent; the test for repeated noise checks that assumption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from discreet._numbers import Number, check_int, check_positive, check_probability
from discreet.auditor.claims import Claim, Domain, Pair, Point, format_claim, generate_pairs, sample_curve
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
from discreet.auditor.outputs import Outputs, concatenate
from discreet.auditor.parse_output import NO_OUTPUT, RAISES
from discreet.auditor.sampling import (
    MAX_NUMBERS_HELD,
    MIN_OUTPUTS,
    Columns,
    RestartSampler,
    Sampler,
    WorkerPool,
    make_sampler,
)
from discreet.auditor.scores import MAX_COLUMNS, learn_scores, select_informative_columns
from discreet.errors import BadParameter
from discreet.units import Neighbours

Progress = Callable[[float], None]

DEFAULT_SECONDS = 20.0
MIN_CALLS = 100
"""At least this many calls fit into the time, or their limit is shortened: with fewer nothing could be certified."""


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
    """Attack a mechanism and certify a lower bound on its ε.

    `mechanism` is any callable of one input, an object with `sample(input, n)`, or a mechanism of discreet. `claim` is an ε,
    (ε, δ), `Rho`, `Mu`, `RenyiPoint` or an event. `neighbours` are pairs of inputs; without them lists of numbers in
    `domain` are tried. `samples` and `seconds` are the sampling budget; one call may take `limit` seconds, and at most a
    hundredth of `seconds`. With `workers` the calls are made in that many processes, and the mechanism must be a function at
    the top level of a module, or "module:function"; with `restart` every call starts a process, so that a seed that is set
    once per process shows. With `sharp` the audit goes on after a violation, for the best bound that the budget allows.

    >>> from discreet import Laplace
    >>> found = audit(Laplace(1), 0.5, [(0, 1)], samples=200_000)
    >>> found.violation, 0.5 < found.certified_epsilon <= 1
    (True, True)
    """
    if not (callable(mechanism) or (isinstance(mechanism, str) and (workers or restart)) or _can_sample(mechanism)):
        raise BadParameter(
            "mechanism", f"of type {type(mechanism).__name__}", "not callable", "give a function of one input"
        )
    alpha = float(1 - check_probability(confidence, "confidence"))
    pairs = generate_pairs(domain, relation) if neighbours is None else [_parse_pair(each) for each in neighbours]
    if not pairs:
        raise BadParameter("neighbours", "empty", "there are no inputs to compare", "give at least one pair of inputs")
    max_samples = None if samples is None else check_int(samples, "samples", 1000)
    untimed = samples is not None and seconds is None
    duration = None if untimed else float(check_positive(DEFAULT_SECONDS if seconds is None else seconds, "seconds"))
    per_call = float(check_positive(limit, "limit"))
    if duration is not None:
        per_call = min(per_call, duration / MIN_CALLS)
    with _open_sampler(mechanism, per_call, workers, restart) as sampler:
        rounds = AuditRounds(
            sampler,
            format_claim(claim),
            sample_curve(claim),
            float(confidence),
            alpha,
            SamplingBudget(max_samples, duration),
            progress,
            sharp,
        )
        return rounds.run(pairs)


def _can_sample(mechanism: Any) -> bool:
    return any(hasattr(mechanism, name) for name in ("sample", "release", "count_repeats"))


@contextmanager
def _open_sampler(mechanism: Any, limit: float, workers: int, restart: bool) -> Iterator[Sampler]:
    """Open the sampler for the duration of an audit."""
    if restart:
        yield RestartSampler(mechanism, workers or 1, limit)
    elif not workers:
        yield make_sampler(mechanism, limit)
    else:
        with WorkerPool(mechanism, workers, limit) as pool:
            yield pool


def _parse_pair(given: Any) -> Pair:
    if isinstance(given, Pair):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return Pair(given[0], given[1])
    raise BadParameter("neighbours", f"of type {type(given).__name__}", "not a pair", "give (one input, its neighbour)")


# -- the sampling budget ----------------------------------------------------------------------------------------------------


MAX_SAMPLES = 40_000_000
OVERRUN_SHARE = 0.05
"""The certification may exceed the time by this share, and a second."""


@dataclass
class SamplingBudget:
    """How many outputs or seconds an audit may use, and how much of that is spent."""

    samples: int | None
    seconds: float | None
    start: float = field(default_factory=time.monotonic)
    spent: int = 0
    sampler_seconds: float = 0.0  # time spent in the sampler
    timed_outputs: int = 0  # outputs drawn in that time

    def record_outputs(self, outputs: int, seconds: float) -> None:
        """Add the outputs that were drawn, and the time that they took."""
        self.spent += outputs
        self.timed_outputs += outputs
        self.sampler_seconds += seconds

    def reset_rate(self) -> None:
        """Forget the time of the first outputs, which may be slow."""
        self.sampler_seconds, self.timed_outputs = 0.0, 0

    @property
    def seconds_per_output(self) -> float:
        """The mean time that an output takes."""
        return self.sampler_seconds / max(1, self.timed_outputs)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def remaining(self) -> int:
        """How many more outputs the budget allows."""
        outputs = MAX_SAMPLES if self.samples is None else self.samples - self.spent
        if self.seconds is not None:
            outputs = min(outputs, int((self.seconds - self.elapsed) / max(self.seconds_per_output, 1e-9)))
        return max(0, min(outputs, MAX_SAMPLES))

    @property
    def end_time(self) -> float:
        """When the time is over."""
        return inf if self.seconds is None else self.start + self.seconds

    @property
    def deadline(self) -> float:
        """When certification stops waiting for outputs."""
        return inf if self.seconds is None else self.end_time + 1 + OVERRUN_SHARE * self.seconds

    @property
    def spent_share(self) -> float:
        """The part of the budget that is spent."""
        by_count = 0.0 if self.samples is None else self.spent / self.samples
        return min(1.0, max(by_count, 0.0 if self.seconds is None else self.elapsed / self.seconds))


# -- the three rounds -------------------------------------------------------------------------------------------------------


ALPHA_SHARES = (0.25, 0.25, 0.5)
TESTS_PER_ROUND = 8
SPENT_LIMITS = (0.4, 0.7, 1.0)
"""The part of the sampling budget beyond which a round explores no further pair."""
MIN_CERTIFIED = 60
MAX_EXPLORED, MAX_EXPLORED_AGAIN, PAIRS_KEPT = 20_000, 120_000, (4, 1)
"""Outputs per input with which a pair is explored at most, in the first two rounds; how many pairs go on to the next."""
MAX_LEARNED = 600_000
CHUNK_DRAWN, CHUNK_CALLED, CHUNK_SECONDS = 250_000, 5000, 0.2
"""Outputs of one input before the other's: drawn in bulk, called, and, with a time limit, as many as fit into so long."""
MAX_REPEATS = 300
PLAIN_SIGMAS = 5.0
"""An excess of so many standard errors over the claim is hardly chance."""


@dataclass(frozen=True)
class ExploredPair:
    """The events chosen for a pair, and how well it separates: by an excess over the claim if that is clear, else by any
    difference between the two inputs."""

    index: int
    separation: tuple[float, float]
    finalists: list[Candidate]
    columns: Columns
    seconds_per_output: float


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
    training_outputs: dict[int, tuple[Outputs, Outputs]] = field(default_factory=dict)  # by the index of the pair
    output_kinds: set[str] = field(default_factory=set)  # those of slow samplers: arrays that are drawn in bulk do not fail

    def run(self, pairs: list[Pair]) -> Finding:
        """Run all rounds and return the finding."""
        order, certified = list(range(len(pairs))), list[CertifiedEvent]()
        self._warm_up(pairs[0])
        for number, share in enumerate(ALPHA_SHARES):
            alpha = self.alpha * share / TESTS_PER_ROUND
            explore, certify = self._plan_round(number, len(order))
            if number and certify < MIN_CERTIFIED:
                order = order[:1]  # the last round spends the rest on one pair, which may be enough
                continue
            explored: list[ExploredPair] = []
            for i in order:
                if not explored or self.budget.spent_share <= SPENT_LIMITS[number]:
                    explored.append(self._explore(i, pairs[i], explore, certify, alpha, len(order)))
            explored.sort(key=lambda each: each.separation, reverse=True)
            violations = [each for each in certified if each.evidence.is_violation]
            fresh = self._certify(pairs, explored[0], certify, number, alpha)
            certified = [*fresh, *violations] if fresh else certified
            if number == 0 and not any(each.evidence.is_violation for each in certified):
                certified += self._certify_repetition(pairs[explored[0].index], alpha)
            if not self.sharp and any(each.evidence.is_violation for each in certified):
                break
            order = [each.index for each in explored[: PAIRS_KEPT[min(number, 1)]]]
        return self._make_finding(certified)

    def _warm_up(self, pair: Pair) -> None:
        """Draw a few outputs whose time is not counted: the first ones may be slow."""
        n = 1000 if self.sampler.is_fast else 3
        self._draw(pair.left, n, self.budget.end_time, ())
        self.budget.reset_rate()
        self._draw(pair.right, n, self.budget.end_time, ())

    def _plan_round(self, number: int, pairs: int) -> tuple[int, int]:
        """Return the outputs per input with which to explore each pair, and on which to certify."""
        remaining, widest = self.budget.remaining, MAX_LEARNED // max(1, self._width() // 3)
        if number == 0:
            each = max(MIN_CERTIFIED, min(MAX_EXPLORED, int(0.06 * remaining / (2 * pairs + 2))))
            return min(each, widest), each
        if number == 1:
            each = min(MAX_EXPLORED_AGAIN, int(0.2 * remaining / (2 * pairs + 2)))
            return min(each, widest), each
        explore = min(MAX_LEARNED, int(0.12 * remaining))
        return min(explore, widest), int(0.97 * remaining / 2) - explore

    def _width(self) -> int:
        """Return how many columns are kept: more take longer to learn from."""
        return max((len(side.columns) for sides in self.training_outputs.values() for side in sides), default=1)

    def _is_wide(self, seen: tuple[Outputs, Outputs]) -> bool:
        """Whether outputs have more columns than are kept: then columns change between rounds, and old outputs lack some."""
        return max(len(side.columns) for side in seen) >= MAX_COLUMNS

    def _exploration_deadline(self, pairs: int) -> float:
        """Return when to stop exploring one input of one of so many pairs, or counting repeated outputs."""
        if self.budget.seconds is None:
            return inf
        return min(self.budget.end_time, time.monotonic() + self.budget.seconds * (0.15 / pairs + 0.01))

    def _draw_all_columns(self, data: Any, n: int, until: float) -> Outputs:
        """Draw up to n outputs with all of their numbers, as many as fit into memory."""
        first = self._draw(data, min(n, MIN_OUTPUTS), until)
        more = min(n, MAX_NUMBERS_HELD // max(1, len(first.columns))) - len(first)
        return first if more <= 0 or time.monotonic() > until else concatenate([first, self._draw(data, more, until)])

    def _draw(self, data: Any, n: int, until: float, columns: Columns = None) -> Outputs:
        start = time.monotonic()
        outputs = self.sampler.draw(data, n, until, columns)
        self.budget.record_outputs(len(outputs), time.monotonic() - start)
        if not self.sampler.is_fast:
            self.output_kinds |= {outputs.labels[kind] for kind in np.unique(outputs.kinds).tolist()}
        if self.progress is not None:
            self.progress(self.budget.spent_share)
        return outputs

    def _find_failures(self) -> tuple[str, ...]:
        """Return how calls failed, if none of them returned: exceptions first."""
        failures = sorted(self.output_kinds, key=lambda kind: (not kind.startswith(RAISES), kind))
        return tuple(failures) if all(kind.startswith((RAISES, NO_OUTPUT)) for kind in failures) else ()

    def _explore(self, i: int, pair: Pair, explore: int, certify: int, alpha: float, pairs: int) -> ExploredPair:
        """Learn scores on the first outputs, with all of their numbers, and select events on the rest."""
        count, seconds, before = self.budget.timed_outputs, self.budget.sampler_seconds, self.training_outputs.get(i)
        learned = max(MIN_OUTPUTS, int((0.4 if before is None or self._is_wide(before) else 0.2) * explore))
        inputs, until = (pair.left, pair.right), self._exploration_deadline(pairs)
        complete = [
            self._draw_all_columns(inputs[0], learned, _find_midpoint(until)),
            self._draw_all_columns(inputs[1], learned, until),
        ]
        informative = select_informative_columns(complete[0], complete[1])
        train = [side.keep_columns(informative.columns) for side in complete]
        late, until = time.monotonic() > until, self._exploration_deadline(pairs)
        select = [
            side.select_rows(0, 0)
            if late
            else self._draw(data, max(MIN_OUTPUTS, explore - len(side)), side_until, informative.columns)
            for data, side, side_until in zip(inputs, train, (_find_midpoint(until), until), strict=True)
        ]
        per_output = max(1e-9, (self.budget.sampler_seconds - seconds) / max(1, self.budget.timed_outputs - count))
        fresh = [concatenate(parts) for parts in zip(train, select, strict=True)]
        if late or min(map(len, fresh)) < 4 * MIN_OUTPUTS:  # too few to divide; certification draws its own in any case
            train = select = fresh
        if before is not None and set(before[0].columns) == set(informative.columns):
            train = [concatenate(parts) for parts in zip(before, train, strict=True)]
            fresh = [concatenate(parts) for parts in zip(before, fresh, strict=True)]
        self.training_outputs[i] = fresh[0], fresh[1]
        scores = learn_scores(train[0], train[1], informative)
        candidates = list(find_candidates(scores, select[0], select[1], self._points(pair), certify, alpha))
        finalists = select_finalists(candidates)
        excess = max(each.sigmas for each in finalists)
        separation = (excess if excess > PLAIN_SIGMAS else 0.0, max(each.separation for each in candidates))
        return ExploredPair(i, separation, finalists, informative.columns, per_output)

    def _points(self, pair: Pair) -> tuple[Point, ...]:
        return self.points if pair.distance == 1 else tuple(point.for_two_units() for point in self.points)

    def _certify(
        self, pairs: list[Pair], best: ExploredPair, certify: int, number: int, alpha: float
    ) -> list[CertifiedEvent]:
        """Certify the finalists of the best pair on fresh outputs: fewer where they are slow, decided beforehand."""
        n, seconds = certify, self.budget.end_time - time.monotonic()
        if seconds < inf:
            fitting = seconds / (2 * best.seconds_per_output)
            # half of so few would leave too few for another round
            is_last = number == len(ALPHA_SHARES) - 1 or fitting < 2 * MIN_CERTIFIED
            n = max(1, min(certify, int(fitting if is_last else fitting / 2)))
        if self.sampler.is_fast:
            chunk = CHUNK_DRAWN
        elif seconds == inf:
            chunk = CHUNK_CALLED
        else:
            chunk = max(1, min(CHUNK_CALLED, int(CHUNK_SECONDS / best.seconds_per_output)))
        return certify_events(
            self._draw, pairs[best.index], best.finalists, best.columns, n, chunk, alpha, self.budget.deadline
        )

    def _certify_repetition(self, pair: Pair, alpha: float) -> list[CertifiedEvent]:
        n = min(MAX_REPEATS, self.budget.remaining // 20)
        if n < MIN_CERTIFIED:
            return []
        self.budget.spent += 4 * n
        until = min(self._exploration_deadline(2), self.budget.deadline)
        return certify_repetition(self.sampler.count_repeats, pair, self._points(pair), n, alpha, until)

    def _make_finding(self, certified: list[CertifiedEvent]) -> Finding:
        if not certified:
            raise BadParameter("seconds", f"{self.budget.seconds:g}", "too short for a single round", "give more time")
        violations = [each for each in certified if each.evidence.is_violation]
        # of two violations, one that is not about repetition is easier to understand
        violations = [each for each in violations if each.event != REPETITION] or violations
        best = max(violations or certified, key=lambda each: each.evidence.margin)
        claimed = best.evidence.point.claimed_point
        return Finding(
            violation=bool(violations),
            claim=self.claim,
            certified_epsilon=best.evidence.epsilon,
            delta=claimed.delta,
            claimed_epsilon=claimed.epsilon,
            confidence=self.confidence,
            pair=str(best.pair),
            event=best.event,
            likelier=best.likelier,
            resolution=None if violations else min(each.evidence.compute_resolution() for each in certified),
            evidence=best.evidence,
            points=self.points,
            samples=self.budget.spent,
            seconds=self.budget.elapsed,
            failures=self._find_failures(),
        )


def _find_midpoint(until: float) -> float:
    """Return the middle of the time from now until then."""
    now = time.monotonic()
    return until if until == inf else now + max(0.0, until - now) / 2
