"""`discreet ask`: pay, look, answer."""

from discreet.cli.question import Question, waiting
from discreet.errors import BadParameter


def run(question: Question, confidence: float, *, simultaneous: bool, as_json: bool, as_csv: bool) -> None:
    """Print the answer."""
    if as_json and as_csv:
        raise BadParameter("--csv", "given", "so is --json", "take one of the two")
    session, epsilon = question.open(confidence)
    with waiting("asking …"):
        answer = session.ask(question.sql, epsilon=epsilon, confidence=confidence, simultaneous=simultaneous)
    if as_json:
        print(answer.to_json())
    elif as_csv:
        print(answer.to_csv(), end="")
    else:
        from rich.console import Console

        console = Console()
        console.print(answer)
        for note in session.notes:
            console.print(note, style="dim", markup=False)
