"""A collection: what is asked, how it is protected, and what it may cost a device for life, under one hash.

**Theory of operation.** The operator writes a collection once, as canonical JSON: keys in order, no spaces, integers alone,
rationals as "n/d". The SHA-256 of these bytes is its id. Clients are shipped with the id (they pin it), so a server that
delivers the collection cannot raise ε, shrink the domain or ask again under another name. Any change is another collection,
with memoised noise and an account entry of its own.

**Lifetime.** Costs are integers, in billionths of ε, rounded up when the collection is made: a client only adds them.
What a report costs depends on what the operator promises (`Lifetime.per`):

- `report`: every report costs the same. Holds for any two histories of values.
- `once`: a device reports once in its life. Holds for any two values.
- `state`: a memoising mechanism pays for each state that it has not reported before. **This holds only between histories
  with the same pattern of equal states over time**: when a value changes, and when it comes back, is not protected.
"""

import json
import re
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from math import ceil, inf
from typing import Any, Literal, TypeAlias

import msgspec

from discreet._numbers import Number, check_int, format_rational, read_decimal
from discreet.accounting.pure import pure
from discreet.codec import from_wire, to_wire
from discreet.errors import BadParameter, DiscreetError
from discreet.local.apple import CountMeanSketch, HadamardCountMeanSketch, SequenceFragmentPuzzle
from discreet.local.domains import Domain, Integers, Listed, is_text
from discreet.local.draws import MAX_MODULUS
from discreet.local.mechanism import AnyMechanism, is_memoising
from discreet.local.numeric import BucketFlip, DuchiMean, OneBitMean, RoundedBit
from discreet.local.oracles import Direct, FixedHashed, Hadamard, Hashed, Projective, Subset, Unary
from discreet.local.rappor import BasicRappor, Rappor
from discreet.local.rappor_unknown import UnknownRappor
from discreet.local.store import BILLION

FORMAT = 1
"""The version of the layout below; clients refuse any other."""

MECHANISMS: dict[str, Callable[..., Any]] = {
    "direct": Direct,
    "unary": Unary,
    "subset": Subset,
    "hashed": Hashed,
    "fixed hashed": FixedHashed,
    "hadamard": Hadamard,
    "projective": Projective,
    "one-bit mean": OneBitMean,
    "duchi mean": DuchiMean,
    "rounded bit": RoundedBit,
    "bucket flip": BucketFlip,
    "rappor": Rappor,
    "basic rappor": BasicRappor,
    "unknown rappor": UnknownRappor,
    "count mean sketch": CountMeanSketch,
    "hadamard count mean sketch": HadamardCountMeanSketch,
    "sequence fragment puzzle": SequenceFragmentPuzzle,
}
"""The mechanisms that a collection may name, by tag."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a collection may be called: the name stands in files, tables and logs."""

Per: TypeAlias = Literal["report", "once", "state"]

CONDITIONS: dict[str, str] = {
    "report": "any two histories of values",
    "once": "any two values; a device reports once",
    "state": "histories with the same pattern of equal states over time; when a value changes is not protected",
}
"""Between what the lifetime ε holds, in words."""


class Lifetime(msgspec.Struct, frozen=True):
    """What a device may spend on a collection in its life, in billionths of ε.

    >>> from fractions import Fraction
    >>> life = Lifetime.of(Direct(4, Fraction(3)), 10)
    >>> life.cost, life.limit, life.reports
    (1098612289, 10000000000, 9)
    """

    limit: int
    cost: int
    per: Per = "report"

    @classmethod
    def of(cls, mechanism: AnyMechanism, epsilon: Number, per: Per = "report") -> "Lifetime":
        """Allow a device ε for life."""
        exact = read_decimal(epsilon, "epsilon")
        return cls(int(exact * BILLION), least_cost(mechanism, per), per)

    def __post_init__(self) -> None:
        check_int(self.limit, "epsilon", 0)
        check_int(self.cost, "cost", 1)
        if self.per not in CONDITIONS:
            raise BadParameter("per", repr(self.per), "not a way to count", f"give one of {', '.join(CONDITIONS)}")
        if self.cost > self.limit:
            raise BadParameter(
                "epsilon", format_rational(self.epsilon), f"less than ε = {self.cost / BILLION} of one report",
                "raise it, or take a mechanism of a smaller ε",
            )  # fmt: skip
        if self.limit >= MAX_MODULUS:
            raise BadParameter("epsilon", format_rational(self.epsilon), "no protection", "give one below 9000000")

    @property
    def epsilon(self) -> Fraction:
        """ε for life."""
        return Fraction(self.limit, BILLION)

    @property
    def reports(self) -> int:
        """How many reports, or states, the budget pays for."""
        return 1 if self.per == "once" else self.limit // self.cost

    @property
    def condition(self) -> str:
        """Between what ε holds, in words."""
        return CONDITIONS[self.per]


class Collection(msgspec.Struct, frozen=True):
    """What is asked of every device, as one value with a hash.

    >>> from fractions import Fraction
    >>> from discreet.local.domains import Listed
    >>> mechanism = Direct(3, Fraction(3))
    >>> colours = Collection("colours", 1, mechanism, Listed(("red", "green")), Lifetime.of(mechanism, 10))
    >>> colours.id[:16], colours == Collection.read(colours.to_json())
    ('b479522125e68fd8', True)
    """

    name: str
    version: int
    mechanism: Any
    domain: Domain
    lifetime: Lifetime
    unit: str = "device"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise BadParameter(
                "name", ascii(self.name)[:60], "not a name",
                "give up to 100 letters, digits, '-', '_' and '.', the first a letter or a digit",
            )  # fmt: skip
        if not is_text(self.unit) or not 0 < len(self.unit) <= 200 or not self.unit.isprintable():
            raise BadParameter("unit", ascii(self.unit)[:60], "not the name of a unit", "give up to 200 letters on one line")
        check_int(self.version, "version", 1)
        if type(self.mechanism) not in MECHANISMS.values():
            raise BadParameter(
                "mechanism",
                type(self.mechanism).__name__,
                "not one that clients know",
                f"take one of {', '.join(MECHANISMS)}",
            )
        for name, wanted in (("domain", Domain), ("lifetime", Lifetime)):
            if not isinstance(given := getattr(self, name), wanted):
                kind = f"of type {type(given).__name__}"
                advice = "give Listed, Integers or Texts" if name == "domain" else "give Lifetime.of(mechanism, epsilon)"
                raise BadParameter(name, kind, f"not a {name}", advice)
        if self.mechanism.values != self.domain.size:
            raise BadParameter(
                "domain", f"of {self.domain.size or 'any'} values", f"the mechanism has {self.mechanism.values or 'any'}",
                "count `other` and `missing` too, or take `Texts` for a mechanism that hashes texts",
            )  # fmt: skip
        if self.lifetime.cost < (least := least_cost(self.mechanism, self.lifetime.per)):
            raise BadParameter("cost", self.lifetime.cost, f"a {self.lifetime.per} costs {least}", "use Lifetime.of")
        check_integers(to_builtins(self))

    @classmethod
    def read(cls, text: str | bytes, pinned: str | None = None) -> "Collection":
        """Read a collection; with `pinned`, refuse every other than the one of that id.

        Raises:
            BadParameter: the text is no collection, holds more than its fields, or is not the pinned one.
        """
        try:
            fields = json.loads(text, object_pairs_hook=_reject_duplicate_keys, parse_float=_reject, parse_constant=_reject)
            found = _from_builtins(cls, fields)
            same = found.to_json() == to_json(fields)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ArithmeticError, DiscreetError) as error:
            reason = f"it cannot be read ({error})" if isinstance(error, DiscreetError) else "it cannot be read"
            raise BadParameter("collection", "no collection", reason, "write it with Collection.to_json") from None
        if not same:
            raise BadParameter("collection", "no collection", "it holds more than its fields", "use Collection.to_json")
        if pinned is not None and found.id != pinned:
            raise BadParameter("collection", found.id, "not the one that this client is pinned to", f"give {pinned}")
        return found

    def to_json(self) -> bytes:
        """Return the canonical JSON, whose SHA-256 is the id."""
        return to_json(to_builtins(self))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the collection leaves unprotected: values of which the client can make no report, so that silence shows them.

        >>> from fractions import Fraction
        >>> from discreet.local.domains import Integers
        >>> direct = Direct(24, Fraction(3))
        >>> Collection("hours", 1, direct, Integers(0, 23), Lifetime.of(direct, 2)).warnings
        ('A device without a value cannot report, and its silence shows that. Declare `missing`.',)
        """
        found = []
        if isinstance(self.domain, Integers) and self.domain.missing is None:
            found.append("A device without a value cannot report, and its silence shows that. Declare `missing`.")
        if isinstance(self.domain, Listed) and self.domain.other is None:
            found.append("A value that is not listed cannot be reported, and silence shows that. Declare `other`.")
            if self.domain.missing is None:
                found.append("A device without a value cannot report, and its silence shows that. Declare `missing`.")
        return tuple(found)

    @property
    def id(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return sha256(self.to_json()).hexdigest()


def least_cost(mechanism: AnyMechanism, per: Per) -> int:
    """Return what a report, or a state, costs at least: its pure ε in billionths, rounded up.

    With memo, `report` counts the fresh step on any permanent state. **Proof.** Given the permanent states, reports are
    independent; each is at most e^ε times likelier under one state than under another, so T of them at most e^{Tε} times.
    Averaging over the permanent noise of either history keeps that.

    Raises:
        BadParameter: no ε holds.
    """
    event = mechanism.event()
    if per == "state":
        if not is_memoising(mechanism):
            raise BadParameter("per", "'state'", "this mechanism has no permanent noise", "count every report")
        event = mechanism.permanent_event()
    elif per == "report" and is_memoising(mechanism):
        fresh = mechanism.instantaneous_event()
        if fresh is None:
            raise BadParameter(
                "per", "'report'", "permanent noise alone has no ε when values change",
                "count 'once', or 'state' with its condition",
            )  # fmt: skip
        event = fresh
    epsilon = pure(event)
    if epsilon == inf:
        raise BadParameter("mechanism", type(mechanism).__name__, "has no pure ε", "take one that has")
    return ceil(epsilon * BILLION)


def to_builtins(collection: Collection) -> dict[str, Any]:
    """Return a collection as plain dictionaries, lists, texts and integers."""
    plain: dict[str, Any] = msgspec.to_builtins(collection, enc_hook=to_wire)
    return plain | {"format": FORMAT}


def to_json(plain: Any) -> bytes:
    """Write canonical JSON: sorted keys, no spaces, no escapes but those that JSON demands; as RFC 8785 for what it holds.

    >>> to_json({"b": 1, "a": "é"}).decode()
    '{"a":"é","b":1}'
    """
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_integers(plain: Any) -> None:
    """Refuse integers that a client in JavaScript would round."""
    if isinstance(plain, dict):
        plain = list(plain.values())
    if isinstance(plain, list | tuple):
        for part in plain:
            check_integers(part)
    elif isinstance(plain, int) and abs(plain) >= MAX_MODULUS:
        raise BadParameter("collection", plain, "2**53 or more, which not every client can hold", "take smaller numbers")


def _from_builtins(kind: type[Collection], fields: dict[str, Any]) -> Collection:
    """Build a collection from plain values, strictly."""
    if fields["format"] != FORMAT or type(fields["format"]) is not int:
        raise BadParameter("format", fields["format"], f"this version reads {FORMAT}", "use the version that wrote it")
    mechanism = msgspec.convert(fields["mechanism"], MECHANISMS[fields["mechanism"]["type"]], dec_hook=from_wire)
    return kind(
        fields["name"], fields["version"], mechanism, msgspec.convert(fields["domain"], Domain),
        msgspec.convert(fields["lifetime"], Lifetime), fields["unit"],
    )  # fmt: skip


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields as a dict; refuse one that is given twice, which could be read either way."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a field is given twice")
    return dict(pairs)


def _reject(text: str) -> None:
    """Refuse numbers with a point or an exponent: clients could round them differently."""
    raise ValueError(text)
