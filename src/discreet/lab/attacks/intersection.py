"""Intersection: two tables, each anonymous by the book, and one person in both; after [GKS08] and [S4, figs. 1, 2].

Each hospital made every combination of zip code, age and nationality occur at least four, or six, times. Whoever knows that
Alice is 28, lives in 13012 and was in both looks up her group in both. One condition is in both groups.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_positive, format_rational
from discreet.lab.attacks.attack import Attack, AttackResult, noise_scale, open_testbed
from discreet.lab.k_anonymity import k_anonymity
from discreet.mechanisms import Laplace
from discreet.noise import Bits, uniform_below
from discreet.testing import seeded_bits

Row = Mapping[str, str]
Ints = NDArray[np.int64]
QUASI_IDENTIFIERS = ("zip", "age", "nationality")
"""What an outsider may know."""
ALICE = {"zip": "13012", "age": 28}


def _table(*groups: tuple[str, str]) -> tuple[Row, ...]:
    rows = [(age, condition.strip()) for age, conditions in groups for condition in conditions.split(",")]
    return tuple({"zip": "130**", "age": age, "nationality": "*", "condition": condition} for age, condition in rows)


FOUR_ANONYMOUS = _table(
    ("<30", "AIDS, Heart disease, Viral infection, Viral infection"),
    ("3*", "Cancer, Cancer, Cancer, Cancer"),
    ("≥40", "Cancer, Heart disease, Viral infection, Viral infection"),
)
SIX_ANONYMOUS = _table(
    ("<35", "AIDS, Tuberculosis, Flu, Tuberculosis, Cancer, Cancer"),
    ("≥35", "Cancer, Cancer, Cancer, Tuberculosis, Viral infection, Viral infection"),
)
CONDITIONS = ("AIDS", "Cancer", "Flu", "Heart disease", "Tuberculosis", "Viral infection")


def covers(generalized: str, known: object) -> bool:
    """Whether a generalised value can stand for a known one: "3*" for 34, "<30" for 28, "130**" for 13012.

    >>> covers("<30", 28), covers("3*", 28), covers("130**", "13012"), covers("≥40", 40)
    (True, False, True, True)
    """
    if generalized[0] in "<≥":
        bound, age = int(generalized[1:]), int(str(known))
        return age < bound if generalized[0] == "<" else age >= bound
    text = str(known)
    same = all(a in ("*", b) for a, b in zip(generalized, text, strict=False))
    return generalized == "*" or (len(generalized) == len(text) and same)


def candidates(table: Sequence[Row], person: Mapping[str, object]) -> set[str]:
    """The conditions of everybody in the table who could be this person.

    >>> sorted(candidates(FOUR_ANONYMOUS, ALICE) & candidates(SIX_ANONYMOUS, ALICE))
    ['AIDS']
    """
    return {row["condition"] for row in table if all(covers(row[name], known) for name, known in person.items())}


def intersection(epsilon: Number = Fraction(1, 2), rehearsals: int = 20_000, seed: int = 13012) -> AttackResult:
    """What both hospitals together tell about Alice: in anonymised tables, and in counts for ε each."""
    eps, times, source = (
        check_positive(epsilon, "epsilon"),
        check_int(rehearsals, "rehearsals", minimum=1),
        seeded_bits(seed),
    )
    sizes = [k_anonymity(table, QUASI_IDENTIFIERS) for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS)]
    first, second = (candidates(table, ALICE) for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS))
    told = [_ask_hospital(table, group, eps, source) for table, group in ((FOUR_ANONYMOUS, "<30"), (SIX_ANONYMOUS, "<35"))]
    scale = told[0][1]
    right, most = _rehearse(scale, times, source), max_guess_probability_among(len(CONDITIONS), 2 * eps)
    left = sorted(first & second)
    return AttackResult(
        f"Intersection: a {sizes[0]}-anonymous and a {sizes[1]}-anonymous table, and Alice, 28, of 13012, in both",
        (
            f"The first leaves {len(first)} conditions for her: {', '.join(sorted(first))}. "
            f"The second leaves {len(second)}: {', '.join(sorted(second))}.",
            f"Without discreet: both leave {', '.join(left)}. Each table kept its promise; it promised nothing about two.",
            f"With discreet, ε = {format_rational(eps)} for each hospital: {_format_counts(told[0][0])} in the "
            f"first, {_format_counts(told[1][0])} "
            "in the second.",
            f"Who knows every other patient and reads these counts as well as they can be read was right about her in "
            f"{right / times:.1%} of {times:,} rehearsals; a blind guess is right in {1 / len(CONDITIONS):.1%}, "
            f"and no reading of both can exceed {most:.1%}: prices add up, and so do two hospitals that never met.",
        ),
        {
            "k": sizes, "first": sorted(first), "second": sorted(second), "left": left, "epsilon_each": float(eps),
            "counts": [counts for counts, _ in told], "rehearsals": times, "right": right,
            "right_blind": 1 / len(CONDITIONS), "right_at_most": most,
        },
    )  # fmt: skip


def max_guess_probability_among(choices: int, epsilon: Number) -> float:
    """How often anybody can be right at most about which of so many equally likely values one person has.

    >>> round(max_guess_probability_among(6, 1), 4), max_guess_probability_among(2, 0)
    (0.3522, 0.5)
    """
    return 1 / (1 + (choices - 1) * exp(-float(epsilon)))


def _ask_hospital(table: Sequence[Row], group: str, epsilon: Fraction, source: Bits) -> tuple[dict[str, int], Fraction]:
    """A hospital's counts of Alice's group through discreet, and the scale of their noise."""
    rows: list[dict[str, Any]] = [{"id": i, **row} for i, row in enumerate(table)]
    asked = f"SELECT condition, COUNT(*) AS n FROM people WHERE age = '{group}' GROUP BY condition"
    with open_testbed(rows, keys={"condition": CONDITIONS}) as built:
        session = built.connect_in_memory(epsilon)
        scale = noise_scale(session, asked, epsilon)
        answer = session.ask(asked, epsilon=epsilon, bits=source)
    return {str(key): int(cell.value) for (key,), (cell,) in answer.rows}, scale


def _format_counts(found: dict[str, int]) -> str:
    return ", ".join(f"{condition} {count}" for condition, count in found.items())


def _rehearse(scale: Fraction, times: int, source: Bits) -> int:
    """How often the likeliest condition is the right one, Alice's being any of them with equal chances.

    The other patients are known, so only her own 1 and the noise are left of a count. By the law of the noise a count with 1
    or more left speaks for that condition, one with 0 or less against it, all equally loudly.
    """
    secret = uniform_below(len(CONDITIONS), times, source).astype(np.int64)
    hers = (secret[:, None] == np.arange(len(CONDITIONS))).astype(np.int64)
    left = [np.asarray(Laplace(scale).release(hers, source)) for _ in range(2)]
    votes: Ints = sum(((counts >= 1).astype(np.int64) for counts in left), np.zeros_like(hers))
    return int((votes.argmax(axis=1) == secret).sum())


ATTACK = Attack("intersection", "a 4-anonymous and a 6-anonymous table, and one patient who is in both", intersection)
