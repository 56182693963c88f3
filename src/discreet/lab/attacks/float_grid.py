"""The floating-point grid: with noise in doubles the lowest bits of an answer show what the noise was added to [Mir12].

**Proof.** Doubles are denser near 0. If the secret is 1 and the answer y has |y| < 1/2, the noise was between −3/2 and −1/2,
so it was a multiple of 2⁻⁵³, and so is y, because the sum is exact. If the secret is 0, y is the noise itself, and most
noise below 1/2 is not a multiple of 2⁻⁵³. So an answer below 1/2 with a lower bit cannot have come from 1; no ε allows that.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_positive, format_rational
from discreet.auditor.evidence import clopper_pearson_lower
from discreet.lab.attacks.attack import Attack, AttackResult, open_testbed
from discreet.mechanisms import Laplace
from discreet.noise import Bits
from discreet.query.ast import Ref
from discreet.query.grid import grid_range_of
from discreet.testing import seeded_bits

Floats = NDArray[np.float64]
SECRETS = (0.0, 1.0)
REPEATS = 10
"""How often each of the two tables is queried, with fresh noise each time."""


def cannot_be_one(answers: Floats) -> NDArray[np.bool_]:
    """Return which answers cannot have come from 1: those below 1/2 that are not multiples of 2⁻⁵³.

    >>> cannot_be_one(np.array([0.25, 0.25 + 2**-54, 0.75, 2**-60, 0.0]))
    array([False,  True, False,  True, False])
    """
    steps = np.ldexp(np.where(np.abs(answers) < 0.5, answers, 0), 53)
    return np.asarray(steps != np.rint(steps))


def float_grid(epsilon: Number = Fraction(1, 2), answers: int = 50_000, seed: int = 53) -> AttackResult:
    """Tell a secret 0 from 1 by the lowest bits, with a textbook Laplace in doubles and with discreet's."""
    eps, n, source = check_positive(epsilon, "epsilon"), check_int(answers, "answers", minimum=1), seeded_bits(seed)
    textbook, ours = np.random.default_rng(check_int(seed, "seed")), Laplace.for_epsilon(eps, sensitivity=1, reals=True)
    floats = [int(cannot_be_one(x + textbook.laplace(0, 1 / float(eps), n)).sum()) for x in SECRETS]
    ours_drawn = [np.asarray(ours.release(np.full(n, x), source)) for x in SECRETS]
    certain = [int(cannot_be_one(y).sum()) for y in ours_drawn]
    on_grid = all(bool(is_on_grid(y, ours.grid).all()) for y in ours_drawn)
    (step, first), (_, second) = (_ask_sum(x, eps, source) for x in SECRETS)
    least_delta = clopper_pearson_lower(floats[0], n, 1e-9)
    return AttackResult(
        f"Float grid: 0 or 1, from the lowest bits of an answer with ε = {format_rational(eps)}",
        (
            f"Without discreet, x + laplace() in doubles: {floats[0]:,} of {n:,} answers about 0 ({floats[0] / n:.1%}) have "
            f"a bit that no answer about 1 can have; of as many about 1, {floats[1]} have one. One such answer reveals the "
            f"secret, so no ε holds with a δ below {least_delta:.3f} (confidence 1 − 1e-9), whatever is claimed.",
            f"With discreet: {certain[0]} of {n:,} answers about 0 have one, {certain[1]} about 1. All are multiples of "
            f"{ours.grid}, a grid that depends on the scale and on no value.",
            f"In SQL, {first} of {REPEATS} sums about 0 and {second} of {REPEATS} about 1 are multiples of {step}, the grid "
            "of the declared bounds.",
        ),
        {
            "epsilon": float(eps), "answers": n, "floats_certain": floats[0], "floats_false": floats[1],
            "delta_at_least": least_delta, "ours_certain": certain[0], "ours_false": certain[1], "on_lattice": on_grid,
            "grid": float(ours.grid), "asked": REPEATS, "on_step": [first, second], "step": float(step),
        },
    )  # fmt: skip


def is_on_grid(values: Floats, grid: Fraction) -> NDArray[np.bool_]:
    """Return which values are multiples of a power of two."""
    steps = values / float(grid)  # exact: a power of two
    return np.asarray(steps == np.rint(steps))


def _ask_sum(pay: float, epsilon: Fraction, source: Bits) -> tuple[Fraction, int]:
    """Return the grid of a sum over one person, and how many answers lie on it."""
    query = "SELECT SUM(pay) AS total FROM people"
    with open_testbed([{"id": 1, "pay": pay}], bounds={"pay": (0, 1)}) as testbed:
        session = testbed.connect_in_memory(epsilon * REPEATS)
        step = grid_range_of(Ref("pay"), session.table).grid
        answers = [session.ask(query, epsilon=epsilon, fresh=True, bits=source) for _ in range(REPEATS)]
    sums = np.array([float(estimate.value) for answer in answers for _, (estimate,) in answer.rows])
    return step, int(is_on_grid(sums, step).sum())


FLOAT_GRID = Attack(
    "float-grid",
    "which of two numbers an answer came from, by the lowest bits of a double",
    float_grid,
    {"answers": 1_000_000},
)
