"""Another key for a ledger: the new one replaces the old one from an entry of the chain on.

The entry holds both public keys and is signed with both, so it proves that whoever held the old key chose the new one, and
that the holder of the new key accepts what the old one signed *before* that entry. Whoever trusts the new public key can
therefore check older certificates and heads with it and the ledger. What the old key signs afterwards is not accepted on
the new key's word: the usual reason for a rotation is that others may know the old key.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import BadParameter
from discreet.ledger.book import Ledger
from discreet.ledger.entry import KeyRotated, to_canonical_json
from discreet.ledger.keys import SigningKey, format_fingerprint, load_key, verify_signature
from discreet.ledger.pages import Transaction
from discreet.ledger.sqlite import sync_folder
from discreet.ledger.store import Store
from discreet.paths import exists

ROTATION_FORMAT = "discreet key rotation 1"


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotation that was made: the two public keys, and the entry that says so."""

    old: str
    new: str
    entry: int


def rotate_key(ledger: Ledger, path: str | os.PathLike[str]) -> Rotation:
    """Replace the key in a file by a new one and record it in the ledger. The old secret key is deleted.

    The new key is written beside the old one first and takes its place last. A rotation that was interrupted in between is
    continued by the next one, with the same new key.
    """
    place = Path(path)

    def refuse(reason: str) -> BadParameter:
        hint = "name the file of the ledger's key; the first signature makes it"
        return BadParameter("key", repr(str(place)), reason, hint)

    if not exists(place, refuse):
        raise refuse("there is no key to replace")
    old, draft = load_key(place), place.with_name(f"{place.name}.new")
    new = load_key(draft)
    with ledger.store.write_transaction() as pages:
        entry = next((each for each in pages.list_rotations() if (each.old, each.new) == (old.public, new.public)), None)
        if entry is None:
            if load_key(place).public != old.public:
                draft.unlink(missing_ok=True)
                raise BadParameter(
                    "key", repr(str(place)), "another process replaced it meanwhile", "look at it: discreet ledger key"
                )
            number, link = pages.read_last()
            said = _statement(number + 1, link.hex(), old.public, new.public)
            entry = KeyRotated(
                number=number + 1, previous=link.hex(), old=old.public, new=new.public, signature=old.sign(said),
                confirmation=new.sign(said),
            )  # fmt: skip
            pages.append(entry)
    with suppress(FileNotFoundError):  # another process that continued the same rotation was first
        os.replace(draft, place)
    sync_folder(place.parent)
    return Rotation(entry.old, entry.new, entry.number)


def is_signed(entry: KeyRotated) -> bool:
    """Whether both keys signed the rotation."""
    said = _statement(entry.number, entry.previous, entry.old, entry.new)
    return verify_signature(entry.old, entry.signature, said) and verify_signature(entry.new, entry.confirmation, said)


def find_replaced_keys(transaction: Transaction, public: str) -> dict[str, int]:
    """The keys that a key replaced, directly or through others, each with the entry from which on it was replaced."""
    replaced: dict[str, int] = {}
    trusted = {public}
    for entry in sorted(transaction.list_rotations(), key=lambda each: each.number, reverse=True):
        if entry.new in trusted and entry.old not in trusted and is_signed(entry):
            trusted.add(entry.old)
            replaced[entry.old] = entry.number
    return replaced


def is_accepted_signer(ledger: Ledger, public: str, signer: str, entry: int) -> bool:
    """Whether a signature over what the ledger held up to an entry counts as one of `public`: its own, or one of a key that
    it replaced later."""
    if signer == public:
        return True
    with ledger.store.read_transaction() as pages:
        return find_replaced_keys(pages, public).get(signer, 0) > entry


def signing_key(store: Store) -> str | None:
    """The public key that the last rotation put in force; None as long as no key was replaced."""
    with store.read_transaction() as pages:
        rotations = [entry for entry in pages.list_rotations() if is_signed(entry)]
    return max(rotations, key=lambda entry: entry.number).new if rotations else None


def check_signing_key(store: Store, key: SigningKey) -> None:
    """Refuse to sign with a key that the ledger replaced: readers who know the new one do not accept it any more."""
    current = signing_key(store)
    if current is not None and key.public != current:
        raise BadParameter(
            "key",
            format_fingerprint(key.public),
            f"the ledger signs with {format_fingerprint(current)} since its key was rotated",
            "give the new key's file",
        )


def _statement(number: int, previous: str, old: str, new: str) -> bytes:
    return to_canonical_json({"format": ROTATION_FORMAT, "number": number, "previous": previous, "old": old, "new": new})
