"""Refusals that name the key of the plan that they are about."""

from collections.abc import Iterator
from contextlib import contextmanager

from discreet.errors import BadParameter, QueryRefused


@contextmanager
def prefix_errors(key: str) -> Iterator[None]:
    """Whatever is refused inside is refused under this key.

    >>> with prefix_errors("questions.pay"):
    ...     raise BadParameter("error", "0", "must be positive", "give more")
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.pay.error is 0: must be positive; give more
    """
    try:
        yield
    except QueryRefused as refused:
        raise QueryRefused(f"{key}: {refused.reason}", refused.hint, refused.line, refused.column) from None
    except BadParameter as wrong:
        raise BadParameter(f"{key}.{wrong.name}", wrong.value, wrong.reason, wrong.hint) from None
