"""Averaging: ask the same thing five hundred times, and the noise averages out [N1].

Every single answer keeps its ε. What fails is to hand out the next one as if it were the first: the noise of a mean of m
answers is √m times smaller, and nothing of the secret stays.
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


def averaging(answers: int = 500, epsilon: Number = 1, seed: int = 500) -> AttackResult:
    """The same count so many times at ε each: without a budget, and with one of ε in all."""
    m, eps, bits = check_int(answers, "answers", minimum=2), check_positive(epsilon, "epsilon"), seeded_bits(seed)
    noise = Laplace.for_epsilon(eps, sensitivity=1)
    heard = np.asarray(noise.release(np.full(m, SICK), bits))
    mean, off = float(heard.mean()), noise_deviation(noise.scale) / sqrt(m)
    real = certified(noise.event(1) * m, 1e-5).upper
    rows = [{"id": i, "sick": int(i < SICK)} for i in range(PEOPLE)]
    with open_testbed(rows) as built:
        again, fresh = _ask_repeatedly(built, m, eps, bits), _ask_ledger(built, eps)
    thin = noise_deviation(noise.scale * m) / sqrt(m)
    return AttackResult(
        f"Averaging: {m} answers to one question, ε = {format_rational(eps)} each",
        (
            f"The secret is a count: {SICK}. One answer is within {noise.error(0.95):g} of it with 95% confidence.",
            f"Without a budget: the mean of {m} answers is {mean:.3f}, with a standard error of {off:.3f}; rounded, "
            f"{round(mean)}. What was sold as ε = {format_rational(eps)} was pure ε = {format_rational(eps * m)}, "
            f"and {real:.4g} at δ = 1e-5.",
            f"With discreet: asked {m} times in a row, it says {_format_values(again)} each time, for ε = "
            f"{format_rational(eps)} in all. "
            "The mean of equal numbers tells what the first one told.",
            f"New noise must be asked for, and paid for. The ledger, opened with ε = {format_rational(eps)}, says: {fresh}",
            f"Who thins the budget to ε = {format_rational(eps / m)} for each of {m} new answers gets a mean with a "
            "standard error of "
            f"{thin:.3g}: worse than the {noise_deviation(noise.scale):.3g} of one answer for the same price.",
        ),
        {
            "secret": SICK, "answers": m, "epsilon_each": float(eps), "error_of_one": noise.error(0.95), "mean": mean,
            "standard_error": off, "learned": round(mean), "pure_epsilon_spent": float(eps * m),
            "certified_epsilon_spent": real, "different_answers": len(set(again)), "answer": again[0],
            "refused": fresh is not None, "refusal": fresh, "standard_error_if_thinned": thin,
            "deviation_of_one": noise_deviation(noise.scale),
        },
    )  # fmt: skip


def _format_values(values: list[int]) -> str:
    return " or ".join(map(str, sorted(set(values))))


def _ask_repeatedly(testbed: Testbed, times: int, epsilon: Fraction, bits: Bits) -> list[int]:
    session = testbed.connect_in_memory(epsilon)
    return [single_value(session.ask(QUERY, epsilon=epsilon, bits=bits)) for _ in range(times)]


def _ask_ledger(testbed: Testbed, epsilon: Fraction) -> str | None:
    """What a real ledger says to a second look with new noise, once it has answered and repeated itself."""
    with testbed.connect_with_ledger(epsilon) as session:
        first, repeated = (session.ask(QUERY, epsilon=epsilon) for _ in range(2))
        if repeated.rows != first.rows:
            raise AssertionError("a recorded answer changed")
        return refusal_message(lambda: session.ask(QUERY, epsilon=epsilon, fresh=True))


ATTACK = Attack("averaging", "the mean of 500 noisy answers, and why the second one is the first again", averaging)
