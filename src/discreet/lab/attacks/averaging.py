"""Averaging: repeat one query five hundred times, and the noise averages out [N1].

Each answer costs ε, and m answers cost up to m·ε. Without a budget the costs are not added up: the noise of a mean of m
answers is √m times smaller, and the mean shows the secret.
"""

from fractions import Fraction
from math import sqrt

import numpy as np

from discreet._numbers import Number, check_int, check_positive, format_rational
from discreet.accounting.curve import epsilon as certified
from discreet.lab.attacks.attack import (
    Attack,
    AttackResult,
    Testbed,
    noise_deviation,
    open_testbed,
    refusal_message,
    single_value,
)
from discreet.mechanisms import Laplace
from discreet.noise import Bits
from discreet.testing import seeded_bits

SICK, PEOPLE = 37, 100
QUERY = "SELECT COUNT(*) AS n FROM people WHERE sick = 1"


def averaging(answers: int = 500, epsilon: Number = Fraction(1), seed: int = 500) -> AttackResult:
    """Repeat a count at ε each: without a budget, and with one of ε in all."""
    m, eps, bits = check_int(answers, "answers", minimum=2), check_positive(epsilon, "epsilon"), seeded_bits(seed)
    noise = Laplace.for_epsilon(eps, sensitivity=1)
    noisy = np.asarray(noise.release(np.full(m, SICK), bits))
    mean, standard_error = float(noisy.mean()), noise_deviation(noise.scale) / sqrt(m)
    spent = certified(noise.event(1) * m, 1e-5).upper
    rows = [{"id": i, "sick": int(i < SICK)} for i in range(PEOPLE)]
    with open_testbed(rows) as testbed:
        repeated, refusal = _ask_repeatedly(testbed, m, eps, bits), _ask_ledger(testbed, eps)
    divided = noise_deviation(noise.scale * m) / sqrt(m)
    return AttackResult(
        f"Averaging: {m} answers to one query, ε = {format_rational(eps)} each",
        (
            f"The secret is a count: {SICK}. One answer is within {noise.error(0.95):g} of it with 95% confidence.",
            f"Without a budget: the mean of {m} answers is {mean:.3f}, with a standard error of {standard_error:.3f}; "
            f"rounded, {round(mean)}. Together they cost ε = {format_rational(eps * m)} (pure DP), or ε = {spent:.4g} at "
            f"δ = 1e-5, not ε = {format_rational(eps)}.",
            f"With discreet: {m} repetitions return the recorded answer {_format_values(repeated)} each time, at a cost of "
            f"ε = {format_rational(eps)} in all. Their mean says no more than the first answer.",
            f"Fresh noise (fresh=True) is charged again. The ledger, opened with ε = {format_rational(eps)}, refuses: "
            f"{refusal}",
            f"Dividing the budget into {m} answers at ε = {format_rational(eps / m)} each gives a mean with a standard "
            f"error of {divided:.3g}, more than the {noise_deviation(noise.scale):.3g} of one answer at the same cost.",
        ),
        {
            "secret": SICK, "answers": m, "epsilon_each": float(eps), "error_of_one": noise.error(0.95), "mean": mean,
            "standard_error": standard_error, "learned": round(mean), "pure_epsilon_spent": float(eps * m),
            "certified_epsilon_spent": spent, "different_answers": len(set(repeated)), "answer": repeated[0],
            "refused": refusal is not None, "refusal": refusal, "standard_error_if_thinned": divided,
            "deviation_of_one": noise_deviation(noise.scale),
        },
    )  # fmt: skip


def _format_values(values: list[int]) -> str:
    return " or ".join(map(str, sorted(set(values))))


def _ask_repeatedly(testbed: Testbed, times: int, epsilon: Fraction, bits: Bits) -> list[int]:
    session = testbed.connect_in_memory(epsilon)
    return [single_value(session.ask(QUERY, epsilon=epsilon, bits=bits)) for _ in range(times)]


def _ask_ledger(testbed: Testbed, epsilon: Fraction) -> str | None:
    """Return why a ledger refuses fresh noise, after it has answered once and repeated the answer."""
    with testbed.connect_with_ledger(epsilon) as session:
        first, repeated = (session.ask(QUERY, epsilon=epsilon) for _ in range(2))
        if repeated.rows != first.rows:
            raise AssertionError("a recorded answer changed")
        return refusal_message(lambda: session.ask(QUERY, epsilon=epsilon, fresh=True))


AVERAGING = Attack(
    "averaging",
    "the mean of 500 noisy answers, and why a repeated query returns the recorded one",
    averaging,
    {"answers": 10_000},
)
