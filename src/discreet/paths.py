"""Paths that users name: what the system refuses becomes an error of ours, which names the path and the reason."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from discreet.errors import DiscreetError

Refuse = Callable[[str], DiscreetError]
"""Makes an error from a reason."""


def reason_of(error: Exception) -> str:
    """Say why the system refused a path.

    >>> reason_of(PermissionError(13, "Permission denied")), reason_of(ValueError("embedded null byte"))
    ('Permission denied', 'embedded null byte')
    """
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def exists(path: str | os.PathLike[str], refuse: Refuse) -> bool:
    """Say whether there is something at a path. `Path.exists` raises in a folder without access, `os.path.exists` denies.

    Raises:
        DiscreetError: what `refuse` makes of the reason, if the system does not say.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
        raise refuse(f"it cannot be looked at ({reason_of(error)})") from None
    return True


def resolve(path: str | os.PathLike[str], refuse: Refuse) -> Path:
    """Follow a path to where it leads, `~` and links included.

    Raises:
        DiscreetError: what `refuse` makes of the reason, if it leads nowhere.
    """
    try:
        place = Path(path).expanduser()
        _check_links(place)
        return place.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a link to itself, an unknown user's home, a NUL
        raise refuse(f"it leads nowhere ({reason_of(error)})") from None


def _check_links(path: Path) -> None:
    """Raise `OSError` if the links of a path form a loop. `Path.resolve` raises of itself only before Python 3.13."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise


def read_text(path: str | os.PathLike[str], refuse: Refuse) -> str:
    """Read a file of text in UTF-8.

    Raises:
        DiscreetError: what `refuse` makes of the reason, if it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise refuse("it is no text in UTF-8") from None
    except (OSError, ValueError) as error:
        raise refuse(f"it cannot be read ({reason_of(error)})") from None
