"""`verify`: a certificate's claims derived again, and said plainly: what is proven, and what has to be trusted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from discreet import codec
from discreet.errors import BadEventEncoding, BadParameter, BudgetExceeded
from discreet.ledger.certificate import (
    compute_debit_cost,
    describe_guarantee,
    encode_answer,
    is_based_on,
    make_guarantee,
    read_certificate,
    read_entries,
    stated_price,
)
from discreet.ledger.chain import Ledger
from discreet.ledger.check import COST_TOLERANCE, check_ledger
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    Debit,
    compute_hash,
    encode,
    hash_measurement,
    privacy_unit_of,
    to_canonical_json,
)
from discreet.ledger.keys import (
    SigningKey,
    check_signing_key,
    format_fingerprint,
    is_accepted_signer,
    is_public_key,
    signing_key,
    verify_signature,
)

# The signed head: how long the chain is and how it ends, to be kept elsewhere.
#
# A chain shows that an entry was edited; it cannot show that the whole file was put back to an earlier day. Against
# that, keep
# the head where whoever can write the ledger cannot: a later ledger must still contain it.


HEAD_FORMAT = "discreet head 1"
_FIELDS = {"format": str, "entries": int, "hash": str, "public_key": str, "signature": str}


def sign_head(ledger: Ledger, key: SigningKey) -> dict[str, Any]:
    """The head of now."""
    check_signing_key(ledger.store, key)
    with ledger.store.read_transaction() as transaction:
        head = transaction.read_head()
    unsigned = {"format": HEAD_FORMAT, "entries": head.number, "hash": head.hash.hex(), "public_key": key.public}
    return unsigned | {"signature": key.sign(to_canonical_json(unsigned))}


def find_divergence(ledger: Ledger, head: Any, public: str | None = None) -> str | None:
    """Why the ledger is not a continuation of this head; None if it is one. Without a key, the one of the ledger's
    last rotation is taken, or else the head's own; a key counts for those that it replaced later, too."""
    head = read_head(head)
    public = public or signing_key(ledger.store)
    unsigned = {name: value for name, value in head.items() if name != "signature"}
    if not verify_signature(head["public_key"], head["signature"], to_canonical_json(unsigned)):
        return "the head's signature does not hold: it was changed"
    if public is not None and not is_accepted_signer(ledger, public, head["public_key"], head["entries"]):
        used, wanted = format_fingerprint(head["public_key"]), format_fingerprint(public)
        return f"the head was signed with another key ({used}, not {wanted})"
    with ledger.store.read_transaction() as transaction:
        last = transaction.read_head().number
        found = transaction.find_hash(head["entries"]) if head["entries"] else GENESIS
    if last < head["entries"]:
        return f"the ledger ends at entry {last}, but entry {head['entries']} was signed: it was rolled back"
    if found is None or found.hex() != head["hash"]:
        return f"entry {head['entries']} is not the one that was signed: this is another history"
    return None


def read_head(head: Any) -> dict[str, Any]:
    """A head, if that is what this is."""
    known = isinstance(head, dict) and {name: type(value) for name, value in head.items()} == _FIELDS
    if not known or head["format"] != HEAD_FORMAT or not head["hash"].isascii() or not is_public_key(head["public_key"]):
        raise BadParameter("head", "this file", "not a signed head", "give what discreet ledger head printed")
    return dict(head)


EPSILON_TOLERANCE = 1e-3
"""Another version may know the same ε a little better or worse."""

ALWAYS_ASSUMED = (
    "that the software drew the noise that the facts state, from the data that the owner meant",
    "that the bounds, the unit and the policy describe the data's people rightly",
)


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """One claim, and whether it holds."""

    claim: str
    is_valid: bool


@dataclass(frozen=True, slots=True)
class Verification:
    """All findings, and what no certificate can prove."""

    claims: tuple[CheckedClaim, ...]
    assumptions: tuple[str, ...]

    @property
    def is_valid(self) -> bool:
        """Whether every claim does."""
        return all(finding.is_valid for finding in self.claims)


def verify(found: Any, *, public: str | None = None, ledger: Ledger | None = None) -> Verification:
    """Check a certificate by itself; with a public key, that it is that key's; with the ledger, that it is in it.

    A ledger whose key was rotated says which key to accept if none is given.
    """
    stated = read_certificate(found)
    opened, debit, earlier = read_entries(stated)
    if public is None and ledger is not None:
        public = signing_key(ledger.store)
    findings = list(_check_signature(stated, public, debit, ledger))
    try:
        findings += _check_consistency(stated, opened, debit, earlier)
    except (BadEventEncoding, BadParameter):
        findings.append(CheckedClaim("it states a budget and facts that are possible", False))
    if ledger is not None:
        findings += _check_presence(stated, (opened, *earlier, debit), ledger)
    trusted = list(ALWAYS_ASSUMED)
    if public is None:
        trusted.append(f"that key {format_fingerprint(stated['public_key'])} belongs to whom you think (give --key)")
    if ledger is None:
        trusted.append("that the ledger holds this entry, and only this answer for it (give --ledger)")
    return Verification(tuple(findings), tuple(trusted))


def _check_signature(
    stated: dict[str, Any], public: str | None, debit: Debit, ledger: Ledger | None
) -> Iterator[CheckedClaim]:
    unsigned = {name: value for name, value in stated.items() if name != "signature"}
    signed = verify_signature(stated["public_key"], stated["signature"], to_canonical_json(unsigned))
    yield CheckedClaim("the signature is of exactly this certificate", signed)
    if public is None:
        return
    if (
        stated["public_key"] != public
        and ledger is not None
        and is_accepted_signer(ledger, public, stated["public_key"], debit.number)
    ):
        yield CheckedClaim("it was made with a key that the given key replaced later", True)
    else:
        yield CheckedClaim("it was made with the given key", stated["public_key"] == public)


def _check_consistency(
    stated: dict[str, Any], opened: AccountOpened, debit: Debit, earlier: list[Debit]
) -> Iterator[CheckedClaim]:
    """What follows from the certificate alone."""
    yield CheckedClaim("the debit is of the account", debit.account == opened.account)
    yield CheckedClaim("the question, policy and noise are those that were paid for", _same_measurement(stated, debit))
    yield CheckedClaim(
        "whatever the question was decided by is here too", is_based_on(stated["measurement"], debit, earlier)
    )
    yield CheckedClaim("the facts are those that were paid for", _encode_events(stated) == bytes(debit.facts))
    yield CheckedClaim("the facts cost what was charged", all(_is_charged(opened, step) for step in (*earlier, debit)))
    yield CheckedClaim("the stated price is the price of the facts", _is_cost_true(stated, opened, debit))
    yield CheckedClaim(
        "the guarantee says no more than the facts prove", _is_guarantee_sound(stated, opened, debit, earlier)
    )


def _check_presence(
    stated: dict[str, Any], entries: Sequence[AccountOpened | Debit], ledger: Ledger
) -> Iterator[CheckedClaim]:
    with ledger.store.read_transaction() as transaction:
        held = [transaction.find_hash(entry.number) == compute_hash(encode(entry)) for entry in entries]
        answer = transaction.find_answer(entries[-1].number) if held[-1] else None
    yield CheckedClaim("the entry is in the ledger", all(held))
    yield CheckedClaim("the answer is the one that the ledger recorded for it", answer == encode_answer(stated["release"]))
    yield CheckedClaim("the ledger's chain and sums hold", check_ledger(ledger).is_valid)


def _same_measurement(stated: dict[str, Any], debit: Debit) -> bool:
    """Whom it is about included: that the account has paid for nobody else is what `so_far` leans on."""
    measurement = stated["measurement"]
    return hash_measurement(measurement) == debit.measurement and privacy_unit_of(measurement) == debit.privacy_unit


def _encode_events(stated: dict[str, Any]) -> bytes | None:
    try:
        return codec.encode(codec.decode(msgspec.json.encode(stated["facts"])))
    except BadEventEncoding:
        return None


def _is_charged(opened: AccountOpened, debit: Debit) -> bool:
    account = opened.to_account(None)
    try:
        price, leak = account.compute_charge(codec.decode(bytes(debit.facts)), debit.at)
    except (BadEventEncoding, BudgetExceeded):
        return False
    within = debit.spent <= opened.limit and debit.leaked <= opened.leak_limit and debit.price <= debit.spent
    return within and debit.price >= price * (1 - COST_TOLERANCE) and debit.leak >= leak * (1 - COST_TOLERANCE)


def _is_cost_true(stated: dict[str, Any], opened: AccountOpened, debit: Debit) -> bool:
    true = compute_debit_cost(opened, debit)
    said = dict(stated["price"])
    interval = said.pop("epsilon", None)
    rest = {name: value for name, value in stated_price(opened, debit).items() if name != "epsilon"}
    if said != rest or not isinstance(interval, dict) or set(interval) != {"lower", "upper"}:
        return False
    lower, upper = _read_number(interval["lower"]), _read_number(interval["upper"])
    near = lower >= true.epsilon.lower * (1 - EPSILON_TOLERANCE) and upper <= true.epsilon.upper * (1 + EPSILON_TOLERANCE)
    return near and lower <= upper and lower <= true.epsilon.upper and upper >= true.epsilon.lower


def _is_guarantee_sound(stated: dict[str, Any], opened: AccountOpened, debit: Debit, earlier: list[Debit]) -> bool:
    """The same promise about the same people in the same words, and no ε below what is proven."""
    said, true = stated["guarantee"], make_guarantee(opened, debit, stated["measurement"], earlier)
    before = said.get("so_far")
    if set(said) != set(true) or not isinstance(before, dict) or set(before) != set(true["so_far"]):
        return False
    alone, together = _read_number(said["epsilon"]), _read_number(before["epsilon"])
    proven = _read_number(true["epsilon"]) if earlier else compute_debit_cost(opened, debit).epsilon.lower
    sound = alone >= proven and together >= _read_number(true["so_far"]["epsilon"])
    like = {**true, "epsilon": said["epsilon"], "so_far": {**true["so_far"], "epsilon": before["epsilon"]}}
    return sound and said == like | {"words": describe_guarantee(like)}


def _read_number(value: Any) -> float:
    """A number as JSON has it; what is none is below every bound."""
    if value == "inf":
        return float("inf")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")
