"""Paths and database addresses that users name.

*Paths.* What the system refuses becomes an error of discreet that names the path and the reason.

*Private files.* The key of a ledger and the owner's log may be readable by their owner alone.

*Addresses* as libpq reads them, `postgresql://…` or `host=… dbname=…`, may hold a password, so no message repeats one; nor
does it repeat a text that may be an address.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

from discreet.errors import BadParameter, DiscreetError

Refuse = Callable[[str], DiscreetError]
"""Makes an error from a reason."""


# Paths


def reason_of(error: Exception) -> str:
    """Say why the system refused a path.

    >>> reason_of(PermissionError(13, "Permission denied")), reason_of(ValueError("embedded null byte"))
    ('Permission denied', 'embedded null byte')
    """
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def exists(path: str | os.PathLike[str], refuse: Refuse) -> bool:
    """Say whether there is something at a path. In a folder without access `Path.exists` raises, `os.path.exists` denies.

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


_KNOWS_EFFECTIVE_IDS = os.access in os.supports_effective_ids


def may(path: str | os.PathLike[str], mode: int) -> bool:
    """Return whether this user may read (`os.R_OK`) or write (`os.W_OK`) a file. It is not opened to find out: when a
    process closes any handle of a file, POSIX takes all locks of the process off it."""
    return os.access(path, mode, effective_ids=_KNOWS_EFFECTIVE_IDS)


NO_FILE = 0, 0


def identify(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return what the system calls the file that is at a path; `NO_FILE` if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return NO_FILE
    return found.st_dev, found.st_ino


_DRAFT = ".discreet-"


def create_file(path: Path) -> None:
    """Make an empty file for its owner alone, unless there is one.

    The file is not opened under its own name, if its file system has hard links: when a process closes any handle of a file,
    POSIX takes all locks of the process off it, so the connections of SQLite that it has would lose theirs, and others would
    remove their log. Without them (exFAT), it is opened only if it is new.
    """
    if os.path.lexists(path):
        with suppress(OSError):
            count_names(path)  # which removes what a process that was killed here left
        return
    draft = path.with_name(f"{_DRAFT}{os.urandom(8).hex()}")
    try:
        _create_new(draft)
        os.link(draft, path)  # which replaces no file that came meanwhile
    except FileExistsError:
        pass
    except OSError:
        with suppress(FileExistsError):
            _create_new(path)
    finally:
        draft.unlink(missing_ok=True)


def move_new(part: Path, target: Path) -> None:
    """Give a file its name, also where the file system has no hard links.

    Raises:
        FileExistsError: there is such a file. It is not replaced.
    """
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        _create_new(target)
        part.replace(target)


def count_names(path: Path) -> int:
    """Return how many hard links a file has, without those that `create_file` left when the process was killed."""
    found = os.stat(path)
    if found.st_nlink > 1:
        for draft in path.parent.glob(f"{_DRAFT}*"):
            with suppress(OSError):
                if os.path.samestat(draft.lstat(), found):
                    draft.unlink()
    return os.stat(path).st_nlink


def _create_new(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def resolve(path: str | os.PathLike[str], refuse: Refuse) -> Path:
    """Resolve a path, `~` and links included.

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
    """Read a text file in UTF-8.

    Raises:
        DiscreetError: what `refuse` makes of the reason, if it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise refuse("it is no text in UTF-8") from None
    except (OSError, ValueError) as error:
        raise refuse(f"it cannot be read ({reason_of(error)})") from None


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def describe_kind(mode: int) -> str | None:
    """Say what stands in the place of a file, by its mode; return None for a regular file.

    >>> describe_kind(os.stat(os.curdir).st_mode)
    'this is a folder, not a regular file'
    """
    if stat.S_ISREG(mode):
        return None
    kind = _KINDS.get(stat.S_IFMT(mode))
    return "this is not a regular file" if kind is None else f"this is {kind}, not a regular file"


def describe_exposure(file: int | Path, path: Path) -> tuple[str, str] | None:
    """Say why other users could use a file, and what to do about it; return None if only its owner can.

    Give the open file, so that no other one can be put in its place in between; of a database, which may be open elsewhere
    in this process and must not be closed (`may`), its path.
    """
    mode = os.stat(file).st_mode
    if not stat.S_ISREG(mode):
        return "this is not a regular file", "name a regular file"
    if os.name == "posix" and mode & 0o077:
        return f"other users have access to it (mode {stat.S_IMODE(mode):04o})", f"run: chmod 600 {quote(str(path))}"
    return None


# Addresses of services


def is_service(source: object) -> bool:
    """Say whether a source is the address of a table on a service.

    >>> is_service("https://data.example/people"), is_service("HTTP://127.0.0.1:8000/people"), is_service("people.csv")
    (True, True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("https://", "http://"))


# Addresses of databases

SCHEMES = ("postgresql://", "postgres://")
LIBPQ_KEYWORDS = frozenset(
    {
        "host", "hostaddr", "port", "dbname", "user", "password", "passfile", "require_auth", "channel_binding", "options",
        "connect_timeout", "client_encoding", "application_name", "fallback_application_name", "keepalives", "replication",
        "gssencmode", "sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslnegotiation", "krbsrvname",
        "target_session_attrs", "load_balance_hosts", "service",
    }
)  # fmt: skip
_FIRST_KEYWORD = re.compile(r"\s*(\w+)\s*=")
_FILE_IN_PARTITION = re.compile(
    r"\s*\w+=[^\s']*\.((csv|tsv)(\.gz|\.zst)?|(jsonl|ndjson)(\.gz)?|xlsx|arrow|feather|parquet|duckdb|db)", re.IGNORECASE
)
_PORTS = re.compile(r"[\d\s,]*")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}")


def is_postgres(text: str) -> bool:
    """Say whether a text is an address of PostgreSQL: by its scheme in any case, or by a first keyword of libpq's.

    >>> [is_postgres(text) for text in ("PostgreSQL://db/shop", "host=db user=u", "user=7/people.parquet", "people.csv")]
    [True, True, False, False]
    """
    first = _FIRST_KEYWORD.match(text)
    by_keyword = first is not None and first[1] in LIBPQ_KEYWORDS and _FILE_IN_PARTITION.fullmatch(text) is None
    return by_keyword or text.lower().startswith(SCHEMES)


def to_libpq(text: str) -> str:
    """Return the address with its scheme in lower case, which libpq requires."""
    scheme, mark, rest = text.partition("://")
    return f"{scheme.lower()}{mark}{rest}" if text.lower().startswith(SCHEMES) else text


def has_unescaped_password(address: str) -> bool:
    """Say whether an @ or / of a password ended it too early: libpq would take the rest for a host, a port or a database,
    and its errors would name it.

    >>> [has_unescaped_password(f"postgresql://u:{word}@db/shop") for word in ("hunter2", "hun@ter2", "1/2", "hun%40ter2")]
    [False, True, True, False]
    """
    if not address.startswith(SCHEMES):
        return False
    host, _, rest = address.partition("://")[2].partition("?")[0].partition("/")
    return host.count("@") > 1 or "@" in rest


def is_unambiguous(address: str, parts: Mapping[str, Any]) -> bool:
    """Say whether libpq parsed an address as it was meant, so that its errors name no password as a host or a port."""
    return not has_unescaped_password(address) and _PORTS.fullmatch(str(parts.get("port") or "")) is not None


def describe_server(address: str, parameter: str, parse: Callable[[str], Mapping[str, Any]]) -> str:
    """Return the address of a server and its database without what might be a password. `parse` is libpq's reader.

    Raises:
        BadParameter: if it is no address.
    """
    try:
        parts = parse(address)
    except Exception:
        parts = None
    if parts is None or not is_unambiguous(address, parts):
        raise BadParameter(parameter, "postgresql://…", "not an address", "write postgresql://user@host/database")
    return f"postgresql://{parts.get('host') or 'localhost'}/{parts.get('dbname') or parts.get('user') or ''}"


def first_line_of(error: Exception) -> str:
    """Return the first line of what a driver of a database says.

    >>> first_line_of(ValueError("no route\\nto that host")), first_line_of(ValueError())
    ('no route', 'the connection was lost')
    """
    return (str(error).strip().splitlines() or ["the connection was lost"])[0]


def format_path(path: str) -> str:
    """Format the path of a source for a message; a text that may be an address is not repeated.

    >>> format_path("hr/region=north/people.csv"), format_path("mysql://u:hunter2@db/people.csv")
    ("'hr/region=north/people.csv'", 'this file')
    """
    return "this file" if any(mark in path for mark in ("://", "@")) else repr(path)


def format_suffix(path: str, suffix: str) -> str:
    """Format the suffix of a file for a message; that of a text that may be an address is not repeated.

    >>> format_suffix("people.xls", ".xls"), format_suffix("mysql://u:hun.ter2", ".ter2"), format_suffix("people", "")
    ('.xls', 'this', 'no ending')
    """
    if not suffix:
        return "no ending"
    return suffix if _SUFFIX.fullmatch(suffix) and not any(mark in path for mark in ("://", "=", "@")) else "this"


PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


def check_picture_path(path: str, name: str) -> None:
    """Refuse a picture that could not be written, before what it shows is computed.

    >>> check_picture_path("page.html", "--report")
    Traceback (most recent call last):
    discreet.errors.BadParameter: --report is 'page.html': not a format of pictures. End the name with .png, .svg or .pdf.
    """
    if not path.lower().endswith(PICTURE_SUFFIXES):
        raise BadParameter(name, repr(path), "not a format of pictures", "end the name with .png, .svg or .pdf")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise BadParameter(name, repr(path), "its folder does not exist", "name a file in a folder that exists")
