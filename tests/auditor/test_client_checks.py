"""Mutants of clients that keep ε in a single report of JSON and break a promise elsewhere: each is refuted by what it
breaks, and the correct client is not."""

from fractions import Fraction
from random import Random
from typing import Any

import pytest

from discreet.auditor.client_checks import (
    Check,
    audit_collection,
    choose_pairs,
    compare_nonces,
    run_checks,
)
from discreet.auditor.clients import DevicePlayer, change_one, list_games
from discreet.auditor.finding import Finding
from discreet.errors import BadParameter
from discreet.local import Collection, Direct, Integers, Lifetime
from discreet.local.client import Client
from discreet.local.mechanism import State, draw_report
from discreet.local.store import Entry, Sent
from discreet.local.wire import NONCE_BYTES, Form
from tests.auditor.test_clients import RAPPOR, collect
from tests.support.rounds import at_night

DIRECT = Direct(4, Fraction(3))
COLLECTION = collect(DIRECT, 11)
CONFIDENCE = 1 - Fraction(1, 10**9)
VALUES = ["v0", "v1", "v2", "v3"]


class Hooked(Client):
    """A client whose steps can be replaced."""

    def report(self, value: Any, occasion: str) -> bytes:
        with self.store.transaction() as state:
            entry, index = state.collections.setdefault(self.id, Entry()), self.collection.domain.index(value)
            if occasion not in entry.sent or self.redraws(index, entry, occasion):
                nonce = self._draws.take(NONCE_BYTES)
                memo, report = draw_report(DIRECT, index, self._draws, bytes.fromhex(state.secret), self.id)
                if occasion not in entry.sent:
                    self._charge(state, entry, memo)
                report = self.change(index, entry, report)
                entry.sent[occasion] = Sent(self.mark(index, bytearray(nonce), report).hex(), report)
            sent = entry.sent[occasion]
        assert sent is not None
        return self.wire.write(bytes.fromhex(sent.nonce), self.write(index, sent.report))

    def redraws(self, index: int, entry: Entry, occasion: str) -> bool:
        return False

    def change(self, index: int, entry: Entry, report: tuple[int, ...]) -> tuple[int, ...]:
        return report

    def mark(self, index: int, nonce: bytearray, report: tuple[int, ...]) -> bytearray:
        return nonce

    def write(self, index: int, report: tuple[int, ...]) -> tuple[int, ...]:
        return report


class NoBudget(Hooked):
    def _charge(self, state: Any, entry: Any, memo: State) -> None:
        pass


class ParityInNonce(Hooked):
    def mark(self, index: int, nonce: bytearray, report: tuple[int, ...]) -> bytearray:
        nonce[15] = nonce[15] & 0xFE | index & 1
        return nonce


class ValueAcrossBytes(Hooked):
    def mark(self, index: int, nonce: bytearray, report: tuple[int, ...]) -> bytearray:
        nonce[15] = nonce[15] & 0xF0 | nonce[0] + index & 15
        return nonce


class TruthOfReportInNonce(Hooked):
    """The nonce alone is uniform enough: with the report it says whether that is the truth."""

    def mark(self, index: int, nonce: bytearray, report: tuple[int, ...]) -> bytearray:
        nonce[3] = nonce[3] & 0xFE | (report[0] == index)
        return nonce


class SameNonce(Hooked):
    def mark(self, index: int, nonce: bytearray, report: tuple[int, ...]) -> bytearray:
        return bytearray(16)


class TruthInCbor(Hooked):
    def write(self, index: int, report: tuple[int, ...]) -> tuple[int, ...]:
        return (index,) if self.wire.form is Form.CBOR else report


class RedrawForAnotherValue(Hooked):
    """It remembers for which value a report was drawn."""

    def mark(self, index: int, nonce: bytearray, report: tuple[int, ...]) -> bytearray:
        self.__dict__.setdefault("values", {})[nonce.hex()] = index
        return nonce

    def redraws(self, index: int, entry: Entry, occasion: str) -> bool:
        sent = entry.sent[occasion]
        return sent is not None and self.__dict__.get("values", {}).get(sent.nonce, index) != index


class TruthLater(Hooked):
    def change(self, index: int, entry: Entry, report: tuple[int, ...]) -> tuple[int, ...]:
        return (index,) if len(entry.sent) >= 4 else report


class TruthInTwo(Hooked):
    def change(self, index: int, entry: Entry, report: tuple[int, ...]) -> tuple[int, ...]:
        if len(entry.sent) != 1:
            return report
        (first,) = (sent.report[0] for sent in entry.sent.values() if sent is not None)
        return ((first + index) % 4,)


class TruthOfOneValue(Hooked):
    def change(self, index: int, entry: Entry, report: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) if index == 1 else report


def audit(kind: type[Client], samples: int) -> dict[str, Finding | Check]:
    return audit_collection(DevicePlayer(COLLECTION, kind), reports=10, confidence=CONFIDENCE, samples=samples)


by_day_and_night = pytest.mark.parametrize("samples", [9_000, at_night(24_000)])


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (NoBudget, "budget"),
        (ParityInNonce, "nonces"),
        (ValueAcrossBytes, "nonces"),
        (TruthOfReportInNonce, "nonces"),
        (SameNonce, "nonces"),
        (TruthInCbor, "messages"),
        (RedrawForAnotherValue, "retries"),
    ],
)
def test_what_a_correct_client_never_does_is_found(kind: type[Client], shown: str) -> None:
    found = {check.name: check for check in run_checks(DevicePlayer(COLLECTION, kind), VALUES, 1e-9)}
    for check in found.values():
        print(check)
    assert [name for name, check in found.items() if check.violation] == [shown]


@pytest.mark.parametrize("kind", [Client, Hooked])
def test_a_correct_client_passes_all_checks(kind: type[Client]) -> None:
    assert not any(check.violation for check in run_checks(DevicePlayer(COLLECTION, kind), VALUES, 1e-9))


@by_day_and_night
@pytest.mark.parametrize(
    ("kind", "shown"),
    [(TruthLater, "report 10 of 10"), (TruthInTwo, "report 2 of 2"), (TruthOfOneValue, "one report")],
)
def test_games_find_the_truth_that_is_told_later_together_or_for_one_value(
    kind: type[Client], shown: str, samples: int
) -> None:
    found = audit(kind, samples)
    refuted = [name for name, each in found.items() if each.violation]
    print(refuted)
    assert any(name.startswith(shown) for name in refuted)


@by_day_and_night
def test_games_of_correct_clients_find_nothing(samples: int) -> None:
    assert not any(each.violation for each in audit(Hooked, samples).values())


def test_every_value_is_in_a_game() -> None:
    for size in (2, 3, 4, 15, 16):
        mechanism = Direct(size, Fraction(3))
        collection = Collection("numbers", 1, mechanism, Integers(0, size - 1), Lifetime.of(mechanism, 3))
        assert {value for pair in choose_pairs(collection) for value in pair} == set(range(size))
    mechanism = Direct(1000, Fraction(3))
    large = Collection("numbers", 1, mechanism, Integers(0, 999), Lifetime.of(mechanism, 3))
    drawn = {value for _ in range(8) for pair in choose_pairs(large) for value in pair}
    assert {0, 999} < drawn
    assert len(drawn) > 40, "other values are drawn each time"


def test_games_that_change_one_report_are_for_fresh_noise() -> None:
    player = DevicePlayer(collect(RAPPOR, 20, "report"))
    with pytest.raises(BadParameter, match="permanent"):
        change_one(player, "v0", "v1", 1, 2)
    once = collect(DIRECT, 2, "once")
    assert [game.name for game in list_games(DevicePlayer(once), "v0", "v1")] == ["one report", "retries", "averaging"]


def make_nonces(count: int, seed: int) -> list[str]:
    draws = Random(seed)
    return [draws.randbytes(16).hex() for _ in range(count)]


def test_comparisons_of_nonces_err_as_rarely_as_stated() -> None:
    """At α = 0.2 for each of 60 comparisons, more than 30 errors have a probability below 1e-6 if the bound holds."""
    errors = sum(
        compare_nonces(make_nonces(60, 2 * seed), make_nonces(60, 2 * seed + 1), 0.2) is not None for seed in range(60)
    )
    assert errors <= 30


def test_nonces_that_are_not_uniform_but_tell_nothing_pass() -> None:
    """Version 4 of UUIDs has fixed bits."""
    nonces = [nonce[:12] + "4" + nonce[13:] for nonce in make_nonces(800, 1)]
    assert compare_nonces(nonces[:400], nonces[400:], 0.01) is None
    assert compare_nonces(nonces[:400], make_nonces(400, 2), 1e-9) is not None
