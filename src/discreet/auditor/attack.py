"""`audit`: how a mechanism, a claim and neighbours become a game, and the game a finding."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from discreet.auditor.claims import Claim, format_claim, sample_curve
from discreet.auditor.crowd import WorkerPool
from discreet.auditor.finding import Finding
from discreet.auditor.game import Pair, Sampler, make_sampler
from discreet.auditor.neighbours import Domain, generate_pairs
from discreet.auditor.purse import SamplingBudget
from discreet.auditor.restarts import RestartSampler
from discreet.auditor.rounds import AuditRounds, Progress
from discreet.errors import BadParameter
from discreet.exact import Number, check_int, check_positive, check_probability
from discreet.units import Neighbours

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
