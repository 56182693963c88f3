"""`verify`: a certificate's claims derived again, and said plainly: what is proven, and what has to be trusted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from discreet import codec
from discreet.errors import BadFact, BadParameter, BudgetExceeded
from discreet.ledger.book import Ledger
from discreet.ledger.certificate import (
    answer_bytes,
    guarantee,
    price_of,
    read_certificate,
    read_entries,
    rests_on,
    stated_price,
    words,
)
from discreet.ledger.check import SLACK, check
from discreet.ledger.entry import Debit, Opened, canonical, encode, hash_of, measurement_hash, whose_of
from discreet.ledger.keys import fingerprint, verified
from discreet.ledger.rotation import accepts, signing_key

NEAR = 1e-3
"""Another version may know the same ε a little better or worse."""

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
    """Check a certificate by itself; with a public key, that it is that key's; with the ledger, that it is in it.

    A ledger whose key was rotated says which key to accept if none is given.
    """
    stated = read_certificate(found)
    opened, debit, earlier = read_entries(stated)
    if public is None and ledger is not None:
        public = signing_key(ledger.store)
    findings = list(_signed(stated, public, debit, ledger))
    try:
        findings += _consistent(stated, opened, debit, earlier)
    except (BadFact, BadParameter):
        findings.append(Finding("it states a budget and facts that are possible", False))
    if ledger is not None:
        findings += _in_ledger(stated, (opened, *earlier, debit), ledger)
    trusted = list(ALWAYS_TRUSTED)
    if public is None:
        trusted.append(f"that key {fingerprint(stated['public_key'])} belongs to whom you think (give --key)")
    if ledger is None:
        trusted.append("that the ledger holds this entry, and only this answer for it (give --ledger)")
    return Verdict(tuple(findings), tuple(trusted))


def _signed(stated: dict[str, Any], public: str | None, debit: Debit, ledger: Ledger | None) -> Iterator[Finding]:
    unsigned = {name: value for name, value in stated.items() if name != "signature"}
    signed = verified(stated["public_key"], stated["signature"], canonical(unsigned))
    yield Finding("the signature is of exactly this certificate", signed)
    if public is None:
        return
    if stated["public_key"] != public and ledger is not None and accepts(ledger, public, stated["public_key"], debit.number):
        yield Finding("it was made with a key that the given key replaced later", True)
    else:
        yield Finding("it was made with the given key", stated["public_key"] == public)


def _consistent(stated: dict[str, Any], opened: Opened, debit: Debit, earlier: list[Debit]) -> Iterator[Finding]:
    """What follows from the certificate alone."""
    yield Finding("the debit is of the account", debit.account == opened.account)
    yield Finding("the question, policy and noise are those that were paid for", _same_measurement(stated, debit))
    yield Finding("whatever the question was decided by is here too", rests_on(stated["measurement"], debit, earlier))
    yield Finding("the facts are those that were paid for", _facts(stated) == bytes(debit.facts))
    yield Finding("the facts cost what was charged", all(_paid(opened, step) for step in (*earlier, debit)))
    yield Finding("the stated price is the price of the facts", _priced(stated, opened, debit))
    yield Finding("the guarantee says no more than the facts prove", _promised(stated, opened, debit, earlier))


def _in_ledger(stated: dict[str, Any], entries: Sequence[Opened | Debit], ledger: Ledger) -> Iterator[Finding]:
    with ledger.store.reading() as pages:
        held = [pages.hash_at(entry.number) == hash_of(encode(entry)) for entry in entries]
        answer = pages.answer(entries[-1].number) if held[-1] else None
    yield Finding("the entry is in the ledger", all(held))
    yield Finding("the answer is the one that the ledger recorded for it", answer == answer_bytes(stated["release"]))
    yield Finding("the ledger's chain and sums hold", check(ledger).holds)


def _same_measurement(stated: dict[str, Any], debit: Debit) -> bool:
    """Whom it is about included: that the account has paid for nobody else is what `so_far` leans on."""
    measurement = stated["measurement"]
    return measurement_hash(measurement) == debit.measurement and whose_of(measurement) == debit.whose


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
    rest = {name: value for name, value in stated_price(opened, debit).items() if name != "epsilon"}
    if said != rest or not isinstance(interval, dict) or set(interval) != {"lower", "upper"}:
        return False
    lower, upper = _number(interval["lower"]), _number(interval["upper"])
    near = lower >= true.epsilon.lower * (1 - NEAR) and upper <= true.epsilon.upper * (1 + NEAR)
    return near and lower <= upper and lower <= true.epsilon.upper and upper >= true.epsilon.lower


def _promised(stated: dict[str, Any], opened: Opened, debit: Debit, earlier: list[Debit]) -> bool:
    """The same promise about the same people in the same words, and no ε below what is proven."""
    said, true = stated["guarantee"], guarantee(opened, debit, stated["measurement"], earlier)
    before = said.get("so_far")
    if set(said) != set(true) or not isinstance(before, dict) or set(before) != set(true["so_far"]):
        return False
    alone, together = _number(said["epsilon"]), _number(before["epsilon"])
    proven = _number(true["epsilon"]) if earlier else price_of(opened, debit).epsilon.lower
    sound = alone >= proven and together >= _number(true["so_far"]["epsilon"])
    like = {**true, "epsilon": said["epsilon"], "so_far": {**true["so_far"], "epsilon": before["epsilon"]}}
    return sound and said == like | {"words": words(like)}


def _number(value: Any) -> float:
    """A number as JSON has it; what is none is below every bound."""
    if value == "inf":
        return float("inf")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")
