"""Intersection: two k-anonymous tables and one person in both, after [GKS08] and [S4, figs. 1, 2].

That a table is k-anonymous (`lab.anonymity`) says nothing about a second table. Here each of two
hospitals made every combination of zip code, age and nationality occur at least four, or six, times. An attacker who knows
that Alice is 28, lives in 13012 and was in both looks up her group in both. Only one condition is in both groups.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_positive, format_rational
from discreet.lab.anonymity import (
    ALICE,
    CONDITIONS,
    FOUR_ANONYMOUS,
    QUASI_IDENTIFIERS,
    SIX_ANONYMOUS,
    Row,
    candidates,
    find_leaks,
    k_anonymity,
)
from discreet.lab.attacks.attack import Attack, AttackResult, max_guess_probability, noise_scale, open_testbed
from discreet.mechanisms import Laplace
from discreet.noise import Bits, uniform_below
from discreet.testing import seeded_bits

Ints = NDArray[np.int64]
THIRTIES = ("130**", "3*", "*")


def intersection(epsilon: Number = Fraction(1, 2), rehearsals: int = 20_000, seed: int = 13012) -> AttackResult:
    """Intersect what two hospitals say about Alice: in k-anonymous tables, and in counts at ε each."""
    eps, times, source = (
        check_positive(epsilon, "epsilon"),
        check_int(rehearsals, "rehearsals", minimum=1),
        seeded_bits(seed),
    )
    sizes = [k_anonymity(table, QUASI_IDENTIFIERS) for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS)]
    first, second = (candidates(table, ALICE) for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS))
    groups = ((FOUR_ANONYMOUS, "<30"), (SIX_ANONYMOUS, "<35"))
    (first_counts, scale), (second_counts, _) = (_ask_hospital(table, group, eps, source) for table, group in groups)
    right, limit = _simulate(scale, times, source), max_guess_probability(2 * eps, len(CONDITIONS))
    remaining, leaks = sorted(first & second), find_leaks(FOUR_ANONYMOUS)
    return AttackResult(
        f"Intersection: a {sizes[0]}-anonymous and a {sizes[1]}-anonymous table, and Alice, 28, of 13012, in both",
        (
            f"By the first table she has one of {len(first)} conditions: {', '.join(sorted(first))}. By the second, one of "
            f"{len(second)}: {', '.join(sorted(second))}.",
            f"The first table alone says that everyone in their thirties has {leaks.same_in_group[THIRTIES].lower()}, "
            "and that "
            f"no one in it has: {', '.join(leaks.absent)}.",
            f"Without discreet: only {', '.join(remaining)} is in both. Each table is k-anonymous; k-anonymity says nothing "
            "about two tables.",
            f"With discreet, ε = {format_rational(eps)} for each hospital: {_format_counts(first_counts)} in the first, "
            f"{_format_counts(second_counts)} in the second.",
            f"The best guess of an attacker who knows all other patients was right in {right / times:.1%} of {times:,} "
            f"simulations; a blind guess is right in {1 / len(CONDITIONS):.1%}, and no guess can exceed {limit:.1%}: costs "
            "add up, also over two hospitals that do not know of each other.",
        ),
        {
            "k": sizes, "thirties": leaks.same_in_group[THIRTIES], "absent": list(leaks.absent),
            "first": sorted(first), "second": sorted(second), "remaining": remaining,
            "epsilon_each": float(eps), "counts": [first_counts, second_counts], "rehearsals": times, "right": right,
            "right_blind": 1 / len(CONDITIONS), "right_at_most": limit,
        },
    )  # fmt: skip


def _ask_hospital(table: Sequence[Row], group: str, epsilon: Fraction, source: Bits) -> tuple[dict[str, int], Fraction]:
    """Return a hospital's private counts of Alice's group, and the scale of their noise."""
    rows: list[dict[str, Any]] = [{"id": i, **row} for i, row in enumerate(table)]
    query = f"SELECT condition, COUNT(*) AS n FROM people WHERE age = '{group}' GROUP BY condition"
    with open_testbed(rows, keys={"condition": CONDITIONS}) as testbed:
        session = testbed.connect_in_memory(epsilon)
        scale = noise_scale(session, query, epsilon)
        answer = session.ask(query, epsilon=epsilon, bits=source)
    return {str(key): int(estimate.value) for (key,), (estimate,) in answer.rows}, scale


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{condition} {count}" for condition, count in counts.items())


def _simulate(scale: Fraction, times: int, source: Bits) -> int:
    """Count how often the likeliest condition is the right one, if all are equally likely.

    The other patients are known, so a count minus theirs is Alice's 0 or 1 plus noise. For discrete Laplace noise the
    likelihood ratio is the same constant for all values of at least 1, and its inverse for all values of at most 0: so each
    count is one vote.
    """
    secret = uniform_below(len(CONDITIONS), times, source).astype(np.int64)
    hers = (secret[:, None] == np.arange(len(CONDITIONS))).astype(np.int64)
    noisy = [np.asarray(Laplace(scale).release(hers, source)) for _ in range(2)]
    votes: Ints = sum(((counts >= 1).astype(np.int64) for counts in noisy), np.zeros_like(hers))
    return int((votes.argmax(axis=1) == secret).sum())


INTERSECTION = Attack(
    "intersection",
    "a 4-anonymous and a 6-anonymous table, and one patient who is in both",
    intersection,
    {"rehearsals": 1_000_000},
)
