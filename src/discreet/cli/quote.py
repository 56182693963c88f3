"""`discreet quote`: what it would cost, and how good it would be."""

from discreet.cli.question import QueryArguments


def run(question: QueryArguments, confidence: float, *, as_json: bool) -> None:
    """Print the quote."""
    session, price = question.open_session(confidence)
    quoted = session.quote(question.sql, confidence=confidence, **price)
    if as_json:
        print(quoted.to_json())
    else:
        from rich.console import Console

        Console().print(quoted)
