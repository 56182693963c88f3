"""Refusals that name the key of the plan that they are about."""

from collections.abc import Iterator
from contextlib import contextmanager

from discreet.errors import BadParameter, QuestionRefused


@contextmanager
def under(key: str) -> Iterator[None]:
    """Whatever is refused inside is refused under this key.

    >>> with under("questions.pay"):
    ...     raise BadParameter("error", "0", "must be positive", "give more")
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.pay.error is 0: must be positive; give more
    """
    try:
        yield
    except QuestionRefused as refused:
        raise QuestionRefused(f"{key}: {refused.reason}", refused.way_out, refused.line, refused.column) from None
    except BadParameter as wrong:
        raise BadParameter(f"{key}.{wrong.name}", wrong.shown, wrong.reason, wrong.way_out) from None
