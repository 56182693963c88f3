"""Durable accounts: budgets that outlive the process, in one file or in a database.

account      the rules of an account, and the protocol that a session charges
entries      what happened, as the bytes that are hashed
chain        a ledger: accounts in one chain of entries, in any store
store        the protocols Store and Transaction; sql_store is what the two stores in SQL share
sqlite, postgres    the stores
memory       an account that ends with the process
quarantine   the sources that may not be queried
keys         the key that signs, and its rotation
certificate  release.json, an answer with all that its cost follows from
check        the whole ledger added up again
verify       a certificate, or a signed head, checked again
"""

import re
from collections.abc import Callable
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import discreet
from discreet.errors import BadParameter
from discreet.paths import is_postgres, to_libpq

if TYPE_CHECKING:
    import discreet.ledger.chain
    import discreet.ledger.keys
    import discreet.ledger.store

StoreOpener: TypeAlias = "Callable[[str, bool], discreet.ledger.store.Store]"
"""Opens the store at a location, and makes it there if the second argument is True."""


def __getattr__(name: str) -> Any:
    """Import a part of this package when it is first named, as annotations name it: `discreet --help` needs none."""
    if name not in ("chain", "keys", "store"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def open_ledger(location: str | PathLike[str], *, create: bool = False) -> "discreet.ledger.chain.Ledger":
    """Open the ledger in a file or at an address such as postgresql://host/database.

    Args:
        location: a path, or an address whose scheme has a store (`register_store`).
        create: make the ledger there if it is missing.

    Raises:
        BadParameter: if the location is neither a path nor an address.
        LedgerUnavailable: if there is no ledger, or it cannot be opened.
    """
    from discreet.ledger.chain import Ledger

    if not isinstance(location, str | PathLike):
        raise BadParameter("ledger", f"of type {type(location).__name__}", "not a path or an address", 'give "hr.ledger"')
    return Ledger(_find_opener(str(location))(str(location), create))


def register_store(scheme: str, open_store: StoreOpener) -> None:
    """Let `open_ledger` open every location that begins with `scheme://` through this function."""
    _openers[scheme.lower()] = open_store


def _find_opener(location: str) -> StoreOpener:
    if is_postgres(location):  # also without a scheme: host=… dbname=…
        return _openers["postgresql"]
    found = re.match(r"([A-Za-z][\w+.-]+)://", location)
    scheme = "" if found is None else found[1].lower()
    if scheme not in _openers:
        known = ", ".join(f"{each}://" for each in sorted(_openers) if each)
        raise BadParameter("ledger", f"{scheme}://…", "no store has this scheme", f"name a file, or one of: {known}")
    return _openers[scheme]


def _open_sqlite(location: str, create: bool) -> "discreet.ledger.store.Store":
    from discreet.ledger.sqlite import SqliteStore

    return SqliteStore(location, create=create)


def _open_postgres(location: str, create: bool) -> "discreet.ledger.store.Store":
    from discreet.ledger.postgres import PostgresStore

    return PostgresStore(to_libpq(location), create=create)


_openers: dict[str, StoreOpener] = {}
register_store("", _open_sqlite)  # a path has no scheme
register_store("postgresql", _open_postgres)
