"""`discreet ask`: pay, look, answer."""

from dataclasses import dataclass

from discreet.cli.question import Question, waiting
from discreet.errors import BadParameter
from discreet.query.release import Release
from discreet.query.tidy import adds_up, check_additive


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How the answer is to be tidied and printed."""

    simultaneous: bool
    consistent: bool
    non_negative: bool
    integers: bool
    as_json: bool
    as_csv: bool

    def tidied(self, answer: Release) -> Release:
        """Post-processing, in the one order in which no step undoes another."""
        answer = answer.consistent() if self.consistent else answer
        answer = answer.non_negative() if self.non_negative else answer
        return answer.integers() if self.integers else answer


def run(question: Question, confidence: float, form: Form) -> None:
    """Print the answer."""
    if form.as_json and form.as_csv:
        raise BadParameter("--csv", "given", "so is --json", "take one of the two")
    session, price = question.open(confidence)
    if form.consistent:
        asked = session.outline(question.sql)
        check_additive(asked.query.groups, [adds_up(aggregate, asked) for _, aggregate in asked.query.aggregates])
    with waiting("asking …") as told:
        raw = session.ask(question.sql, confidence=confidence, simultaneous=form.simultaneous, progress=told, **price)
    answer = form.tidied(raw)
    if form.as_json:
        print(answer.to_json())
    elif form.as_csv:
        print(answer.to_csv(), end="")
    else:
        from rich.console import Console

        console = Console()
        console.print(answer)
        for note in session.notes:
            console.print(note, style="dim", markup=False)
