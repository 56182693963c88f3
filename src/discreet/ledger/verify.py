"""Certificates and signed heads, checked again: what is proven, and what has to be trusted.

`verify` derives every claim of a certificate from its entries. With the ledger it also finds the entries there, and with a
public key it checks who signed.

A chain shows that an entry was edited. It cannot show that the whole ledger was put back to an earlier state, because that
state was valid, too. The *signed head* can: it holds the number and the hash of the last entry. Keep it out of reach of
those who can write the ledger, and `find_divergence` tells whether a later ledger continues it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

import discreet
from discreet import codec
from discreet.errors import BadEventEncoding, BadParameter, BudgetExceeded
from discreet.ledger.certificate import (
    compute_debit_cost,
    describe_guarantee,
    is_based_on,
    make_guarantee,
    read_certificate,
    read_entries,
    state_cost,
)
from discreet.ledger.check import COST_TOLERANCE, check_ledger
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    Debit,
    compute_hash,
    encode,
    encode_answer,
    hash_measurement,
    privacy_unit_of,
    to_canonical_json,
)
from discreet.ledger.signatures import (
    check_signing_key,
    format_fingerprint,
    is_accepted_signer,
    is_public_key,
    signing_key,
    verify_signature,
)
from discreet.units import AMONG

if TYPE_CHECKING:
    import discreet.ledger.chain
    from discreet.ledger.chain import Ledger
    from discreet.ledger.keys import SigningKey

EPSILON_TOLERANCE = 1e-3
"""Another version may compute an ε that is this much larger or smaller, relatively."""

ALWAYS_ASSUMED = (
    "that the software drew the noise that the events state, and read the data that the owner meant",
    "that the privacy unit, the bounds and the policy describe the data correctly",
)


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """One claim, and whether it holds."""

    claim: str
    is_valid: bool


@dataclass(frozen=True, slots=True)
class Verification:
    """Every claim that was checked, and what no certificate can prove."""

    claims: tuple[CheckedClaim, ...]
    assumptions: tuple[str, ...]
    is_signer_known: bool = False  # whether the public key of the publisher was given
    is_ledger_known: bool = False  # whether the ledger was given
    are_tables_compared: bool = True  # False for a publication of which the certificate alone was given
    condition: str = ""  # on which exact counts data sets must agree for the guarantee to hold; "" for all data sets
    unchecked: tuple[str, ...] = ()  # what else nothing that was given can show, such as why a table lacks rows

    @property
    def is_valid(self) -> bool:
        """Whether every claim holds."""
        return all(claim.is_valid for claim in self.claims)

    @property
    def conclusion(self) -> str:
        """The verdict in one line: INVALID, VALID, or VALID SO FAR if the publisher's key, the ledger, or the folder of
        a publication was not given, or if a table has only some of the signed rows."""
        if wrong := [claim.claim for claim in self.claims if not claim.is_valid]:
            return (
                f"INVALID: {len(wrong)} of {len(self.claims)} claims {'is' if len(wrong) == 1 else 'are'} false, the first "
                f"being that {wrong[0]}. Do not rely on this answer or on its guarantee."
            )
        unknown = [
            text
            for is_known, text in (
                (self.is_signer_known, "who signed it (give public=)"),
                (self.is_ledger_known, "whether the ledger charged for it (give ledger=)"),
            )
            if not is_known
        ]
        conditional = (
            f" The guarantee is conditional: it holds only among data sets with the same {self.condition}."
            if self.condition
            else ""
        )
        unknown += [] if self.are_tables_compared else ["the tables beside it (give their folder)"]
        unknown += self.unchecked
        if unknown:
            listed = " and ".join([", ".join(unknown[:-1]), unknown[-1]] if len(unknown) > 1 else unknown)
            return (
                "VALID SO FAR: the certificate is complete and unchanged, and its noise proves its guarantee. Not checked: "
                f"{listed}.{conditional}"
            )
        return (
            "VALID: the publisher signed exactly this answer, the ledger charged for it, and its noise proves its "
            f"guarantee. What is listed as trusted stays an assumption.{conditional}"
        )


def verify(
    certificate: Any, *, public: str | None = None, ledger: "discreet.ledger.chain.Ledger | None" = None
) -> Verification:
    """Check a certificate.

    Args:
        certificate: a release.json as it was read.
        public: the public key that must have signed it; without one, that of the ledger's last rotation.
        ledger: where its entries must be.

    Raises:
        BadParameter: if it is no certificate.
    """
    stated = read_certificate(certificate)
    opened, debit, earlier = read_entries(stated)
    given = public
    if public is None and ledger is not None:
        public = signing_key(ledger.store)
    name = "the ledger's current key" if given is None else "the given key"
    claims = list(_check_signature(stated, public, name, debit, ledger))
    try:
        claims += _check_consistency(stated, opened, debit, earlier)
    except (BadEventEncoding, BadParameter):
        claims.append(CheckedClaim("the budget and the events that it states are possible", False))
    if ledger is not None:
        claims += _check_presence(stated, (opened, *earlier, debit), ledger)
    assumptions = list(ALWAYS_ASSUMED)
    if given is None:  # a key of the ledger that is being checked proves nothing about who published
        key = stated["public_key"]
        assumptions.append(f"that key {key}, fingerprint {format_fingerprint(key)}, is the publisher's (give public=)")
    if ledger is None:
        assumptions.append("that the ledger holds this entry, and only this answer for it (give ledger=)")
    condition = debit.privacy_unit.partition(AMONG)[2]
    if condition:
        assumptions.append(f"that the {condition} is public: nothing that follows from it is protected")
    is_publication = "answers" in stated["release"]
    return Verification(
        tuple(claims), tuple(assumptions), given is not None, ledger is not None, not is_publication, condition
    )


def _check_signature(
    stated: dict[str, Any], public: str | None, name: str, debit: Debit, ledger: "Ledger | None"
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
        yield CheckedClaim(f"it was signed with a key that {name} replaced later", True)
    else:
        yield CheckedClaim(f"it was signed with {name}", stated["public_key"] == public)


def _check_consistency(
    stated: dict[str, Any], opened: AccountOpened, debit: Debit, earlier: list[Debit]
) -> Iterator[CheckedClaim]:
    """Check what follows from the certificate alone."""
    yield CheckedClaim("the debit is of the account", debit.account == opened.account)
    yield CheckedClaim("the query, policy and noise are those that were charged", _is_same_measurement(stated, debit))
    yield CheckedClaim("every answer that it rests on is included", is_based_on(stated["measurement"], debit, earlier))
    yield CheckedClaim("the events are those that were charged", _encode_event(stated) == bytes(debit.encoded_event))
    yield CheckedClaim("the events cost what was charged", all(_is_charged(opened, step) for step in (*earlier, debit)))
    yield CheckedClaim("the stated cost is the cost of the events", _is_cost_true(stated, opened, debit))
    yield CheckedClaim(
        "the guarantee states no more than the events prove", _is_guarantee_sound(stated, opened, debit, earlier)
    )


def _check_presence(
    stated: dict[str, Any], entries: Sequence[AccountOpened | Debit], ledger: "Ledger"
) -> Iterator[CheckedClaim]:
    """Check that the ledger holds the entries of the certificate, the debit last."""
    with ledger.store.read_transaction() as transaction:
        present = [transaction.find_hash(entry.number) == compute_hash(encode(entry)) for entry in entries]
        answer = transaction.find_answer(entries[-1].number) if present[-1] else None
    yield CheckedClaim("the entry is in the ledger", all(present))
    yield CheckedClaim("the answer is the one that the ledger recorded for it", answer == encode_answer(stated["release"]))
    yield CheckedClaim("the ledger's chain and sums hold", check_ledger(ledger).is_valid)


def _is_same_measurement(stated: dict[str, Any], debit: Debit) -> bool:
    """Compare the privacy unit, too: `so_far` is a sum over debits of one unit."""
    measurement = stated["measurement"]
    return hash_measurement(measurement) == debit.measurement and privacy_unit_of(measurement) == debit.privacy_unit


def _encode_event(stated: dict[str, Any]) -> bytes | None:
    try:
        return codec.encode(codec.decode(msgspec.json.encode(stated["facts"])))
    except BadEventEncoding:
        return None


def _is_charged(opened: AccountOpened, debit: Debit) -> bool:
    account = opened.to_account(None)
    try:
        cost, delta = account.compute_charge(codec.decode(bytes(debit.encoded_event)), debit.certified_delta)
    except (BadEventEncoding, BudgetExceeded):
        return False
    within = debit.spent <= opened.limit and debit.delta_spent <= opened.delta_limit and debit.cost <= debit.spent
    return within and debit.cost >= cost * (1 - COST_TOLERANCE) and debit.delta >= delta * (1 - COST_TOLERANCE)


def _is_cost_true(stated: dict[str, Any], opened: AccountOpened, debit: Debit) -> bool:
    """Compare all but ε exactly; ε must lie around the computed one, and not be much wider."""
    computed = compute_debit_cost(opened, debit).epsilon
    cost = dict(stated["price"])
    epsilon = cost.pop("epsilon", None)
    rest = {name: value for name, value in state_cost(opened, debit).items() if name != "epsilon"}
    if cost != rest or not isinstance(epsilon, dict) or set(epsilon) != {"lower", "upper"}:
        return False
    lower, upper = _read_number(epsilon["lower"]), _read_number(epsilon["upper"])
    is_near = lower >= computed.lower * (1 - EPSILON_TOLERANCE) and upper <= computed.upper * (1 + EPSILON_TOLERANCE)
    return is_near and lower <= upper and lower <= computed.upper and upper >= computed.lower


def _is_guarantee_sound(stated: dict[str, Any], opened: AccountOpened, debit: Debit, earlier: list[Debit]) -> bool:
    """Compare unit, relation, δ and words exactly; no ε may lie below the one that is proven."""
    guarantee, proven = stated["guarantee"], make_guarantee(opened, debit, stated["measurement"], earlier)
    so_far = guarantee.get("so_far")
    if set(guarantee) != set(proven) or not isinstance(so_far, dict) or set(so_far) != set(proven["so_far"]):
        return False
    least = _read_number(proven["epsilon"]) if earlier else compute_debit_cost(opened, debit).epsilon.lower
    is_sound = _read_number(guarantee["epsilon"]) >= least
    is_sound = is_sound and _read_number(so_far["epsilon"]) >= _read_number(proven["so_far"]["epsilon"])
    expected = {**proven, "epsilon": guarantee["epsilon"], "so_far": {**proven["so_far"], "epsilon": so_far["epsilon"]}}
    return is_sound and guarantee == expected | {"words": describe_guarantee(expected)}


def _read_number(value: Any) -> float:
    """Read a number as JSON has it; what is none is below every bound."""
    if value == "inf":
        return float("inf")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")


HEAD_FORMAT = "discreet head 1"
_FIELDS = {"format": str, "entries": int, "hash": str, "public_key": str, "signature": str}


def sign_head(ledger: "Ledger", key: "SigningKey") -> dict[str, Any]:
    """Sign the present end of the chain."""
    check_signing_key(ledger.store, key)
    with ledger.store.read_transaction() as transaction:
        head = transaction.read_head()
    unsigned = {"format": HEAD_FORMAT, "entries": head.number, "hash": head.hash.hex(), "public_key": key.public}
    return unsigned | {"signature": key.sign(to_canonical_json(unsigned))}


def find_divergence(ledger: "Ledger", head: Any, public: str | None = None) -> str | None:
    """Return why a ledger does not continue a signed head; None if it does.

    Args:
        ledger: the ledger.
        head: what `sign_head` returned.
        public: the public key that the signature must be of, or of a key that it replaced later. Without one, the key of the
            ledger's last rotation; without a rotation, the head's own.
    """
    head = read_head(head)
    public = public or signing_key(ledger.store)
    unsigned = {name: value for name, value in head.items() if name != "signature"}
    if not verify_signature(head["public_key"], head["signature"], to_canonical_json(unsigned)):
        return "the head's signature does not hold: it was changed"
    if public is not None and not is_accepted_signer(ledger, public, head["public_key"], head["entries"]):
        used, expected = format_fingerprint(head["public_key"]), format_fingerprint(public)
        return f"the head was signed with another key ({used}, not {expected})"
    with ledger.store.read_transaction() as transaction:
        last = transaction.read_head().number
        found = transaction.find_hash(head["entries"]) if head["entries"] else GENESIS
    if last < head["entries"]:
        signed = f"the ledger ends at entry {last}, but entry {head['entries']} was signed"
        return f"{signed}: it was rolled back, or the head is of another ledger"
    if found is None or found.hex() != head["hash"]:
        return f"entry {head['entries']} is not the one that was signed: this is another history, or another ledger's head"
    return None


def read_head(head: Any) -> dict[str, Any]:
    """Return a signed head with the fields of this version.

    Raises:
        BadParameter: if it is none.
    """
    is_known = isinstance(head, dict) and {name: type(value) for name, value in head.items()} == _FIELDS
    if not is_known or head["format"] != HEAD_FORMAT or not head["hash"].isascii() or not is_public_key(head["public_key"]):
        raise BadParameter("head", "this file", "not a signed head", "give what discreet ledger head printed")
    return dict(head)
