"""Signatures and public keys: what a reader checks, without a secret key and without a place that a ledger is stored in.

`keys` makes and replaces the secret keys. A program that only verifies, such as a web process that strangers reach, imports
this module and not that one.
"""

from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.errors import BadParameter
from discreet.ledger.entries import KeyRotated, to_canonical_json
from discreet.ledger.store import Store, Transaction, decode_stored

if TYPE_CHECKING:
    from discreet.ledger.chain import Ledger
    from discreet.ledger.keys import SigningKey

ROTATION_FORMAT = "discreet key rotation 1"


def verify_signature(public: str, signature: str, message: bytes) -> bool:
    """Return whether the holder of a key signed exactly this message."""
    try:
        raw = b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(b64decode(public, validate=True)).verify(raw, message)
    except (InvalidSignature, ValueError):
        return False
    return b64encode(raw).decode() == signature  # a signature has only one text


def format_fingerprint(public_key: str) -> str:
    """Shorten a public key to what can be read aloud.

    >>> format_fingerprint("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    '6668-7aad-f862-bd77-6c8f'
    """
    digest = sha256(b64decode(public_key)).hexdigest()
    return "-".join(digest[i : i + 4] for i in range(0, 20, 4))


def is_public_key(text: str) -> bool:
    """Return whether a text is a public key in base 64."""
    try:
        return len(b64decode(text, validate=True)) == 32
    except ValueError:
        return False


def list_rotations(transaction: Transaction) -> tuple[KeyRotated, ...]:
    """Return every rotation of the ledger's key, in order."""
    rotations = (decode_stored(transaction, stored) for stored in transaction.iter_entries("rotate"))
    return tuple(entry for entry in rotations if isinstance(entry, KeyRotated))


def is_signed(entry: KeyRotated) -> bool:
    """Return whether both keys signed a rotation."""
    statement = encode_statement(entry.number, entry.previous, entry.old, entry.new)
    by_old = verify_signature(entry.old, entry.signature, statement)
    return by_old and verify_signature(entry.new, entry.confirmation, statement)


def find_replaced_keys(transaction: Transaction, public: str) -> dict[str, int]:
    """Return the keys that a key replaced, directly or through others, each with the entry that replaced it."""
    replaced: dict[str, int] = {}
    trusted = {public}
    for entry in sorted(list_rotations(transaction), key=lambda each: each.number, reverse=True):
        if entry.new in trusted and entry.old not in trusted and is_signed(entry):
            trusted.add(entry.old)
            replaced[entry.old] = entry.number
    return replaced


def is_accepted_signer(ledger: "Ledger", public: str, signer: str, entry: int) -> bool:
    """Return whether a signature of `signer`, over what the ledger held up to an entry, counts as one of `public`: the keys
    are the same, or `public` replaced `signer` after that entry."""
    if signer == public:
        return True
    with ledger.store.read_transaction() as transaction:
        return find_replaced_keys(transaction, public).get(signer, 0) > entry


def signing_key(store: Store) -> str | None:
    """Return the public key of the last rotation; None if there was none."""
    with store.read_transaction() as transaction:
        rotations = [entry for entry in list_rotations(transaction) if is_signed(entry)]
    return max(rotations, key=lambda entry: entry.number).new if rotations else None


def check_signing_key(store: Store, key: "SigningKey") -> None:
    """Refuse to sign with a key that the ledger replaced: readers who know the new one would not accept it."""
    current = signing_key(store)
    if current is not None and key.public != current:
        raise BadParameter(
            "key",
            format_fingerprint(key.public),
            f"the ledger signs with {format_fingerprint(current)} since its key was rotated",
            "give the file of the new key",
        )


def encode_statement(number: int, previous: str, old: str, new: str) -> bytes:
    """Encode what both keys of a rotation sign."""
    return to_canonical_json({"format": ROTATION_FORMAT, "number": number, "previous": previous, "old": old, "new": new})
