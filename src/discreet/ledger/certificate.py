"""release.json: an answer together with everything that its price follows from, signed with the ledger's key.

It holds the two entries of the ledger that matter, byte for byte: the one that opened the account and the debit. What else
it states (facts, price, guarantee) is there to be read; `verify` derives all of it again.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from discreet import codec
from discreet._numbers import ceil_float, floor_float
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import Filter, to_json_number
from discreet.errors import BadEventEncoding, BadParameter
from discreet.ledger.account import AccountState
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.entries import AccountOpened, Debit, decode, hash_measurement, privacy_unit_of, to_canonical_json
from discreet.ledger.keys import SigningKey, check_signing_key, is_public_key
from discreet.units import Neighbours

CERTIFICATE_FORMAT = "discreet release 1"
NEIGHBOUR_PHRASES = {
    Neighbours.ADD_REMOVE.definition: "added or removed",
    Neighbours.REPLACE.definition: "replaced by another",
}


def encode_answer(answer: Mapping[str, Any]) -> bytes:
    """A release as the bytes that a ledger records and a certificate is checked against."""
    return to_canonical_json(answer)


def make_certificate(
    account: LedgerAccount,
    entry: int,
    *,
    measurement: Mapping[str, Any],
    answer: Mapping[str, Any],
    software: str,
    key: SigningKey,
    depends_on: Sequence[int] = (),
    tainted: bool = False,
) -> dict[str, Any]:
    """The certificate of an answer that is recorded for the debit with this entry number.

    `measurement` is what was hashed for `reserve`: question, unit, neighbours, policy, bounds, grid, mechanisms, scales. Its
    "after" are the hashes of the measurements whose answers decided it, and `after` the entries that paid for those: what
    is promised of the answer is promised of all of them together, because it shows them.
    """
    if tainted:
        raise BadParameter("release", "tainted", "its noise was seeded and can be repeated", "release it with real noise")
    check_signing_key(account.store, key)
    opened, debit, recorded = _load_entries(account, entry)
    earlier = [_load_entries(account, number)[1] for number in depends_on]
    if not is_based_on(measurement, debit, earlier):
        raise BadParameter(
            "after", list(depends_on), f"not the entries that entry {entry} rests on", "give those of its paper"
        )
    if hash_measurement(measurement) != debit.measurement or privacy_unit_of(measurement) != debit.privacy_unit:
        raise BadParameter("measurement", "another one", f"entry {entry} paid for something else", "give what was paid for")
    if recorded != encode_answer(answer):
        raise BadParameter(
            "release", "another one", f"it is not what is recorded for entry {entry}", "give what was recorded"
        )
    unsigned = {
        "format": CERTIFICATE_FORMAT,
        "software": software,
        "measurement": dict(measurement),
        "release": dict(answer),
        "facts": msgspec.json.decode(debit.facts),
        "price": stated_price(opened, debit),
        "guarantee": make_guarantee(opened, debit, measurement, earlier),
        "account_entry": _load_entry_text(account, opened.number),
        "earlier": [_load_entry_text(account, number) for number in depends_on],
        "entry": _load_entry_text(account, entry),
        "public_key": key.public,
    }
    read = msgspec.json.decode(to_canonical_json(unsigned))  # as a reader will have it
    return dict(read) | {"signature": key.sign(to_canonical_json(read))}


def stated_price(opened: AccountOpened, debit: Debit) -> dict[str, Any]:
    """The price as a certificate of this format states it, in doubles that bound it."""
    price = compute_debit_cost(opened, debit)
    return {
        "epsilon": {"lower": to_json_number(price.epsilon.lower), "upper": to_json_number(price.epsilon.upper)},
        "delta": ceil_float(price.delta),
        "currency": price.currency.name,
        "amount": to_json_number(ceil_float(price.amount)),
        "left": floor_float(price.remaining),
    }


def compute_debit_cost(opened: AccountOpened, debit: Debit) -> Cost:
    """What the debit cost, from its facts."""
    account = opened.to_account(None)
    currency, left = account.budget.currency, account.budget.limit - debit.spent
    return Cost(codec.decode(bytes(debit.facts)), account.delta, currency, debit.price, left, account.budget.limit)


def is_based_on(measurement: Mapping[str, Any], debit: Debit, earlier: Sequence[Debit]) -> bool:
    """Whether these debits paid, before this one and from the same account, for all that decided what it measures."""
    paid = all(step.number < debit.number and step.account == debit.account for step in earlier)
    return paid and [step.measurement for step in earlier] == list(measurement.get("after", ()))


def make_guarantee(
    opened: AccountOpened, debit: Debit, measurement: Mapping[str, Any], earlier: Sequence[Debit] = ()
) -> dict[str, Any]:
    """The promise: about whom, against what, at which ε and δ, alone and together with all before it.

    An answer whose noise or bounds were chosen after other answers is promised together with those, as the account's
    currency has it: a filter's theorem, which the certified curve of the facts is not (see accounting/filters.py).
    """
    account = opened.to_account(None)
    together, delta = compute_epsilon_spent(account, debit.spent, debit.leaked), ceil_float(account.delta)
    steps = [*earlier, debit]
    chosen = compute_epsilon_spent(
        account, sum((s.price for s in steps), Fraction(0)), sum((s.leak for s in steps), Fraction(0))
    )
    promise = {
        "account": account.name,
        "whose": f"one {measurement.get('unit')}",
        "change": NEIGHBOUR_PHRASES.get(str(measurement.get("neighbours")), "changed in a way that is not said"),
        "epsilon": to_json_number(chosen if earlier else compute_debit_cost(opened, debit).epsilon.upper),
        "delta": delta,
        "after": [step.number for step in earlier],
        "so_far": {"entry": debit.number, "epsilon": to_json_number(together), "delta": delta},
    }
    return promise | {"words": describe_guarantee(promise)}


def describe_guarantee(guarantee: Mapping[str, Any]) -> str:
    """The promise as a sentence."""
    failing = f" at δ = {guarantee['delta']:.12g}" if guarantee["delta"] else ""
    before = guarantee["so_far"]
    rests = (
        f", and of those that it rests on (entries {', '.join(map(str, guarantee['after']))})," if guarantee["after"] else ""
    )
    return (
        f"Whatever else is known: the rows of {guarantee['whose']}, {guarantee['change']}, change the odds of any such "
        f"answer{rests} by at most e^{guarantee['epsilon']}{failing}; together with all that account {guarantee['account']} "
        f"released up to entry {before['entry']}, by at most e^{before['epsilon']}{failing}."
    )


def compute_epsilon_spent(account: AccountState, spent: Fraction, delta_spent: Fraction) -> float:
    """The ε that a sum in the account's currency promises at its δ, however adaptively it was spent; rounded up."""
    return Filter(account.budget.currency, spent, delta_spent).epsilon(account.delta) if spent or delta_spent else 0.0


def read_entries(found: Mapping[str, Any]) -> tuple[AccountOpened, Debit, list[Debit]]:
    """The entries inside a certificate: of the account, of the answer, and of what that rests on."""
    try:
        opened, debit, *earlier = (
            decode(str(text).encode()) for text in (found["account_entry"], found["entry"], *found["earlier"])
        )
    except (KeyError, BadEventEncoding):
        raise _not_a_certificate_error() from None
    steps = [step for step in earlier if isinstance(step, Debit)]
    if not isinstance(opened, AccountOpened) or not isinstance(debit, Debit) or len(steps) != len(earlier):
        raise _not_a_certificate_error()
    return opened, debit, steps


def read_certificate(found: Any) -> dict[str, Any]:
    """A certificate, if that is what this is."""
    parts = {"measurement": dict, "release": dict, "facts": dict, "price": dict, "guarantee": dict, "earlier": list}
    texts = dict.fromkeys(("format", "software", "account_entry", "entry", "public_key", "signature"), str)
    known = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in (parts | texts).items())
    if not known or found["format"] != CERTIFICATE_FORMAT or not is_public_key(found["public_key"]):
        raise _not_a_certificate_error()
    try:
        to_canonical_json(found)
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, or nested without end
        raise _not_a_certificate_error() from None
    return dict(found)


def _not_a_certificate_error() -> BadParameter:
    return BadParameter(
        "release", "this file", "not a certificate of this version", "give a release.json that discreet wrote"
    )


def _load_entries(account: LedgerAccount, entry: int) -> tuple[AccountOpened, Debit, bytes | None]:
    with account.store.read_transaction() as pages:
        opened, debit, answer = (
            pages.read_opening(account.initial_state.name),
            pages.find_entry(entry),
            pages.find_answer(entry),
        )
    if opened is None or not isinstance(debit, Debit) or debit.account != opened.account:
        raise BadParameter(
            "entry", entry, f"no debit of account {account.initial_state.name!r}", "give the entry of the receipt"
        )
    return opened, debit, answer


def _load_entry_text(account: LedgerAccount, number: int) -> str:
    with account.store.read_transaction() as pages:
        return pages.read_body(number).decode()
