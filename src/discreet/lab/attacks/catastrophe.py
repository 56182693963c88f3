"""The catastrophe: once in 1/δ the whole table, otherwise nothing [N1]. It is (0, δ)-private.

That is why δ must be far below one in the number of people, and why it must be counted over all releases of a lifetime.
"""

from math import inf

from discreet.exact import Number, open_unit, whole
from discreet.lab.attacks.exposure import at_least_once, by_other_definitions, in_words, refusals
from discreet.lab.attacks.played import Attack, Played
from discreet.mechanisms.unsafe import Catastrophe
from discreet.testing import seeded


def catastrophe(people: int = 1_000, delta: Number = 0.001, releases: int = 2_000, seed: int = 1) -> Played:
    """So many releases, each of which is the whole table with probability δ."""
    n, k, fail = whole(people, "people", least=1), whole(releases, "releases", least=1), open_unit(delta, "delta")
    unsafe, names, source = Catastrophe(fail), [f"person {i}" for i in range(n)], seeded(seed)
    disasters = sum(unsafe.release(names, source) == names for _ in range(k))
    readings, (rows, unpaid) = by_other_definitions(unsafe.loss()), refusals(unsafe.loss(), names)
    return Played(
        f"Catastrophe: all of {n:,} records with probability δ = {float(fail):g}, else nothing",
        (
            f"Without discreet: the expected number of people shown by one release is {unsafe.expected_exposed(n):g}: it is "
            f"all {n:,} at once, with probability {float(fail):g}. Of {k:,} releases at least one is a disaster with "
            f"probability {at_least_once(fail, k):.4g}; here there were {disasters}.",
            f"What the definitions say: {in_words(readings)}.",
            f"With discreet: rows are never an answer: {rows}.",
            f"An account without a δ does not pay for it either: {unpaid}.",
        ),
        {
            "people": n, "delta": float(fail), "releases": k, "expected_exposed": unsafe.expected_exposed(n),
            "disaster_in_one": float(fail), "disaster_in_all": at_least_once(fail, k), "disasters": disasters,
            "exposed": disasters * n, "infinite_elsewhere": all(value == inf for value in readings.values()),
            "rows_refused": rows is not None, "refused": unpaid is not None, "refusal": unpaid,
        },
    )  # fmt: skip


ATTACK = Attack("catastrophe", "the whole table once in 1/δ: (0, δ)-private, and terrible", catastrophe)
