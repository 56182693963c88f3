"""All draws of a mechanism on a tiny domain, and draws that remember what was taken."""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from discreet.local.draws import TapeDraws
from discreet.local.mechanism import AnyMechanism, is_memoising

Law = dict[tuple[int, ...], Fraction]


def enumerate_law(mechanism: AnyMechanism, value: Any) -> Law:
    """Return the exact distribution of one report of a value on a random device, by listing all draws of all steps."""
    fresh = mechanism.moduli
    if not is_memoising(mechanism):
        return _count([mechanism.select(value, drawn) for drawn in list_draws(fresh)])
    reports = []
    for device in list_draws(mechanism.device_moduli):
        state = mechanism.encode(value, device)
        for drawn in list_draws(mechanism.permanent_moduli):
            permanent = mechanism.select_permanent(state, drawn)
            reports += [mechanism.select(permanent, again) for again in list_draws(fresh)]
    return _count(reports)


def list_draws(moduli: Sequence[int]) -> list[tuple[int, ...]]:
    """List all that can be drawn below these moduli: all of it is equally likely."""
    assert prod(moduli) <= 1 << 20, "too many draws to list"
    return list(product(*map(range, moduli)))


def _count(reports: list[tuple[int, ...]]) -> Law:
    law: Law = defaultdict(Fraction)
    for report in reports:
        law[report] += Fraction(1, len(reports))
    return dict(law)


def worst_ratio(laws: Sequence[Law]) -> Fraction | None:
    """Return how much likelier a report is under one value than under another, at most; None if there is no limit."""
    worst = Fraction(1)
    for one, two in product(laws, repeat=2):
        if one.keys() - two.keys():
            return None
        worst = max([worst, *(one[report] / two[report] for report in one)])
    return worst


def list_some_values(mechanism: AnyMechanism) -> list[Any]:
    """List values at the edges of a mechanism's domain, and one in the middle."""
    values = mechanism.values
    if values is None:
        return [b"", b"a", b"abc", "naïve".encode(), b"\xff"]
    return sorted({0, 1, values // 2, values - 2, values - 1})


class Recorder:
    """A tape that remembers how many bytes were taken at a time."""

    def __init__(self, tape: bytes) -> None:
        self.tape, self.sizes = TapeDraws(tape), list[int]()

    def take(self, count: int) -> bytes:
        self.sizes.append(count)
        return self.tape.take(count)
