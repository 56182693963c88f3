"""Linear reconstruction: too many counts that are too accurate give a whole column away [DN03].

Each count over a random half of the people is one equation about their bits. A few times as many equations as people, with
errors well below √people, and least squares solves for everybody. No single answer is to blame.

What a budget of ε allows instead, whatever is asked, if neighbours replace one person by another: let the bits be fair
coins. Given all that was answered and all earlier people's bits, the odds of the next bit are at most e^ε. So there are no
more right guesses than among n coins that fall right with probability e^ε/(1+e^ε) [SNJ23], and a binomial bound holds.
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
"""So few people that two random halves may be the same, or one empty, are too few to play with."""
FAILURE_PROBABILITY = 1e-9
"""The chance that a private answer is beaten by luck, in `max_correct_guesses`."""


def decode(subsets: Ints, answers: Ints, noise: float) -> Ints:
    """The bits that explain the counts best: least squares, drawn towards 1/2 as far as the noise says.

    >>> decode(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), np.array([1, 1, 2]), 0.01)
    array([1, 0, 1])
    """
    matrix, weight = subsets.astype(np.float64), noise**2
    off = answers - matrix.sum(axis=1) / 2
    normal = matrix.T @ matrix + 4 * weight * np.eye(matrix.shape[1])  # 1/4 is the variance of a fair bit
    return (np.linalg.solve(normal, matrix.T @ off) > 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Secret:
    """Fair bits, one per person, and the halves of the people that will be counted."""

    bits: Ints
    subsets: Ints

    def count_correct(self, guesses: Ints) -> int:
        """How many people are guessed."""
        return int((guesses == self.bits).sum())

    def attack(self, count: int, noise: Laplace | None, source: Bits) -> int:
        """How many people a linear attack on so many counts guesses; each has fresh noise, or none."""
        exact = self.subsets[:count] @ self.bits
        heard = exact if noise is None else np.asarray(noise.release(exact, source))
        return self.count_correct(
            decode(self.subsets[:count], heard, 1e-3 if noise is None else noise_deviation(noise.scale))
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """The people, with names."""
        return [{"id": i, "name": f"person {i}", "sick": int(bit)} for i, bit in enumerate(self.bits)]

    def to_query(self, number: int) -> str:
        """One half's count, as SQL."""
        members = ", ".join(map(str, np.flatnonzero(self.subsets[number])))
        return f"SELECT COUNT(*) AS n FROM people WHERE sick = 1 AND id IN ({members})"


QUERY_BY_NAME = "SELECT name, COUNT(*) AS n FROM people WHERE sick = 1 GROUP BY name"


def draw_secret(people: int, questions: int, source: Bits) -> Secret:
    """A secret and the questions about it."""
    coins = bernoulli(Fraction(1, 2), people * (questions + 1), source).astype(np.int64)
    return Secret(coins[:people], coins[people:].reshape(questions, people))


def reconstruction(
    people: int = 400, questions: int = 2_000, epsilon: Number = 1, parts: int = 20, seed: int = 2003
) -> AttackResult:
    """So many counts about so many people: exact, each with the noise of one ε, and all together for one ε."""
    n, m, few = check_int(people, "people", MIN_PEOPLE), check_int(questions, "questions", 2), check_int(parts, "parts", 1)
    eps, source = check_positive(epsilon, "epsilon"), seeded_bits(seed)
    few = min(few, m - 1)
    secret, one = draw_secret(n, m, source), Laplace.for_epsilon(eps, sensitivity=1)
    exact, careless = secret.attack(m, None, source), secret.attack(m, one, source)
    with open_testbed(secret.to_rows(), keys={"name": [row["name"] for row in secret.to_rows()]}) as built:
        sold, everybody = _attack_within_budget(built, secret, eps, few, source), _attack_by_name(built, secret, eps, source)
        answered, refused = _ask_ledger(built, secret, eps, few)
    thin = secret.attack(m, Laplace(one.scale * m), source)
    most, surely = max_guess_probability(eps), max_correct_guesses(n, eps)
    return AttackResult(
        f"Reconstruction: {n} secret bits from {m:,} counts over random halves of the people",
        (
            f"Without discreet, exact counts: {exact} of {n} bits recovered ({exact / n:.1%}).",
            f"Without a budget, each count with the noise of ε = {format_rational(eps)}: {careless} of {n} "
            f"({careless / n:.1%}). "
            f"Every answer was private; {m:,} of them are not.",
            f"With discreet, ε = {format_rational(eps)} in all: {few} counts at ε = {format_rational(eps / few)} "
            f"each give {sold} of {n} "
            f"({sold / n:.1%}); all {m:,} at ε = {format_rational(eps / m)} each, {thin} ({thin / n:.1%}); one "
            "question about "
            f"everybody by name, {everybody} ({everybody / n:.1%}). A coin is right about 50%.",
            f"Whatever is asked, a guess about one person is right with probability at most e^ε/(1+e^ε) = {most:.1%}; more "
            f"than {surely} of {n} come with probability below {FAILURE_PROBABILITY:g}.",
            f"The ledger, opened with ε = {format_rational(eps)}, answered {answered} of the {m:,} questions and "
            "says to the next: "
            f"{refused}",
        ),
        {
            "people": n, "questions": m, "epsilon": float(eps), "recovered_exact": exact / n,
            "recovered_without_budget": careless / n, "recovered_with_discreet": sold / n,
            "recovered_thinned": thin / n, "recovered_by_name": everybody / n, "guess_at_most": most,
            "right_at_most": surely, "answered_by_ledger": answered, "refused": refused is not None, "refusal": refused,
        },
    )  # fmt: skip


def max_correct_guesses(people: int, epsilon: Number, failure_probability: float = FAILURE_PROBABILITY) -> int:
    """More right guesses than this come with at most this chance, if all that was seen cost ε.

    >>> max_correct_guesses(400, 1)
    342
    """
    from scipy.special import bdtrc

    n = check_int(people, "people", minimum=1)
    more = bdtrc(np.arange(n + 1), n, max_guess_probability(epsilon))  # P(X > k)
    return int(np.argmax(more <= failure_probability))


def _attack_within_budget(testbed: Testbed, secret: Secret, epsilon: Fraction, few: int, source: Bits) -> int:
    """A linear attack on as many answers as the budget was divided into."""
    session = testbed.connect_in_memory(epsilon)
    heard = [single_value(session.ask(secret.to_query(i), epsilon=epsilon / few, bits=source)) for i in range(few)]
    noise = noise_deviation(noise_scale(session, secret.to_query(0), epsilon / few))
    return secret.count_correct(decode(secret.subsets[:few], np.array(heard), noise))


def _attack_by_name(testbed: Testbed, secret: Secret, epsilon: Fraction, source: Bits) -> int:
    """The whole budget on one question with a cell for each person: sick if the cell is above 0."""
    answer = testbed.connect_in_memory(epsilon).ask(QUERY_BY_NAME, epsilon=epsilon, bits=source)
    cells = {str(name): cell.value for (name,), (cell,) in answer.rows}
    return secret.count_correct(np.array([int(cells[row["name"]] > 0) for row in secret.to_rows()]))


def _ask_ledger(testbed: Testbed, secret: Secret, epsilon: Fraction, few: int) -> tuple[int, str | None]:
    """How many questions a real ledger answers at this price, and what it says to the one after."""
    with testbed.connect_with_ledger(epsilon) as session:
        for number in range(len(secret.subsets)):
            said = refusal_message(partial(session.ask, secret.to_query(number), epsilon=epsilon / few))
            if said is not None:
                return number, said
    return len(secret.subsets), None


ATTACK = Attack("reconstruction", "a column of secret bits out of counts, and how the ledger stops it", reconstruction)
