"""The catastrophe: once in 1/δ the whole table, otherwise nothing [N1]. It is (0, δ)-private.

That is why δ must be far below one in the number of people, and why it must be counted over all releases of a lifetime.
"""

from math import inf

from discreet._numbers import Number, check_int, check_probability
from discreet.lab.attacks.attack import Attack, AttackResult
from discreet.lab.attacks.exposure import at_least_once, collect_refusals, format_guarantees, guarantees_without_delta
from discreet.mechanisms.unsafe import Catastrophe
from discreet.testing import seeded_bits


def catastrophe(people: int = 1_000, delta: Number = 0.001, releases: int = 2_000, seed: int = 1) -> AttackResult:
    """So many releases, each of which is the whole table with probability δ."""
    n, k, fail = (
        check_int(people, "people", minimum=1),
        check_int(releases, "releases", minimum=1),
        check_probability(delta, "delta"),
    )
    unsafe, names, source = Catastrophe(fail), [f"person {i}" for i in range(n)], seeded_bits(seed)
    disasters = sum(unsafe.release(names, source) == names for _ in range(k))
    readings, (rows, unpaid) = guarantees_without_delta(unsafe.event()), collect_refusals(unsafe.event(), names)
    return AttackResult(
        f"Catastrophe: all of {n:,} records with probability δ = {float(fail):g}, else nothing",
        (
            "Without discreet: the expected number of people shown by one release is "
            f"{unsafe.expected_exposures(n):g}: it is "
            f"all {n:,} at once, with probability {float(fail):g}. Of {k:,} releases at least one is a disaster with "
            f"probability {at_least_once(fail, k):.4g}; here there were {disasters}.",
            f"What the definitions say: {format_guarantees(readings)}.",
            f"With discreet: rows are never an answer: {rows}.",
            f"An account without a δ does not pay for it either: {unpaid}.",
        ),
        {
            "people": n, "delta": float(fail), "releases": k, "expected_exposed": unsafe.expected_exposures(n),
            "disaster_in_one": float(fail), "disaster_in_all": at_least_once(fail, k), "disasters": disasters,
            "exposed": disasters * n, "infinite_elsewhere": all(value == inf for value in readings.values()),
            "rows_refused": rows is not None, "refused": unpaid is not None, "refusal": unpaid,
        },
    )  # fmt: skip


ATTACK = Attack("catastrophe", "the whole table once in 1/δ: (0, δ)-private, and terrible", catastrophe)
