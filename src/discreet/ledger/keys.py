"""The ledger's own key: Ed25519, made on first use in a file that only its owner can read."""

import os
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet.errors import BadParameter, LedgerUnavailable
from discreet.ledger.chain import Ledger
from discreet.ledger.entries import KeyRotated, to_canonical_json
from discreet.ledger.sql_store import Transaction
from discreet.ledger.sqlite import sync_folder
from discreet.ledger.store import Store
from discreet.paths import describe_exposure, exists, resolve

_ASK = "ask whoever keeps the ledger"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret key and its public half."""

    secret: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """The public half, in base 64."""
        return b64encode(self.secret.public_key().public_bytes_raw()).decode()

    def sign(self, message: bytes) -> str:
        """A signature, in base 64."""
        return b64encode(self.secret.sign(message)).decode()


def default_key_path(ledger: str | os.PathLike[str]) -> Path:
    """Where the key of a ledger file is: beside it."""
    place = resolve(ledger, lambda reason: LedgerUnavailable(str(ledger), reason, "name another file"))
    return place.with_name(place.name + ".key")


def load_key(path: str | os.PathLike[str]) -> SigningKey:
    """The key in this file; made there, with mode 0600, if the file is missing. Two that come first agree on one key. A key
    that other users can read is refused: whoever read it can sign in the ledger's name."""
    place = Path(path)
    if not exists(place, lambda reason: LedgerUnavailable(str(place), f"the key: {reason}", _ASK)):
        _create_key(place)
    try:
        with place.open(encoding="ascii") as file:
            if problem := describe_exposure(file.fileno(), place):
                raise LedgerUnavailable(str(place), "the key: " + problem[0], problem[1])
            raw = b64decode(file.read().strip(), validate=True)
        if len(raw) != 32:
            raise ValueError
        return SigningKey(Ed25519PrivateKey.from_private_bytes(raw))
    except ValueError:
        raise LedgerUnavailable(
            str(place), "this is no key", "put the ledger's key back; a new one would not match its signatures"
        ) from None
    except OSError as error:
        raise LedgerUnavailable(str(place), f"the key cannot be read ({error.strerror})", _ASK) from None


def verify_signature(public: str, signature: str, message: bytes) -> bool:
    """Whether the holder of the key signed exactly this."""
    try:
        raw = b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(b64decode(public, validate=True)).verify(raw, message)
    except (InvalidSignature, ValueError):
        return False
    return b64encode(raw).decode() == signature  # one signature has one text


def format_fingerprint(public_key: str) -> str:
    """A public key, short enough to read aloud.

    >>> format_fingerprint("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    '6668-7aad-f862-bd77-6c8f'
    """
    digest = sha256(b64decode(public_key)).hexdigest()
    return "-".join(digest[i : i + 4] for i in range(0, 20, 4))


def is_public_key(text: str) -> bool:
    """Whether this is a public key as we write it."""
    try:
        return len(b64decode(text, validate=True)) == 32
    except ValueError:
        return False


def read_public_key(text_or_path: str) -> str:
    """A public key as typed, or in a file."""
    place, text, reason = Path(text_or_path), text_or_path.strip(), "not a public key"
    try:
        text = place.read_text(encoding="ascii").strip()
    except PermissionError as error:
        reason = f"it cannot be read ({error.strerror})"
    except (ValueError, OSError):  # no path, or one of nothing: then it is what was typed
        pass
    if is_public_key(text):
        return text
    raise BadParameter("--key", repr(text_or_path[:200]), reason, "give the 44 characters, or a file that holds them")


def _create_key(place: Path) -> None:
    """Write a new key under another name, then link it into place: nobody ever reads half a key."""
    fresh = Ed25519PrivateKey.generate().private_bytes_raw()
    draft = place.with_name(f"{place.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(b64encode(fresh) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, place)
        finally:
            os.unlink(draft)
    except FileExistsError:
        return  # another was first
    except OSError as error:
        raise LedgerUnavailable(
            str(place), f"the key cannot be written ({error.strerror})", "allow writing beside the ledger"
        ) from None


# Another key for a ledger: the new one replaces the old one from an entry of the chain on.
#
# The entry holds both public keys and is signed with both, so it proves that whoever held the old key chose the new one, and
# that the holder of the new key accepts what the old one signed *before* that entry. Whoever trusts the new public key can
# therefore check older certificates and heads with it and the ledger. What the old key signs afterwards is not accepted on
# the new key's word: the usual reason for a rotation is that others may know the old key.


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
