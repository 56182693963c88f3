"""What a worker has and no other process does: the ledger, its key, the sources, and a session for each table and account.

At start it refuses to serve

- a ledger that was rolled back: the last head that the service showed must still be in it, with the same hash;
- a copy of a ledger: the control database names the ledger that it belongs to, by the identity in its first entry. A ledger
  with entries that a new control database does not name belongs to another service, or did; the owner must say that it does
  not any more (`--adopt`), because two copies would each spend the whole budget;
- a second ledger file while another worker serves the same control database from the first.

Tables are registered in the control database with their policy, and without the salt: the salt decides which rows of a
person count, and an analyst who knew it could aim. A policy without a salt of its own gets one, in a file that only the
owner can read. Measurements call a table `serve:people`, so that moving its file forgets no answer.
"""

import logging
import os
import secrets
import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from discreet.accounting.currencies import parse_currency
from discreet.errors import BadParameter, LedgerCorrupted, LedgerUnavailable, QueryRefused
from discreet.ledger import open_ledger
from discreet.ledger.account import AccountState
from discreet.ledger.chain import Ledger, LedgerAccount
from discreet.ledger.keys import SigningKey, load_key
from discreet.paths import describe_exposure, read_text
from discreet.query.policy import make_policy_error, read_policy, read_public, write_policy
from discreet.query.record import policy_hash
from discreet.query.schema import DEFAULT_SALT, Table
from discreet.remote.wire import table_to_wire
from discreet.serve.config import DEFAULT_CLASSES, PopulationConfig, ServiceConfig, TableConfig
from discreet.serve.control.model import Population, Rules, Snapshot, TableEntry
from discreet.serve.control.store import Control
from discreet.serve.schedule import JumpFreeClock, propose_classes
from discreet.serve.worker.classes import check_class_name, find_class_population, find_class_table
from discreet.serve.worker.holding import HeldAccount
from discreet.session.options import SourceOptions
from discreet.session.session import Session
from discreet.session.source import Source, open_source

log = logging.getLogger("discreet.serve")
LEAST_SALT_LENGTH = 16
MAX_PUBLIC_BYTES = 500_000
SERVING_SECONDS = 30.0
LEDGER_IDENTITY, PUBLIC_KEY, SERVICE_NAME, SERVING = "ledger_identity", "public_key", "name", "serving"
"""The settings in the control database."""


@dataclass(slots=True)
class OpenTable:
    """A table that is open, and its sessions by account."""

    config: TableConfig
    source: Source
    entry: TableEntry
    sessions: dict[str, Session]


class Tables:
    """The ledger, the key and the open tables of one worker."""

    def __init__(self, config: ServiceConfig, control: Control, clock: JumpFreeClock) -> None:
        self.config, self.control, self.clock = config, control, clock
        self._lock = threading.RLock()
        self._tables: dict[str, OpenTable] = {}
        self.ledger: Ledger
        self.key: SigningKey

    # -- opening ----------------------------------------------------------------------------------------------------------

    def open(self, *, adopt: bool = False) -> None:
        """Open and check everything, register the populations and tables, and mirror the accounts.

        Raises:
            LedgerUnavailable, LedgerCorrupted: if the ledger is none that this service may go on with.
            SourceRefused, BadParameter: if a table cannot be served.
        """
        known = self.control.find_setting(LEDGER_IDENTITY)
        make_folder(self.config.state)
        self.ledger = open_ledger(self.config.ledger, create=known is None)
        self.key = load_key(self.config.key)
        self._check_ledger(known, adopt)
        for population in self.config.populations.values():
            self._open_population(population)
        identity = self.ledger.identity
        assert identity is not None  # its first entry is written
        with self.control.transaction():
            self.control.set_setting(LEDGER_IDENTITY, identity)
            self.control.set_setting(PUBLIC_KEY, self.key.public)
            self.control.set_setting(SERVICE_NAME, self.config.name)
        self.renew_serving()
        self.mirror()
        for table in self.config.tables.values():
            self.open_table(table.name)

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def _check_ledger(self, known: str | None, adopt: bool) -> None:
        identity, location = self.ledger.identity, self.ledger.store.location
        if known is None and identity is not None and not adopt:
            raise LedgerUnavailable(
                location, "it has entries, and the control database is new: another service may spend its budget too",
                "restore the control database, or give adopt= if no other service uses this ledger or a copy of it",
            )  # fmt: skip
        if known is not None and identity != known:
            raise LedgerUnavailable(
                location, "this is not the ledger that the control database belongs to",
                "name the right one; a new ledger needs a new control database",
            )  # fmt: skip
        head = self.control.last_head()
        if head is not None and not self.ledger.continues(head.number, head.hash):
            raise LedgerCorrupted(
                location, f"entry {head.number}, which was shown to analysts, is missing or differs: it was rolled back",
                "restore the latest ledger; going on would spend the same budget twice",
            )  # fmt: skip

    def renew_serving(self) -> None:
        """Say that this ledger is being served, so that no copy of it is served at the same time."""
        mark = sha256(self.ledger.store.location.encode()).hexdigest()[:16]
        now = self.clock.now()
        with self.control.transaction():
            text = self.control.find_setting(SERVING)
            serving: dict[str, Any] = {} if text is None else msgspec.json.decode(text)
            if serving.get("ledger", mark) != mark and serving.get("until", 0) > now:
                raise LedgerUnavailable(
                    self.ledger.store.location, "another worker serves a ledger with the same identity at another place",
                    f"end it, or wait {SERVING_SECONDS:g} seconds after it ended",
                )  # fmt: skip
            lease = {"ledger": mark, "until": now + SERVING_SECONDS}
            self.control.set_setting(SERVING, msgspec.json.encode(lease).decode())

    def _open_population(self, population: PopulationConfig) -> None:
        """Open the root account if it is new. The budget of an open one cannot be changed."""
        known = {each.name: each for each in self.ledger.list_accounts()}
        currency = parse_currency(population.currency)
        account = known.get(population.name)
        if account is None:
            self.ledger.open_account(population.name, population.epsilon, population.delta, currency)
        elif not self.config.embedded:
            budget = type(account).open(population.name, population.epsilon, population.delta, currency).budget
            if (budget.limit, budget.currency) != (account.budget.limit, account.budget.currency):
                raise BadParameter(
                    f"populations.{population.name}.epsilon", str(population.epsilon),
                    "the account is open with another budget, which cannot be changed", "state the one it was opened with",
                )  # fmt: skip
        self.control.save_population(
            Population(
                name=population.name, account=population.name, epsilon=str(population.epsilon),
                delta=str(population.delta), currency=population.currency,
            )
        )  # fmt: skip

    def _find_population(self, name: str) -> PopulationConfig:
        found = self.config.populations.get(name) or find_class_population(self.control, name)
        if found is None:
            raise BadParameter("population", repr(name), "this service does not have it any more", "ask of another table")
        return found

    # -- tables -----------------------------------------------------------------------------------------------------------

    def open_table(self, name: str) -> OpenTable:
        """Open a table, or open it again after its policy was changed, and register it."""
        config = self._find_config(name)
        if config is None:
            raise BadParameter("table", repr(name), "this service does not serve it any more", "ask of another table")
        before = self.control.find_table(name)
        policy = self._read_policy(config, before)
        options = SourceOptions(
            source=config.source, policy=policy, table=config.table, neighbours=config.neighbours, label=config.label,
            public=list_public(config),
        )  # fmt: skip
        source = open_source(options).validate()
        if source.table.name != name:
            raise make_policy_error(
                "table", f"{source.table.name!r} is served as {name!r}", f'write table = "{name}", or serve it as that'
            )
        source = replace(source, options=SourceOptions(source=name))  # errors name the table, and never its path
        entry = self._make_entry(config, source, before)
        if entry != before:
            self.control.register_table(entry)
        opened = OpenTable(config, source, entry, {})
        with self._lock:
            self._tables[name] = opened
        return opened

    def _find_config(self, name: str) -> TableConfig | None:
        return self.config.tables.get(name) or find_class_table(self.control, self.config.state, name)

    def open_class(self, name: str) -> None:
        """Make the root account and the table of a class. Nothing happens if both are there."""
        check_class_name(name, lambda each: each in self.config.tables or each in self.config.populations)
        self._open_population(self._find_population(name))
        self.open_table(name)
        self.mirror()

    def _read_policy(self, config: TableConfig, before: TableEntry | None) -> Table:
        text = read_policy_file(config)
        table = read_policy(text)
        if config.least_epsilon is not None:
            table = replace(table, least_epsilon=config.least_epsilon)
        if table.salt == DEFAULT_SALT:
            return replace(table, salt=self._load_salt(config.name, is_new=before is None))
        if len(table.salt) < LEAST_SALT_LENGTH:
            hint = f"take {LEAST_SALT_LENGTH} random characters or more, or leave it out, and the service makes one"
            raise make_policy_error("salt", "too short: it could be guessed from the hash of the policy", hint)
        return table

    def _load_salt(self, table: str, *, is_new: bool) -> str:
        """Return the salt that the service made for a table; make it for a new one."""
        path = self.config.state / "salts" / f"{table}.salt"
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

    def _make_entry(self, config: TableConfig, source: Source, before: TableEntry | None) -> TableEntry:
        table = source.table
        digest = policy_hash(table)
        is_same = before is not None and before.policy_hash == digest
        classes, seconds_per_pass = config.classes, 0.0
        if before is not None and before.rows_at_most == config.rows_at_most and is_same:
            seconds_per_pass = before.seconds_per_pass
        if config.rows_at_most is not None and seconds_per_pass == 0.0 and (classes is None or classes):
            seconds_per_pass = time_invented_rows(table, config.rows_at_most)
        if classes is None:
            classes = propose_classes(seconds_per_pass) if seconds_per_pass else DEFAULT_CLASSES
        return TableEntry(
            name=config.name, population=config.population, policy=write_public_policy(table), policy_hash=digest,
            policy_version=1 if before is None else before.policy_version + (not is_same), identity=f"serve:{config.name}",
            neighbours=config.neighbours.value, title=config.title or config.name, description=config.description,
            rows_at_most=config.rows_at_most, classes=classes, seconds_per_pass=seconds_per_pass, label=config.label,
            rules=choose_rules(config.rules, None if before is None else before.rules),
            notes=source.notes, public=describe_public(table), invented=config.invented,
            is_open=True if before is None else before.is_open,
        )  # fmt: skip

    def get(self, name: str, policy_hash: str) -> OpenTable:
        """Return an open table. If the registered policy is another one, the table is opened again from its file: the owner
        may have accepted a new policy."""
        with self._lock:
            opened = self._tables.get(name)
        if opened is None or opened.entry.policy_hash != policy_hash:
            opened = self.open_table(name)
        return opened

    def open_session(self, name: str, account: str, policy_hash: str) -> tuple[Session, HeldAccount]:
        """Return the session of an account on a table; it is kept."""
        opened = self.get(name, policy_hash)
        with self._lock:
            session = opened.sessions.get(account)
            if session is None:
                paying = self.ledger.get_account(account)
                self._check_population(opened.config, paying.initial_state)
                held = HeldAccount(paying.store, paying.initial_state)
                settings = opened.config
                session = Session.of(
                    opened.source, held, held.initial_state.delta, settings.neighbours, settings.label, opened.entry.identity
                )
                opened.sessions[account] = session
        paying_account = session.account
        assert isinstance(paying_account, HeldAccount)
        return session, paying_account

    @staticmethod
    def _check_population(config: TableConfig, account: AccountState) -> None:
        """Refuse an account of another population: its budget does not protect the people in this table, and with it the
        root of their own would not cap what is asked about them."""
        if account.lineage[-1].name != config.population:
            raise QueryRefused(
                "The account belongs to another population than the table", "ask the steward of the table for a grant"
            )

    def get_schedule(self, name: str) -> tuple[tuple[float, ...], float]:
        """Return the classes of an open table and the seconds of one pass, as this worker registered them."""
        with self._lock:
            entry = self._tables[name].entry
        return entry.classes, entry.seconds_per_pass

    # -- accounts ---------------------------------------------------------------------------------------------------------

    def open_account(self, name: str, parent: str, epsilon: Fraction | None) -> None:
        """Open an account under its parent, with this ε or the whole budget of its parent. Nothing happens if it is open:
        a job may run twice."""
        known = {each.name: each for each in self.ledger.list_accounts()}
        if name not in known:
            if parent not in known:
                raise BadParameter("parent", repr(parent), "there is no such account", "open it first")
            above = known[parent]
            root = self._find_population(above.lineage[-1].name)
            self.ledger.open_account(
                name, root.epsilon if epsilon is None else epsilon, root.delta, above.budget.currency, parent
            )
        self.mirror()

    def mirror(self, account: LedgerAccount | None = None) -> tuple[AccountState, ...]:
        """Copy an account with its parents, or all accounts, and the head of the ledger into the control database.

        Accounts and head are read in one transaction of the ledger, so the number of the head says how new the accounts are.

        Returns:
            The accounts: the given one first, the root last.
        """
        with self.ledger.store.read_transaction() as transaction:
            head = transaction.read_head()
            if account is None:
                states = transaction.read_accounts()
            else:
                states = tuple(transaction.read_totals(account.initial_state).lineage)
        with self.control.transaction(durable=False):
            self.control.save_snapshots(Snapshot.of(state, head.number) for state in states)
            self.control.save_head(head.number, head.hash.hex())
        return states


def choose_rules(stated: Rules, before: Rules | None) -> Rules:
    """Return the rules of a table: those that the serve.toml states, else those that stewards set. When two stewards are
    needed, the serve.toml alone states."""
    states_any = msgspec.structs.replace(stated, two_stewards_above=None) != Rules()
    if before is None or states_any:
        return stated
    return msgspec.structs.replace(before, two_stewards_above=stated.two_stewards_above)


# -- files ----------------------------------------------------------------------------------------------------------------


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


def write_public_policy(table: Table) -> str:
    """Return the policy of a table as TOML without its salt.

    >>> from discreet.query.policy import read_policy
    >>> secret = read_policy('table = "t"\\nunit = "id"\\nsalt = "correct horse"\\n[columns.id]\\nkind = "integer"')
    >>> "salt" in write_public_policy(secret), read_policy(write_public_policy(secret)).name
    (False, 't')
    """
    return "".join(f"{line}\n" for line in write_policy(table).splitlines() if not line.startswith("salt = "))


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        reason = f"it cannot be made ({error.strerror})"
        raise BadParameter("state", repr(str(folder)), reason, "name a folder that can be written") from None


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


def time_invented_rows(table: Table, rows: int) -> float:
    """Return the seconds that one pass over invented rows of this number takes. They are made from the policy alone, so the
    time tells nothing of the table."""
    from discreet.serve.worker.timing import time_pass

    return time_pass(table, rows)
