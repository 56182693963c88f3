"""Every change behind the ledger's back is found: every byte of every entry, every total, every cut."""

import random
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet import codec
from discreet.errors import LedgerCorrupted, LedgerUnavailable
from discreet.events import Claim
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import GENESIS, Debit, compute_hash, decode, encode
from tests.support.small_ledger import make_small_ledger


def execute(path: Path, sql: str, *values: Any) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(sql, values)
    connection.close()


def test_an_unchanged_ledger_is_valid(folder: Path) -> None:
    report = check_ledger(make_small_ledger(folder / "l"))
    assert report.is_valid
    assert (report.entries, report.unanswered) == (10, ("crashed",))
    assert [account.budget.spent for account in report.accounts] == [1, 1]


def test_a_flipped_bit_in_any_byte_of_any_entry(folder: Path) -> None:
    ledger, chance = make_small_ledger(folder / "l"), random.Random(5)
    flips = 0
    for column in ("body", "hash"):
        with ledger.store.read_transaction() as transaction:
            cells = transaction.run(f"SELECT number, {column} FROM discreet_entries", ()).fetchall()
        for number, cell in cells:
            for i in range(len(cell)):
                changed = bytearray(cell)
                changed[i] ^= 1 << chance.randrange(8)
                assert finds_change(ledger, number, column, bytes(changed), cell), f"byte {i} of {column} {number}"
                flips += 1
    assert flips > 1500
    assert check_ledger(ledger).is_valid


def finds_change(ledger: Ledger, number: int, column: str, changed: bytes, cell: bytes) -> bool:
    """Return whether a check finds a changed cell; it is put back."""
    update = f"UPDATE discreet_entries SET {column} = ? WHERE number = ?"
    with ledger.store.write_transaction() as transaction:
        transaction.run(update, (changed, number))
    found = not check_ledger(ledger).is_valid
    with ledger.store.write_transaction() as transaction:
        transaction.run(update, (cell, number))
    return found


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE discreet_accounts SET spent = '0' WHERE name = 'hr'",
        "UPDATE discreet_accounts SET spent = '0' WHERE name = 'all'",
        "UPDATE discreet_accounts SET debits = 1 WHERE name = 'hr'",
        "UPDATE discreet_accounts SET whose = 'id: replace one unit' WHERE name = 'hr'",
        "UPDATE discreet_accounts SET opened = 1 WHERE name = 'hr'",
        "UPDATE discreet_facts SET times = 1",
        "DELETE FROM discreet_facts",
        "DELETE FROM discreet_accounts WHERE name = 'hr'",
        "INSERT INTO discreet_accounts (name, opened, spent, leaked) VALUES ('new', 1, '0', '0')",
        "UPDATE discreet_entries SET id = 'other' WHERE number = 3",
        "UPDATE discreet_entries SET measurement = 'm1' WHERE number = 3",
        "UPDATE discreet_entries SET debit = 7 WHERE number = 4",
        "UPDATE discreet_entries SET account = 'all' WHERE number = 3",
        "UPDATE discreet_entries SET number = 17 WHERE number = 7",
        "DELETE FROM discreet_entries WHERE number = 3",
        "DELETE FROM discreet_entries WHERE number = 7",
        *(
            f"INSERT INTO discreet_entries SELECT {number}, kind, account, 'planted', measurement, NULL, body, hash "
            "FROM discreet_entries WHERE number = 3"
            for number in (-5, 0, -(2**63), 99, 2**63 - 1)
        ),
    ],
)
def test_changed_columns_and_totals(folder: Path, change: str) -> None:
    make_small_ledger(folder / "l").close()
    execute(folder / "l", change)
    assert not check_ledger(open_ledger(folder / "l")).is_valid


def rewrite_entry(path: Path, number: int, **fields: Any) -> None:
    """Change an entry and every hash after it, as a forger would who knows the chain."""
    connection = sqlite3.connect(path)
    link = GENESIS
    for at, body in connection.execute("SELECT number, body FROM discreet_entries ORDER BY number").fetchall():
        entry = decode(body)
        changes = (fields if at == number else {}) | {"previous": link.hex()}
        values = {name: getattr(entry, name) for name in entry.__struct_fields__} | changes
        new = encode(type(entry)(**values))
        link = compute_hash(new)
        connection.execute("UPDATE discreet_entries SET body = ?, hash = ? WHERE number = ?", (new, link, at))
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"cost": Fraction(1, 4)}, "charges less than its event costs"),
        ({"spent": Fraction(1, 5)}, "a sum that is not the sum"),
        ({"cost": Fraction(6), "spent": Fraction(6)}, "overdraws"),
        ({"unit": "id: replace one unit"}, "does not state the privacy unit of its account"),
        ({"encoded_event": codec.encode(Claim(Fraction(1, 3), Fraction(1, 9)))}, "less δ than its event costs"),
    ],
)
def test_a_chain_that_was_made_again_must_still_add_up(folder: Path, fields: dict[str, Any], problem: str) -> None:
    make_small_ledger(folder / "l").close()
    changes = {name: msgspec.Raw(value) if name == "encoded_event" else value for name, value in fields.items()}
    rewrite_entry(folder / "l", 3, **changes)
    assert problem in str(check_ledger(open_ledger(folder / "l")).problem)


def read_tables(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        tables = ("discreet_entries", "discreet_accounts", "discreet_facts", "discreet_schema")
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables]
    finally:
        connection.close()


def is_refused(path: Path) -> bool:
    try:
        return not check_ledger(open_ledger(path)).is_valid
    except (LedgerCorrupted, LedgerUnavailable):
        return True


def test_a_flipped_bit_anywhere_in_the_file(folder: Path) -> None:
    """Either a check finds it, or it changed nothing that is ever read."""
    whole, chance, found = folder / "whole", random.Random(6), 0
    make_small_ledger(whole).close()
    truth, raw = read_tables(whole), whole.read_bytes()
    for i in range(300):
        at = chance.randrange(len(raw))
        copy = folder / f"copy {i}"
        copy.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << chance.randrange(8)]) + raw[at + 1 :])
        if is_refused(copy):
            found += 1
        else:
            assert read_tables(copy) == truth, f"byte {at}"
    assert found > 20


def test_a_truncated_file_is_never_taken_for_a_ledger(folder: Path) -> None:
    make_small_ledger(folder / "whole").close()
    raw = (folder / "whole").read_bytes()
    for i, length in enumerate([*range(0, len(raw), 4096), *range(1, len(raw), 3001)]):
        copy = folder / f"copy {i}"
        copy.write_bytes(raw[:length])
        assert is_refused(copy), length


def test_a_copied_ledger_is_complete(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    shutil.copy(folder / "l", folder / "copy")
    assert check_ledger(open_ledger(folder / "copy")) == check_ledger(open_ledger(folder / "l"))


def test_an_id_in_the_index_but_not_in_the_entry(folder: Path) -> None:
    """A debit that was edited later does not return the answer of another measurement."""
    ledger = make_small_ledger(folder / "l")
    first = next(entry for entry in ledger.iter_entries() if isinstance(entry, Debit))
    execute(folder / "l", "UPDATE discreet_entries SET body = ? WHERE number = ?", b"{}", first.number)
    with pytest.raises(LedgerCorrupted):
        ledger.get_account("hr").reserve(codec.decode(bytes(first.encoded_event)), measurement="m0", id="q0")  # type: ignore[arg-type]
