"""The ledger's own key: Ed25519, made on first use in a file that only its owner can read."""

import os
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet.errors import BadParameter, LedgerUnavailable
from discreet.paths import exists, resolve
from discreet.private_file import describe_exposure

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
