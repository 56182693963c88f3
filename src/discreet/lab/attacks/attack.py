"""What an attack is, and what it leaves behind."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from inspect import signature
from math import exp, sinh, sqrt, tanh
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discreet._numbers import Number
from discreet.errors import BadParameter, BudgetExceeded
from discreet.ledger import open_ledger
from discreet.ledger.chain import LedgerAccount
from discreet.mechanisms import Laplace
from discreet.query.answer import Answer
from discreet.session.connect import connect
from discreet.session.session import Session


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What the attacker learned, in words and in numbers that JSON can hold."""

    title: str
    lines: tuple[str, ...]
    numbers: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join((self.title, *(f"  {line}" for line in self.lines)))


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack by name. It plays the same each time, unless it is given another seed."""

    name: str
    summary: str
    function: Callable[..., AttackResult]

    @property
    def options(self) -> dict[str, Any]:
        """What can be chosen, and what is chosen if nobody does."""
        return {name: parameter.default for name, parameter in signature(self.function).parameters.items()}

    def play(self, **options: Any) -> AttackResult:
        """Attack, without discreet and with it."""
        for name in options:
            if name not in self.options:
                known = ", ".join(self.options)
                raise BadParameter("option", repr(name), f"the attack {self.name} has none of that name", f"it has {known}")
        return self.function(**options)


# Where an attack on discreet takes place: a small table on disk, and the two ways to be asked about it.
#
# A ledger keeps no answer whose noise can be repeated, so what is shown of noisy values is played on a budget in memory with
# seeded bits; what a ledger gives and refuses is played on a real one, with real noise, and only what does not depend on
# that noise is told.


@dataclass(frozen=True, slots=True)
class Testbed:
    """A table of people, one row each, called `people`."""

    folder: Path
    source_options: Mapping[str, Any]

    @property
    def table(self) -> Path:
        """The file that nobody but discreet reads."""
        return self.folder / "people.csv"

    @property
    def ledger(self) -> Path:
        """The ledger."""
        return self.folder / "people.ledger"

    def connect_in_memory(self, epsilon: Number) -> Session:
        """A budget that takes seeded bits."""
        return connect(self.table, epsilon=epsilon, **self.source_options)

    @contextmanager
    def connect_with_ledger(self, epsilon: Number) -> Iterator[Session]:
        """A budget in a SQLite ledger."""
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
    """A house around these rows for as long as the attack lasts. One person may be replaced by another, not added."""
    with TemporaryDirectory(prefix="discreet-lab-", ignore_cleanup_errors=True) as folder:
        built = Testbed(Path(folder), {"unit": "id", "unique": True, "neighbours": "replace"} | source_options)
        with built.table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        yield built


def single_value(answer: Answer) -> int:
    """The one number of an answer."""
    ((_, (cell,)),) = answer.rows
    return int(cell.value)


def noise_scale(session: Session, query: str, epsilon: Number) -> Fraction:
    """The scale of the noise that a question would get at this price."""
    ((_, noise),) = session.calibrate(query, epsilon=epsilon).noises
    if not isinstance(noise, Laplace):
        raise AssertionError("a budget without a δ buys Laplace noise")
    return noise.scale


def refusal_message(ask: Callable[[], object]) -> str | None:
    """Why an account does not pay for this; nothing if it does."""
    try:
        ask()
    except BudgetExceeded as refused:
        return str(refused)
    return None


def max_guess_probability(epsilon: Number) -> float:
    """How often anybody can be right at most about one person's bit that is as likely 0 as 1: e^ε/(1+e^ε).

    Both bits explain whatever was seen within a factor e^ε of each other, so that is also the most that the odds can be.

    >>> round(max_guess_probability(1), 4), max_guess_probability(0)
    (0.7311, 0.5)
    """
    return 1 / (1 + exp(-float(epsilon)))


# What the noise of a count does, exactly: the law P(k) = (1−a)/(1+a)·a^|k| with a = e^{−1/scale}.


def noise_deviation(scale: Fraction) -> float:
    """The standard deviation, √(2a)/(1−a) = 1/(√2·sinh(1/(2·scale))).

    >>> round(noise_deviation(Fraction(1)), 4)
    1.357
    """
    return 1 / (sqrt(2) * sinh(1 / (2 * float(scale))))


def collision_probability(scale: Fraction) -> float:
    """The probability that two such noises are equal: Σ P(k)² = ((1−a)/(1+a))²·(1+a²)/(1−a²).

    >>> round(collision_probability(Fraction(2)), 4)
    0.1298
    """
    a = exp(-1 / float(scale))
    return tanh(1 / (2 * float(scale))) ** 2 * (1 + a * a) / (1 - a * a)
