"""What only the owner of the data may read: engine errors quote values.

It goes nowhere unless the owner gives this logger a handler, or the command line a file in DISCREET_OWNER_LOG.
"""

import logging
import os
from pathlib import Path

from discreet.errors import BadParameter
from discreet.private_file import why_not_private
from discreet.text import printable_lines

log = logging.getLogger("discreet.owner")
log.addHandler(logging.NullHandler())
log.propagate = False

VARIABLE = "DISCREET_OWNER_LOG"


def open_log_file(path: str) -> logging.Handler:
    """Open the owner's log for appending; make it with mode 0600 if it is missing.

    A file that others can read, and a symbolic link, which may lead anywhere, are refused before anything is asked.
    """
    place = Path(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        handle = os.open(place, flags, 0o600)
    except OSError as error:
        link = place.is_symlink()
        reason = "this is a symbolic link" if link else f"the file cannot be opened ({error.strerror})"
        raise BadParameter(VARIABLE, repr(path), reason, "name a regular file that you may write") from None
    if problem := why_not_private(handle, place):
        os.close(handle)
        raise BadParameter(VARIABLE, repr(path), *problem)
    found = logging.StreamHandler(os.fdopen(handle, "a", encoding="utf-8"))
    found.setFormatter(Printable())
    return found


class Printable(logging.Formatter):
    """The owner reads the log in a terminal, and a value in it may hold an escape sequence."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))
