"""How a table is registered: its policy, the salt that the service makes for it, its classes and its rules.

What a worker must be able to trust is in the configuration and in files of its own: the salt, and how long a pass over
invented rows took, from which classes follow. A web process that was taken over can write the control database.
"""

import os
import secrets
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from discreet.errors import BadParameter
from discreet.paths import describe_exposure, read_text
from discreet.query.policy import make_policy_error, read_policy, read_public
from discreet.query.record import policy_hash
from discreet.query.schema import DEFAULT_SALT, Table
from discreet.remote.dummy import invent_session
from discreet.remote.wire import table_to_wire, write_public_policy
from discreet.serve.config import DEFAULT_CLASSES, TableConfig
from discreet.serve.control.model import Rules, TableEntry
from discreet.serve.rules import check_templates
from discreet.serve.schedule import count_passes, propose_classes
from discreet.session.source import Source

LEAST_SALT_LENGTH = 16
MAX_PUBLIC_BYTES = 500_000

MAX_TIMED_ROWS = 200_000
"""More rows are extrapolated from these."""

REPEATS = 3


def make_entry(
    config: TableConfig, table: Table, notes: tuple[str, ...], before: TableEntry | None, state: Path
) -> TableEntry:
    """Return what the control database is to hold of a table; `before` is what it holds."""
    if config.rules is not None:
        check_templates(config.rules, table)
    digest = policy_hash(table)
    is_same = before is not None and before.policy_hash == digest
    classes, seconds_per_pass = config.classes, 0.0
    if config.rows_at_most is not None and (classes is None or classes):
        seconds_per_pass = load_pass(table, config.rows_at_most, state)
    if classes is None:
        classes = propose_classes(seconds_per_pass) if seconds_per_pass else DEFAULT_CLASSES
    return TableEntry(
        name=config.name, population=config.population, policy=write_public_policy(table), policy_hash=digest,
        policy_version=1 if before is None else before.policy_version + (not is_same), identity=f"serve:{config.name}",
        neighbours=config.neighbours.value, title=config.title or config.name, description=config.description,
        rows_at_most=config.rows_at_most, classes=classes, seconds_per_pass=seconds_per_pass, label=config.label,
        rules=choose_rules(config, before), has_fixed_rules=config.rules is not None, notes=notes,
        public=describe_public(table), invented=config.invented, is_open=True if before is None else before.is_open,
    )  # fmt: skip


def choose_rules(config: TableConfig, before: TableEntry | None) -> Rules:
    """Return the rules that serve.toml states; if it states none, those that stewards set."""
    if config.rules is not None:
        return config.rules
    return Rules() if before is None or before.has_fixed_rules else before.rules


# -- policies -------------------------------------------------------------------------------------------------------------


def read_table_policy(config: TableConfig) -> Table:
    """Read the policy of a table. If it has no salt, `choose_salt` says what holds instead."""
    table = read_policy(read_policy_file(config), config.policy.name)
    return table if config.least_epsilon is None else replace(table, least_epsilon=config.least_epsilon)


def choose_salt(source: Source, name: str, state: Path, *, is_new: bool) -> Source:
    """Return an open table with the salt that its answers are recorded under: that of its policy or of the prepared file,
    else the one that the service made for it."""
    if source.table.salt == DEFAULT_SALT:
        return replace(source, table=replace(source.table, salt=load_salt(name, state, is_new=is_new)))
    check_salt(source)
    return source


def check_salt(source: Source) -> None:
    """Refuse a salt of the owner's that could be guessed from the hash of the policy, which the web process knows."""
    if source.table.salt == DEFAULT_SALT or len(source.table.salt) >= LEAST_SALT_LENGTH:
        return
    again, reason = "leave it out, and the service makes one", "too short: it could be guessed from the hash of the policy"
    if getattr(source.engine, "preparation", None) is not None:
        again = "remove the prepared file, and prepare its source again without one"
        reason = f"that of the prepared file, and {reason}"
    raise make_policy_error("salt", reason, f"take {LEAST_SALT_LENGTH} random characters or more, or {again}")


def load_salt(table: str, state: Path, *, is_new: bool) -> str:
    """Return the salt that the service made for a table; make it for a new one."""
    path = state / "salts" / f"{table}.salt"
    if not path.exists() and is_new:
        make_folder(path.parent)
        write_private(path, secrets.token_hex(32))
    try:
        with path.open(encoding="ascii") as file:
            if problem := describe_exposure(file.fileno(), path):
                raise BadParameter("salt", repr(str(path)), *problem)
            return file.read().strip()
    except OSError:
        hint = "restore it from a backup; with another one, answers that were paid for would not be found"
        raise BadParameter("salt", repr(str(path)), "the file is missing", hint) from None


def read_policy_file(config: TableConfig) -> str:
    """Read the text of a table's policy."""
    return read_text(config.policy, lambda reason: make_policy_error(str(config.policy), reason, "check the path"))


def list_public(config: TableConfig) -> dict[str, str]:
    """Return the paths of the public tables that a policy names, which are relative to it."""
    return {name: str(config.policy.parent / path) for name, path in read_public(read_policy_file(config)).items()}


def describe_public(table: Table) -> tuple[dict[str, Any], ...]:
    """Return what quotes need of the public tables: their columns with keys and bounds, and a digest of their rows.

    Raises:
        BadParameter: if that is too much to be part of each entry, because columns have very many keys.
    """
    described = tuple(table_to_wire(table)["public"])
    size = len(msgspec.json.encode(described))
    if size > MAX_PUBLIC_BYTES:
        reason = f"the keys of the public tables take {size:,} bytes, and a service shows at most {MAX_PUBLIC_BYTES:,}"
        raise make_policy_error("public", reason, "leave out columns with many values, or join them into the table")
    return described


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        reason, hint = f"it cannot be made ({error.strerror})", "allow it there, or set DISCREET_STATE to another folder"
        raise BadParameter("state", repr(str(folder)), reason, hint) from None


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read; the one that another process wrote first stays."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


# -- times ----------------------------------------------------------------------------------------------------------------


def load_pass(table: Table, rows: int, state: Path) -> float:
    """Return the seconds of one pass over this many invented rows, as they were measured when the table was first served
    with this policy and this number. The workers of a folder agree on it, and no other process writes it."""
    path = state / "passes" / f"{table.name}.{policy_hash(table)[:16]}.{rows}"
    if not path.exists():
        make_folder(path.parent)
        write_private(path, repr(time_pass(table, rows)))
    return float(path.read_text(encoding="ascii"))


def time_pass(table: Table, rows: int) -> float:
    """Return the seconds of one pass over this many invented rows: the slowest of a few counts. They are made from the
    policy alone, so the time tells nothing of the table.

    More rows than `MAX_TIMED_ROWS` take proportionally longer.
    """
    timed = min(rows, MAX_TIMED_ROWS)
    session = invent_session(table, timed)
    bounded = session.outline(f'SELECT COUNT(*) AS n FROM "{table.name}"')
    slowest = 0.0
    for _ in range(REPEATS):
        start = time.perf_counter()
        session.ask(f'SELECT COUNT(*) AS n FROM "{table.name}"', epsilon=Fraction(1), fresh=True)
        slowest = max(slowest, time.perf_counter() - start)
    return slowest / count_passes(bounded) * rows / timed
