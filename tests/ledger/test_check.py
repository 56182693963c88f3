"""Every change behind the ledger's back is found: every byte of every entry, every total, every cut."""

import itertools
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet import codec
from discreet.errors import BadParameter, LedgerCorrupted, LedgerUnavailable
from discreet.events import Claim
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.check import Checkpoint, Inconsistency, Replay, check_ledger, read_checkpoint, write_checkpoint
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    AnswerRecorded,
    Debit,
    EntryKeys,
    compute_hash,
    decode,
    encode,
)
from discreet.ledger.sql_store import MIGRATIONS
from tests.support.small_ledger import debit_and_record, make_small_ledger


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


CHANGES = [
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
]
PLANTED = {
    number: f"INSERT INTO discreet_entries SELECT {number}, kind, account, 'planted', measurement, NULL, body, hash "
    "FROM discreet_entries WHERE number = 3"
    for number in (-5, 0, -(2**63), 99, 2**63 - 1)
}


@pytest.mark.parametrize("change", [*CHANGES, *PLANTED.values()])
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


# -- from a checked head ---------------------------------------------------------------------------------------------------


def test_a_check_goes_on_from_a_checked_head_at_every_entry(folder: Path) -> None:
    """Wherever the first check ended, both together report what one check of everything does."""
    whole = check_ledger(make_small_ledger(folder / "l"))
    assert whole.checkpoint is not None
    for number in range(whole.entries + 1):
        first = Replay()
        ledger = open_ledger(folder / "l")
        with ledger.store.read_transaction() as transaction:
            for stored in itertools.islice(transaction.iter_entries(), number):
                first.apply_entry(stored)
        resumed = check_ledger(ledger, Checkpoint.from_json(first.to_checkpoint().to_json()))
        assert resumed == whole


@pytest.mark.parametrize("change", [*CHANGES, *PLANTED.values()])
def test_changed_columns_and_totals_are_found_from_a_checked_head(folder: Path, change: str) -> None:
    """Of later entries and of totals, all that a whole check finds."""
    ledger = make_small_ledger(folder / "l")
    ledger.close()
    start = Replay().to_checkpoint()
    execute(folder / "l", change)
    assert check_ledger(open_ledger(folder / "l"), start).problem is not None


def test_a_chain_that_does_not_hold_the_checked_head_is_refused(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    checked = check_ledger(make_small_ledger(folder / "a" / "l")).checkpoint
    other = make_small_ledger(folder / "b" / "l")  # another identity, so other hashes
    assert checked is not None
    nameless = msgspec.structs.replace(checked, identity="")  # as it was written before files held the identity
    assert "rolled back or replaced, or another ledger was checked" in str(check_ledger(other, nameless).problem)
    later = msgspec.structs.replace(checked, number=checked.number + 1)
    assert "rolled back or replaced" in str(check_ledger(open_ledger(folder / "a" / "l"), later).problem)


def test_the_result_of_another_ledger_is_refused_and_one_of_a_replaced_entry_is_a_problem(folder: Path) -> None:
    """The first is a mistake of those who check. A copy that was rolled back has the same identity."""
    for name in "abc":
        (folder / name).mkdir()
    ledger, other = make_small_ledger(folder / "a" / "l"), make_small_ledger(folder / "b" / "l")
    early = check_ledger(ledger).checkpoint
    assert early is not None
    assert early.identity == ledger.identity
    assert other.identity is not None
    with pytest.raises(BadParameter, match=f"another ledger: its .* {early.identity[:8]}.* {other.identity[:8]}"):
        check_ledger(other, early)
    ledger.close()
    shutil.copy(folder / "a" / "l", folder / "c" / "l")
    longer = open_ledger(folder / "a" / "l")
    debit_and_record(longer, 7)
    later = check_ledger(longer, early).checkpoint
    assert later is not None
    assert later.identity == early.identity
    problem = check_ledger(open_ledger(folder / "c" / "l"), later).problem
    assert str(problem).endswith("the chain was rolled back or replaced")
    renamed = msgspec.structs.replace(later, identity=other.identity)
    with pytest.raises(BadParameter, match="another ledger"):
        check_ledger(longer, renamed)


def test_an_id_that_was_used_before_the_checked_head_is_found(folder: Path) -> None:
    ledger = make_small_ledger(folder / "l")
    checked = check_ledger(ledger).checkpoint
    used = next(entry for entry in ledger.iter_entries() if isinstance(entry, Debit))
    ledger.close()
    head = open_ledger(folder / "l").head
    again = msgspec.structs.replace(used, number=head.number + 1, previous=head.hash.hex())
    body = encode(again)
    execute(folder / "l", "DROP INDEX discreet_by_id")
    execute(
        folder / "l",
        "INSERT INTO discreet_entries (number, kind, account, id, measurement, debit, body, hash) VALUES (?,?,?,?,?,?,?,?)",
        *(again.number, *EntryKeys.of(again), body, compute_hash(body)),
    )
    assert "uses an id a second time" in str(check_ledger(open_ledger(folder / "l"), checked).problem)


def test_the_file_of_a_check_is_private_and_nothing_else_is_taken_for_one(folder: Path) -> None:
    checked = check_ledger(make_small_ledger(folder / "l")).checkpoint
    assert checked is not None
    assert read_checkpoint(folder / "checked.json") is None
    write_checkpoint(checked, folder / "checked.json")
    assert (folder / "checked.json").stat().st_mode & 0o777 == 0o600
    assert read_checkpoint(folder / "checked.json") == checked
    unequal = msgspec.structs.replace(checked, open_debits=msgspec.structs.replace(checked.open_debits, ids=[]))
    unopened = msgspec.structs.replace(checked, openings={})
    certificate = (Path(__file__).parent / "golden" / "count.json").read_text()
    for text in ("", "{}", "[1]", certificate, unequal.to_json().decode(), unopened.to_json().decode()):
        (folder / "checked.json").write_text(text)
        with pytest.raises(BadParameter, match=r"since is .*/checked\.json: not the result of an earlier check"):
            read_checkpoint(folder / "checked.json")
    newer = checked.to_json().decode().replace('"version":2', '"version":3')
    for text in (newer, newer.replace('"failures"', '"what_failed"')):
        (folder / "checked.json").write_text(text)
        with pytest.raises(BadParameter, match=r"/checked\.json: the result of a check by a later version of discreet"):
            read_checkpoint(folder / "checked.json")
    (folder / "checked.json").write_bytes((Path(__file__).parent / "golden" / "checkpoint1.json").read_bytes())
    with pytest.raises(BadParameter, match=r"/checked\.json: the result of a check by an earlier version of discreet"):
        read_checkpoint(folder / "checked.json")
    with pytest.raises(BadParameter, match="cannot be read"):
        read_checkpoint(folder)
    with pytest.raises(BadParameter, match="cannot be written"):
        write_checkpoint(checked, folder / "no folder" / "checked.json")
    with pytest.raises(BadParameter, match="cannot be written"):
        write_checkpoint(checked, folder / "checked.json" / "checked.json")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_checkpoint_that_cannot_be_written_leaves_nothing(
    folder: Path, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = check_ledger(make_small_ledger(folder / "l")).checkpoint
    assert checked is not None
    write_checkpoint(checked, folder / "checked.json")
    before = sorted(folder.iterdir())

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("discreet.ledger.check.os.replace", fail)
    with pytest.raises((BadParameter, KeyboardInterrupt)):
        write_checkpoint(checked, folder / "checked.json")
    assert sorted(folder.iterdir()) == before
    assert read_checkpoint(folder / "checked.json") == checked


def test_a_checkpoint_with_an_impossible_head_is_refused() -> None:
    for number, hash in ((1 << 63, "0" * 64), (-1, "0" * 64), (0, "zz"), (1, "")):
        text = msgspec.structs.replace(Replay().to_checkpoint(), number=number, hash=hash).to_json()
        with pytest.raises(BadParameter, match="not the result of an earlier check"):
            Checkpoint.from_json(text)


def test_a_checkpoint_of_the_first_version_is_refused_with_what_to_do() -> None:
    text = (Path(__file__).parent / "golden" / "checkpoint1.json").read_bytes()
    with pytest.raises(BadParameter, match=r"by an earlier version of discreet\. Remove it, and let the next check read ev"):
        Checkpoint.from_json(text)


def test_debits_that_were_open_at_the_checked_head_are_answered_once_and_by_their_account(folder: Path) -> None:
    """As a check of everything finds it, also of an entry whose link and columns are right."""
    wrong = []
    for i, (debit, account) in enumerate(itertools.product(range(12), ("all", "hr"))):
        ledger = make_small_ledger(folder / str(i))
        checked = check_ledger(ledger).checkpoint
        head = ledger.head
        answer = AnswerRecorded(
            number=head.number + 1, previous=head.hash.hex(), account=account, debit=debit, answer=b"forged"
        )
        ledger.close()
        body = encode(answer)
        execute(folder / str(i), "DROP INDEX discreet_by_debit")
        execute(
            folder / str(i),
            "INSERT INTO discreet_entries (number, kind, account, id, measurement, debit, body, hash) VALUES "
            "(?,?,?,?,?,?,?,?)",
            *(answer.number, *EntryKeys.of(answer), body, compute_hash(body)),
        )
        with suppress(sqlite3.IntegrityError):  # the debit is answered twice
            execute(folder / str(i), next(each for version in MIGRATIONS for each in version if "_by_debit" in each))
        found = check_ledger(open_ledger(folder / str(i)), checked)
        whole = check_ledger(open_ledger(folder / str(i)))
        assert found == whole
        wrong += [(debit, account)] if found.problem is None else []
    assert len(wrong) == 1  # the one debit of a query that crashed, in its own account


@pytest.mark.parametrize("number", [1, 2])
def test_larger_limits_in_the_opening_of_an_account_are_found_from_a_checked_head(folder: Path, number: int) -> None:
    """The entries up to the head are not read again, but those that later debits are checked against are."""
    ledger = make_small_ledger(folder / "l")
    checked = check_ledger(ledger).checkpoint
    with ledger.store.read_transaction() as transaction:
        opening = transaction.find_entry(number)
    assert isinstance(opening, AccountOpened)
    body = encode(msgspec.structs.replace(opening, limit=Fraction(10**6)))
    ledger.close()
    execute(
        folder / "l", "UPDATE discreet_entries SET body = ?, hash = ? WHERE number = ?", body, compute_hash(body), number
    )
    assert "is not the one that was checked before" in str(check_ledger(open_ledger(folder / "l"), checked).problem)


# -- rationals are compared as texts ---------------------------------------------------------------------------------------

RATIONALS = ("price", "leak", "spent", "leaked", "at")


def rewrite_texts(path: Path, number: int, change: Any) -> None:
    """Change the text of an entry and every hash after it."""
    connection = sqlite3.connect(path)
    link = GENESIS
    for at, body in connection.execute("SELECT number, body FROM discreet_entries ORDER BY number").fetchall():
        fields = msgspec.json.decode(body) | {"previous": link.hex()}
        new = msgspec.json.encode(change(fields) if at == number else fields)
        link = compute_hash(new)
        connection.execute("UPDATE discreet_entries SET body = ?, hash = ? WHERE number = ?", (new, link, at))
    connection.commit()
    connection.close()


def spell(text: str) -> list[str]:
    """Other texts for the same rational, as a lenient parser reads them."""
    top, _, bottom = text.partition("/")
    twice = f"{2 * int(top)}/{2 * int(bottom)}"
    return [twice, f"0{text}", f"+{text}", f" {text}", f"{text} ", f"{top}/0{bottom}", f"{top[0]}_0/{bottom}0"]


def find_misspelt(folder: Path, kind: type[Replay]) -> tuple[int, int]:
    """How many misspelt rationals a check finds, of how many. Debits 3 and 5 have the same event and the same cost."""
    found, tried = 0, 0
    make_small_ledger(folder / "whole").close()
    for number, field in itertools.product((3, 5, 7), RATIONALS):
        with sqlite3.connect(folder / "whole") as connection:
            (body,) = connection.execute("SELECT body FROM discreet_entries WHERE number = ?", (number,)).fetchone()
        connection.close()
        for text in spell(msgspec.json.decode(body)[field]):
            shutil.copy(folder / "whole", folder / "l")
            rewrite_texts(folder / "l", number, lambda fields, field=field, text=text: fields | {field: text})
            replay, tried = kind(), tried + 1
            with open_ledger(folder / "l") as ledger, ledger.store.read_transaction() as transaction:
                try:
                    for stored in transaction.iter_entries():
                        replay.apply_entry(stored)
                except Inconsistency:
                    found += 1
    return found, tried


class TrustsTexts(Replay):
    """A mutant: it parses the texts of the sums, and does not look at how they are written."""

    def _charge(self, entry: Any, body: bytes) -> None:
        fields = {name: Fraction(getattr(entry, name).strip()) for name in ("spent", "delta_spent")}
        texts = {name: codec.to_wire(value) for name, value in fields.items()}
        super()._charge(msgspec.structs.replace(entry, **texts), body)


class TrustsKnownEvents(Replay):
    """A mutant: a cost that was found to be enough stands for every cost of the same event."""

    def _charge(self, entry: Any, body: bytes) -> None:
        for texts in self.charges:
            if texts.event == bytes(entry.encoded_event):
                same = {"cost": texts.cost, "delta": texts.delta, "certified_delta": texts.certified_delta}
                entry = msgspec.structs.replace(entry, **same)
        super()._charge(entry, body)


def test_a_rational_has_one_text(folder: Path) -> None:
    found, tried = find_misspelt(folder, Replay)
    assert found == tried == 3 * len(RATIONALS) * 7


@pytest.mark.parametrize("mutant", [TrustsTexts, TrustsKnownEvents])
def test_a_check_that_trusts_the_texts_is_found(folder: Path, mutant: type[Replay]) -> None:
    found, tried = find_misspelt(folder, mutant)
    assert found < tried


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "CREATE TRIGGER refund AFTER UPDATE ON discreet_accounts BEGIN UPDATE discreet_accounts SET spent = '0'; END",
            "the file has the trigger 'refund', which discreet did not make",
        ),
        ("DROP INDEX discreet_by_id", "the index 'discreet_by_id' is missing, or another one"),
        ("ALTER TABLE discreet_entries ADD COLUMN more TEXT", "the table 'discreet_entries' is missing, or another one"),
        ("UPDATE discreet_facts SET hash = x'00'", "the key of an event is not the hash of the event"),
        ("INSERT INTO discreet_facts SELECT account, x'00', facts, 0 FROM discreet_facts", "the key of an event is not the"),
    ],
)
def test_rules_and_keys_that_discreet_did_not_make_are_found(statement: str, problem: str, folder: Path) -> None:
    make_small_ledger(folder / "l")
    with closing(sqlite3.connect(folder / "l", isolation_level=None)) as connection:
        connection.execute(statement)
    found = check_ledger(open_ledger(folder / "l")).problem
    assert found is not None
    assert problem in found
