"""Linear reconstruction: too many counts that are too accurate reveal a whole column [DN03].

Each count over a random half of the people is one equation about their secret bits. With a few times as many equations as
people, and errors well below √people, least squares recovers almost all bits. No single answer does.

**Proof** of what a budget of ε allows instead, for any queries, if neighbours replace one person by another: let the bits
be fair coins. Given all answers and the bits of the people before, the odds of the next bit are at most e^ε. So the number
of right guesses is stochastically at most that of n coins that are right with probability e^ε/(1+e^ε) [SNJ23], and its
binomial tail bounds it.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_positive, format_rational
from discreet.lab.attacks.attack import (
    Attack,
    AttackResult,
    Testbed,
    max_guess_probability,
    noise_deviation,
    noise_scale,
    open_testbed,
    refusal_message,
    single_value,
)
from discreet.mechanisms import Laplace
from discreet.noise import Bits, bernoulli
from discreet.testing import seeded_bits

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_PEOPLE = 30
"""With fewer people two random halves may be equal, or one empty."""
FAILURE_PROBABILITY = 1e-9
"""The probability with which chance may exceed `max_correct_guesses`."""


def decode(subsets: Ints, answers: Ints, noise: float) -> Ints:
    """Estimate the bits from counts: least squares, shrunk towards 1/2 according to the noise.

    >>> decode(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), np.array([1, 1, 2]), 0.01)
    array([1, 0, 1])
    """
    matrix, weight = subsets.astype(np.float64), noise**2
    centred = answers - matrix.sum(axis=1) / 2
    normal = matrix.T @ matrix + 4 * weight * np.eye(matrix.shape[1])  # 1/4 is the variance of a fair bit
    return (np.linalg.solve(normal, matrix.T @ centred) > 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Secret:
    """Fair bits, one per person, and the random halves of the people that are counted."""

    bits: Ints
    subsets: Ints

    def count_correct(self, guesses: Ints) -> int:
        """Return how many bits are guessed correctly."""
        return int((guesses == self.bits).sum())

    def attack(self, count: int, noise: Laplace | None, source: Bits) -> int:
        """Return how many bits a linear attack on so many counts recovers; each has fresh noise, or none."""
        exact = self.subsets[:count] @ self.bits
        answers = exact if noise is None else np.asarray(noise.release(exact, source))
        deviation = 1e-3 if noise is None else noise_deviation(noise.scale)
        return self.count_correct(decode(self.subsets[:count], answers, deviation))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table."""
        return [{"id": i, "name": f"person {i}", "sick": int(bit)} for i, bit in enumerate(self.bits)]

    def to_query(self, number: int) -> str:
        """Return the count over one half, as SQL."""
        members = ", ".join(map(str, np.flatnonzero(self.subsets[number])))
        return f"SELECT COUNT(*) AS n FROM people WHERE sick = 1 AND id IN ({members})"


QUERY_BY_NAME = "SELECT name, COUNT(*) AS n FROM people WHERE sick = 1 GROUP BY name"


def draw_secret(people: int, questions: int, source: Bits) -> Secret:
    """Draw a secret and the halves to count."""
    coins = bernoulli(Fraction(1, 2), people * (questions + 1), source).astype(np.int64)
    return Secret(coins[:people], coins[people:].reshape(questions, people))


def reconstruction(
    people: int = 400, questions: int = 2_000, epsilon: Number = Fraction(1), parts: int = 20, seed: int = 2003
) -> AttackResult:
    """Reconstruct secret bits from counts: exact ones, each at ε, and all of them together at ε."""
    n, m, few = check_int(people, "people", MIN_PEOPLE), check_int(questions, "questions", 2), check_int(parts, "parts", 1)
    eps, source = check_positive(epsilon, "epsilon"), seeded_bits(seed)
    few = min(few, m - 1)
    secret, one = draw_secret(n, m, source), Laplace.for_epsilon(eps, sensitivity=1)
    exact, no_budget = secret.attack(m, None, source), secret.attack(m, one, source)
    with open_testbed(secret.to_rows(), keys={"name": [row["name"] for row in secret.to_rows()]}) as testbed:
        within_budget = _attack_within_budget(testbed, secret, eps, few, source)
        by_name = _attack_by_name(testbed, secret, eps, source)
        answered, refusal = _ask_ledger(testbed, secret, eps, few)
    divided = secret.attack(m, Laplace(one.scale * m), source)
    probability, limit = max_guess_probability(eps), max_correct_guesses(n, eps)
    return AttackResult(
        f"Reconstruction: {n} secret bits from {m:,} counts over random halves of the people",
        (
            f"Without discreet, exact counts: {exact} of {n} bits recovered ({exact / n:.1%}).",
            f"Without a budget, each count at ε = {format_rational(eps)}: {no_budget} of {n} ({no_budget / n:.1%}). Each "
            f"answer alone is private; {m:,} of them together are not.",
            f"With discreet, ε = {format_rational(eps)} in all: {few} counts at ε = {format_rational(eps / few)} each "
            f"recover {within_budget} of {n} ({within_budget / n:.1%}); all {m:,} at ε = {format_rational(eps / m)} each, "
            f"{divided} ({divided / n:.1%}); one query grouped by name, {by_name} ({by_name / n:.1%}). A coin is right in "
            "50%.",
            f"For any queries, a guess about one person is right with probability at most e^ε/(1+e^ε) = {probability:.1%}; "
            f"more than {limit} of {n} are right with probability below {FAILURE_PROBABILITY:g}.",
            f"The ledger, opened with ε = {format_rational(eps)}, answered {answered} of the {m:,} queries and refused the "
            f"next: {refusal}",
        ),
        {
            "people": n, "questions": m, "epsilon": float(eps), "recovered_exact": exact / n,
            "recovered_without_budget": no_budget / n, "recovered_with_discreet": within_budget / n,
            "recovered_thinned": divided / n, "recovered_by_name": by_name / n, "guess_at_most": probability,
            "right_at_most": limit, "answered_by_ledger": answered, "refused": refusal is not None, "refusal": refusal,
        },
    )  # fmt: skip


def max_correct_guesses(people: int, epsilon: Number, failure_probability: float = FAILURE_PROBABILITY) -> int:
    """Return a number of right guesses that is exceeded with at most this probability, if all answers cost ε.

    >>> max_correct_guesses(400, 1)
    342
    """
    from scipy.special import bdtrc

    n = check_int(people, "people", minimum=1)
    more = bdtrc(np.arange(n + 1), n, max_guess_probability(epsilon))  # P(X > k)
    return int(np.argmax(more <= failure_probability))


def _attack_within_budget(testbed: Testbed, secret: Secret, epsilon: Fraction, few: int, source: Bits) -> int:
    """Attack as many answers as the budget is divided into."""
    session = testbed.connect_in_memory(epsilon)
    answers = [single_value(session.ask(secret.to_query(i), epsilon=epsilon / few, bits=source)) for i in range(few)]
    noise = noise_deviation(noise_scale(session, secret.to_query(0), epsilon / few))
    return secret.count_correct(decode(secret.subsets[:few], np.array(answers), noise))


def _attack_by_name(testbed: Testbed, secret: Secret, epsilon: Fraction, source: Bits) -> int:
    """Spend the whole budget on one query with a group per person, and guess "sick" for a count above 0."""
    answer = testbed.connect_in_memory(epsilon).ask(QUERY_BY_NAME, epsilon=epsilon, bits=source)
    counts = {str(name): estimate.value for (name,), (estimate,) in answer.rows}
    return secret.count_correct(np.array([int(counts[row["name"]] > 0) for row in secret.to_rows()]))


def _ask_ledger(testbed: Testbed, secret: Secret, epsilon: Fraction, few: int) -> tuple[int, str | None]:
    """Return how many queries a ledger answers at this cost, and why it refuses the next."""
    with testbed.connect_with_ledger(epsilon) as session:
        for number in range(len(secret.subsets)):
            refusal = refusal_message(partial(session.ask, secret.to_query(number), epsilon=epsilon / few))
            if refusal is not None:
                return number, refusal
    return len(secret.subsets), None


RECONSTRUCTION = Attack(
    "reconstruction",
    "a column of secret bits from many counts, and how the ledger prevents it",
    reconstruction,
    {"people": 1_000, "questions": 10_000, "parts": 1_000},
)
