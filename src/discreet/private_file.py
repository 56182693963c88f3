"""Files that only their owner may read: the ledger's key, and the log that quotes values."""

import os
import stat
from pathlib import Path
from shlex import quote


def describe_exposure(handle: int, place: Path) -> tuple[str, str] | None:
    """Say why others could use an open file, and what to do about it; return None if only its owner can.

    It looks at the open file, not at its name, so that nobody can exchange one for another in between.
    """
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        return "this is not a regular file", "name a regular file"
    if os.name == "posix" and mode & 0o077:
        return f"other users have access to it (mode {stat.S_IMODE(mode):04o})", f"run: chmod 600 {quote(str(place))}"
    return None
