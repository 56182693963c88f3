"""From one version, one key and one month to the next.

`golden/schema3.ledger` was written by a version with schema 3, with its key, certificates and a signed head. Every later
version must open it, upgrade it, verify all of it, and find its recorded answers again, for free.
"""

import json
import os
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import BadParameter
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.keys import list_rotations, load_key, rotate_key
from discreet.ledger.sql_store import MIGRATIONS
from discreet.ledger.verify import find_divergence, sign_head, verify
from discreet.session.connect import connect
from discreet.session.session import Session
from tests.support.console import run
from tests.support.small_ledger import debit_and_record

GOLDEN = Path(__file__).parent / "golden"
CERTIFICATES = ("count", "mean", "piloted")
PEOPLE = Path(__file__).parent.parent.parent / "examples" / "people.csv"
COUNT = "SELECT COUNT(*) AS n FROM people"
MEAN = "SELECT AVG(pay) AS mean FROM people"


def read(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.fixture(params=["sqlite", "postgres"])
def golden(request: pytest.FixtureRequest, folder: Path) -> str:
    """A copy of the golden ledger: its file, or its tables as that version made them in a database."""
    file = folder / "hr.ledger"
    for suffix in ("", ".key"):
        shutil.copyfile(GOLDEN / f"schema3.ledger{suffix}", f"{file}{suffix}")
        os.chmod(f"{file}{suffix}", 0o600)
    if request.param == "sqlite":
        return str(file)
    import psycopg

    database = str(request.getfixturevalue("database"))
    with psycopg.connect(database) as there, sqlite3.connect(file) as here:
        for statement in (each for version in MIGRATIONS[:3] for each in version):
            there.execute(statement.format(key="BIGINT PRIMARY KEY", bytes="BYTEA"))  # type: ignore[arg-type]
        there.execute("CREATE TABLE discreet_schema (version BIGINT NOT NULL)")
        for table in ("schema", "entries", "accounts", "facts"):
            rows = here.execute(f"SELECT * FROM discreet_{table}").fetchall()
            marks = ", ".join(["%s"] * len(rows[0]))
            there.cursor().executemany(f"INSERT INTO discreet_{table} VALUES ({marks})", rows)  # type: ignore[arg-type]
    here.close()
    return database


def session(ledger: str, account: str, **more: Any) -> Session:
    """The session that asked the golden questions: its source was at another path."""
    found = connect(PEOPLE, policy=GOLDEN / "policy.toml", ledger=ledger, account=account, **more)
    found.engine.identity = "/srv/data/people.csv"  # type: ignore[misc]
    return found


def test_the_golden_ledger_is_of_schema_3() -> None:
    with sqlite3.connect(f"{(GOLDEN / 'schema3.ledger').as_uri()}?mode=ro&immutable=1", uri=True) as made:
        assert made.execute("SELECT version FROM discreet_schema").fetchone() == (3,)
    made.close()


def test_a_ledger_of_schema_3_opens_upgrades_and_verifies(golden: str, folder: Path) -> None:
    ledger, key = open_ledger(golden), load_key(folder / "hr.ledger.key")
    report = check_ledger(ledger)
    assert report.is_valid, report.problem
    assert (report.entries, len(report.unanswered), report.quarantined) == (19, 2, ())
    assert find_divergence(ledger, read("head"), key.public) is None
    for name in CERTIFICATES:
        verdict = verify(read(name), public=key.public, ledger=ledger)
        assert verdict.is_valid, [finding for finding in verdict.claims if not finding.is_valid]
    debit_and_record(ledger, 60)
    assert check_ledger(ledger).is_valid
    assert find_divergence(ledger, read("head"), key.public) is None


def test_the_upgrade_notices_an_edit_of_the_old_ledger(golden: str) -> None:
    ledger = open_ledger(golden)
    with ledger.store.write_transaction() as transaction:
        transaction.run("UPDATE discreet_entries SET body = hash WHERE number = 7", ())
    assert not check_ledger(ledger).is_valid


@pytest.mark.parametrize(
    ("name", "account", "more", "question", "asking"),
    [
        ("count", "hr", {}, COUNT, {"epsilon": Fraction(1, 2)}),
        ("mean", "steps", {"bounds": {"pay": "auto"}}, MEAN, {"epsilon": 1, "id": "found"}),
        ("piloted", "steps", {"bounds": {"pay": (0, 200)}}, MEAN, {"error": "20%", "pilot": Fraction(1, 2)}),
    ],
)
def test_what_was_answered_before_the_update_is_free_afterwards(
    golden: str, name: str, account: str, more: Any, question: str, asking: Any
) -> None:
    later = session(golden, account, **more)
    spent = later.account.budget.spent
    answer = later.ask(question, **asking)
    assert answer.reference is not None
    assert answer.reference.record == read(name)["release"]
    assert later.account.budget.spent == spent


def rotated(golden: str, folder: Path) -> tuple[Ledger, str, str]:
    ledger, place = open_ledger(golden), folder / "hr.ledger.key"
    old = load_key(place).public
    made = rotate_key(ledger, place)
    assert (made.old, made.new) == (old, load_key(place).public)
    assert place.stat().st_mode & 0o777 == 0o600
    assert not place.with_name("hr.ledger.key.new").exists()
    return ledger, made.old, made.new


def test_old_certificates_and_heads_verify_after_a_rotation(golden: str, folder: Path) -> None:
    ledger, old, new = rotated(golden, folder)
    assert check_ledger(ledger).is_valid
    rotate_key(ledger, folder / "hr.ledger.key")
    newest = load_key(folder / "hr.ledger.key")
    for public in (old, new, newest.public):
        assert find_divergence(ledger, read("head"), public) is None
        assert all(verify(read(name), public=public, ledger=ledger).is_valid for name in CERTIFICATES)
    assert all(verify(read(name), public=old).is_valid for name in CERTIFICATES)
    assert not verify(read("count"), public=new).is_valid  # only the ledger knows which keys it replaced
    assert find_divergence(ledger, sign_head(ledger, newest), newest.public) is None
    assert "another key" in str(find_divergence(ledger, sign_head(ledger, newest), old))


def test_what_the_old_key_signs_after_a_rotation_is_not_accepted(
    golden: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may know the old key: that is why keys are rotated. discreet itself signs nothing with it any more."""
    thief = load_key(folder / "hr.ledger.key")
    ledger, _, new = rotated(golden, folder)
    later = session(golden, "hr")
    answer = later.ask(COUNT, epsilon=Fraction(1, 4))
    assert verify(later.certify(answer, load_key(folder / "hr.ledger.key")), public=new, ledger=ledger).is_valid
    for sign in (lambda: later.certify(answer, thief), lambda: sign_head(ledger, thief)):
        with pytest.raises(BadParameter, match="since its key was rotated"):
            sign()
    for module in ("certificate", "verify"):
        monkeypatch.setattr(f"discreet.ledger.{module}.check_signing_key", lambda *_: None)
    forged = later.certify(answer, thief)
    for public in (new, None):  # whoever gives no key is told by the ledger which one it signs with
        assert [f.claim for f in verify(forged, public=public, ledger=ledger).claims if not f.is_valid] == [
            "it was signed with the given key"
        ]
        assert "another key" in str(find_divergence(ledger, sign_head(ledger, thief), public))
    stranger = load_key(folder / "stranger")
    assert not verify(read("count"), public=stranger.public, ledger=ledger).is_valid


def test_a_rotation_without_both_signatures_is_noticed(golden: str, folder: Path) -> None:
    import msgspec

    from discreet.ledger.entries import compute_hash, encode

    for field in ("signature", "confirmation", "old", "new"):
        ledger, _, new = rotated(golden, folder)
        with ledger.store.read_transaction() as transaction:
            entry = list_rotations(transaction)[-1]
        other = load_key(folder / "stranger")
        value = other.public if field in ("old", "new") else other.sign(b"something")
        body = encode(msgspec.structs.replace(entry, **{field: value}))
        with ledger.store.write_transaction() as transaction:
            known = encode(entry), transaction.find_hash(entry.number)
            transaction.run(
                "UPDATE discreet_entries SET body = ?, hash = ? WHERE number = ?", (body, compute_hash(body), entry.number)
            )
        assert "signatures of both keys" in str(check_ledger(ledger).problem)
        assert not verify(read("count"), public=new, ledger=ledger).is_valid
        with ledger.store.write_transaction() as transaction:
            transaction.run("UPDATE discreet_entries SET body = ?, hash = ? WHERE number = ?", (*known, entry.number))
        assert check_ledger(ledger).is_valid


@pytest.mark.parametrize("point", ["before the entry", "after the entry"])
def test_an_interrupted_rotation_is_continued(
    golden: str, folder: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ledger = folder / "hr.ledger.key", open_ledger(golden)
    old = load_key(place).public

    class Crash(BaseException):
        pass

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as broken:
        if point == "after the entry":
            broken.setattr(os, "replace", crash)
        else:
            broken.setattr("discreet.ledger.sql_store.SqlTransaction.append", crash)
        with pytest.raises(Crash):
            rotate_key(ledger, place)
    assert load_key(place).public == old
    draft = load_key(place.with_name("hr.ledger.key.new")).public
    made = rotate_key(ledger, place)
    assert (made.old, made.new, load_key(place).public) == (old, draft, draft)
    with ledger.store.read_transaction() as transaction:
        assert len(list_rotations(transaction)) == 1
    assert check_ledger(ledger).is_valid


def test_there_must_be_a_key_to_rotate(golden: str, folder: Path) -> None:
    with pytest.raises(BadParameter, match="there is no key to replace"):
        rotate_key(open_ledger(golden), folder / "nothing")
    assert not (folder / "nothing").exists()


def test_rotating_on_the_command_line(golden: str, folder: Path) -> None:
    key = ("--key", folder / "hr.ledger.key")
    made = json.loads(run("ledger", "rotate-key", golden, *key, "--json").stdout)
    assert set(made) == {"old", "new", "entry"}
    shown = run("ledger", "rotate-key", golden, *key)
    assert made["new"] in shown.stdout
    public = json.loads(run("ledger", "key", golden, *key).stdout)["public_key"]
    assert run("verify", GOLDEN / "count.json", "--ledger", golden, "--key", public).returncode == 0
    assert run("verify", GOLDEN / "count.json", "--key", made["old"]).returncode == 0
    assert run("ledger", "check", golden, "--head", GOLDEN / "head.json", "--key", public).returncode == 0


def test_another_label_is_another_question_of_the_same_account(golden: str) -> None:
    spent = []
    rows = {}
    for label in (None, "2026-11", "2026-12", "2026-11", None):
        labelled = session(golden, "hr", label=label)
        answer = labelled.ask(COUNT, epsilon=Fraction(1, 2))
        assert answer.reference is not None
        assert answer.reference.measurement.get("label") == label
        assert rows.setdefault(label, answer.rows) == answer.rows
        spent.append(labelled.account.budget.spent)
    price = spent[1] - spent[0]
    assert price > 0
    assert [each - spent[0] for each in spent] == [0, price, 2 * price, 2 * price, 2 * price]
    assert check_ledger(open_ledger(golden)).is_valid


def test_every_step_belongs_to_its_label(folder: Path) -> None:
    """Bounds that were found in one month, and a size that was counted there, are not the next month's."""
    for name, asking in {"bounds": {"epsilon": 1}, "pilot": {"error": "20%", "pilot": Fraction(1, 4)}}.items():
        ledger = open_ledger(folder / name, create=True)
        ledger.open_account("hr", 50)
        bounds: Any = {"pay": "auto" if name == "bounds" else (0, 200)}
        for months, label in enumerate(("2026-11", "2026-12", "2026-11"), 1):
            month = session(str(folder / name), "hr", bounds=bounds, label=label)
            month.ask(MEAN, **asking)
            assert ledger.get_account("hr").state.debits == 2 * min(months, 2)
        this, that = (session(str(folder / name), "hr", bounds=bounds, label=label) for label in ("2026-11", "2026-12"))
        this.ask(COUNT, epsilon=1, id="x")
        with pytest.raises(BadParameter, match="belongs to another measurement"):
            that.ask(COUNT, epsilon=1, id="x")


@pytest.mark.parametrize("wrong", ["", " 2026-11", "a\nb", 202611])
def test_a_label_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(BadParameter, match="label is"):
        connect(PEOPLE, unit="id", epsilon=1, label=wrong)


def test_a_label_on_the_command_line_and_in_a_plan(folder: Path) -> None:
    from discreet.workload import publish

    place = folder / "hr.ledger"
    open_ledger(place, create=True).open_account("hr", 9)
    common = ("ask", PEOPLE, COUNT, "--unit", "id", "--epsilon", 1, "--ledger", place, "--json")
    answers = [run(*common, "--label", label).stdout for label in ("2026-11", "2026-12", "2026-11")]
    values = [json.loads(each)["rows"] for each in answers]
    assert values[0] == values[2]
    assert open_ledger(place).get_account("hr").state.debits == 2
    assert run("quote", PEOPLE, COUNT, "--unit", "id", "--epsilon", 1, "--label", "2026-11").returncode == 0
    for number, label in enumerate(("2026-11", "2026-12", "2026-11")):
        (folder / "plan.toml").write_text(
            f'label = "{label}"\nsource = "{PEOPLE}"\nunit = "id"\n[budget]\nepsilon = 1\nledger = "{place}"\n'
            f'[questions.all]\nsql = "{COUNT}"\n'
        )
        made = publish(folder / "plan.toml", folder / str(number))
        assert made.free == (number == 2)
        assert f"labelled `{label}`" in (made.folder / "guarantee.md").read_text()
