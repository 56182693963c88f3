"""What a worker has and no other process does: the ledger, its key, the sources, and a session for each table and account.

At start it refuses to serve

- a ledger that was rolled back: the last head that the service showed must still be in it, with the same hash;
- a copy of a ledger: the control database names the ledger that it belongs to, by the identity in its first entry. A ledger
  with entries that a new control database does not name belongs to another service, or did; the owner must say that it does
  not any more (`--adopt`), because two copies would each spend the whole budget;
- a second ledger file while another worker serves the same control database from the first.

Tables are registered in the control database with their policy, and without the salt: the salt decides which rows of a
person count, and an analyst who knew it could aim. A policy without a salt of its own gets that of its prepared file, or one
in a file that only the owner can read. Measurements call a table `serve:people`, so that moving its file forgets no answer.
"""

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import msgspec

from discreet.accounting.currencies import parse_currency
from discreet.errors import BadParameter, LedgerCorrupted, LedgerUnavailable, QueryRefused
from discreet.ledger import open_ledger
from discreet.ledger.account import AccountState
from discreet.ledger.chain import Ledger, LedgerAccount
from discreet.ledger.entries import Debit
from discreet.ledger.keys import SigningKey, load_key
from discreet.ledger.store import Head
from discreet.query.policy import make_policy_error
from discreet.serve.config import PopulationConfig, ServiceConfig, TableConfig
from discreet.serve.control.model import RELEASED, Population, Snapshot, TableEntry
from discreet.serve.control.store import Control
from discreet.serve.rations import check_ration
from discreet.serve.schedule import JumpFreeClock
from discreet.serve.worker.classes import check_class_name, find_class_population, find_class_table
from discreet.serve.worker.holding import HeldAccount, HeldFailures
from discreet.serve.worker.populations import read_opened
from discreet.serve.worker.registration import choose_salt, list_public, make_entry, make_folder, read_table_policy
from discreet.session.options import SourceOptions
from discreet.session.session import Session
from discreet.session.source import Source, open_source

log = logging.getLogger("discreet.serve")
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
        self._failures = HeldFailures()
        self.populations: dict[str, PopulationConfig] = {}  # with the budgets of the ledger
        self.new_populations: set[str] = set()  # those whose accounts this worker has opened
        self.ledger: Ledger
        self.key: SigningKey

    # -- opening ----------------------------------------------------------------------------------------------------------

    def open(self, *, adopt: bool = False) -> None:
        """Open and check everything, register the populations and tables, and mirror the accounts.

        Raises:
            LedgerUnavailable, LedgerCorrupted: if the ledger is none that this service may go on with.
            SourceRefused, BadParameter: if a table cannot be served.
        """
        make_folder(self.config.state)
        with self.control.transaction():  # of workers that start together, one makes the ledger and the others find it
            known = self.control.find_setting(LEDGER_IDENTITY)
            self.ledger = open_ledger(self.config.ledger, create=known is None)
            self.key = load_key(self.config.key)
            self._check_ledger(known, adopt)
            for population in self.config.populations.values():
                self._open_population(population)
            identity = self.ledger.identity
            assert identity is not None  # its first entry is written
            self.control.set_setting(LEDGER_IDENTITY, identity)
            self.control.set_setting(PUBLIC_KEY, self.key.public)
            self.control.set_setting(SERVICE_NAME, self.config.name)
            self.control.set_setting(RELEASED, "" if self.config.released is None else self.config.released.name)
        self.renew_serving(starts=True, adopt=adopt)
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

    def renew_serving(self, *, starts: bool = False, adopt: bool = False) -> None:
        """Say that this ledger is being served, so that no copy of it is served at the same time. A worker that starts at
        another place than the last one needs the owner's word (`adopt`): a folder that was copied, with its control
        database, knows nothing of what is spent at the place that it was copied from."""
        mark = sha256(self.ledger.store.location.encode()).hexdigest()[:16]
        with self.control.transaction(durable=starts, urgent=not starts):  # of a renewal, the latest may be lost
            now = self.clock.now()
            text = self.control.find_setting(SERVING)
            serving: dict[str, Any] = {} if text is None else msgspec.json.decode(text)
            if serving.get("ledger", mark) != mark and serving.get("until", 0) > now:
                raise LedgerUnavailable(
                    self.ledger.store.location, "another worker serves a ledger with the same identity at another place",
                    f"end it, or wait {SERVING_SECONDS:g} seconds after it ended",
                )  # fmt: skip
            if starts and not adopt and serving.get("ledger", mark) != mark:
                raise LedgerUnavailable(
                    self.ledger.store.location, "it was served at another place: if this is a copy, both spend the budget",
                    "serve the original, or give adopt= if it was moved and no copy of it is served",
                )  # fmt: skip
            lease = {"ledger": mark, "until": now + SERVING_SECONDS}
            self.control.set_setting(SERVING, msgspec.json.encode(lease).decode())

    def _open_population(self, population: PopulationConfig) -> None:
        """Open the root account if it is new. That of an open one cannot be changed, and is what is stated."""
        known = {each.name: each for each in self.ledger.list_accounts()}
        account = known.get(population.name)
        if account is None:
            currency = parse_currency(population.currency)
            self.ledger.open_account(population.name, population.epsilon, population.delta, currency)
            self.new_populations.add(population.name)
        else:
            name = "epsilon" if self.config.embedded else f"populations.{population.name}.epsilon"
            population = read_opened(population, account, name)
        self.populations[population.name] = population
        self.control.save_population(
            Population(
                name=population.name, account=population.name, epsilon=str(population.epsilon),
                delta=str(population.delta), currency=population.currency,
            )
        )  # fmt: skip

    def _find_population(self, name: str) -> PopulationConfig:
        found = self.populations.get(name) or find_class_population(self.control, name)
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
        policy = read_table_policy(config)
        options = SourceOptions(
            source=config.source, policy=policy, table=config.table, neighbours=config.neighbours, label=config.label,
            public=list_public(config),
        )  # fmt: skip
        source = open_source(options).validate()
        if source.table.name != name:
            raise make_policy_error(
                "table", f"{source.table.name!r} is served as {name!r}", f'write table = "{name}", or serve it as that'
            )
        source = choose_salt(source, name, self.config.state, is_new=before is None)
        source = replace(source, options=SourceOptions(source=name))  # errors name the table, and never its path
        entry = make_entry(config, source.table, source.notes, before, self.config.state)
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
                held = HeldAccount(paying.store, paying.initial_state, self._failures)
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

    def get_entry(self, name: str) -> TableEntry:
        """Return an open table as this worker declared it, whatever the control database says of it now."""
        with self._lock:
            return self._tables[name].entry

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
            if epsilon is not None:
                check_ration(str(epsilon), above.budget, above.delta, above.name)
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
        states, head = self.read_accounts(account)
        self.save_accounts(states, head)
        return states

    def read_accounts(self, account: LedgerAccount | None = None) -> tuple[tuple[AccountState, ...], Head]:
        """Read what `mirror` copies."""
        with self.ledger.store.read_transaction() as transaction:
            head = transaction.read_head()
            if account is None:
                return transaction.read_accounts(), head
            return tuple(transaction.read_totals(account.initial_state).lineage), head

    def find_debit(self, entry: int) -> Debit | None:
        """Return the debit with this number of the ledger."""
        with self.ledger.store.read_transaction() as transaction:
            found = transaction.find_entry(entry)
        return found if isinstance(found, Debit) else None

    def save_accounts(self, states: Iterable[AccountState], head: Head) -> None:
        """Write what `mirror` copies."""
        with self.control.transaction():
            self.control.save_snapshots(Snapshot.of(state, head.number) for state in states)
            self.control.save_head(head.number, head.hash.hex())
