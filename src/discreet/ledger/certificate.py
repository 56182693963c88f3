"""release.json: an answer together with everything that its price follows from, signed with the ledger's key.

It holds the two entries of the ledger that matter, byte for byte: the one that opened the account and the debit. What else
it states (facts, price, guarantee) is there to be read; `verify` derives all of it again.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from discreet import codec
from discreet.accounting.filters import Filter
from discreet.errors import BadFact, BadParameter
from discreet.exact import ceil_float, floor_float
from discreet.ledger.account import Account
from discreet.ledger.book import LedgerAccount
from discreet.ledger.entry import Debit, Opened, canonical, decode, measurement_hash, whose_of
from discreet.ledger.keys import Key, is_public
from discreet.ledger.rotation import check_signing_key
from discreet.query.currency import name_of, plain
from discreet.query.price import Price
from discreet.units import Neighbours

FORMAT = "discreet release 1"
CHANGES = {Neighbours.ADD_REMOVE.definition: "added or removed", Neighbours.REPLACE.definition: "replaced by another"}


def answer_bytes(release: Mapping[str, Any]) -> bytes:
    """A release as the bytes that a ledger records and a certificate is checked against."""
    return canonical(release)


def certificate(
    account: LedgerAccount,
    entry: int,
    *,
    measurement: Mapping[str, Any],
    release: Mapping[str, Any],
    software: str,
    key: Key,
    after: Sequence[int] = (),
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
    opened, debit, answer = _entries(account, entry)
    earlier = [_entries(account, number)[1] for number in after]
    if not rests_on(measurement, debit, earlier):
        raise BadParameter("after", list(after), f"not the entries that entry {entry} rests on", "give those of its paper")
    if measurement_hash(measurement) != debit.measurement or whose_of(measurement) != debit.whose:
        raise BadParameter("measurement", "another one", f"entry {entry} paid for something else", "give what was paid for")
    if answer != answer_bytes(release):
        raise BadParameter(
            "release", "another one", f"it is not what is recorded for entry {entry}", "give what was recorded"
        )
    unsigned = {
        "format": FORMAT,
        "software": software,
        "measurement": dict(measurement),
        "release": dict(release),
        "facts": msgspec.json.decode(debit.facts),
        "price": stated_price(opened, debit),
        "guarantee": guarantee(opened, debit, measurement, earlier),
        "account_entry": _text(account, opened.number),
        "earlier": [_text(account, number) for number in after],
        "entry": _text(account, entry),
        "public_key": key.public,
    }
    read = msgspec.json.decode(canonical(unsigned))  # as a reader will have it
    return dict(read) | {"signature": key.sign(canonical(read))}


def stated_price(opened: Opened, debit: Debit) -> dict[str, Any]:
    """The price as a certificate of this format states it, in doubles that bound it."""
    price = price_of(opened, debit)
    return {
        "epsilon": {"lower": plain(price.epsilon.lower), "upper": plain(price.epsilon.upper)},
        "delta": ceil_float(price.delta),
        "currency": name_of(price.currency),
        "amount": plain(ceil_float(price.amount)),
        "left": floor_float(price.left),
    }


def price_of(opened: Opened, debit: Debit) -> Price:
    """What the debit cost, from its facts."""
    account = opened.fresh(None)
    currency, left = account.kept.currency, account.kept.limit - debit.spent
    return Price(codec.decode(bytes(debit.facts)), account.delta, currency, debit.price, left)


def rests_on(measurement: Mapping[str, Any], debit: Debit, earlier: Sequence[Debit]) -> bool:
    """Whether these debits paid, before this one and from the same account, for all that decided what it measures."""
    paid = all(step.number < debit.number and step.account == debit.account for step in earlier)
    return paid and [step.measurement for step in earlier] == list(measurement.get("after", ()))


def guarantee(opened: Opened, debit: Debit, measurement: Mapping[str, Any], earlier: Sequence[Debit] = ()) -> dict[str, Any]:
    """The promise: about whom, against what, at which ε and δ, alone and together with all before it.

    An answer whose noise or bounds were chosen after other answers is promised together with those, as the account's
    currency has it: a filter's theorem, which the certified curve of the facts is not (see accounting/filters.py).
    """
    account = opened.fresh(None)
    together, delta = so_far(account, debit.spent, debit.leaked), ceil_float(account.delta)
    steps = [*earlier, debit]
    chosen = so_far(account, sum((s.price for s in steps), Fraction(0)), sum((s.leak for s in steps), Fraction(0)))
    promise = {
        "account": account.name,
        "whose": f"one {measurement.get('unit')}",
        "change": CHANGES.get(str(measurement.get("neighbours")), "changed in a way that is not said"),
        "epsilon": plain(chosen if earlier else price_of(opened, debit).epsilon.upper),
        "delta": delta,
        "after": [step.number for step in earlier],
        "so_far": {"entry": debit.number, "epsilon": plain(together), "delta": delta},
    }
    return promise | {"words": words(promise)}


def words(promise: Mapping[str, Any]) -> str:
    """The promise as a sentence."""
    failing = f" at δ = {promise['delta']:.12g}" if promise["delta"] else ""
    before = promise["so_far"]
    rests = f", and of those that it rests on (entries {', '.join(map(str, promise['after']))})," if promise["after"] else ""
    return (
        f"Whatever else is known: the rows of {promise['whose']}, {promise['change']}, change the odds of any such "
        f"answer{rests} by at most e^{promise['epsilon']}{failing}; together with all that account {promise['account']} "
        f"released up to entry {before['entry']}, by at most e^{before['epsilon']}{failing}."
    )


def so_far(account: Account, spent: Fraction, leaked: Fraction) -> float:
    """The ε that a sum in the account's currency promises at its δ, however adaptively it was spent; rounded up."""
    return Filter(account.kept.currency, spent, leaked).epsilon(account.delta) if spent or leaked else 0.0


def read_entries(found: Mapping[str, Any]) -> tuple[Opened, Debit, list[Debit]]:
    """The entries inside a certificate: of the account, of the answer, and of what that rests on."""
    try:
        opened, debit, *earlier = (
            decode(str(text).encode()) for text in (found["account_entry"], found["entry"], *found["earlier"])
        )
    except (KeyError, BadFact):
        raise _foreign() from None
    steps = [step for step in earlier if isinstance(step, Debit)]
    if not isinstance(opened, Opened) or not isinstance(debit, Debit) or len(steps) != len(earlier):
        raise _foreign()
    return opened, debit, steps


def read_certificate(found: Any) -> dict[str, Any]:
    """A certificate, if that is what this is."""
    parts = {"measurement": dict, "release": dict, "facts": dict, "price": dict, "guarantee": dict, "earlier": list}
    texts = dict.fromkeys(("format", "software", "account_entry", "entry", "public_key", "signature"), str)
    known = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in (parts | texts).items())
    if not known or found["format"] != FORMAT or not is_public(found["public_key"]):
        raise _foreign()
    try:
        canonical(found)
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, or nested without end
        raise _foreign() from None
    return dict(found)


def _foreign() -> BadParameter:
    return BadParameter(
        "release", "this file", "not a certificate of this version", "give a release.json that discreet wrote"
    )


def _entries(account: LedgerAccount, entry: int) -> tuple[Opened, Debit, bytes | None]:
    with account.store.reading() as pages:
        opened, debit, answer = pages.opening(account.opened.name), pages.by_number(entry), pages.answer(entry)
    if opened is None or not isinstance(debit, Debit) or debit.account != opened.account:
        raise BadParameter("entry", entry, f"no debit of account {account.opened.name!r}", "give the entry of the receipt")
    return opened, debit, answer


def _text(account: LedgerAccount, number: int) -> str:
    with account.store.reading() as pages:
        return pages.body(number).decode()
