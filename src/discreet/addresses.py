"""Addresses as libpq writes them: postgresql://… or host=… dbname=…. They hold passwords, so no message repeats one."""

import re
from collections.abc import Mapping
from typing import Any

SCHEMES = ("postgresql://", "postgres://")
LIBPQ_KEYWORDS = frozenset(
    {
        "host", "hostaddr", "port", "dbname", "user", "password", "passfile", "require_auth", "channel_binding", "options",
        "connect_timeout", "client_encoding", "application_name", "fallback_application_name", "keepalives", "replication",
        "gssencmode", "sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslnegotiation", "krbsrvname",
        "target_session_attrs", "load_balance_hosts", "service",
    }
)  # fmt: skip
_FIRST = re.compile(r"\s*(\w+)\s*=")
_FILE = re.compile(r"\s*\w+=[^\s']*\.(csv|tsv|parquet|duckdb|db)", re.IGNORECASE)
_PORTS = re.compile(r"[\d\s,]*")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}")


def is_postgres(text: str) -> bool:
    """Whether PostgreSQL is meant: by the scheme in any letters, or by a first word of libpq's. A path may begin like that.

    >>> [is_postgres(text) for text in ("PostgreSQL://db/shop", "host=db user=u", "user=7/people.parquet", "people.csv")]
    [True, True, False, False]
    """
    first = _FIRST.match(text)
    said = first is not None and first[1] in LIBPQ_KEYWORDS and _FILE.fullmatch(text) is None
    return said or text.lower().startswith(SCHEMES)


def to_libpq(text: str) -> str:
    """The same with the scheme in small letters, which libpq insists on."""
    scheme, mark, rest = text.partition("://")
    return f"{scheme.lower()}{mark}{rest}" if text.lower().startswith(SCHEMES) else text


def has_unescaped_password(address: str) -> bool:
    """Whether an @ or / of a password ended it too early: what follows would be taken for a host, a port or a database, and
    be named in errors.

    >>> [has_unescaped_password(f"postgresql://u:{word}@db/shop") for word in ("hunter2", "hun@ter2", "1/2", "hun%40ter2")]
    [False, True, True, False]
    """
    if not address.startswith(SCHEMES):
        return False
    place, _, rest = address.partition("://")[2].partition("?")[0].partition("/")
    return place.count("@") > 1 or "@" in rest


def is_unambiguous(address: str, parts: Mapping[str, Any]) -> bool:
    """Whether libpq took an address apart as it was meant, so that its messages repeat no password for a host or a port."""
    return not has_unescaped_password(address) and _PORTS.fullmatch(str(parts.get("port") or "")) is not None


def shown_path(path: str) -> str:
    """The path of a source, for a message; not a text that may be an address.

    >>> shown_path("hr/region=north/people.csv"), shown_path("mysql://u:hunter2@db/people.csv")
    ("'hr/region=north/people.csv'", 'this file')
    """
    return "this file" if any(mark in path for mark in ("://", "@")) else repr(path)


def format_suffix(path: str, suffix: str) -> str:
    """The ending of a file, for a message; not that of a text that may be an address.

    >>> format_suffix("people.xls", ".xls"), format_suffix("mysql://u:hun.ter2", ".ter2"), format_suffix("people", "")
    ('.xls', 'this', 'no ending')
    """
    if not suffix:
        return "no ending"
    return suffix if _ENDING.fullmatch(suffix) and not any(mark in path for mark in ("://", "=", "@")) else "this"
