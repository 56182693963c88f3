"""The key of a ledger, Ed25519, and its rotation.

The key is made on first use, in a file that only its owner can read.

A rotation replaces the key by a new one from an entry of the chain on. The entry holds both public keys and is signed with
both, so it proves that the holder of the old key chose the new one, and that the holder of the new key accepts what the old
one signed *before* that entry. With the new public key and the ledger, older certificates and heads can therefore still be
checked. What the old key signs afterwards is not accepted: the usual reason for a rotation is that others may know it.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import BadParameter, LedgerUnavailable
from discreet.ledger.chain import Ledger
from discreet.ledger.entries import KeyRotated
from discreet.ledger.signatures import (
    check_signing_key,
    encode_statement,
    find_replaced_keys,
    format_fingerprint,
    is_accepted_signer,
    is_public_key,
    is_signed,
    list_rotations,
    signing_key,
    verify_signature,
)
from discreet.ledger.sqlite import sync_folder
from discreet.ledger.store import append_entry
from discreet.paths import describe_exposure, exists, is_postgres, resolve

__all__ = [
    "Rotation",
    "SigningKey",
    "check_signing_key",
    "default_key_path",
    "find_replaced_keys",
    "format_fingerprint",
    "is_accepted_signer",
    "is_public_key",
    "is_signed",
    "list_rotations",
    "load_key",
    "read_public_key",
    "resolve_key_path",
    "rotate_key",
    "signing_key",
    "verify_signature",
]

_ASK_OWNER = "ask the owner of the ledger"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret key and its public half."""

    secret: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """The public half, in base 64."""
        return b64encode(self.secret.public_key().public_bytes_raw()).decode()

    def sign(self, message: bytes) -> str:
        """Return a signature, in base 64."""
        return b64encode(self.secret.sign(message)).decode()


def default_key_path(ledger: str | os.PathLike[str]) -> Path:
    """Return the path of the key of a ledger file: beside it."""
    file = resolve(ledger, lambda reason: LedgerUnavailable(str(ledger), reason, "name another file"))
    return file.with_name(file.name + ".key")


def resolve_key_path(
    ledger: str | os.PathLike[str], key: str | os.PathLike[str] | None = None, parameter: str = "key"
) -> Path:
    """Return the file of a ledger's key: the given one, or the one beside the ledger.

    The key beside a ledger file is made on first use, so a file that is given must exist: a misspelt one would sign with a
    key that no reader knows. A ledger at an address has no key beside it, and the file that is given for it is made.

    Raises:
        BadParameter: if there is no such file, or none is given for a ledger at an address; it names the `parameter`.
    """
    at_address = is_postgres(str(ledger)) or "://" in str(ledger)
    if key is not None:
        file = Path(key)

        def refuse(reason: str) -> BadParameter:
            return BadParameter(parameter, repr(str(key)), reason, "leave it out to use the key of the ledger")

        if not at_address and not exists(file, refuse):
            raise refuse("there is no such file, and no key is made there")
        return file
    if at_address:
        raise BadParameter(parameter, "missing", "a database has no key file beside it", "name the file of the ledger's key")
    return default_key_path(ledger)


def load_key(path: str | os.PathLike[str]) -> SigningKey:
    """Load the key in a file; make it there, with mode 0600, if the file is missing. Processes that make it at once agree on
    one key.

    Raises:
        LedgerUnavailable: if the file holds no key, or other users can read it: they could sign in the ledger's name.
    """
    file = Path(path)
    if not exists(file, lambda reason: LedgerUnavailable(f"key {file}", reason, _ASK_OWNER)):
        _create_key(file)
    try:
        with file.open(encoding="ascii") as opened:
            if problem := describe_exposure(opened.fileno(), file):
                raise LedgerUnavailable(f"key {file}", *problem)
            raw = b64decode(opened.read().strip(), validate=True)
        if len(raw) != 32:
            raise ValueError
        return SigningKey(Ed25519PrivateKey.from_private_bytes(raw))
    except ValueError:
        raise LedgerUnavailable(
            f"key {file}",
            "this file holds no secret key",
            "name the file of the ledger's key, or restore it from a copy; a new key would not match its signatures",
        ) from None
    except OSError as error:
        raise LedgerUnavailable(f"key {file}", f"it cannot be read ({error.strerror})", _ASK_OWNER) from None


def _create_key(path: Path) -> None:
    """Write a new key under another name, then link it into place: no process ever reads half a key."""
    secret = Ed25519PrivateKey.generate().private_bytes_raw()
    draft = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(b64encode(secret) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        finally:
            os.unlink(draft)
    except FileExistsError:
        return  # another process was first
    except OSError as error:
        raise LedgerUnavailable(
            str(path), f"the key cannot be written ({error.strerror})", "allow writing beside the ledger"
        ) from None


def read_public_key(text_or_path: str) -> str:
    """Read a public key that is given as text, or in a file."""
    text, reason = text_or_path.strip(), "not a public key"
    try:
        text = Path(text_or_path).read_text(encoding="ascii").strip()
    except PermissionError as error:
        reason = f"it cannot be read ({error.strerror})"
    except (ValueError, OSError):  # no path, or no file: then the text itself is the key
        pass
    if text.startswith("{"):  # what `discreet ledger key` prints
        with suppress(ValueError, RecursionError):
            text = str(json.loads(text).get("public_key", ""))
    if is_public_key(text):
        return text
    hint = "give the 44 characters, or a file that holds them"
    if re.fullmatch(r"(?:[0-9a-f]{4}-){4}[0-9a-f]{4}", text):
        reason, hint = "a fingerprint, which is too short to verify with", f"{hint}; discreet ledger key prints both"
    raise BadParameter("key", repr(text_or_path[:200]), reason, hint)


@dataclass(frozen=True, slots=True)
class Rotation:
    """The two public keys of a rotation, and the number of its entry."""

    old: str
    new: str
    entry: int


def rotate_key(ledger: Ledger, path: str | os.PathLike[str]) -> Rotation:
    """Replace the key in a file by a new one, record that in the ledger, and delete the old secret key.

    The new key is written beside the old one first and takes its place last. The next call continues a rotation that was
    interrupted in between, with the same new key.
    """
    file = Path(path)

    def refuse(reason: str) -> BadParameter:
        hint = "name the file of the ledger's key; the first signature makes it"
        return BadParameter("key", repr(str(file)), reason, hint)

    if not exists(file, refuse):
        raise refuse("there is no key to replace")
    old, draft = load_key(file), file.with_name(f"{file.name}.new")
    new = load_key(draft)
    with ledger.store.write_transaction() as transaction:
        keys = old.public, new.public
        entry = next((each for each in list_rotations(transaction) if (each.old, each.new) == keys), None)
        if entry is None:
            if load_key(file).public != old.public:
                draft.unlink(missing_ok=True)
                raise BadParameter(
                    "key",
                    repr(str(file)),
                    "another process replaced it meanwhile",
                    "see the new one with: discreet ledger key",
                )
            head = transaction.read_head()
            statement = encode_statement(head.number + 1, head.hash.hex(), old.public, new.public)
            entry = KeyRotated(
                number=head.number + 1, previous=head.hash.hex(), old=old.public, new=new.public,
                signature=old.sign(statement), confirmation=new.sign(statement),
            )  # fmt: skip
            append_entry(transaction, entry)
    with suppress(FileNotFoundError):  # another process that continued the same rotation was first
        os.replace(draft, file)
    sync_folder(file.parent)
    return Rotation(entry.old, entry.new, entry.number)
