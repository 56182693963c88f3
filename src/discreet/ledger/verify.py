"""`verify`: a certificate's claims derived again, and said plainly: what is proven, and what has to be trusted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from discreet import codec
from discreet.errors import BadFact, BadParameter, BudgetExceeded
from discreet.ledger.book import Ledger
from discreet.ledger.certificate import answer_bytes, guarantee, price_of, read_certificate, read_entries, words
from discreet.ledger.check import SLACK, check
from discreet.ledger.entry import Debit, Opened, canonical, encode, hash_of, measurement_hash
from discreet.ledger.keys import fingerprint, verified

ALWAYS_TRUSTED = (
    "that the software drew the noise that the facts state, from the data that the owner meant",
    "that the bounds, the unit and the policy describe the data's people rightly",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim, and whether it holds."""

    claim: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings, and what no certificate can prove."""

    findings: tuple[Finding, ...]
    trusted: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every claim does."""
        return all(finding.holds for finding in self.findings)


def verify(found: Any, *, public: str | None = None, ledger: Ledger | None = None) -> Verdict:
    """Check a certificate by itself; with a public key, that it is that key's; with the ledger, that it is in it."""
    stated = read_certificate(found)
    opened, debit = read_entries(stated)
    findings = list(_signed(stated, public))
    try:
        findings += _consistent(stated, opened, debit)
    except (BadFact, BadParameter):
        findings.append(Finding("it states a budget and facts that are possible", False))
    if ledger is not None:
        findings += _in_ledger(stated, opened, debit, ledger)
    trusted = list(ALWAYS_TRUSTED)
    if public is None:
        trusted.append(f"that key {fingerprint(stated['public_key'])} belongs to whom you think (give --key)")
    if ledger is None:
        trusted.append("that the ledger holds this entry, and only this answer for it (give --ledger)")
    return Verdict(tuple(findings), tuple(trusted))


def _signed(stated: dict[str, Any], public: str | None) -> Iterator[Finding]:
    unsigned = {name: value for name, value in stated.items() if name != "signature"}
    signed = verified(stated["public_key"], stated["signature"], canonical(unsigned))
    yield Finding("the signature is of exactly this certificate", signed)
    if public is not None:
        yield Finding("it was made with the given key", stated["public_key"] == public)


def _consistent(stated: dict[str, Any], opened: Opened, debit: Debit) -> Iterator[Finding]:
    """What follows from the certificate alone."""
    yield Finding("the debit is of the account", debit.account == opened.account)
    yield Finding("the question, policy and noise are those that were paid for", _same_measurement(stated, debit))
    yield Finding("the facts are those that were paid for", _facts(stated) == bytes(debit.facts))
    yield Finding("the facts cost what was charged", _paid(opened, debit))
    yield Finding("the stated price is the price of the facts", _priced(stated, opened, debit))
    yield Finding("the guarantee says no more than the facts prove", _promised(stated["guarantee"], opened, debit))


def _in_ledger(stated: dict[str, Any], opened: Opened, debit: Debit, ledger: Ledger) -> Iterator[Finding]:
    with ledger.store.reading() as pages:
        held = [pages.hash_at(entry.number) == hash_of(encode(entry)) for entry in (opened, debit)]
        answer = pages.answer(debit.number) if held[1] else None
    yield Finding("the entry is in the ledger", all(held))
    yield Finding("the answer is the one that the ledger recorded for it", answer == answer_bytes(stated["release"]))
    yield Finding("the ledger's chain and sums hold", check(ledger).holds)


def _same_measurement(stated: dict[str, Any], debit: Debit) -> bool:
    return measurement_hash(stated["measurement"]) == debit.measurement


def _facts(stated: dict[str, Any]) -> bytes | None:
    try:
        return codec.encode(codec.decode(msgspec.json.encode(stated["facts"])))
    except BadFact:
        return None


def _paid(opened: Opened, debit: Debit) -> bool:
    account = opened.fresh(None)
    try:
        price, leak = account.charge(codec.decode(bytes(debit.facts)), debit.at)
    except (BadFact, BudgetExceeded):
        return False
    within = debit.spent <= opened.limit and debit.leaked <= opened.leak_limit and debit.price <= debit.spent
    return within and debit.price >= price * (1 - SLACK) and debit.leak >= leak * (1 - SLACK)


def _priced(stated: dict[str, Any], opened: Opened, debit: Debit) -> bool:
    true = price_of(opened, debit)
    said = dict(stated["price"])
    interval = said.pop("epsilon", None)
    rest = {name: value for name, value in true.to_dict().items() if name != "epsilon"}
    if said != rest or not isinstance(interval, dict) or set(interval) != {"lower", "upper"}:
        return False
    lower, upper = _number(interval["lower"]), _number(interval["upper"])
    return lower <= upper and lower <= true.epsilon.upper and upper >= true.epsilon.lower


def _promised(said: dict[str, Any], opened: Opened, debit: Debit) -> bool:
    """The same promise in the same words, and no ε below what is proven."""
    true = guarantee(opened, debit, str(said.get("whose")), str(said.get("change")))
    before = said.get("so_far")
    if set(said) != set(true) or not isinstance(before, dict) or set(before) != set(true["so_far"]):
        return False
    alone, together = _number(said["epsilon"]), _number(before["epsilon"])
    sound = alone >= price_of(opened, debit).epsilon.lower and together >= _number(true["so_far"]["epsilon"])
    like = {**true, "epsilon": said["epsilon"], "so_far": {**true["so_far"], "epsilon": before["epsilon"]}}
    return sound and said == like | {"words": words(like)}


def _number(value: Any) -> float:
    """A number as JSON has it; what is none is below every bound."""
    if value == "inf":
        return float("inf")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")
