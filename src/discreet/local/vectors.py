"""Conformance vectors: what every client, in every language, must do with the same bytes of randomness.

Each vector is one line of JSON, with a `kind`:

- `hash`: SHA-256 and HMAC-SHA256 of `message` under `key`;
- `below`: the number that `below(bound)` makes of a tape, and how many bytes it takes; or the error `tape` if it ends;
- `stream`: the first bytes of the keyed stream of a secret and a label;
- `collection`: a collection as text, and its id. The vectors that follow name it by the id;
- `law`: for a tiny domain, the exact probability of each report under each value. A client shows it by listing all draws;
- `report`: from a value, a device's secret and a tape to the report, its messages and the bytes taken (16 are the nonce);
  or the error `tape` or `value`;
- `history`: what one device does on several occasions: messages, repeated ones too, refusals, and billionths of ε spent.

They are the same on every machine. Tapes are rich in bytes of ones, so that draws are rejected, and some end too early.
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from typing import Any

from discreet.errors import BadParameter, BadValues, BudgetExceeded
from discreet.local.apple import CountMeanSketch, HadamardCountMeanSketch, SequenceFragmentPuzzle
from discreet.local.client import Client
from discreet.local.collection import Collection, Lifetime, Per
from discreet.local.domains import Domain, Integers, Listed, Texts
from discreet.local.draws import KeyedDraws, TapeDraws, below
from discreet.local.mechanism import AnyMechanism, is_memoising
from discreet.local.numeric import BucketFlip, DuchiMean, OneBitMean, RoundedBit
from discreet.local.odds import odds_for_epsilon
from discreet.local.oracles import Direct, FixedHashed, Hadamard, Hashed, Projective, SetOracle, Subset, Unary
from discreet.local.rappor import BasicRappor, Rappor
from discreet.local.rappor_unknown import UnknownRappor
from discreet.local.store import MemoryStore
from discreet.local.wire import Form, Wire

REPORTS = 54
"""Report vectors of each mechanism below; with four of each kind there are more than 200 of it."""

TAPE_BYTES = 1 << 12

E = odds_for_epsilon(1)
E4 = odds_for_epsilon(4)
GAMMA = Fraction(1, 5)
NOISE = Fraction(1, 2), Fraction(1, 3), Fraction(3, 5)
SKETCHES = CountMeanSketch(Fraction(9), 2, 33, "f"), CountMeanSketch(Fraction(4), 3, 8, "w")


def list_mechanisms() -> dict[str, list[AnyMechanism]]:
    """List what is tested, by kind: small, ordinary, and with numbers at the edge of 32 and of 53 bits."""
    return {
        "direct": [
            Direct(2, Fraction(3)), Direct(4, Fraction(3, 2)), Direct(256, E), Direct(3, Fraction(2**53 - 5, 2)),
        ],
        "unary": [
            Unary.optimised(3, Fraction(3)), Unary.symmetric(5, Fraction(2)), Unary.optimised(64, E), Unary.symmetric(33, E),
        ],
        "subset": [
            Subset(5, Fraction(3), 2), Subset(4, Fraction(3, 2), 3), Subset.optimised(40, E), Subset(2**40, E, 3),
        ],
        "hashed": [
            Hashed(9, Fraction(2), 3), Hashed.optimised(1000, E4), Hashed.optimised(2**33, E),
            Hashed(2**31 - 1, Fraction(2**31), 2**31 - 1),
        ],
        "fixed hashed": [
            FixedHashed(9, Fraction(2), 3, 4, "salt"), FixedHashed(1000, E4, 53, 64, "2026"),
            FixedHashed(20, E, 3, 300, "é"), FixedHashed(2**33, E, 5, 7, ""),
        ],
        "hadamard": [Hadamard(3, Fraction(3)), Hadamard(8, E), Hadamard(2**33, E), Hadamard(2**51, Fraction(3, 2))],
        "projective": [
            Projective(7, Fraction(2), 2, 3), Projective.optimised(1000, E4), Projective.optimised(16384, E),
            Projective(40, Fraction(3), 10007, 3),
        ],
        "one-bit mean": [OneBitMean(1, Fraction(3)), OneBitMean(10, E4), OneBitMean(100, E), OneBitMean(2**40, Fraction(3))],
        "duchi mean": [DuchiMean(2, Fraction(3)), DuchiMean(10, E4), DuchiMean(100, E), DuchiMean(2**40, Fraction(3))],
        "rounded bit": [
            RoundedBit(2, 1, Fraction(3), GAMMA), RoundedBit(24, 6, E, GAMMA),
            RoundedBit(100, 100, E), RoundedBit(2**40, 2**20, Fraction(3), GAMMA),
        ],
        "bucket flip": [
            BucketFlip(3, 1, Fraction(2), GAMMA), BucketFlip(5, 4, Fraction(3, 2)),
            BucketFlip(70, 40, E, GAMMA), BucketFlip(2**33, 3, E, GAMMA),
        ],
        "rappor": [
            Rappor(8, 2, 4, *NOISE, "salt"), Rappor(16, 2, 3, Fraction(0), *NOISE[1:], "é"),
            Rappor(40, 3, 8, Fraction(2, 3), *NOISE[1:]), Rappor(33, 1, 2**33, Fraction(1, 3), Fraction(0), Fraction(1)),
        ],
        "basic rappor": [
            BasicRappor.of(2, *NOISE), BasicRappor.of(5, Fraction(2, 3), Fraction(1, 3), Fraction(3, 5)),
            BasicRappor.of(64, *NOISE), BasicRappor.of(33, *NOISE),
        ],
        "unknown rappor": [
            UnknownRappor(4, "_abc", 2, Rappor(16, 2, 8, *NOISE, "x"), BasicRappor.of(16, *NOISE)),
            UnknownRappor(3, "_aï", 1, Rappor(8, 1, 2, *NOISE, "y"), BasicRappor.of(3, *NOISE)),
            UnknownRappor(6, "_abcdef", 2, Rappor(33, 2, 5, *NOISE, "z"), BasicRappor.of(49, *NOISE)),
            UnknownRappor(2, "_\U0001f600", 1, Rappor(8, 1, 2, *NOISE, "w"), BasicRappor.of(2, *NOISE)),
        ],
        "count mean sketch": [
            CountMeanSketch(Fraction(9), 2, 2, "a"), CountMeanSketch(Fraction(9, 4), 5, 33, "é"),
            CountMeanSketch.for_epsilon(4, 64, 100, "b"), CountMeanSketch(Fraction(4), 2**33, 16, ""),
        ],
        "hadamard count mean sketch": [
            HadamardCountMeanSketch(Fraction(3), 2, 2, "a"), HadamardCountMeanSketch(E, 5, 64, "é"),
            HadamardCountMeanSketch(E4, 100, 2**16, "b"), HadamardCountMeanSketch(Fraction(3, 2), 2**33, 16, ""),
        ],
        "sequence fragment puzzle": [
            SequenceFragmentPuzzle(4, "_abc", *SKETCHES), SequenceFragmentPuzzle(6, "_anive", *SKETCHES),
            SequenceFragmentPuzzle(2, "ïx", *SKETCHES, 1, 7), SequenceFragmentPuzzle(2, "_\U0001f600", *SKETCHES, 2, 1),
        ],
    }  # fmt: skip


def list_laws() -> list[SetOracle]:
    """List mechanisms whose reports can all be listed."""
    return [
        Direct(2, Fraction(3)), Direct(4, Fraction(3, 2)),
        Unary.optimised(3, Fraction(3)), Unary.symmetric(2, Fraction(3, 2)), Unary(2, Fraction(2), Fraction(1, 5)),
        Subset(4, Fraction(3), 2), Subset(4, Fraction(3, 2), 3), Subset(3, Fraction(2), 1),
        Hashed(3, Fraction(2), 2), Hashed(4, Fraction(3, 2), 3),
        FixedHashed(4, Fraction(2), 3, 4, "salt"),
        Hadamard(2, Fraction(3)), Hadamard(4, Fraction(5, 3)),
        Projective(7, Fraction(2), 2, 3), Projective(4, Fraction(3, 2), 3, 2),
    ]  # fmt: skip


def choose_domain(mechanism: AnyMechanism) -> Domain:
    """Return a domain of the mechanism's size: a list with `other` and `missing` while it is short, else integers."""
    values = mechanism.values
    if values is None:
        return Texts()
    if values == 2:
        return Listed(("no", "yes"), other=None)
    if values <= 64:
        return Listed(tuple(f"wärt{place}" for place in range(values - 2)), missing="none")
    return Integers(-7, values - 9, missing="none")


def choose_collection(mechanism: AnyMechanism, per: Per = "report", name: str = "vectors") -> Collection:
    """Return a collection of a mechanism, with a budget for two reports."""
    life = Lifetime.of(mechanism, 10**6, per)
    return Collection(name, 1, mechanism, choose_domain(mechanism), Lifetime(2 * life.cost + 1, life.cost, per), "person")


def list_vectors() -> Iterator[dict[str, Any]]:
    """List all vectors, one by one.

    >>> next(list_vectors())["kind"]
    'hash'
    """
    yield from _list_hashes()
    yield from _list_bounds()
    for oracle in list_laws():
        collection = choose_collection(oracle)
        yield describe_collection(collection)
        yield {"kind": "law", "collection": collection.id, "law": list_probabilities(oracle)}
    for mechanisms in list_mechanisms().values():
        for place, mechanism in enumerate(mechanisms):
            once = choose_collection(mechanism, "once")
            yield describe_collection(once)
            yield from list_reports(once, REPORTS)
            yield describe_history(once, None)
            for per in list_promises(mechanism):
                collection = choose_collection(mechanism, per)
                yield describe_collection(collection)
                yield describe_history(collection, None if place % 2 else collection.lifetime.cost)
    direct = Direct(10, Fraction(3))
    numbers = Collection("numbers", 1, direct, Integers(-4, 5), Lifetime.of(direct, 2, "once"))
    yield describe_collection(numbers)
    yield from list_numbers(numbers, (1.0, -0.0, 5.0, 1e300, -1e300, 2.5, -4.5, 1))


def list_numbers(collection: Collection, values: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Return report vectors of numbers as JSON may write them: 1.0 is the integer 1, and 2.5 is none."""
    stream = Seeded(f"numbers {collection.id}")
    for value in values:
        secret, tape = stream.take(32), stream.take(64)
        vector = {"kind": "report", "collection": collection.id, "value": value, "secret": secret.hex(), "tape": tape.hex()}
        yield vector | run_client(collection, value, secret, tape)


def list_promises(mechanism: AnyMechanism) -> Iterator[Per]:
    """List by what a lifetime of a mechanism may be counted, besides `once`."""
    if not is_memoising(mechanism) or mechanism.instantaneous_event() is not None:
        yield "report"
    if is_memoising(mechanism):
        with suppress(BadParameter):
            mechanism.permanent_event()
            yield "state"


def write_vectors(vectors: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Write vectors as lines of JSON.

    >>> list(write_vectors([{"kind": "below", "bound": 3}]))
    ['{"bound":3,"kind":"below"}']
    """
    for vector in vectors:
        yield json.dumps(vector, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def describe_collection(collection: Collection) -> dict[str, Any]:
    """Return the vector of a collection."""
    return {"kind": "collection", "text": collection.to_json().decode(), "id": collection.id}


def list_probabilities(mechanism: SetOracle) -> list[list[Any]]:
    """Return [value, report, probability] for all values and reports."""
    return [
        [value, list(report), str(mechanism.probability(report, base, value))]
        for value in range(mechanism.values)
        for report, base in mechanism.base_reports()
    ]


def list_reports(collection: Collection, count: int) -> Iterator[dict[str, Any]]:
    """Return report vectors of a collection; of five tapes one ends a byte too early, and one with the last byte taken."""
    stream = Seeded(f"reports {collection.id}")
    values = list_values(collection, stream)
    for place in range(count):
        value, secret, tape = values[place % len(values)], stream.take(32), stream.tape(place)
        taken = run_client(collection, value, secret, tape).get("consumed", 32)
        short = tape[: taken + place % 5 - 1]
        vector = {"kind": "report", "collection": collection.id, "value": value, "secret": secret.hex(), "tape": short.hex()}
        yield vector | run_client(collection, value, secret, short)


def list_values(collection: Collection, stream: "Seeded") -> list[str | int | None]:
    """Return values at the edges of a domain and outside of it, and some in between."""
    domain, size = collection.domain, collection.mechanism.values
    if isinstance(domain, Texts):
        return ["", "a", None, "naïve", "\U0001f600", "x" * 100, *(stream.take(6).hex() for _ in range(5))]
    if isinstance(domain, Integers):
        inner = [below(stream, size - 1) + domain.low for _ in range(6)]
        return [domain.low, domain.high, None, domain.low - 1, domain.high + 1, -(2**53) + 1, 2**53 - 1, *inner]
    labels = domain.labels
    outside = ["nowhere"] if domain.other is None else ["nowhere", "", "wärt", 3]
    return [labels[0], labels[-1], None, *outside, *(labels[below(stream, len(labels))] for _ in range(6))]


def run_client(collection: Collection, value: Any, secret: bytes, tape: bytes) -> dict[str, Any]:
    """Return what a new device with this secret does with a tape."""
    draws = TapeDraws(tape)
    client = Client(collection, MemoryStore(secret), draws=draws)
    try:
        message = client.report(value, "once")
    except (BadParameter, BadValues) as error:
        return {"error": _code(error)}
    nonce, report = client.wire.read(message)
    cbor = Wire(collection, Form.CBOR).write(nonce, report)
    return {"report": list(report), "consumed": draws.consumed, "json": message.decode(), "cbor": cbor.hex()}


def describe_history(collection: Collection, limit: int | None) -> dict[str, Any]:
    """Return what a device does on occasions, some of which come back, until its budget is spent."""
    stream = Seeded(f"history {collection.id}")
    secret, values = stream.take(32), list_values(collection, stream)[:2]
    conditional = limit is not None and collection.lifetime.per == "state"
    store, steps = MemoryStore(secret, limit, conditional=conditional), list[dict[str, Any]]()
    for place, occasion in enumerate(("a", "a", "__proto__", "b", "__proto__", "c", "a")):
        draws = TapeDraws(stream.tape(place))
        client = Client(collection, store, draws=draws)
        step: dict[str, Any] = {"occasion": occasion, "value": values[place % 2]}
        try:
            step["json"] = client.report(step["value"], occasion).decode()
        except (BudgetExceeded, BadParameter) as error:
            step["error"] = _code(error)
        steps.append(step | {"tape": draws.tape[: draws.consumed].hex(), "spent": int(client.spent.epsilon * 10**9)})
    named = {"kind": "history", "collection": collection.id, "secret": secret.hex(), "limit": limit, "steps": steps}
    return named | ({"conditional": True} if conditional else {})


class Seeded:
    """The bytes that vectors are made of."""

    def __init__(self, label: str) -> None:
        self._stream = KeyedDraws(sha256(b"discreet.local vectors").digest(), label.encode())

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        return self._stream.take(count)

    def tape(self, place: int) -> bytes:
        """Return a tape: random, all zeros, or after the nonce with every second byte, or some bytes at first, all ones."""
        tape = self.take(TAPE_BYTES)
        match place % 6:
            case 0:
                return bytes(TAPE_BYTES)
            case 1 | 2:
                return tape[:16] + bytes(byte | (255 if other & 1 else 0) for byte, other in pairwise(tape))
            case 3:
                return tape[:16] + b"\xff" * 21 + tape
        return tape


def _list_hashes() -> Iterator[dict[str, Any]]:
    stream = Seeded("hashes")
    for length in (0, 1, 31, 32, 55, 56, 63, 64, 65, 119, 120, 128, 1000):
        key, message = stream.take(length), stream.take(length)
        digests = {"sha256": sha256(message).hexdigest(), "hmac": hmac.digest(key, message, "sha256").hex()}
        yield {"kind": "hash", "key": key.hex(), "message": message.hex()} | digests
    for length in (32, 40, 100):
        secret, label = stream.take(length), stream.take(length)
        taken = KeyedDraws(secret, label).take(100).hex()
        yield {"kind": "stream", "secret": secret.hex(), "label": label.hex(), "bytes": taken}


def _list_bounds() -> Iterator[dict[str, Any]]:
    stream = Seeded("bounds")
    edges = {2**power + more for power in (1, 7, 8, 9, 16, 24, 31, 32, 33, 40, 48, 52, 53) for more in (-1, 0, 1)}
    for bound in sorted(edge for edge in edges if edge <= 2**53):
        size = ((bound - 1).bit_length() + 7) // 8
        exact = [(bound - 1).to_bytes(size, "big"), bound.to_bytes(8, "big")[8 - size :] + bytes(size), b"\xff" * size]
        for tape in (*exact, stream.take(64), b"\xff" * (3 * size) + stream.take(64), b""):
            draws = TapeDraws(tape)
            vector: dict[str, Any] = {"kind": "below", "bound": bound, "tape": tape.hex()}
            try:
                yield vector | {"number": below(draws, bound), "consumed": draws.consumed}
            except BadParameter:
                yield vector | {"error": "tape"}


def _code(error: Exception) -> str:
    """The code by which every client names a refusal."""
    if isinstance(error, BudgetExceeded):
        return "budget"
    return "value" if isinstance(error, BadValues) else str(getattr(error, "name", "value"))
