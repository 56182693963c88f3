"""The entries of a ledger, and how they, measurements and answers become bytes.

An entry is one line of JSON, fields in order, rationals as "n/d"; its hash is the SHA-256 of that line. Each entry holds the
hash of the one before it, so that an edit shows. No entry holds a time: no budget depends on a clock. The first entry holds
the ledger's identity, which tells two ledgers with equal accounts apart; those of earlier versions have none.

On the wire, kinds and fields have the names of the first version (`tag=`, `rename=`): they are hashed, and stay.
"""

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, assert_never

import msgspec

from discreet.accounting.currencies import Filter, parse_currency
from discreet.codec import from_wire, to_wire
from discreet.errors import BadEventEncoding
from discreet.ledger.account import AccountState
from discreet.ledger.quarantine import FailureKind
from discreet.units import AMONG, describe_condition, invariants_from_json

GENESIS = bytes(32)
"""What the first entry holds in place of the hash before it."""


class _Entry(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True):
    number: int
    previous: str
    identity: str | msgspec.UnsetType = msgspec.UNSET  # of the ledger, random; in its first entry alone


class _AccountEntry(_Entry, frozen=True, kw_only=True):
    account: str


class AccountOpened(_AccountEntry, frozen=True, tag="open", kw_only=True, rename={"delta_limit": "leak_limit"}):
    """An account was opened with this budget in this currency."""

    currency: str
    limit: Fraction
    delta_limit: Fraction
    delta: Fraction
    parent: str | None = None
    split: Literal["root"] | msgspec.UnsetType = msgspec.UNSET
    """Whose limits decide the share of δ that partition selection may use: the root's; absent, the account's own, as in
    accounts without a parent and in those that earlier versions opened."""

    def to_account(self, parent: AccountState | None) -> AccountState:
        """Return the account as it was opened."""
        budget = Filter(parse_currency(self.currency), self.limit, self.delta_limit)
        own_split = parent is not None and self.split is msgspec.UNSET
        return AccountState(self.account, budget, self.delta, parent, own_split=own_split).check_parent()

    @classmethod
    def of(cls, account: AccountState, number: int, previous: bytes) -> "AccountOpened":
        """Return the entry that opens an account."""
        budget = account.budget
        return cls(
            number=number, previous=previous.hex(), account=account.name, currency=budget.currency.name,
            limit=budget.limit, delta_limit=budget.delta_limit, delta=account.delta,
            parent=account.parent.name if account.parent else None,
            split=msgspec.UNSET if account.parent is None or account.own_split else "root",
        )  # fmt: skip


_DEBIT_FIELDS = {
    "encoded_event": "facts",
    "cost": "price",
    "delta": "leak",
    "delta_spent": "leaked",
    "certified_delta": "at",
    "unit": "about",
}


class Debit(_AccountEntry, frozen=True, tag="debit", kw_only=True, rename=_DEBIT_FIELDS):
    """A measurement was charged: its event, its cost, and what the account had spent after it."""

    id: str
    measurement: str  # its hash
    encoded_event: msgspec.Raw
    cost: Fraction  # in the account's currency
    delta: Fraction  # what it uses of the account's δ
    spent: Fraction
    delta_spent: Fraction
    certified_delta: Fraction = Fraction(0)  # the δ at which a plan was charged its certified ε
    unit: str | msgspec.UnsetType = msgspec.UNSET  # absent until a debit states one

    @property
    def privacy_unit(self) -> str:
        """The account's privacy unit and neighbouring relation after this debit; "" if none was stated."""
        return self.unit or ""


class WrittenDebit(_AccountEntry, frozen=True, tag="debit", kw_only=True, rename=_DEBIT_FIELDS):
    """A debit whose rationals are the texts that it holds. A check compares most of them without parsing."""

    id: str
    measurement: str
    encoded_event: msgspec.Raw
    cost: str
    delta: str
    spent: str
    delta_spent: str
    certified_delta: str
    unit: str | msgspec.UnsetType = msgspec.UNSET


class AnswerRecorded(_AccountEntry, frozen=True, tag="answer", kw_only=True):
    """The answer to a debited measurement, byte for byte."""

    debit: int
    answer: bytes


class FailureRecorded(_Entry, frozen=True, tag="failure", kw_only=True):
    """A query on a source failed. This belongs to no account: the same rows fail for all of them."""

    source: str
    failure: FailureKind


class QuarantineLifted(_Entry, frozen=True, tag="lift", kw_only=True):
    """The owner allowed queries on a source again; its failures are counted from 0."""

    source: str


class KeyRotated(_Entry, frozen=True, tag="rotate", kw_only=True):
    """From here on the ledger signs with a new key. Both keys, in base 64, signed this entry."""

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
    def of(cls, entry: "Entry | WrittenDebit") -> "EntryKeys":
        """Return the keys of an entry; its kind is its tag on the wire."""
        match entry:
            case Debit() | WrittenDebit():  # first, since most are
                return cls("debit", entry.account, entry.id, entry.measurement)
            case AccountOpened():
                return cls("open", entry.account)
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
    """Encode an entry as the bytes that are hashed."""
    return _ENCODER.encode(entry)


def decode(body: bytes) -> Entry:
    """Decode an entry. Only what `encode` would write is one.

    Raises:
        BadEventEncoding: if the bytes are no entry of this version.
    """
    return _decode_exactly(_DECODER, body)


def decode_written_debit(body: bytes) -> WrittenDebit | None:
    """Decode a debit except for its rationals: it is one that `encode` would write if each of them is a text that `to_wire`
    writes. Return None for everything else."""
    try:
        debit = _WRITTEN_DEBIT.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return debit if _ENCODER.encode(debit) == body else None


def decode_debit(body: bytes) -> Debit:
    """Decode an entry that must be a debit, as `decode` does."""
    return _decode_exactly(_DEBIT, body)


def read_event_bytes(body: bytes) -> bytes:
    """Return the encoded event of a debit, and decode nothing else of it."""
    try:
        return bytes(_EVENT_BYTES.decode(body).encoded_event)
    except msgspec.MsgspecError as error:
        raise BadEventEncoding(str(error), "check the ledger") from None


def read_parent(body: bytes) -> str | None:
    """Return the parent that an opening names, and decode nothing else of it; None if it names none or cannot be read."""
    try:
        return _PARENT.decode(body).parent
    except msgspec.MsgspecError:
        return None


class _Parent(msgspec.Struct):
    parent: str | None = None


class _EventBytes(msgspec.Struct, rename={"encoded_event": "facts"}):
    encoded_event: msgspec.Raw


Kind = TypeVar("Kind")


def _decode_exactly(decoder: "msgspec.json.Decoder[Kind]", body: bytes) -> Kind:
    try:
        entry = decoder.decode(body)
    except (msgspec.MsgspecError, BadEventEncoding, ArithmeticError, RecursionError, ValueError) as error:
        raise BadEventEncoding(str(error), "read the ledger with the version that wrote it") from None
    if _ENCODER.encode(entry) != body:
        raise BadEventEncoding("it differs from what its fields encode to", "read the ledger with the version that wrote it")
    return entry


def compute_hash(body: bytes) -> bytes:
    """Hash the bytes of an entry: the next entry holds this hash."""
    return hashlib.sha256(body).digest()


def to_canonical_json(value: Any) -> bytes:
    """Encode a value as JSON with sorted keys and without blanks: equal values give equal bytes.

    >>> to_canonical_json({"b": 1, "a": [0.5, None]})
    b'{"a":[0.5,null],"b":1}'
    """
    return msgspec.json.encode(value, order="sorted")


def encode_answer(answer: Mapping[str, Any]) -> bytes:
    """Encode an answer as the bytes that a ledger records and a certificate is checked against."""
    return to_canonical_json(answer)


def hash_measurement(measurement: Mapping[str, Any]) -> str:
    """Hash all that decides what is measured, and nothing of what is in the data. An id belongs to this hash."""
    return hashlib.sha256(to_canonical_json(measurement)).hexdigest()


def privacy_unit_of(measurement: Mapping[str, Any]) -> str:
    """Return the privacy unit and the neighbouring relation of a measurement, as one text.

    Invariants make it another relation, so that an account with them never mixes with another. Why they are public is no
    part of it.

    >>> privacy_unit_of({"unit": "id", "neighbours": "replace one unit"})
    'id: replace one unit'
    >>> privacy_unit_of({"unit": "id", "neighbours": "replace one unit", "invariants": [{"by": ["state"], "public": "law"}]})
    'id: replace one unit, among data sets with the same number of rows for each `state`'
    """
    relation = f"{measurement.get('unit')}: {measurement.get('neighbours')}"
    if "invariants" not in measurement:
        return relation
    return f"{relation}{AMONG}{describe_condition(invariants_from_json(measurement['invariants']))}"


_ENCODER = msgspec.json.Encoder(enc_hook=to_wire)
_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry, dec_hook=from_wire)
_DEBIT: msgspec.json.Decoder[Debit] = msgspec.json.Decoder(Debit, dec_hook=from_wire)
_WRITTEN_DEBIT: msgspec.json.Decoder[WrittenDebit] = msgspec.json.Decoder(WrittenDebit)
_PARENT: msgspec.json.Decoder[_Parent] = msgspec.json.Decoder(_Parent)
_EVENT_BYTES: msgspec.json.Decoder[_EventBytes] = msgspec.json.Decoder(_EventBytes)
