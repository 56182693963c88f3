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

from discreet.exact import Number, positive, shown, whole
from discreet.lab.attacks.house import House, best_guess, house, refusal, scale_of, value
from discreet.lab.attacks.lattice import deviation
from discreet.lab.attacks.played import Attack, Played
from discreet.mechanisms import Laplace
from discreet.noise import Bits, bernoulli
from discreet.testing import seeded

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST = 30
"""So few people that two random halves may be the same, or one empty, are too few to play with."""
SURELY = 1e-9
"""The chance that a private answer is beaten by luck, in `right_at_most`."""


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

    def right(self, guesses: Ints) -> int:
        """How many people are guessed."""
        return int((guesses == self.bits).sum())

    def attacked(self, count: int, noise: Laplace | None, source: Bits) -> int:
        """How many people a linear attack on so many counts guesses; each has fresh noise, or none."""
        exact = self.subsets[:count] @ self.bits
        heard = exact if noise is None else np.asarray(noise.release(exact, source))
        return self.right(decode(self.subsets[:count], heard, 1e-3 if noise is None else deviation(noise.scale)))

    def rows(self) -> list[dict[str, Any]]:
        """The people, with names."""
        return [{"id": i, "name": f"person {i}", "sick": int(bit)} for i, bit in enumerate(self.bits)]

    def question(self, number: int) -> str:
        """One half's count, as SQL."""
        members = ", ".join(map(str, np.flatnonzero(self.subsets[number])))
        return f"SELECT COUNT(*) AS n FROM people WHERE sick = 1 AND id IN ({members})"


EVERYBODY = "SELECT name, COUNT(*) AS n FROM people WHERE sick = 1 GROUP BY name"


def draw(people: int, questions: int, source: Bits) -> Secret:
    """A secret and the questions about it."""
    coins = bernoulli(Fraction(1, 2), people * (questions + 1), source).astype(np.int64)
    return Secret(coins[:people], coins[people:].reshape(questions, people))


def reconstruction(
    people: int = 400, questions: int = 2_000, epsilon: Number = 1, parts: int = 20, seed: int = 2003
) -> Played:
    """So many counts about so many people: exact, each with the noise of one ε, and all together for one ε."""
    n, m, few = whole(people, "people", LEAST), whole(questions, "questions", 2), whole(parts, "parts", 1)
    eps, source = positive(epsilon, "epsilon"), seeded(seed)
    few = min(few, m - 1)
    secret, one = draw(n, m, source), Laplace.for_epsilon(eps, sensitivity=1)
    exact, careless = secret.attacked(m, None, source), secret.attacked(m, one, source)
    with house(secret.rows(), keys={"name": [row["name"] for row in secret.rows()]}) as built:
        sold, everybody = _sold(built, secret, eps, few, source), _everybody(built, secret, eps, source)
        answered, refused = _on_the_ledger(built, secret, eps, few)
    thin = secret.attacked(m, Laplace(one.scale * m), source)
    most, surely = best_guess(eps), right_at_most(n, eps)
    return Played(
        f"Reconstruction: {n} secret bits from {m:,} counts over random halves of the people",
        (
            f"Without discreet, exact counts: {exact} of {n} bits recovered ({exact / n:.1%}).",
            f"Without a budget, each count with the noise of ε = {shown(eps)}: {careless} of {n} ({careless / n:.1%}). "
            f"Every answer was private; {m:,} of them are not.",
            f"With discreet, ε = {shown(eps)} in all: {few} counts at ε = {shown(eps / few)} each give {sold} of {n} "
            f"({sold / n:.1%}); all {m:,} at ε = {shown(eps / m)} each, {thin} ({thin / n:.1%}); one question about "
            f"everybody by name, {everybody} ({everybody / n:.1%}). A coin is right about 50%.",
            f"Whatever is asked, a guess about one person is right with probability at most e^ε/(1+e^ε) = {most:.1%}; more "
            f"than {surely} of {n} come with probability below {SURELY:g}.",
            f"The ledger, opened with ε = {shown(eps)}, answered {answered} of the {m:,} questions and says to the next: "
            f"{refused}.",
        ),
        {
            "people": n, "questions": m, "epsilon": float(eps), "recovered_exact": exact / n,
            "recovered_without_budget": careless / n, "recovered_with_discreet": sold / n,
            "recovered_thinned": thin / n, "recovered_by_name": everybody / n, "guess_at_most": most,
            "right_at_most": surely, "answered_by_ledger": answered, "refused": refused is not None, "refusal": refused,
        },
    )  # fmt: skip


def right_at_most(people: int, epsilon: Number, chance: float = SURELY) -> int:
    """More right guesses than this come with at most this chance, if all that was seen cost ε.

    >>> right_at_most(400, 1)
    342
    """
    from scipy.special import bdtrc

    n = whole(people, "people", least=1)
    more = bdtrc(np.arange(n + 1), n, best_guess(epsilon))  # P(X > k)
    return int(np.argmax(more <= chance))


def _sold(built: House, secret: Secret, epsilon: Fraction, few: int, source: Bits) -> int:
    """A linear attack on as many answers as the budget was divided into."""
    session = built.in_memory(epsilon)
    heard = [value(session.ask(secret.question(i), epsilon=epsilon / few, bits=source)) for i in range(few)]
    noise = deviation(scale_of(session, secret.question(0), epsilon / few))
    return secret.right(decode(secret.subsets[:few], np.array(heard), noise))


def _everybody(built: House, secret: Secret, epsilon: Fraction, source: Bits) -> int:
    """The whole budget on one question with a cell for each person: sick if the cell is above 0."""
    answer = built.in_memory(epsilon).ask(EVERYBODY, epsilon=epsilon, bits=source)
    cells = {str(name): cell.value for (name,), (cell,) in answer.rows}
    return secret.right(np.array([int(cells[row["name"]] > 0) for row in secret.rows()]))


def _on_the_ledger(built: House, secret: Secret, epsilon: Fraction, few: int) -> tuple[int, str | None]:
    """How many questions a real ledger answers at this price, and what it says to the one after."""
    with built.on_ledger(epsilon) as session:
        for number in range(len(secret.subsets)):
            said = refusal(partial(session.ask, secret.question(number), epsilon=epsilon / few))
            if said is not None:
                return number, said
    return len(secret.subsets), None


ATTACK = Attack("reconstruction", "a column of secret bits out of counts, and how the ledger stops it", reconstruction)
