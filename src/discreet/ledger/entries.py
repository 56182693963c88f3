"""Entries: what happened, one after the other, each holding the hash of the one before it.

An entry is one line of canonical JSON (fields in order, rationals as "n/d"); its hash is the SHA-256 of that line. No entry
holds a time: no clock has a say in a budget.
"""

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, TypeVar, assert_never

import msgspec

from discreet.accounting.currencies import Filter, parse_currency
from discreet.codec import from_wire, to_wire
from discreet.errors import BadEventEncoding
from discreet.ledger.account import AccountState
from discreet.ledger.failures import FailureKind

GENESIS = bytes(32)
"""What the first entry holds in place of a hash before it."""


class _Entry(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True):
    number: int
    previous: str


class _AccountEntry(_Entry, frozen=True, kw_only=True):
    account: str


class AccountOpened(_AccountEntry, frozen=True, tag="open", kw_only=True):
    """An account was opened with this budget, in this currency, for life."""

    currency: str
    limit: Fraction
    leak_limit: Fraction
    delta: Fraction
    parent: str | None = None

    def to_account(self, parent: AccountState | None) -> AccountState:
        """The account as it was then."""
        kept = Filter(parse_currency(self.currency), self.limit, self.leak_limit)
        return AccountState(self.account, kept, self.delta, parent).check_parent()

    @classmethod
    def of(cls, account: AccountState, number: int, previous: bytes) -> "AccountOpened":
        """The entry that opens this account."""
        kept = account.budget
        return cls(
            number=number, previous=previous.hex(), account=account.name, currency=kept.currency.name,
            limit=kept.limit,
            leak_limit=kept.delta_limit, delta=account.delta, parent=account.parent.name if account.parent else None,
        )  # fmt: skip


class Debit(_AccountEntry, frozen=True, tag="debit", kw_only=True):
    """A measurement was paid for: the facts, their price, and what the account had spent after it."""

    id: str
    measurement: str  # the hash of the whole measurement
    facts: msgspec.Raw
    price: Fraction
    leak: Fraction
    spent: Fraction
    leaked: Fraction
    at: Fraction = Fraction(0)  # the δ of a plan's certified point
    about: str | msgspec.UnsetType = msgspec.UNSET  # whose rows the account's debits speak of; left out if none has said

    @property
    def privacy_unit(self) -> str:
        """Whose rows it is about, and in which change; "" if nobody has said."""
        return self.about or ""


class AnswerRecorded(_AccountEntry, frozen=True, tag="answer", kw_only=True):
    """What was released for a debit, byte for byte."""

    debit: int
    answer: bytes


class FailureRecorded(_Entry, frozen=True, tag="failure", kw_only=True):
    """A query on a source failed. A source belongs to no account: whoever pays, the same rows fail."""

    source: str
    failure: FailureKind


class QuarantineLifted(_Entry, frozen=True, tag="lift", kw_only=True):
    """The owner allowed queries on a source again; its failures are counted from 0."""

    source: str


class KeyRotated(_Entry, frozen=True, tag="rotate", kw_only=True):
    """From here on the ledger signs with another key. Both keys, in base 64, signed this."""

    old: str
    new: str
    signature: str  # with the old key
    confirmation: str  # with the new key


Entry: TypeAlias = AccountOpened | Debit | AnswerRecorded | FailureRecorded | QuarantineLifted | KeyRotated


class EntryKeys(NamedTuple):
    """The keys by which a store finds an entry without decoding it."""

    kind: str
    account: str = ""
    id: str | None = None
    measurement: str | None = None
    debit: int | None = None

    @classmethod
    def of(cls, entry: Entry) -> "EntryKeys":
        """Return the keys of an entry; its kind is its tag on the wire."""
        match entry:
            case AccountOpened():
                return cls("open", entry.account)
            case Debit():
                return cls("debit", entry.account, entry.id, entry.measurement)
            case AnswerRecorded():
                return cls("answer", entry.account, debit=entry.debit)
            case FailureRecorded():
                return cls("failure")
            case QuarantineLifted():
                return cls("lift")
            case KeyRotated():
                return cls("rotate")
            case _:
                assert_never(entry)


def encode(entry: Entry) -> bytes:
    """The entry as the bytes that are hashed."""
    return _ENCODER.encode(entry)


def decode(body: bytes) -> Entry:
    """The entry that these bytes are; only what `encode` would write is one."""
    return _decode_exactly(_DECODER, body)


def decode_debit(body: bytes) -> Debit:
    """The debit that these bytes are."""
    return _decode_exactly(_DEBIT, body)


Kind = TypeVar("Kind")


def read_event_bytes(body: bytes) -> bytes:
    """The stored facts of a debit, and nothing else of it."""
    try:
        return bytes(_EVENT_BYTES.decode(body).facts)
    except msgspec.MsgspecError as error:
        raise BadEventEncoding(str(error), "check the ledger") from None


class _EventBytes(msgspec.Struct):
    facts: msgspec.Raw


def _decode_exactly(decoder: "msgspec.json.Decoder[Kind]", body: bytes) -> Kind:
    """What the bytes say, if they are written as this version would."""
    try:
        entry = decoder.decode(body)
    except (msgspec.MsgspecError, BadEventEncoding, ArithmeticError, RecursionError, ValueError) as error:
        raise BadEventEncoding(str(error), "read the ledger with the version that wrote it") from None
    if _ENCODER.encode(entry) != body:
        raise BadEventEncoding("it holds more, or other, than its fields", "read the ledger with the version that wrote it")
    return entry


def compute_hash(body: bytes) -> bytes:
    """The link that the next entry will hold."""
    return hashlib.sha256(body).digest()


def to_canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and without blanks: equal values give equal bytes.

    >>> to_canonical_json({"b": 1, "a": [0.5, None]})
    b'{"a":[0.5,null],"b":1}'
    """
    return msgspec.json.encode(value, order="sorted")


def hash_measurement(measurement: Mapping[str, Any]) -> str:
    """The hash that an id is bound to: of all that says what is measured, and nothing that says what is in the data."""
    return compute_hash(to_canonical_json(measurement)).hex()


def privacy_unit_of(measurement: Mapping[str, Any]) -> str:
    """Whose rows a measurement speaks of, and in which change.

    >>> privacy_unit_of({"unit": "id", "neighbours": "replace one unit"})
    'id: replace one unit'
    """
    return f"{measurement.get('unit')}: {measurement.get('neighbours')}"


_ENCODER = msgspec.json.Encoder(enc_hook=to_wire)
_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry, dec_hook=from_wire)
_DEBIT: msgspec.json.Decoder[Debit] = msgspec.json.Decoder(Debit, dec_hook=from_wire)
_EVENT_BYTES: msgspec.json.Decoder[_EventBytes] = msgspec.json.Decoder(_EventBytes)
