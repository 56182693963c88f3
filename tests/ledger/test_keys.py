"""The key of a ledger: one file of its owner's, made once; and its rotation, after which older signatures still verify."""

import json
import os
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet.errors import BadParameter, LedgerUnavailable
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import compute_hash, encode
from discreet.ledger.keys import list_rotations, load_key, rotate_key
from discreet.ledger.verify import find_divergence, sign_head, verify
from tests.support.certificates import list_false_claims
from tests.support.console import run
from tests.support.schema3_ledger import CERTIFICATES, COUNT, GOLDEN, open_session, read_golden


def test_the_key_is_its_owners_alone_and_made_once(folder: Path) -> None:
    path = folder / "key"
    first = load_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key(path).public == first.public
    assert list(folder.iterdir()) == [path]
    path.write_text("half a k")
    with pytest.raises(LedgerUnavailable, match=r"ledger key \S*key: this file holds no secret key"):
        load_key(path)
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        load_key(folder / "nowhere" / "key")


def rotate(location: str, folder: Path) -> tuple[Ledger, str, str]:
    ledger, path = open_ledger(location), folder / "hr.ledger.key"
    old = load_key(path).public
    rotation = rotate_key(ledger, path)
    assert (rotation.old, rotation.new) == (old, load_key(path).public)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.with_name("hr.ledger.key.new").exists()
    return ledger, rotation.old, rotation.new


def test_old_certificates_and_heads_verify_after_a_rotation(schema3_ledger: str, folder: Path) -> None:
    ledger, old, new = rotate(schema3_ledger, folder)
    assert check_ledger(ledger).is_valid
    rotate_key(ledger, folder / "hr.ledger.key")
    newest = load_key(folder / "hr.ledger.key")
    for public in (old, new, newest.public):
        assert find_divergence(ledger, read_golden("head"), public) is None
        assert all(verify(read_golden(name), public=public, ledger=ledger).is_valid for name in CERTIFICATES)
    assert all(verify(read_golden(name), public=old).is_valid for name in CERTIFICATES)
    assert not verify(read_golden("count"), public=new).is_valid  # only the ledger holds which keys it replaced
    assert find_divergence(ledger, sign_head(ledger, newest), newest.public) is None
    assert "another key" in str(find_divergence(ledger, sign_head(ledger, newest), old))


def test_what_the_old_key_signs_after_a_rotation_is_not_accepted(
    schema3_ledger: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may know the old key: that is why keys are rotated. discreet itself signs nothing with it any more."""
    stolen = load_key(folder / "hr.ledger.key")
    ledger, _, new = rotate(schema3_ledger, folder)
    later = open_session(schema3_ledger, "hr")
    answer = later.ask(COUNT, epsilon=Fraction(1, 4))
    assert verify(later.certify(answer, load_key(folder / "hr.ledger.key")), public=new, ledger=ledger).is_valid
    for sign in (lambda: later.certify(answer, stolen), lambda: sign_head(ledger, stolen)):
        with pytest.raises(BadParameter, match="since its key was rotated"):
            sign()
    for module in ("certificate", "verify"):
        monkeypatch.setattr(f"discreet.ledger.{module}.check_signing_key", lambda *_: None)
    forged = later.certify(answer, stolen)
    # without a given key, the one that the ledger signs with counts; but whose it is stays an assumption
    for public, name in ((new, "the given key"), (None, "the ledger's current key")):
        verification = verify(forged, public=public, ledger=ledger)
        assert list_false_claims(verification) == [f"it was signed with {name}"]
        assert any("is the publisher's" in each for each in verification.assumptions) == (public is None)
        assert "another key" in str(find_divergence(ledger, sign_head(ledger, stolen), public))
    stranger = load_key(folder / "stranger")
    assert not verify(read_golden("count"), public=stranger.public, ledger=ledger).is_valid


def test_a_rotation_without_both_signatures_is_found(schema3_ledger: str, folder: Path) -> None:
    update = "UPDATE discreet_entries SET body = ?, hash = ? WHERE number = ?"
    for field in ("signature", "confirmation", "old", "new"):
        ledger, _, new = rotate(schema3_ledger, folder)
        with ledger.store.read_transaction() as transaction:
            entry = list_rotations(transaction)[-1]
        other = load_key(folder / "stranger")
        value = other.public if field in ("old", "new") else other.sign(b"something")
        body = encode(msgspec.structs.replace(entry, **{field: value}))
        with ledger.store.write_transaction() as transaction:
            original = encode(entry), transaction.find_hash(entry.number)
            transaction.run(update, (body, compute_hash(body), entry.number))
        assert "signatures of both keys" in str(check_ledger(ledger).problem)
        assert not verify(read_golden("count"), public=new, ledger=ledger).is_valid
        with ledger.store.write_transaction() as transaction:
            transaction.run(update, (*original, entry.number))
        assert check_ledger(ledger).is_valid


@pytest.mark.parametrize("point", ["before the entry", "after the entry"])
def test_an_interrupted_rotation_is_continued(
    schema3_ledger: str, folder: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ledger = folder / "hr.ledger.key", open_ledger(schema3_ledger)
    old = load_key(path).public

    class Crash(BaseException):
        pass

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        if point == "after the entry":
            patched.setattr(os, "replace", crash)
        else:
            patched.setattr("discreet.ledger.sql_store.SqlTransaction.append", crash)
        with pytest.raises(Crash):
            rotate_key(ledger, path)
    assert load_key(path).public == old
    draft = load_key(path.with_name("hr.ledger.key.new")).public
    rotation = rotate_key(ledger, path)
    assert (rotation.old, rotation.new, load_key(path).public) == (old, draft, draft)
    with ledger.store.read_transaction() as transaction:
        assert len(list_rotations(transaction)) == 1
    assert check_ledger(ledger).is_valid


def test_there_must_be_a_key_to_rotate(schema3_ledger: str, folder: Path) -> None:
    with pytest.raises(BadParameter, match="there is no key to replace"):
        rotate_key(open_ledger(schema3_ledger), folder / "nothing")
    assert not (folder / "nothing").exists()


def test_rotating_on_the_command_line(schema3_ledger: str, folder: Path) -> None:
    key = ("--key", folder / "hr.ledger.key")
    rotation = json.loads(run("ledger", "rotate-key", schema3_ledger, *key, "--json").stdout)
    assert set(rotation) == {"old", "new", "entry"}
    shown = run("ledger", "rotate-key", schema3_ledger, *key)
    assert rotation["new"] in shown.stdout
    public = json.loads(run("ledger", "key", schema3_ledger, *key).stdout)["public_key"]
    assert run("verify", GOLDEN / "count.json", "--ledger", schema3_ledger, "--key", public).returncode == 0
    assert run("verify", GOLDEN / "count.json", "--key", rotation["old"]).returncode == 0
    assert run("ledger", "check", schema3_ledger, "--head", GOLDEN / "head.json", "--key", public).returncode == 0
