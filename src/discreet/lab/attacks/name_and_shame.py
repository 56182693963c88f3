"""Name and shame: each record in clear with probability δ [L12]. It is (0, δ)-private, and nδ people are exposed.

With δ = 1/n somebody is exposed in 63% of all releases; with δ = 1/n² in one of n.
"""

from fractions import Fraction
from math import inf

from discreet._numbers import Number, check_int, check_probability
from discreet.lab.attacks.attack import Attack, AttackResult
from discreet.lab.attacks.exposure import at_least_once, collect_refusals, format_guarantees, guarantees_without_delta
from discreet.mechanisms.unsafe import NameAndShame
from discreet.testing import seeded_bits


def name_and_shame(people: int = 1_000, delta: Number = 0.001, releases: int = 2_000, seed: int = 12) -> AttackResult:
    """So many releases, in each of which every record is shown with probability δ."""
    n, k, fail = (
        check_int(people, "people", minimum=2),
        check_int(releases, "releases", minimum=1),
        check_probability(delta, "delta"),
    )
    unsafe, names, source = NameAndShame(fail), [f"person {i}" for i in range(n)], seeded_bits(seed)
    shown_each = [len(unsafe.release(names, source)) for _ in range(k)]
    hit, mean = sum(count > 0 for count in shown_each), sum(shown_each) / k
    somebody, safer = at_least_once(fail, n), at_least_once(Fraction(1, n * n), n)
    readings, (rows, unpaid) = guarantees_without_delta(unsafe.event()), collect_refusals(unsafe.event(), names)
    return AttackResult(
        f"Name and shame: each of {n:,} records in clear with probability δ = {float(fail):g}",
        (
            f"Without discreet: the expected number of people shown by one release is {unsafe.expected_exposures(n):g}, and "
            f"it is somebody with probability {somebody:.4g}. In {k:,} releases it was {mean:.3g} on average, and somebody "
            f"in {hit / k:.1%}.",
            f"With δ = 1/n² = {1 / n**2:g} somebody would be exposed with probability {safer:.4g}.",
            f"What the definitions say: {format_guarantees(readings)}.",
            f"With discreet: rows are never an answer: {rows}.",
            f"An account without a δ does not pay for it either: {unpaid}.",
        ),
        {
            "people": n, "delta": float(fail), "releases": k, "expected_exposed": unsafe.expected_exposures(n),
            "somebody": somebody, "somebody_at_n_squared": safer, "mean_exposed": mean, "releases_with_somebody": hit,
            "infinite_elsewhere": all(value == inf for value in readings.values()), "rows_refused": rows is not None,
            "refused": unpaid is not None, "refusal": unpaid,
        },
    )  # fmt: skip


ATTACK = Attack(
    "name-and-shame", "each record in clear with probability δ: (0, δ)-private, nδ people exposed", name_and_shame
)
