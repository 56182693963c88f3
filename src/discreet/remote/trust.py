"""What a client remembers of services: their keys, the newest entry of their ledgers that it has seen, and tokens.

**Threat.** An attacker answers in a service's place, or its ledger is set back to an older copy, in which debits are
forgotten and the same budget is spent again. So the first time that a client speaks with a service it pins the service's
public key and the identity of its ledger; afterwards another key or ledger is refused. With every answer comes the head of
the ledger, its newest entry's number and hash. The highest one is remembered; a ledger that is set back does not continue
it.

What this shows: a service that continues the remembered head has forgotten nothing that this client has seen. What it does
not show: that a service tells all clients the same. Clients that compare their heads find that out.

A service on the own machine has no fixed name: it is known by its address *and* its ledger's identity, so that a fresh demo
is another service and no alarm.

Both files, `services.toml` and `credentials.toml`, are in ~/.config/discreet (XDG_CONFIG_HOME and DISCREET_CONFIG are
respected), readable by their owner alone, and written whole under a lock.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from discreet.errors import BadParameter, ServiceChanged
from discreet.paths import describe_exposure, reason_of
from discreet.remote.plain import malformed

SERVICES, CREDENTIALS = "services.toml", "credentials.toml"


def config_folder() -> Path:
    """Return the folder of what a client remembers."""
    if given := os.environ.get("DISCREET_CONFIG"):
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "discreet"


@dataclass(frozen=True, slots=True)
class Head:
    """The newest entry of a ledger: its number and its hash in hexadecimal."""

    number: int
    hash: str

    @classmethod
    def from_plain(cls, value: Any) -> "Head | None":
        """Return the head that a service states; None if its ledger has no entry yet."""
        match value:
            case None:
                return None
            case {"number": int(number), "hash": str(hash)} if number >= 0 and len(hash) <= 200 and hash.isalnum():
                return cls(number, hash)
        raise malformed("not a head of a ledger")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a service says it is."""

    address: str  # scheme, host, port and prefix
    is_loopback: bool
    public_key: str | None
    ledger: str | None

    @property
    def name(self) -> str:
        """What it is remembered by."""
        return f"{self.address}#{self.ledger}" if self.is_loopback else self.address


def pin(identity: Identity) -> Head | None:
    """Compare a service with what is remembered of it, or remember it; return the highest head that was seen of it.

    Raises:
        ServiceChanged: it has another key or ledger than before.
    """
    with _edit(SERVICES) as services:
        known = services.get(identity.name)
        if not isinstance(known, dict):
            stated = {"public_key": identity.public_key, "ledger": identity.ledger}
            services[identity.name] = {name: each for name, each in stated.items() if each is not None}
            return None
        for field, stated_now, what in (
            ("public_key", identity.public_key, "public key"), ("ledger", identity.ledger, "ledger"),
        ):  # fmt: skip
            if field in known and known[field] != stated_now:
                raise ServiceChanged(
                    identity.address, f"it has another {what} than before",
                    "ask its steward why, by another way than this service. If it is meant to be so, forget the old one: "
                    f"discreet logout {identity.address} --forget",
                )  # fmt: skip
            if stated_now is not None:
                known[field] = stated_now
        if isinstance(known.get("number"), int) and isinstance(known.get("head"), str):
            return Head(known["number"], known["head"])
        return None


def remember_head(identity: Identity, head: Head) -> None:
    """Remember a head, if it is higher than the one before."""
    with _edit(SERVICES) as services:
        known = services.setdefault(identity.name, {})
        before = known.get("number")
        if not isinstance(before, int) or head.number > before:
            known |= {"number": head.number, "head": head.hash}


def set_back_error(address: str, head: Head) -> ServiceChanged:
    """Return the error of a ledger that does not continue a head that was seen."""
    return ServiceChanged(
        address,
        f"its ledger was set back: it no longer holds entry {head.number} as it was, so debits may be forgotten",
        "ask its steward why, by another way than this service; no answer of it is shown",
    )


def forget(address: str) -> bool:
    """Forget the keys and heads of a service; return whether any were known."""
    with _edit(SERVICES) as services:
        names = [name for name in services if name.partition("#")[0] == address]
        for name in names:
            del services[name]
    return bool(names)


def store_token(address: str, token: str) -> Path:
    """Store the token for a service; return the file."""
    with _edit(CREDENTIALS) as credentials:
        credentials[address] = {"token": token}
    return config_folder() / CREDENTIALS


def find_token(address: str) -> str | None:
    """Return the token that is stored for a service."""
    known = _read(config_folder() / CREDENTIALS).get(address)
    token = known.get("token") if isinstance(known, dict) else None
    return token if isinstance(token, str) else None


def drop_token(address: str) -> bool:
    """Forget the token for a service; return whether there was one."""
    with _edit(CREDENTIALS) as credentials:
        return credentials.pop(address, None) is not None


def _refuse(path: Path, reason: str, hint: str = "correct it, or remove it") -> BadParameter:
    return BadParameter("DISCREET_CONFIG", repr(str(path)), reason, hint)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            exposed = describe_exposure(file.fileno(), path)
            if exposed is not None:
                raise _refuse(path, *exposed)
            found = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        if isinstance(error, BadParameter):
            raise
        raise _refuse(path, f"it cannot be read ({reason_of(error)})") from None
    return found


@contextmanager
def _edit(name: str) -> Iterator[dict[str, Any]]:
    """Read a file, yield it for changes, and write it whole if it changed. One process at a time."""
    folder = config_folder()
    path = folder / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _refuse(folder, f"it cannot be written ({reason_of(error)})", "set DISCREET_CONFIG to a folder") from None
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        found = _read(path)
        before = _write_toml(found)
        yield found
        after = _write_toml(found)
        if after != before:
            _replace(path, after)
    finally:
        os.close(lock)


def _replace(path: Path, text: str) -> None:
    try:
        handle, draft = mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise _refuse(path, f"it cannot be written ({reason_of(error)})") from None


def _write_toml(sections: Mapping[str, Any]) -> str:
    """Return sections of texts and whole numbers as TOML.

    >>> print(_write_toml({"https://data.example": {"number": 3, "head": "ab"}}), end="")
    ["https://data.example"]
    number = 3
    head = "ab"
    """
    lines = []
    for name, fields in sections.items():
        lines.append(f"[{_quote(name)}]")
        given = fields.items() if isinstance(fields, dict) else ()
        lines += [
            f"{key} = {_quote(each) if isinstance(each, str) else int(each)}" for key, each in given if _is_plain(each)
        ]
    return "".join(f"{line}\n" for line in lines)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")
