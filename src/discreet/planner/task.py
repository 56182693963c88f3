"""What is asked of a mechanism, and how good its answer is."""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from discreet.exact import shown
from discreet.planner.questions import Question, cells_of, divides, full, full_in_words, grows_with_n, moved
from discreet.units import Neighbours, Sensitivity


class Aim(Enum):
    """Which error is meant."""

    LARGEST = "the largest error of all answers"
    EACH = "the error of each answer alone"
    RMSE = "the root mean square error of each answer"


@dataclass(frozen=True, slots=True)
class Task:
    """So many questions of one kind at once, each about everybody."""

    question: Question
    neighbours: Neighbours
    queries: int
    delta: Fraction
    confidence: Fraction
    aim: Aim

    @property
    def answers(self) -> int:
        """How many noisy numbers come out."""
        return cells_of(self.question) * self.queries

    @property
    def moved(self) -> Sensitivity:
        """How far one person moves all of them."""
        return moved(self.question, self.neighbours, self.queries)

    @property
    def divides(self) -> bool:
        """Whether the answers are totals divided by n."""
        return divides(self.question)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Half-widths of one answer and of all at once, at the task's confidence, and the root mean square error of one."""

    each: Fraction
    largest: Fraction
    rmse: Fraction

    def aimed(self, aim: Aim) -> Fraction:
        """The one that is meant."""
        return {Aim.LARGEST: self.largest, Aim.EACH: self.each, Aim.RMSE: self.rmse}[aim]

    def over(self, divisor: int) -> "Accuracy":
        """The accuracy of totals divided by a public number."""
        return Accuracy(self.each / divisor, self.largest / divisor, self.rmse / divisor)


@dataclass(frozen=True, slots=True)
class Goal:
    """The error that is allowed: an amount, or a share of a size (of the whole answer, unless a size is given)."""

    amount: Fraction
    relative: bool
    size: Fraction | None

    def depends_on_n(self, question: Question) -> bool:
        """Whether the allowance itself grows with n."""
        return self.relative and self.size is None and grows_with_n(question)

    def allowed(self, question: Question, n: int | None) -> Fraction:
        """In the answer's own unit."""
        if not self.relative:
            return self.amount
        if self.size is not None:
            return self.amount * self.size
        return self.amount * full(question, 1 if n is None else n)

    def in_words(self, question: Question) -> str:
        """As it was asked for."""
        if not self.relative:
            return shown(self.amount)
        share = f"{float(100 * self.amount):g}%"
        return f"{share} of {shown(self.size)}" if self.size is not None else f"{share} {full_in_words(question)}"
