"""Tables that are served, who may ask of them, and the mirror of the ledger that workers keep for the web."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from discreet.serve.control.base import Part, encode, find, find_rows
from discreet.serve.control.model import Grant, HeadSeen, Overruns, Population, Rules, Snapshot, TableEntry

Trouble = Literal["overrun", "failure"]
"""What pauses an account when it happens too often: an answer after its moment, a failure of the engine."""
MAX_TROUBLES = 3


class Tables(Part):
    """The part of `Control` about tables, grants and mirrored accounts."""

    def save_population(self, population: Population) -> None:
        """Add or replace a population."""
        with self._write() as transaction:
            transaction.run(
                "INSERT INTO control_populations (name, body) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                population.name, encode(population),
            )  # fmt: skip

    def find_population(self, name: str) -> Population | None:
        """Return the population with this name."""
        return self._find(Population, "SELECT body FROM control_populations WHERE name = ?", name)

    def list_populations(self) -> tuple[Population, ...]:
        """Return all populations, by name."""
        return self._list(Population, "SELECT body FROM control_populations ORDER BY name")

    def register_table(self, table: TableEntry, *, by: str | None = None) -> None:
        """Add a table, or replace its entry. A change of its policy is a line of the audit trail if `by` is given."""
        with self._write() as transaction:
            before = find(transaction, TableEntry, "SELECT body FROM control_tables WHERE name = ?{lock}", table.name)
            if before == table:
                return
            transaction.run(
                "INSERT INTO control_tables (name, population, body) VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET population = excluded.population, body = excluded.body",
                table.name, table.population, encode(table),
            )  # fmt: skip
            details = {"policy": table.policy_hash, "version": table.policy_version}
            self._record(transaction, by, "register table", table.name, **details)

    def change_rules(self, table: str, rules: Rules, *, by: str) -> TableEntry | None:
        """Set what may be asked of a table without approval. Returns its entry; None if there is no such table.

        When two stewards are needed stays as the serve.toml states it: one steward alone cannot lift it.
        """
        with self._write() as transaction:
            found = find(transaction, TableEntry, "SELECT body FROM control_tables WHERE name = ?{lock}", table)
            if found is None:
                return None
            rules = msgspec.structs.replace(rules, two_stewards_above=found.rules.two_stewards_above)
            changed = msgspec.structs.replace(found, rules=rules)
            transaction.run("UPDATE control_tables SET body = ? WHERE name = ?", encode(changed), table)
            before, after = msgspec.to_builtins(found.rules), msgspec.to_builtins(rules)
            self._record(transaction, by, "change rules", table, before=before, after=after)
        return changed

    def find_table(self, name: str) -> TableEntry | None:
        """Return the table with this name."""
        return self._find(TableEntry, "SELECT body FROM control_tables WHERE name = ?", name)

    def list_tables(self, person: str | None = None) -> tuple[TableEntry, ...]:
        """Return all tables by name; with `person`, those that the person has a grant for."""
        if person is None:
            return self._list(TableEntry, "SELECT body FROM control_tables ORDER BY name")
        sql = "SELECT t.body FROM control_tables t JOIN control_grants g ON g.table_name = t.name WHERE g.person = ?"
        return self._list(TableEntry, f"{sql} ORDER BY t.name", person)

    # Grants

    def add_grant(self, grant: Grant, *, by: str | None = None, epsilon: str | None = None) -> None:
        """Let a person ask of a table; a grant for both that exists is replaced. The trail states its ε."""
        with self._write() as transaction:
            transaction.run(
                "INSERT INTO control_grants (person, table_name, account, body) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (person, table_name) DO UPDATE SET account = excluded.account, body = excluded.body",
                grant.person, grant.table, grant.account, encode(grant),
            )  # fmt: skip
            stated = {} if epsilon is None else {"epsilon": epsilon}
            self._record(transaction, by, "add grant", grant.table, person=grant.person, account=grant.account, **stated)

    def remove_grant(self, person: str, table: str, *, by: str | None = None) -> bool:
        """Take a grant away. Returns whether there was one."""
        with self._write() as transaction:
            sql = "DELETE FROM control_grants WHERE person = ? AND table_name = ?"
            removed = bool(transaction.run(sql, person, table).rowcount)
            if removed:
                self._record(transaction, by, "remove grant", table, person=person)
        return removed

    def find_grant(self, person: str, table: str) -> Grant | None:
        """Return the grant of a person for a table."""
        return self._find(Grant, "SELECT body FROM control_grants WHERE person = ? AND table_name = ?", person, table)

    def list_grants(self, *, person: str | None = None, table: str | None = None) -> tuple[Grant, ...]:
        """Return all grants, or those of a person or for a table."""
        return self._list(
            Grant,
            "SELECT body FROM control_grants WHERE (person = ? OR ? = 0) AND (table_name = ? OR ? = 0) "
            "ORDER BY person, table_name",
            person or "", int(person is not None), table or "", int(table is not None),
        )  # fmt: skip

    def pause_account(self, account: str, reason: str, *, by: str | None = None) -> None:
        """Take no ask from an account until a steward resumes it."""
        self._pause(account, reason, by, "pause account")

    def resume_account(self, account: str, *, by: str | None = None) -> None:
        """Take asks from an account again, and count its troubles from zero."""
        with self._write() as transaction:
            transaction.run("DELETE FROM control_troubles WHERE account = ?", account)
            self._pause(account, None, by, "resume account")

    def _pause(self, account: str, reason: str | None, by: str | None, action: str) -> None:
        with self._write() as transaction:
            sql = "SELECT body FROM control_grants WHERE account = ? ORDER BY person, table_name{lock}"
            for row in transaction.run(sql, account).fetchall():
                grant = msgspec.structs.replace(msgspec.json.decode(row[0], type=Grant), paused=reason)
                transaction.run(
                    "UPDATE control_grants SET body = ? WHERE person = ? AND table_name = ?",
                    encode(grant), grant.person, grant.table,
                )  # fmt: skip
            self._record(transaction, by, action, account, **({} if reason is None else {"reason": reason}))

    def count_trouble(self, account: str, kind: Trouble, *, limit: int = MAX_TROUBLES) -> int:
        """Count an overrun or an engine failure of an account, and pause the account at the `limit`-th. Returns how many."""
        with self._write() as transaction:
            transaction.run(
                "INSERT INTO control_troubles (account, kind, times) VALUES (?, ?, 1) "
                "ON CONFLICT (account, kind) DO UPDATE SET times = control_troubles.times + 1",
                account, kind,
            )  # fmt: skip
            sql = "SELECT times FROM control_troubles WHERE account = ? AND kind = ?"
            times = int(transaction.run(sql, account, kind).fetchone()[0])
            if times == limit:
                what = "answers were late" if kind == "overrun" else "queries failed"
                self._pause(account, f"{times} {what}", "service", "pause account")
        return times

    def count_overrun(self, table: str) -> None:
        """Count an answer of a table that was not ready at its moment."""
        with self._write() as transaction:
            transaction.run(
                "INSERT INTO control_overruns (table_name, times, last) VALUES (?, 1, ?) "
                "ON CONFLICT (table_name) DO UPDATE SET times = control_overruns.times + 1, last = excluded.last",
                table, self._clock(),
            )  # fmt: skip

    def list_overruns(self) -> dict[str, Overruns]:
        """Return how often answers of each table were not ready at their moments; tables without any are left out."""
        with self._read() as transaction:
            rows = transaction.run("SELECT table_name, times, last FROM control_overruns ORDER BY table_name").fetchall()
        return {name: Overruns(times=times, last=last) for name, times, last in rows}

    # The mirror of the ledger

    def save_snapshots(self, snapshots: Iterable[Snapshot]) -> None:
        """Save accounts as a worker sees them. An older view never replaces a newer one: views are ordered by
        the last entry of the ledger when they were taken. The debits of an account do not order them, because a root counts
        those of its children under their names."""
        ordered = sorted(snapshots, key=lambda snapshot: snapshot.account)  # one order of locks: no deadlock
        with self._write() as transaction:
            for snapshot in ordered:
                transaction.run(
                    "INSERT INTO control_snapshots (account, root, entry, body) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (account) DO UPDATE SET root = excluded.root, entry = excluded.entry, "
                    "body = excluded.body WHERE excluded.entry >= control_snapshots.entry",
                    snapshot.account, snapshot.root, snapshot.entry, encode(snapshot),
                )  # fmt: skip

    def find_snapshot(self, account: str) -> Snapshot | None:
        """Return an account as a worker last saw it."""
        return self._find(Snapshot, "SELECT body FROM control_snapshots WHERE account = ?", account)

    def list_snapshots(self, root: str | None = None) -> tuple[Snapshot, ...]:
        """Return all accounts, or those under a root with it, by name."""
        if root is None:
            return self._list(Snapshot, "SELECT body FROM control_snapshots ORDER BY account")
        return self._list(Snapshot, "SELECT body FROM control_snapshots WHERE root = ? ORDER BY account", root)

    def save_head(self, number: int, hash: str) -> None:
        """Save a head of the ledger. Durable, because clients remember it: one that was lost would look set back to them."""
        with self._write() as transaction:
            sql = "INSERT INTO control_heads (number, hash, seen) VALUES (?, ?, ?) ON CONFLICT (number, hash) DO NOTHING"
            transaction.run(sql, number, hash, self._clock())

    def has_head(self, number: int, hash: str) -> bool:
        """Whether the ledger had this head."""
        if not 0 <= number < 1 << 63:
            return False
        with self._read() as transaction:
            return bool(find_rows(transaction, "SELECT 1 FROM control_heads WHERE number = ? AND hash = ?", number, hash))

    def last_head(self) -> HeadSeen | None:
        """Return the head with the highest number."""
        with self._read() as transaction:
            sql = "SELECT number, hash, seen FROM control_heads ORDER BY number DESC, seen DESC LIMIT 1"
            row = transaction.run(sql).fetchone()
        return None if row is None else HeadSeen(number=row[0], hash=row[1], at=row[2])
