"""Telemetry: a device reports the same value every day, and the mean of its reports reveals it [EPK14].

RAPPOR draws noise twice: permanent noise once for each value, and fresh noise for each report. Without the permanent noise,
T reports cost T times one, and after a year nearly every value is known. With it the mean tends to the memoised
bits, which are wrong as often as the permanent noise makes them. This ε for life holds between histories with the same
pattern of changes: when a value changes, the reports change.
"""

from fractions import Fraction
from math import exp, lcm

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import check_int, format_up
from discreet.lab.attacks.attack import Attack, AttackResult
from discreet.local.client import Client
from discreet.local.collection import Collection, Lifetime
from discreet.local.domains import Listed
from discreet.local.longitudinal import unpack_bits
from discreet.local.rappor import BasicRappor
from discreet.local.store import SECRET_BYTES, MemoryStore
from discreet.local.wire import Wire
from discreet.noise import Bits, uniform_below
from discreet.noise.bits import Ints
from discreet.testing import seeded_bits

VALUES = ("news", "mail", "maps", "music", "video", "games", "books", "bank")
RAPPOR = BasicRappor.of(len(VALUES), Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))
"""f = 1/2, p = 1/2, q = 3/4: the parameters of the paper's example."""


CLIENTS = 10
"""So many devices run discreet's client; the reports of the others are drawn with its probabilities, which is quicker."""


def telemetry(devices: int = 1000, reports: int = 365, seed: int = 2014) -> AttackResult:
    """Guess the value of each device from the mean of its reports: with fresh noise alone, and with permanent noise."""
    n, days, bits = check_int(devices, "devices", 1), check_int(reports, "reports", 1), seeded_bits(seed)
    truth = np.asarray(uniform_below(len(VALUES), n, bits))
    one = _guess(_report_afresh(truth, 1, bits), truth)
    fresh = _guess(_report_afresh(truth, days, bits), truth)
    life = RAPPOR.lifetime()
    collection = Collection(
        "start-page", 1, RAPPOR, Listed(VALUES, other=None), Lifetime.of(RAPPOR, Fraction(5, 2), "state")
    )
    repeated, spent = _report_with_clients(collection, truth[:CLIENTS], days, bits)
    kept = _guess(np.concatenate([repeated, _report_with_memo(truth[CLIENTS:], days, bits)]), truth)
    limit = exp(life.epsilon) / (exp(life.epsilon) + len(VALUES) - 1)
    each = RAPPOR.epsilon
    return AttackResult(
        f"Telemetry: {n} devices report one of {len(VALUES)} values on {days} days",
        (
            f"One report costs ε = {format_up(each, 3)}, and {100 * one:.0f}% of the values are guessed from it; by chance "
            f"{100 / len(VALUES):.3g}%.",
            f"Without permanent noise: the mean of {days} reports of each device tells {100 * fresh:.0f}% of the values. "
            f"The reports of a device cost ε = {format_up(days * each, 3)} together, not ε = {format_up(each, 3)}.",
            f"With discreet: the client repeats its permanent noise, {100 * kept:.0f}% are guessed, and more days do not "
            f"help. A device spent ε = {format_up(spent, 3)} for life; at most {100 * limit:.0f}% are guessed on average.",
            f"This ε holds {life.condition}. A device whose value changes shows when it does.",
        ),
        {
            "devices": n, "reports": days, "epsilon_of_one": each, "epsilon_without": days * each,
            "epsilon_for_life": float(life.epsilon), "condition": life.condition, "spent": float(spent),
            "right_after_one": one, "right_without": fresh, "right_with_discreet": kept, "right_at_most": limit,
            "right_by_chance": 1 / len(VALUES),
        },
    )  # fmt: skip


def _report_afresh(truth: Ints, days: int, bits: Bits) -> Ints:
    """How often each bit of each device was 1, with all noise drawn anew for each report."""
    held = np.arange(len(VALUES)) == truth[:, None]
    return _count_ones(held, RAPPOR.truth_support, RAPPOR.other_support, days, bits)


def _report_with_memo(truth: Ints, days: int, bits: Bits) -> Ints:
    """The same with permanent noise that is drawn once for each device, and fresh noise for each report."""
    held = np.arange(len(VALUES)) == truth[:, None]
    kept = _count_ones(held, 1 - RAPPOR.f / 2, RAPPOR.f / 2, 1, bits) == 1
    return _count_ones(kept, RAPPOR.q, RAPPOR.p, days, bits)


def _count_ones(held: NDArray[np.bool_], truth: Fraction, other: Fraction, days: int, bits: Bits) -> Ints:
    """How often each bit was sent as 1: on each day with probability `truth` if it is set, `other` if not."""
    modulus = lcm(truth.denominator, other.denominator)
    below = np.where(held, int(truth * modulus), int(other * modulus))
    ones = np.zeros(held.shape, np.int64)
    for _ in range(days):
        ones += np.asarray(uniform_below(modulus, ones.size, bits)).reshape(ones.shape) < below
    return ones


class _Tape:
    """Seeded bytes for a client."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits

    def take(self, count: int) -> bytes:
        return self._bits.words(count // 8 + 1).tobytes()[:count]


def _report_with_clients(collection: Collection, truth: Ints, days: int, bits: Bits) -> tuple[Ints, Fraction]:
    """The same of clients of a collection, and what the last of them spent."""
    draws, wire = _Tape(bits), Wire(collection)
    client = Client(collection, MemoryStore(), draws=draws)
    ones = np.zeros((len(truth), len(VALUES)), np.int64)
    for device, value in enumerate(truth.tolist()):
        client.store = MemoryStore(draws.take(SECRET_BYTES))
        for day in range(days):
            _, report = wire.read(client.report(VALUES[value], f"day {day}"))
            client.confirm(f"day {day}")
            ones[device] += unpack_bits(report[1:], len(VALUES))
    return ones, client.spent.epsilon


def _guess(ones: Ints, truth: Ints) -> float:
    """The share of devices whose own bit was 1 most often; of equal ones the first is guessed."""
    return float((ones.argmax(axis=1) == truth).mean())


TELEMETRY = Attack(
    "telemetry",
    "a year of daily reports of a device, with fresh noise alone and with RAPPOR's permanent noise",
    telemetry,
    {"devices": 20_000, "reports": 1000},
)
