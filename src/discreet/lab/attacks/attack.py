"""An attack as a value, its result, and the testbed on which discreet is attacked.

The testbed is a small table on disk. A ledger refuses seeded noise, so noisy values are shown from a budget in memory with
seeded bits; what a ledger answers and refuses is shown on a real one with real noise, and only what does not depend on that
noise is reported.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from inspect import signature
from math import exp, sinh, sqrt, tanh
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discreet._numbers import Number, check_int
from discreet.accounting.risk import posterior_range
from discreet.errors import BadParameter, BudgetExceeded
from discreet.ledger import open_ledger
from discreet.ledger.chain import LedgerAccount
from discreet.mechanisms import Laplace
from discreet.query.answer import Answer
from discreet.session.connect import connect
from discreet.session.session import Session


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What the attacker learned, in words and in numbers for JSON."""

    title: str
    lines: tuple[str, ...]
    numbers: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join((self.title, *(f"  {line}" for line in self.lines)))


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack by name. Its result is the same in every run with the same seed."""

    name: str
    summary: str
    function: Callable[..., AttackResult]
    limits: Mapping[str, int] = field(default_factory=dict)  # the largest values that are computed within about a minute

    @property
    def options(self) -> dict[str, Any]:
        """The options with their defaults."""
        return {name: parameter.default for name, parameter in signature(self.function).parameters.items()}

    def run(self, **options: Any) -> AttackResult:
        """Attack, without discreet and with it."""
        for name in options:
            if name not in self.options:
                known = ", ".join(self.options)
                raise BadParameter("option", repr(name), f"not an option of the attack {self.name}", f"it has {known}")
            if name in self.limits and check_int(options[name], name) > self.limits[name]:
                most = f"give at most {self.limits[name]:,}"
                raise BadParameter(name, f"{options[name]:,}", "too many to compute while you wait", most)
        return self.function(**options)


# -- the testbed ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Testbed:
    """A table `people` with one row per person, and its ledger."""

    folder: Path
    source_options: Mapping[str, Any]

    @property
    def table(self) -> Path:
        """The file with the rows."""
        return self.folder / "people.csv"

    @property
    def ledger(self) -> Path:
        """The file of the ledger."""
        return self.folder / "people.ledger"

    def connect_in_memory(self, epsilon: Number) -> Session:
        """Connect with a budget in memory, which accepts seeded bits."""
        return connect(self.table, epsilon=epsilon, **self.source_options)

    @contextmanager
    def connect_with_ledger(self, epsilon: Number) -> Iterator[Session]:
        """Connect with a budget in a SQLite ledger."""
        with open_ledger(self.ledger, create=True) as ledger:
            ledger.open_account("analyst", epsilon)
        session = connect(self.table, ledger=self.ledger, account="analyst", **self.source_options)
        try:
            yield session
        finally:
            if isinstance(session.account, LedgerAccount):
                session.account.store.close()


@contextmanager
def open_testbed(rows: Sequence[Mapping[str, Any]], **source_options: Any) -> Iterator[Testbed]:
    """Write these rows into a temporary folder. Neighbours replace one person by another."""
    with TemporaryDirectory(prefix="discreet-lab-", ignore_cleanup_errors=True) as folder:
        testbed = Testbed(Path(folder), {"unit": "id", "unique": True, "neighbours": "replace"} | source_options)
        with testbed.table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        yield testbed


def single_value(answer: Answer) -> int:
    """Return the one number of an answer."""
    ((_, (estimate,)),) = answer.rows
    return int(estimate.value)


def noise_scale(session: Session, query: str, epsilon: Number) -> Fraction:
    """Return the scale of the noise that a query would get at this ε."""
    ((_, noise),) = session.calibrate(query, epsilon=epsilon).noises
    if not isinstance(noise, Laplace):
        raise AssertionError("a budget without a δ uses Laplace noise")
    return noise.scale


def refusal_message(ask: Callable[[], object]) -> str | None:
    """Return why an account refuses a call, or None if it does not."""
    try:
        ask()
    except BudgetExceeded as refused:
        return str(refused)
    return None


def max_guess_probability(epsilon: Number, choices: int = 2) -> float:
    """Return the largest probability of guessing which of several equally likely secrets one person has, after outputs that
    cost ε: e^ε/(e^ε + choices − 1), rounded up.

    >>> round(max_guess_probability(1), 4), max_guess_probability(0), round(max_guess_probability(1, 6), 4)
    (0.7311, 0.5, 0.3522)
    """
    return posterior_range(epsilon, Fraction(1, choices)).upper


# -- the noise of a count: P(k) = (1−a)/(1+a)·a^|k| with a = e^{−1/scale} ---------------------------------------------------


def noise_deviation(scale: Fraction) -> float:
    """Return the standard deviation, √(2a)/(1−a) = 1/(√2·sinh(1/(2·scale))).

    >>> round(noise_deviation(Fraction(1)), 4)
    1.357
    """
    return 1 / (sqrt(2) * sinh(1 / (2 * float(scale))))


def collision_probability(scale: Fraction) -> float:
    """Return the probability that two such noises are equal: Σ P(k)² = ((1−a)/(1+a))²·(1+a²)/(1−a²).

    >>> round(collision_probability(Fraction(2)), 4)
    0.1298
    """
    a = exp(-1 / float(scale))
    return tanh(1 / (2 * float(scale))) ** 2 * (1 + a * a) / (1 - a * a)
