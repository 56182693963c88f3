"""What only the owner of the data may read: engine errors quote values.

It goes nowhere unless the owner gives this logger a handler, or the command line a file in DISCREET_OWNER_LOG. Each record
has a `source`: the identity of the source that it is about.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from threading import get_ident

from discreet.errors import BadParameter, SourceRefused
from discreet.paths import describe_exposure
from discreet.text import to_printable, to_printable_lines

owner_log = logging.getLogger("discreet.owner")
owner_log.addHandler(logging.NullHandler())
owner_log.propagate = False

OWNER_LOG_VARIABLE = "DISCREET_OWNER_LOG"
SAYS_MORE = f"the owner's log (the file that {OWNER_LOG_VARIABLE} names) says more"
VALIDATE = f"the owner finds out why with `discreet policy check`, or in the file that {OWNER_LOG_VARIABLE} names"
OWNER_ONLY = "For the data owner only, because it may quote values of the data:"

_source: ContextVar[str] = ContextVar("_source", default="no source")


class _Sourced(logging.Filter):
    """Lets everything pass, with its source."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.source = _source.get()
        return True


owner_log.addFilter(_Sourced())


@contextmanager
def about(source: str) -> Iterator[None]:
    """Say which source the records of the body are about."""
    before = _source.set(source)
    try:
        yield
    finally:
        _source.reset(before)


class _Kept(logging.Handler):
    """Keeps what is said in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.thread = get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        self.said += record.getMessage().splitlines() if record.thread == self.thread else []


@contextmanager
def explain_to_owner() -> Iterator[None]:
    """Add what the engine said to a refusal of the source. Only for what the data owner runs.

    Raises:
        SourceRefused: as the body does, with the reason in lines of its own.
    """
    kept = _Kept()
    owner_log.addHandler(kept)
    try:
        yield
    except SourceRefused as refused:
        if not kept.said:
            raise
        hint = "correct it" if refused.hint == VALIDATE else refused.hint.removesuffix(SAYS_MORE).rstrip("; ")
        raise SourceRefused(refused.reason, hint or "correct it", OWNER_ONLY, *kept.said) from None
    finally:
        owner_log.removeHandler(kept)


def open_log_file(path: str) -> logging.Handler:
    """Open the owner's log for appending; make it with mode 0600 if it is missing.

    A file that others can read, and a symbolic link, which may lead anywhere, are refused before anything is asked.
    """
    place = Path(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        handle = os.open(place, flags, 0o600)
    except OSError as error:
        reason = "this is a symbolic link" if os.path.islink(place) else f"the file cannot be opened ({error.strerror})"
        raise BadParameter(OWNER_LOG_VARIABLE, repr(path), reason, "name a regular file that you may write") from None
    if problem := describe_exposure(handle, place):
        os.close(handle)
        raise BadParameter(OWNER_LOG_VARIABLE, repr(path), *problem)
    found = logging.StreamHandler(os.fdopen(handle, "a", encoding="utf-8"))
    found.setFormatter(PrintableFormatter())
    return found


class PrintableFormatter(logging.Formatter):
    """The time, the source and the message; further lines are indented. The owner reads the log in a terminal, and a value
    in it may hold an escape sequence, or a line end that would forge an entry."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="seconds")
        first, *others = to_printable_lines(super().format(record)).split("\n")
        source = to_printable(getattr(record, "source", _source.get()))
        return "\n".join([f"{moment} {source}: {first}", *(f"  {line}" for line in others)])
