"""Differencing: two counts that differ in one person, whose difference is that person's secret.

Exact counts reveal each person's secret with two queries. With noise the difference carries the noise of both, and both
queries are charged.
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
    """Return the same query about all other people."""
    return f"{QUERY_ALL} AND id <> {person}"


def differencing(epsilon: Number = Fraction(1), rehearsals: int = 20_000, seed: int = 17) -> AttackResult:
    """Guess whether person 17 is sick from two counts at ε/2 each, within a budget of ε."""
    eps, times, bits = check_positive(epsilon, "epsilon"), check_int(rehearsals, "rehearsals", minimum=1), seeded_bits(seed)
    half, target = eps / 2, 17
    sick = bernoulli(Fraction(1, 2), PEOPLE, bits).astype(np.int64)
    exact = [int(sick.sum()) - int(np.delete(sick, i).sum()) for i in range(PEOPLE)]
    known = int((np.array(exact) == sick).sum())
    with open_testbed([{"id": i, "sick": int(bit)} for i, bit in enumerate(sick)]) as testbed:
        session = testbed.connect_in_memory(eps)
        scale = noise_scale(session, QUERY_ALL, half)
        first, second = (
            single_value(session.ask(query, epsilon=half, bits=bits)) for query in (QUERY_ALL, query_without(target))
        )
        with testbed.connect_with_ledger(eps) as durable:
            for query in (QUERY_ALL, query_without(target)):
                durable.ask(query, epsilon=half)
            refusal = refusal_message(lambda: durable.ask(query_without(target + 1), epsilon=half))
    right, expected = _simulate(scale, times, bits), (1 + collision_probability(scale)) / 2
    limit = max_guess_probability(eps)
    return AttackResult(
        f"Differencing: is person {target} sick? Two counts, ε = {format_rational(half)} each",
        (
            f"Without discreet: the count of all sick people minus that of all but person {target} is {exact[target]}, the "
            f"secret itself. In this way the secrets of {known} of {PEOPLE} people are known with certainty.",
            f"With discreet: {first} − {second} = {first - second}, where the exact difference is {exact[target]}. In "
            f"{times:,} simulations the guess \"sick\" for a difference above 0 was right in {right / times:.1%}; the exact "
            f"probability is {expected:.1%}, that of a coin 50%, and no attack within ε = {format_rational(eps)} can exceed "
            f"{limit:.1%}.",
            f"The third query is refused by the ledger, opened with ε = {format_rational(eps)}: {refusal}",
        ),
        {
            "people": PEOPLE, "target": target, "secret": int(sick[target]), "known_without": known,
            "answers": [first, second], "difference": first - second, "rehearsals": times, "right": right,
            "right_expected": expected, "right_at_most": limit, "refused": refusal is not None, "refusal": refusal,
        },
    )  # fmt: skip


def _simulate(scale: Fraction, times: int, bits: Bits) -> int:
    """Count how often the sign of a noisy difference equals a fair secret bit."""
    secret = bernoulli(Fraction(1, 2), times, bits).astype(np.int64)
    noise = Laplace(scale)
    difference = np.asarray(noise.release(secret, bits)) - np.asarray(noise.release(np.zeros(times, np.int64), bits))
    return int(((difference > 0) == (secret == 1)).sum())


DIFFERENCING = Attack(
    "differencing",
    "two counts that differ in one person, and what their difference says",
    differencing,
    {"rehearsals": 1_000_000},
)
