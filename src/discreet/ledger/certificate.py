"""`release.json`: an answer with all that its cost follows from, signed with the ledger's key.

A certificate holds the entries of the ledger that matter, byte for byte: the one that opened the account, the debit, and the
debits of the answers that it rests on. What else it states (event, cost, guarantee) is there to be read: `verify` derives it
again. Its keys are those of the first version (`release` is the answer, `facts` the event, `price` the cost, `whose` the
privacy unit): they are signed, and stay.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from discreet import codec
from discreet._numbers import ceil_float, floor_float
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import Filter, to_json_number
from discreet.errors import BadEventEncoding, BadParameter
from discreet.ledger.account import AccountState
from discreet.ledger.entries import (
    AccountOpened,
    Debit,
    decode,
    encode,
    encode_answer,
    hash_measurement,
    privacy_unit_of,
    to_canonical_json,
)
from discreet.ledger.signatures import check_signing_key, is_public_key
from discreet.units import Neighbours, describe_conditional, invariants_from_json, invariants_to_json

if TYPE_CHECKING:
    from discreet.ledger.chain import LedgerAccount
    from discreet.ledger.keys import SigningKey

CERTIFICATE_FORMAT = "discreet release 1"
COST_KEYS = {"remaining": "left"}
"""What a part of a cost is called in this format, if not as elsewhere."""

NEIGHBOUR_PHRASES = {
    Neighbours.ADD_REMOVE.definition: "added or removed",
    Neighbours.REPLACE.definition: "replaced by another",
}


def make_certificate(
    account: "LedgerAccount",
    entry: int,
    *,
    measurement: Mapping[str, Any],
    answer: Mapping[str, Any],
    software: str,
    key: "SigningKey",
    depends_on: Sequence[int] = (),
    tainted: bool = False,
) -> dict[str, Any]:
    """Sign the answer that is recorded for a debit.

    Args:
        account: the account that was charged, or another of its family; the certificate is of the one that was charged.
        entry: the number of the debit.
        measurement: what was hashed for `reserve`: query, unit, neighbours, policy, bounds, grid, mechanisms, scales. Its
            "after" are the hashes of the measurements whose answers decided it.
        answer: the recorded answer.
        software: the program and its version.
        key: the ledger's key.
        depends_on: the debits of the measurements in "after". The guarantee covers them, too, because the answer shows them.
        tainted: whether the noise can be repeated; then there is no certificate.

    Raises:
        BadParameter: if any of this is not what the ledger holds.
    """
    if tainted:
        raise BadParameter("answer", "tainted", "its noise was seeded and can be repeated", "ask without a seed")
    check_signing_key(account.store, key)
    account = account.find_payer(entry)
    opened, debit, recorded = _load_debit(account, entry)
    earlier = [_load_debit(account, number)[1] for number in depends_on]
    if not is_based_on(measurement, debit, earlier):
        raise BadParameter(
            "depends_on",
            list(depends_on),
            f"not the entries that entry {entry} rests on",
            "give those of the answer's reference",
        )
    if hash_measurement(measurement) != debit.measurement or privacy_unit_of(measurement) != debit.privacy_unit:
        raise BadParameter(
            "measurement", "another one", f"entry {entry} is the debit of something else", "give what was measured"
        )
    if recorded != encode_answer(answer):
        raise BadParameter(
            "answer", "another one", f"it is not what is recorded for entry {entry}", "give what was recorded"
        )
    unsigned = {
        "format": CERTIFICATE_FORMAT,
        "software": software,
        "measurement": dict(measurement),
        "release": dict(answer),
        "facts": msgspec.json.decode(debit.encoded_event),
        "price": state_cost(opened, debit),
        "guarantee": make_guarantee(opened, debit, measurement, earlier),
        "account_entry": encode(opened).decode(),
        "earlier": [encode(step).decode() for step in earlier],
        "entry": encode(debit).decode(),
        "public_key": key.public,
    }
    as_read = msgspec.json.decode(to_canonical_json(unsigned))  # numbers as a reader will have them
    return dict(as_read) | {"signature": key.sign(to_canonical_json(as_read))}


def state_cost(opened: AccountOpened, debit: Debit) -> dict[str, Any]:
    """Return the cost as a certificate states it: in doubles that bound it."""
    cost = compute_debit_cost(opened, debit)
    stated = {
        "epsilon": {"lower": to_json_number(cost.epsilon.lower), "upper": to_json_number(cost.epsilon.upper)},
        "delta": ceil_float(cost.delta),
        "currency": cost.currency.name,
        "amount": to_json_number(ceil_float(cost.amount)),
        "remaining": floor_float(cost.remaining),
    }
    return {COST_KEYS.get(name, name): value for name, value in stated.items()}


def compute_debit_cost(opened: AccountOpened, debit: Debit) -> Cost:
    """Compute the cost of a debit from its event."""
    account = opened.to_account(None)
    budget = account.budget
    event, remaining = codec.decode(bytes(debit.encoded_event)), budget.limit - debit.spent
    return Cost(event, account.delta, budget.currency, debit.cost, remaining, budget.limit)


def certified_cost(document: Any) -> Cost:
    """Compute the cost of a certificate's answer from the events that its entries hold; `verify` says whether they are true.

    Raises:
        BadParameter: if the document is no certificate.
    """
    opened, debit, _ = read_entries(read_certificate(document))
    return compute_debit_cost(opened, debit)


def is_based_on(measurement: Mapping[str, Any], debit: Debit, earlier: Sequence[Debit]) -> bool:
    """Return whether these debits charged the same account, before this one, for all that decided what it measures."""
    charged = all(step.number < debit.number and step.account == debit.account for step in earlier)
    return charged and [step.measurement for step in earlier] == list(measurement.get("after", ()))


def make_guarantee(
    opened: AccountOpened, debit: Debit, measurement: Mapping[str, Any], earlier: Sequence[Debit] = ()
) -> dict[str, Any]:
    """State the guarantee: for which unit and relation, at which ε and δ, alone and with all that the account released.

    An answer whose noise or bounds were chosen after other answers is guaranteed together with those, by the filter of the
    account's currency. The certified curve of their events does not hold for adaptive choices: see
    accounting/currencies.py.
    """
    account = opened.to_account(None)
    so_far, delta = compute_epsilon_spent(account, debit.spent, debit.delta_spent), ceil_float(account.delta)
    steps = [*earlier, debit]
    with_earlier = compute_epsilon_spent(
        account, sum((step.cost for step in steps), Fraction(0)), sum((step.delta for step in steps), Fraction(0))
    )
    guarantee: dict[str, Any] = {
        "account": account.name,
        "whose": f"one {measurement.get('unit')}",
        "change": NEIGHBOUR_PHRASES.get(str(measurement.get("neighbours")), "changed in a way that is not said"),
        "epsilon": to_json_number(with_earlier if earlier else compute_debit_cost(opened, debit).epsilon.upper),
        "delta": delta,
        "after": [step.number for step in earlier],
        "so_far": {"entry": debit.number, "epsilon": to_json_number(so_far), "delta": delta},
    }
    if "invariants" in measurement:  # certificates without any are as before
        guarantee["invariants"] = invariants_to_json(invariants_from_json(measurement["invariants"]))
    return guarantee | {"words": describe_guarantee(guarantee)}


def describe_guarantee(guarantee: Mapping[str, Any]) -> str:
    """Write the guarantee as a sentence. `verify` compares it word by word, so it stays."""
    at_delta = f" at δ = {guarantee['delta']:.12g}" if guarantee["delta"] else ""
    so_far = guarantee["so_far"]
    rests = (
        f", and of those that it rests on (entries {', '.join(map(str, guarantee['after']))})," if guarantee["after"] else ""
    )
    whatever = "Whatever else is known"
    if "invariants" in guarantee:
        whatever = f"{describe_conditional(invariants_from_json(guarantee['invariants']))} Whatever else is known"
    return (
        f"{whatever}: the rows of {guarantee['whose']}, {guarantee['change']}, change the odds of any such "
        f"answer{rests} by at most e^{guarantee['epsilon']}{at_delta}; together with all that account "
        f"{guarantee['account']} released up to entry {so_far['entry']}, by at most e^{so_far['epsilon']}{at_delta}."
    )


def compute_epsilon_spent(account: AccountState, spent: Fraction, delta_spent: Fraction) -> float:
    """Return the ε that a sum in the account's currency guarantees at its δ, rounded up. It holds for adaptive choices."""
    return Filter(account.budget.currency, spent, delta_spent).epsilon(account.delta) if spent or delta_spent else 0.0


def read_entries(certificate: Mapping[str, Any]) -> tuple[AccountOpened, Debit, list[Debit]]:
    """Return the entries inside a certificate: of the account, of the answer, and of the answers that it rests on."""
    texts = certificate.get("account_entry"), certificate.get("entry"), *certificate.get("earlier", ())
    try:
        opened, debit, *earlier = (decode(str(text).encode()) for text in texts)
    except BadEventEncoding:
        raise _not_a_certificate_error() from None
    steps = [step for step in earlier if isinstance(step, Debit)]
    if not isinstance(opened, AccountOpened) or not isinstance(debit, Debit) or len(steps) != len(earlier):
        raise _not_a_certificate_error()
    return opened, debit, steps


def read_certificate(document: Any) -> dict[str, Any]:
    """Return a certificate with the fields of this version.

    Raises:
        BadParameter: if the document is none.
    """
    parts = {"measurement": dict, "release": dict, "facts": dict, "price": dict, "guarantee": dict, "earlier": list}
    texts = dict.fromkeys(("format", "software", "account_entry", "entry", "public_key", "signature"), str)
    is_known = isinstance(document, dict) and all(
        isinstance(document.get(name), kind) for name, kind in (parts | texts).items()
    )
    if not is_known or document["format"] != CERTIFICATE_FORMAT or not is_public_key(document["public_key"]):
        raise _not_a_certificate_error()
    try:
        to_canonical_json(document)
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, or nested without end
        raise _not_a_certificate_error() from None
    return dict(document)


def _not_a_certificate_error() -> BadParameter:
    return BadParameter(
        "release", "this file", "not a certificate of this version", "give a release.json that discreet wrote"
    )


def _load_debit(account: "LedgerAccount", entry: int) -> tuple[AccountOpened, Debit, bytes | None]:
    """Return the entry that opened the account, a debit of it, and the recorded answer."""
    name = account.initial_state.name
    with account.store.read_transaction() as transaction:
        opened, debit = transaction.read_opening(name), transaction.find_entry(entry)
        answer = transaction.find_answer(entry)
    if opened is None or not isinstance(debit, Debit) or debit.account != name:
        raise BadParameter("entry", entry, f"no debit of account {name!r}", "give the entry of the receipt")
    return opened, debit, answer
