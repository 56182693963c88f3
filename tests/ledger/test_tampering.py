"""Whatever is changed behind the ledger's back is found: every byte of every entry, every total, every cut."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet import codec
from discreet.errors import DiscreetError, LedgerCorrupted, LedgerUnavailable
from discreet.events import Claim
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import GENESIS, Debit, compute_hash, decode, encode, to_canonical_json
from discreet.ledger.keys import load_key
from discreet.ledger.verify import find_divergence, sign_head
from tests.support.small_ledger import debit_and_record, make_small_ledger


def run(place: Path, sql: str, *values: Any) -> None:
    with sqlite3.connect(place) as connection:
        connection.execute(sql, values)
    connection.close()


def test_an_untouched_ledger_holds(folder: Path) -> None:
    report = check_ledger(make_small_ledger(folder / "l"))
    assert report.is_valid
    assert (report.entries, report.unanswered) == (10, ("crashed",))
    assert [account.budget.spent for account in report.accounts] == [1, 1]


def test_a_flipped_bit_in_any_byte_of_any_entry(folder: Path) -> None:
    ledger, chance = make_small_ledger(folder / "l"), random.Random(5)
    flips = 0
    for column in ("body", "hash"):
        with ledger.store.read_transaction() as pages:
            cells = pages.run(f"SELECT number, {column} FROM discreet_entries", ()).fetchall()
        for number, cell in cells:
            for i in range(len(cell)):
                changed = bytearray(cell)
                changed[i] ^= 1 << chance.randrange(8)
                assert replaced(ledger, number, column, bytes(changed), cell), f"byte {i} of {column} {number}"
                flips += 1
    assert flips > 1500
    assert check_ledger(ledger).is_valid


def replaced(ledger: Ledger, number: int, column: str, changed: bytes, cell: bytes) -> bool:
    """Whether a check notices; the cell is put back."""
    update = f"UPDATE discreet_entries SET {column} = ? WHERE number = ?"
    with ledger.store.write_transaction() as pages:
        pages.run(update, (changed, number))
    noticed = not check_ledger(ledger).is_valid
    with ledger.store.write_transaction() as pages:
        pages.run(update, (cell, number))
    return noticed


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
    run(folder / "l", change)
    assert not check_ledger(open_ledger(folder / "l")).is_valid


def rewritten(place: Path, number: int, **fields: Any) -> None:
    """Change an entry and everything that hangs on it, as somebody would who knows the chain."""
    connection = sqlite3.connect(place)
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
    ("fields", "said"),
    [
        ({"cost": Fraction(1, 4)}, "charges less than its event costs"),
        ({"spent": Fraction(1, 5)}, "a sum that is not the sum"),
        ({"cost": Fraction(6), "spent": Fraction(6)}, "overdraws"),
        ({"unit": "id: replace one unit"}, "does not state the privacy unit of its account"),
        ({"encoded_event": codec.encode(Claim(Fraction(1, 3), Fraction(1, 9)))}, "less δ than its event costs"),
    ],
)
def test_a_chain_that_was_made_anew_still_has_to_add_up(folder: Path, fields: dict[str, Any], said: str) -> None:
    import msgspec

    make_small_ledger(folder / "l").close()
    given = {name: msgspec.Raw(value) if name == "encoded_event" else value for name, value in fields.items()}
    rewritten(folder / "l", 3, **given)
    assert said in str(check_ledger(open_ledger(folder / "l")).problem)


def contents(place: Path) -> list[Any]:
    connection = sqlite3.connect(place)
    try:
        tables = ("discreet_entries", "discreet_accounts", "discreet_facts", "discreet_schema")
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables]
    finally:
        connection.close()


def noticed(place: Path) -> bool:
    try:
        return not check_ledger(open_ledger(place)).is_valid
    except (LedgerCorrupted, LedgerUnavailable):
        return True


def test_a_flipped_bit_anywhere_in_the_file(folder: Path) -> None:
    """Either a check notices it, or it changed nothing that is ever read."""
    whole, chance, found = folder / "whole", random.Random(6), 0
    make_small_ledger(whole).close()
    truth, raw = contents(whole), whole.read_bytes()
    for i in range(300):
        place = chance.randrange(len(raw))
        copy = folder / f"copy {i}"
        copy.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :])
        if noticed(copy):
            found += 1
        else:
            assert contents(copy) == truth, f"byte {place}"
    assert found > 20


def test_a_truncated_file_is_never_taken_for_a_ledger(folder: Path) -> None:
    make_small_ledger(folder / "whole").close()
    raw = (folder / "whole").read_bytes()
    for i, length in enumerate([*range(0, len(raw), 4096), *range(1, len(raw), 3001)]):
        copy = folder / f"copy {i}"
        copy.write_bytes(raw[:length])
        assert noticed(copy), length


def heads(folder: Path) -> Iterator[dict[str, Any]]:
    key = load_key(folder / "key")
    ledger = make_small_ledger(folder / "l")
    while True:
        yield sign_head(ledger, key)
        debit_and_record(ledger, 100 + check_ledger(ledger).entries)


def test_a_restored_backup_passes_every_check_but_the_signed_head(folder: Path) -> None:
    story = heads(folder)
    earlier = next(story)
    open_ledger(folder / "l").close()
    with sqlite3.connect(folder / "l") as source, sqlite3.connect(folder / "backup") as target:
        source.backup(target)
    source.close(), target.close()
    later = next(story)
    today, restored = open_ledger(folder / "l"), open_ledger(folder / "backup")
    assert check_ledger(restored).is_valid
    assert find_divergence(today, earlier) is find_divergence(today, later) is find_divergence(restored, earlier) is None
    assert "rolled back" in str(find_divergence(restored, later))
    debit_and_record(restored, 999)  # the copy goes its own way
    assert "another history" in str(find_divergence(restored, later))


def resigned(head: dict[str, Any], folder: Path) -> dict[str, Any]:
    unsigned = {name: value for name, value in head.items() if name != "signature"}
    return unsigned | {"signature": load_key(folder / "key").sign(to_canonical_json(unsigned))}


def test_a_changed_head_is_not_believed(folder: Path) -> None:
    head = next(heads(folder))
    ledger, other = open_ledger(folder / "l"), load_key(folder / "other key")
    assert "changed" in str(find_divergence(ledger, head | {"entries": 1}))
    assert "changed" in str(find_divergence(ledger, head | {"signature": "AAAA"}))
    assert "another key" in str(find_divergence(ledger, sign_head(ledger, other), head["public_key"]))
    assert "changed" in str(find_divergence(ledger, head | {"entries": 10**30}))
    assert "rolled back" in str(find_divergence(ledger, resigned(head | {"entries": 10**30}, folder)))
    assert "another history" in str(find_divergence(ledger, resigned(head | {"entries": -1}, folder)))
    for foreign in ({}, [], None, head | {"entries": "1"}, head | {"format": "x"}, head | {"hash": "\ud800"}):
        with pytest.raises(DiscreetError, match="not a signed head"):
            find_divergence(ledger, foreign)


def test_a_copied_ledger_is_whole(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    shutil.copy(folder / "l", folder / "copy")
    assert check_ledger(open_ledger(folder / "copy")) == check_ledger(open_ledger(folder / "l"))


def test_an_id_in_the_index_but_not_in_the_entry(folder: Path) -> None:
    """A debit that was edited after the fact does not hand out somebody else's answer."""
    ledger = make_small_ledger(folder / "l")
    first = next(entry for entry in ledger.iter_entries() if isinstance(entry, Debit))
    run(folder / "l", "UPDATE discreet_entries SET body = ? WHERE number = ?", b"{}", first.number)
    with pytest.raises(LedgerCorrupted):
        ledger.get_account("hr").reserve(codec.decode(bytes(first.encoded_event)), measurement="m0", id="q0")  # type: ignore[arg-type]
