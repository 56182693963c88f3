"""Differencing: two harmless counts that differ in one person, and their difference is that person's secret.

Exact counts give everybody away, two questions each. With noise the difference carries two noises, and the two questions
have two prices.
"""

from fractions import Fraction

import numpy as np

from discreet._numbers import Number, check_int, check_positive, format_rational
from discreet.lab.attacks.attack import (
    Attack,
    AttackResult,
    collision_probability,
    max_guess_probability,
    noise_scale,
    open_testbed,
    refusal_message,
    single_value,
)
from discreet.mechanisms import Laplace
from discreet.noise import Bits, bernoulli
from discreet.testing import seeded_bits

PEOPLE = 100
QUERY_ALL = "SELECT COUNT(*) AS n FROM people WHERE sick = 1"


def query_without(person: int) -> str:
    """The same question about everybody else."""
    return f"{QUERY_ALL} AND id <> {person}"


def differencing(epsilon: Number = 1, rehearsals: int = 20_000, seed: int = 17) -> AttackResult:
    """Is person 17 sick? Two counts at ε/2 each, from a budget of ε."""
    eps, times, bits = check_positive(epsilon, "epsilon"), check_int(rehearsals, "rehearsals", minimum=1), seeded_bits(seed)
    half, target = eps / 2, 17
    sick = bernoulli(Fraction(1, 2), PEOPLE, bits).astype(np.int64)
    exact = [int(sick.sum()) - int(np.delete(sick, i).sum()) for i in range(PEOPLE)]
    known = int((np.array(exact) == sick).sum())
    with open_testbed([{"id": i, "sick": int(bit)} for i, bit in enumerate(sick)]) as built:
        session = built.connect_in_memory(eps)
        scale = noise_scale(session, QUERY_ALL, half)
        first, second = (
            single_value(session.ask(asked, epsilon=half, bits=bits)) for asked in (QUERY_ALL, query_without(target))
        )
        with built.connect_with_ledger(eps) as kept:
            for asked in (QUERY_ALL, query_without(target)):
                kept.ask(asked, epsilon=half)
            third = refusal_message(lambda: kept.ask(query_without(target + 1), epsilon=half))
    right, expected, most = _rehearse(scale, times, bits), (1 + collision_probability(scale)) / 2, max_guess_probability(eps)
    return AttackResult(
        f"Differencing: is person {target} sick? Two counts, ε = {format_rational(half)} each",
        (
            f"Without discreet: all sick people less all sick people but {target} is {exact[target]}, the secret itself. So "
            f"for everybody: {known} of {PEOPLE} people are known for certain.",
            f"With discreet: {first} less {second} is {first - second}, where it was {exact[target]}. In {times:,} "
            f"rehearsals such a difference, read as sick if it is above 0, was right {right / times:.1%} of the time; "
            f"exactly {expected:.1%} is to be expected, a coin is right 50%, and no use of ε = {format_rational(eps)} can "
            f"exceed {most:.1%}.",
            f"The third question is not answered. The ledger, opened with ε = {format_rational(eps)}, says: {third}",
        ),
        {
            "people": PEOPLE, "target": target, "secret": int(sick[target]), "known_without": known,
            "answers": [first, second], "difference": first - second, "rehearsals": times, "right": right,
            "right_expected": expected, "right_at_most": most, "refused": third is not None, "refusal": third,
        },
    )  # fmt: skip


def _rehearse(scale: Fraction, times: int, bits: Bits) -> int:
    """How often the sign of a noisy difference tells a fair coin."""
    secret = bernoulli(Fraction(1, 2), times, bits).astype(np.int64)
    noise = Laplace(scale)
    difference = np.asarray(noise.release(secret, bits)) - np.asarray(noise.release(np.zeros(times, np.int64), bits))
    return int(((difference > 0) == (secret == 1)).sum())


ATTACK = Attack("differencing", "two counts that differ in one person, and what their difference says", differencing)
