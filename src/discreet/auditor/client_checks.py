"""An audit of a client for one collection: all games that suit it, and checks of what a correct client never does.

**Theory of operation.** `audit_collection` plays the games of `clients` on the first and the last value of a collection, and
a game of one report on pairs that together hold every value (of a large domain, on pairs drawn at random). Before that it
makes checks that need no statistics, since a correct client passes them always:

- *messages*: each is one that the collection's clients write, and its JSON and its CBOR hold the same;
- *retries*: what is asked for again, also with another value or after other reports, is returned byte for byte;
- *budget*: a device answers no more often than its account can pay for;
- *nonces*: no two reports have the same. Those of a correct client are equal with a probability below 10^-25.

One check is statistical. A nonce must be independent of the value and of the report: `compare_nonces` divides nonces by
value, and those of one value by whether their report supports it, and compares how often each of the 128 bits, and each
exclusive or of two, is 1. What three bits or more say together is not tested.

**False alarms.** Of α = 1 − `confidence`, each game gets an equal part, and the comparison of nonces one such part too. That
is divided by the number of comparisons, by the 8,256 bits and pairs of bits, and by the ends of both intervals (Bonferroni):
exact binomial intervals that both contain the same share are not disjoint. So a correct client is refuted with
probability at most α.
"""

from collections.abc import Iterator, Sequence
from random import SystemRandom
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_probability
from discreet.auditor.attack import Progress
from discreet.auditor.clients import (
    MAX_ALLOWED,
    CommandPlayer,
    DevicePlayer,
    Game,
    History,
    Message,
    audit_client,
    count_allowed,
    list_games,
    report_once,
    weigh_report,
)
from discreet.auditor.evidence import clopper_pearson_lower, clopper_pearson_upper
from discreet.auditor.finding import Check, Finding
from discreet.errors import BadParameter
from discreet.local.collection import Collection
from discreet.local.domains import Integers, Listed
from discreet.local.wire import NONCE_BYTES

AnyPlayer: TypeAlias = DevicePlayer | CommandPlayer
MAX_COVERED = 16
"""Up to so many values, each is in a game."""
NONCES_PER_VALUE = 400
DEVICES_PER_CHECK = 8
RETRIES = 6


def audit_collection(
    player: AnyPlayer,
    pairs: Sequence[Any] | None = None,
    *,
    reports: int = 32,
    confidence: Number = 0.999,
    samples: int | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> dict[str, Finding | Check]:
    """Make every check, and play every game that suits a collection, on pairs of its values.

    Without `pairs`, all games are played on the first and the last value, and a game of one report on pairs that hold the
    others. `reports` is the length of the averaging attack.

    α, the time and the samples are divided over the games, so that all findings hold together.
    """
    games = list(_choose_games(player, pairs, reports))
    alpha = (1 - check_probability(confidence, "confidence")) / (len(games) + 1)
    values = list(dict.fromkeys(value for game in games for value in (game.left.values[0], game.right.values[-1])))
    found: dict[str, Finding | Check] = {}
    with player.open():  # once: a process takes long to start
        for check in run_checks(player, values, float(alpha)):
            found[check.name] = check
        for done, game in enumerate(games):
            found[f"{game.name}: {game.left} or {game.right}"] = audit_client(
                player, game, confidence=1 - alpha, samples=None if samples is None else max(1000, samples // len(games)),
                seconds=None if seconds is None else seconds / len(games),
                progress=_scale_progress(progress, done, len(games)),
            )  # fmt: skip
    return found


def _choose_games(player: AnyPlayer, pairs: Sequence[Any] | None, reports: int) -> Iterator[Game]:
    if pairs is not None:
        chosen = [tuple(pair) for pair in pairs]
        if not chosen or any(len(pair) != 2 for pair in chosen):
            raise BadParameter("pairs", "not a list of pairs", "a game needs two values", 'write [["red", "green"]]')
        for left, right in chosen:
            yield from list_games(player, left, right, reports)
        return
    first, *others = choose_pairs(player.collection)
    yield from list_games(player, *first, reports)
    for left, right in others:
        yield report_once(player, left, right)


def choose_pairs(collection: Collection) -> list[tuple[Any, Any]]:
    """Return the first and the last value of a collection, and then pairs of all others, or of some drawn at random; of
    texts, two that differ in length.

    >>> from fractions import Fraction
    >>> from discreet.local import Direct, Lifetime
    >>> ages = Direct(5, Fraction(3))
    >>> choose_pairs(Collection("ages", 1, ages, Integers(0, 4), Lifetime.of(ages, 10)))
    [(0, 4), (1, 2), (3, 0)]
    """
    values = list_values(collection)
    if not values:
        return [("a", "another text")]
    between = values[1:-1]
    if len(between) % 2:
        between.append(values[0])
    return [(values[0], values[-1]), *zip(between[::2], between[1::2], strict=True)]


def list_values(collection: Collection) -> list[Any]:
    """Return the values of a collection, some of them drawn at random if there are many; none if they are texts."""
    domain = collection.domain
    if isinstance(domain, Integers):
        every: Sequence[Any] = range(domain.low, domain.high + 1, domain.step)
    elif isinstance(domain, Listed):
        every = domain.labels
    else:
        return []
    if len(every) <= MAX_COVERED:
        return list(every)
    drawn = sorted(SystemRandom().sample(range(1, len(every) - 1), MAX_COVERED - 2))
    return [every[0], *(every[place] for place in drawn), every[-1]]


def _scale_progress(progress: Progress | None, done: int, games: int) -> Progress | None:
    """Report the progress of one game as that of all."""
    return None if progress is None else lambda part: progress((done + part) / games)


# -- checks ----------------------------------------------------------------------------------------------------------------


def run_checks(player: AnyPlayer, values: Sequence[Any], alpha: float) -> Iterator[Check]:
    """Make all checks on these values; `alpha` is the probability that the comparison of nonces may err with."""
    singles = {value: [play[0] for play in player.play(History((value,), (0,)), NONCES_PER_VALUE)] for value in values}
    both = list[Message]()
    if isinstance(player, DevicePlayer):  # commands say both in each answer
        both = [player.report_twice(value) for value in values for _ in range(DEVICES_PER_CHECK)]
    yield check_messages([*both, *(message for sent in singles.values() for message in sent)])
    yield check_retries(player, values)
    yield check_budget(player, values)
    sent = [message for one in singles.values() for message in one if message.nonce]
    if sent:
        yield check_nonces(player, singles, alpha)


def check_messages(messages: Sequence[Message]) -> Check:
    """Whether each message is one that clients of the collection write."""
    for message in messages:
        if message.fault:
            return Check("messages", f"{message.text[:200]!r}: {message.fault}")
    return Check("messages", passed=f"{len(messages):,} messages are well formed, and their encodings hold the same")


def check_retries(player: AnyPlayer, values: Sequence[Any]) -> Check:
    """Whether an occasion that comes again has the same report: with its value, with another, and after other reports."""
    histories = []
    for one, other in zip(values, [*values[1:], values[0]], strict=True):
        histories.append(History((one,) * RETRIES, (0,) * RETRIES))
        histories.append(History((one, other, one, other, other, one), (0, 0, 0, 0, 0, 0)))
        histories.append(History((one, other, other, one, other, one), (0, 1, 0, 0, 1, 1)))
    for history in histories:
        for play in player.play(history, DEVICES_PER_CHECK):
            kept: dict[int, tuple[Any, ...]] = {}
            for message, occasion in zip(play, history.occasions, strict=True):
                if message.refused:
                    continue
                sent = (message.report, message.nonce, message.text)
                if kept.setdefault(occasion, sent) != sent:
                    return Check("retries", f"{history!r}: a retry of one occasion returned another report")
    return Check("retries", passed="each occasion that came again had the same report, also with another value")


def check_budget(player: AnyPlayer, values: Sequence[Any]) -> Check:
    """Whether a device answers no more often than its account can pay for."""
    lifetime, allowed = player.lifetime, count_allowed(player.lifetime)
    if lifetime is None or lifetime.per == "state" or allowed >= MAX_ALLOWED:
        return Check("budget", passed="the account has no number of reports that could be counted here")
    asked = allowed + 3
    for value in values[:2]:
        for play in player.play(History((value,) * asked, tuple(range(asked))), 2):
            answered = sum(not message.refused for message in play)
            if answered > allowed:
                return Check(
                    "budget", f"a device answered {answered} times where the collection's lifetime pays for {allowed}"
                )
    return Check("budget", passed=f"a device answers at most {allowed} times")


# -- nonces ----------------------------------------------------------------------------------------------------------------


def check_nonces(player: AnyPlayer, singles: dict[Any, list[Message]], alpha: float) -> Check:
    """Whether nonces differ from each other and are independent of values and reports."""
    seen = set[str]()
    groups: dict[Any, list[list[str]]] = {}
    for value, messages in singles.items():
        index, parts = player.index(value), (list[str](), list[str]())
        for message in messages:
            if message.refused or not _is_nonce(message.nonce):
                continue
            if message.nonce in seen:
                return Check("nonces", f"two devices sent the nonce {message.nonce}")
            seen.add(message.nonce)
            parts[_supports(player, message, index)].append(message.nonce)
        groups[value] = list(parts)
    first, *others = groups
    comparisons = [(f"reports of {value!r} or not", *groups[value]) for value in groups]
    comparisons += [
        (f"{first!r} or {value!r}", [*groups[first][0], *groups[first][1]], [*groups[value][0], *groups[value][1]])
        for value in others
    ]
    for named, one, two in comparisons:
        if (found := compare_nonces(one, two, alpha / len(comparisons))) is not None:
            return Check("nonces", f"the nonce tells {named}: {found}")
    return Check("nonces", passed=f"{len(seen):,} nonces differ, and no bit or pair of bits tells anything")


def compare_nonces(one: Sequence[str], two: Sequence[str], alpha: float) -> str | None:
    """Name a bit, or two, whose share of ones (of unequal bits) differs between two lists of nonces; None if none does.

    Where nonces have one distribution, that errs with probability at most `alpha`: see the head of this file.

    >>> from hashlib import sha256
    >>> even = [sha256(bytes([k % 256, k // 256])).hexdigest()[:31] + "0" for k in range(300)]
    >>> compare_nonces(even[:150], even[150:], 1e-6)
    >>> odd = [nonce[:31] + "1" for nonce in even]
    >>> compare_nonces(even[:150], odd[150:], 1e-6)
    'bit 127 is 1 in [0%, 15%] and in [85%, 100%] of them'
    """
    if not one or not two:
        return None
    ones = [_count_ones(nonces) for nonces in (one, two)]
    tests = len(ones[0])
    ends = [_bound_shares(counts, len(nonces), alpha / (4 * tests)) for counts, nonces in zip(ones, (one, two), strict=True)]
    apart = np.maximum(ends[0][0] - ends[1][1], ends[1][0] - ends[0][1])
    worst = int(np.argmax(apart))
    if apart[worst] <= 0:
        return None
    low, high = (tuple(f"{100 * end[worst]:.0f}%" for end in each) for each in ends)
    return f"{_name_bits(worst)} in [{low[0]}, {low[1]}] and in [{high[0]}, {high[1]}] of them"


_BITS = 8 * NONCE_BYTES
_PAIRS = np.triu_indices(_BITS, 1)


def _count_ones(nonces: Sequence[str]) -> NDArray[np.int64]:
    """How often each bit is 1, and then each exclusive or of two."""
    rows = np.frombuffer(b"".join(map(bytes.fromhex, nonces)), np.uint8).reshape(len(nonces), NONCE_BYTES)
    bits = np.unpackbits(rows, axis=1).astype(np.int64)
    signs = 1 - 2 * bits
    unequal = (len(nonces) - signs.T @ signs) // 2
    return np.concatenate([bits.sum(axis=0), unequal[_PAIRS]])


def _bound_shares(counts: NDArray[np.int64], n: int, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact binomial bounds on each share."""
    kinds, places = np.unique(counts, return_inverse=True)
    ends = ([bound(int(k), n, alpha) for k in kinds] for bound in (clopper_pearson_lower, clopper_pearson_upper))
    low, high = (np.array(each)[places] for each in ends)
    return low, high


def _name_bits(place: int) -> str:
    if place < _BITS:
        return f"bit {place} is 1"
    one, two = (int(each[place - _BITS]) for each in _PAIRS)
    return f"bits {one} and {two} differ"


def _is_nonce(nonce: str) -> bool:
    try:
        return len(bytes.fromhex(nonce)) == NONCE_BYTES
    except ValueError:
        return False


def _supports(player: AnyPlayer, message: Message, index: Any) -> int:
    """Whether a report supports its value; 0 where that has no meaning."""
    try:
        return int(weigh_report(player.mechanism, message.report, index) > 0)
    except (IndexError, ValueError):
        return 0
