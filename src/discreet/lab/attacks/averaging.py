"""Averaging: ask the same thing five hundred times, and the noise averages out [N1].

Every single answer keeps its ε. What fails is to hand out the next one as if it were the first: the noise of a mean of m
answers is √m times smaller, and nothing of the secret stays.
"""

from fractions import Fraction
from math import sqrt

import numpy as np

from discreet.accounting.curve import epsilon as certified
from discreet.exact import Number, positive, shown, whole
from discreet.lab.attacks.house import House, house, refusal, value
from discreet.lab.attacks.lattice import deviation
from discreet.lab.attacks.played import Attack, Played
from discreet.mechanisms import Laplace
from discreet.noise import Bits
from discreet.testing import seeded

SICK, PEOPLE = 37, 100
QUESTION = "SELECT COUNT(*) AS n FROM people WHERE sick = 1"


def averaging(answers: int = 500, epsilon: Number = 1, seed: int = 500) -> Played:
    """The same count so many times at ε each: without a budget, and with one of ε in all."""
    m, eps, bits = whole(answers, "answers", least=2), positive(epsilon, "epsilon"), seeded(seed)
    noise = Laplace.for_epsilon(eps, sensitivity=1)
    heard = np.asarray(noise.release(np.full(m, SICK), bits))
    mean, off = float(heard.mean()), deviation(noise.scale) / sqrt(m)
    real = certified(noise.loss(1) * m, 1e-5).upper
    rows = [{"id": i, "sick": int(i < SICK)} for i in range(PEOPLE)]
    with house(rows) as built:
        again, fresh = _again(built, m, eps, bits), _on_the_ledger(built, eps)
    thin = deviation(noise.scale * m) / sqrt(m)
    return Played(
        f"Averaging: {m} answers to one question, ε = {shown(eps)} each",
        (
            f"The secret is a count: {SICK}. One answer is within {noise.error(0.95):g} of it with 95% confidence.",
            f"Without a budget: the mean of {m} answers is {mean:.3f}, with a standard error of {off:.3f}; rounded, "
            f"{round(mean)}. What was sold as ε = {shown(eps)} was pure ε = {shown(eps * m)}, and {real:.4g} at δ = 1e-5.",
            f"With discreet: asked {m} times in a row, it says {_either(again)} each time, for ε = {shown(eps)} in all. "
            "The mean of equal numbers tells what the first one told.",
            f"New noise must be asked for, and paid for. The ledger, opened with ε = {shown(eps)}, says: {fresh}.",
            f"Who thins the budget to ε = {shown(eps / m)} for each of {m} new answers gets a mean with a standard error of "
            f"{thin:.3g}: worse than the {deviation(noise.scale):.3g} of one answer for the same price.",
        ),
        {
            "secret": SICK, "answers": m, "epsilon_each": float(eps), "error_of_one": noise.error(0.95), "mean": mean,
            "standard_error": off, "learned": round(mean), "pure_epsilon_spent": float(eps * m),
            "certified_epsilon_spent": real, "different_answers": len(set(again)), "answer": again[0],
            "refused": fresh is not None, "refusal": fresh, "standard_error_if_thinned": thin,
            "deviation_of_one": deviation(noise.scale),
        },
    )  # fmt: skip


def _either(values: list[int]) -> str:
    return " or ".join(map(str, sorted(set(values))))


def _again(built: House, times: int, epsilon: Fraction, bits: Bits) -> list[int]:
    session = built.in_memory(epsilon)
    return [value(session.ask(QUESTION, epsilon=epsilon, bits=bits)) for _ in range(times)]


def _on_the_ledger(built: House, epsilon: Fraction) -> str | None:
    """What a real ledger says to a second look with new noise, once it has answered and repeated itself."""
    with built.on_ledger(epsilon) as session:
        first, repeated = (session.ask(QUESTION, epsilon=epsilon) for _ in range(2))
        if repeated.rows != first.rows:
            raise AssertionError("a recorded answer changed")
        return refusal(lambda: session.ask(QUESTION, epsilon=epsilon, fresh=True))


ATTACK = Attack("averaging", "the mean of 500 noisy answers, and why the second one is the first again", averaging)
