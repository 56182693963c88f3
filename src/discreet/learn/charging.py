"""Who pays for a fit, and how much noise that buys: one debit for each fit, before any row is read.

**Theory of operation.** A model lists the noisy vectors that it releases (`NoisyVector`): how far one unit moves each, which
share of the budget it gets, and how often it is drawn. All noise is Gaussian, so the whole fit is one Gaussian of
μ² = Σ times·l2²/σ², whatever the answers before a draw decided about it, and its curve is known in closed form [DRS22].
`plan_fit` finds μ from the account (the certified point (ε, δ), or an amount of its currency), gives each vector its σ,
rounded up, and states the event. `run_fit` reserves, lets the model compute, and records what was released.

**Proof** that μ² may be shared among adaptive vectors. Whatever was released before, each step is a Gaussian mechanism
whose sensitivity is at most that of its event, so the pair of its event dominates it, and the product of these pairs, one
Gaussian, dominates the whole [ZDW22, Thm 10].

Without an account, a budget in memory is spent, and the process keeps a tally: a second fit warns with the ε of all fits so
far. Every fit is new: nothing is paid once and fitted twice.
"""

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any, TypeAlias

import msgspec
import numpy as np

from discreet._numbers import (
    Number,
    ceil_digits,
    format_up,
    read_decimal,
    read_positive,
    smallest_where,
    sqrt_up,
    to_rational,
)
from discreet.accounting.cost import SHOWN_DIGITS, Cost, format_at
from discreet.accounting.currencies import Pure, Receipt, certified_epsilon
from discreet.errors import BadParameter
from discreet.events import Composition, compose, repeat
from discreet.learn.features import Features, Ints, Target
from discreet.learn.records import Records, Rows
from discreet.ledger.account import Account, CachedAnswer
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.entries import encode_answer, hash_measurement, privacy_unit_of
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.mechanisms.exponential import Exponential
from discreet.mechanisms.gaussian import Gaussian, exact_mu
from discreet.noise import SYSTEM, Bits, SelectionRule
from discreet.query.record import LedgerReference
from discreet.session.charging import ChargeTerms
from discreet.session.executor import SEEDED, RunOptions
from discreet.session.session import Session
from discreet.tabulation.measuring import pack, unpack
from discreet.units import Neighbours, Sensitivity, invariants_to_json

SIGMA_DIGITS = 6
"""Digits of a σ."""

Released: TypeAlias = dict[str, Ints]
"""What a fit releases: integers with noise, by name. Everything that a model shows follows from them."""

Payer: TypeAlias = Session | Account | None


class RepeatedFit(UserWarning):
    """A second fit without an account: the ε of fits on the same people adds up."""


@dataclass(frozen=True)
class NoisyVector:
    """A vector of integer sums that is released `times` times, each with fresh noise.

    `l2_squared` bounds how far one unit moves it in one draw, squared; `share` is its part of μ² over all draws.
    """

    name: str
    l2_squared: Fraction
    share: Fraction
    times: int = 1


def bound_unit(
    l2_squared: Fraction | int, neighbours: Neighbours, max_rows: int = 1, *, nonnegative: bool = False
) -> Fraction:
    """Return how far one unit moves a sum over its records, squared, if one record has at most this squared length.

    A unit with k records moves it by k lengths. Replacing a unit takes k vectors away and adds k: two lengths k apart, or
    √2 of them if all coordinates are non-negative, because ‖v − w‖² = ‖v‖² + ‖w‖² − 2⟨v, w⟩ and ⟨v, w⟩ ≥ 0.

    >>> bound_unit(3, Neighbours.ADD_REMOVE), bound_unit(3, Neighbours.REPLACE), bound_unit(3, Neighbours.REPLACE, 2)
    (Fraction(3, 1), Fraction(12, 1), Fraction(48, 1))
    """
    factor = 1 if neighbours is Neighbours.ADD_REMOVE else 2 if nonnegative else 4
    return Fraction(l2_squared) * factor * max_rows * max_rows


@dataclass(frozen=True)
class FitPlan:
    """The noise of a fit and its cost: all that is known before it is charged."""

    vectors: tuple[NoisyVector, ...]
    noises: Mapping[str, Gaussian]
    terms: ChargeTerms
    payer: Payer = field(repr=False)
    mu: float  # of the whole fit

    @cached_property
    def event(self) -> Composition:
        """What will have happened once the model is fitted."""
        return make_event(self.vectors, self.noises)

    def describe_noise(self) -> dict[str, str]:
        """Return what is random, as plain values."""
        return {name: str(noise.sigma) for name, noise in self.noises.items()}

    @cached_property
    def charge(self) -> Fraction:
        """What it costs, in the account's currency."""
        return to_rational(self.terms.compute_charge(self.event))

    @property
    def cost(self) -> Cost:
        """ε at δ, the charge, and what remains of the account's budget now."""
        budget = self.account.budget
        return Cost(self.event, self.terms.delta, self.terms.currency, self.charge, budget.remaining, budget.limit)

    @cached_property
    def account(self) -> Account:
        """The account that pays; without one, one in memory for this fit alone."""
        if self.payer is None:
            return MemoryAccount(create_budget(self.terms.limit, self.terms.certified_delta, Pure()))
        return self.payer.account if isinstance(self.payer, Session) else self.payer


@dataclass(frozen=True)
class ChoicePlan(FitPlan):
    """A choice by scores that one unit moves by at most `max_rows`, instead of noisy vectors; and its cost."""

    choice: Exponential
    max_rows: int
    monotone: bool  # whether a unit moves all scores in the same direction

    @cached_property
    def event(self) -> Composition:
        """What will have happened once the choice is made."""
        return compose(self.choice.event(self.max_rows, monotone=self.monotone))

    def describe_noise(self) -> dict[str, str]:
        """As in `FitPlan`."""
        return {"choice": f"{self.choice.rule.value} at {self.choice.rate}"}


def make_event(vectors: Sequence[NoisyVector], noises: Mapping[str, Gaussian]) -> Composition:
    """Return the event of releasing these vectors with these noises."""
    events = (repeat(noises[v.name].event(Sensitivity(l2_squared=v.l2_squared)), v.times) for v in vectors)
    return compose(*events)


def make_terms(epsilon: Number | None, delta: Number | None, payer: Payer, what: str = "a model") -> ChargeTerms:
    """Return how the account charges a fit at (ε, δ), and the most that it may cost."""
    if epsilon is None:
        raise BadParameter("epsilon", "missing", f"{what} has a cost", "give epsilon=1 and delta=1e-6, for example")
    exact = read_positive(epsilon, "epsilon")
    if isinstance(payer, Session):
        given = None if delta is not None and _is_own_delta(payer, delta) else delta
        return ChargeTerms.of_gaussian(payer, exact, given, what)
    if payer is not None and not payer.budget.currency.counts_epsilon:
        return _make_account_terms(exact, delta, payer)
    if delta is None or read_decimal(delta, "delta") <= 0:
        shown = "missing" if delta is None else "0"
        raise BadParameter("delta", shown, f"{what} draws Gaussian noise, which has no pure ε", "give delta=1e-6, say")
    point = read_decimal(delta, "delta")
    return ChargeTerms(Pure(), point, point, exact, Fraction(0))


def make_choice_terms(epsilon: Number | None, delta: Number | None, payer: Payer, what: str) -> ChargeTerms:
    """Return how the account charges a fit that is ε-private without a δ, and the most that it may cost."""
    if epsilon is None:
        raise BadParameter("epsilon", "missing", f"{what} has a cost", "give epsilon=0.1, for example")
    if isinstance(payer, Session):
        return ChargeTerms.of_pure(payer, epsilon)
    exact = read_positive(epsilon, "epsilon")
    if payer is not None and not payer.budget.currency.counts_epsilon:
        return _make_account_terms(exact, delta, payer)
    return ChargeTerms(Pure(), Fraction(0), Fraction(0), exact, Fraction(0))


def _is_own_delta(session: Session, delta: Number) -> bool:
    return not session.account.budget.currency.counts_epsilon and read_decimal(delta, "delta") == session.delta


def _make_account_terms(epsilon: Fraction, delta: Number | None, account: Account) -> ChargeTerms:
    """The terms of an account in another currency than ε."""
    own = account.initial_state.delta if isinstance(account, LedgerAccount) else None
    given = None if delta is None else read_decimal(delta, "delta")
    if own is not None and given is not None and own != given:
        raise BadParameter("delta", delta, "the account has its own, which cannot be changed", "leave it out")
    at = own if own is not None else given
    if at is None:
        raise BadParameter("delta", "missing", "the account does not say at which δ an ε is meant", "give delta=1e-6, say")
    currency = account.budget.currency
    return ChargeTerms(currency, at, Fraction(0), currency.amount(epsilon, at), Fraction(0))


def plan_fit(vectors: Sequence[NoisyVector], terms: ChargeTerms, payer: Payer) -> FitPlan:
    """Give each vector its noise, so that all of it costs what may be spent. No row is read.

    >>> terms = make_terms(1, 1e-6, None)
    >>> plan = plan_fit([NoisyVector("sum", Fraction(1), Fraction(1))], terms, None)
    >>> plan.noises["sum"], plan.charge <= 1
    (Gaussian(sigma=4.22468), True)
    """
    if sum(each.share for each in vectors) > 1:
        raise AssertionError("the shares of a budget exceed it")
    mu_squared = find_mu_squared(terms)
    slack = Fraction(1)
    while True:
        noises = {
            v.name: Gaussian(ceil_digits(sqrt_up(slack * v.l2_squared * v.times / (v.share * mu_squared)), SIGMA_DIGITS))
            for v in vectors
        }
        plan = FitPlan(tuple(vectors), noises, terms, payer, float(mu_squared) ** 0.5)
        if plan.charge <= terms.limit:
            return plan
        slack *= 1 + Fraction(1, 10**SIGMA_DIGITS)  # the curve is certified from above, in doubles


def plan_choice(max_rows: int, neighbours: Neighbours, terms: ChargeTerms, payer: Payer) -> ChoicePlan:
    """Give a choice by counts of records the steepest rate that may be spent. No row is read.

    A count moves by at most `max_rows` with one unit; all counts in the same direction if the unit is added or removed.
    Where ε is counted, permute-and-flip is at least as good as the exponential mechanism at the same ε [MS20]; elsewhere the
    latter costs less.

    >>> plan_choice(1, Neighbours.ADD_REMOVE, make_choice_terms(0.1, None, None, "a choice"), None).choice
    Exponential(rate=Fraction(1, 10), rule=<SelectionRule.PERMUTE_AND_FLIP: 'permute-and-flip'>)
    """
    monotone = neighbours is Neighbours.ADD_REMOVE

    def make(epsilon: Fraction) -> ChoicePlan:
        rule = SelectionRule.PERMUTE_AND_FLIP if terms.currency.counts_epsilon else SelectionRule.EXPONENTIAL
        choice = Exponential.for_epsilon(epsilon, max_rows, rule, monotone=monotone)
        return ChoicePlan((), {}, terms, payer, 0.0, choice, max_rows, monotone)

    if terms.currency.counts_epsilon:
        return make(terms.limit)
    scale = smallest_where(lambda scale: make(1 / Fraction(scale)).charge <= terms.limit, 1.0, 2.0**-20)
    if scale == inf:
        raise BadParameter(
            "account", f"kept in {terms.currency.name}", "a choice has no cost in it", "open an account in zcdp"
        )
    return make(1 / Fraction(scale))


def find_mu_squared(terms: ChargeTerms) -> Fraction:
    """Return μ² of the least noise that costs no more than the limit."""
    if terms.certified_delta:
        return exact_mu(terms.limit, terms.certified_delta) ** 2
    variance = terms.currency.gaussian_variance(terms.limit, Fraction(1))
    if variance is None:
        raise BadParameter(
            "account", f"kept in {terms.currency.name}", "Gaussian noise has no cost in it", "open an account in zcdp"
        )
    return 1 / variance


@dataclass(frozen=True)
class Fit:
    """One fit, declared: what is read, what is released, and how it is computed."""

    records: Records
    features: Features
    target: Target
    neighbours: Neighbours
    settings: Mapping[str, Any]  # of the model, as plain values
    plan: FitPlan
    compute: Callable[[Rows, Mapping[str, Gaussian], Bits], Released]
    """Computes the sums of the rows, adds the noise, and returns integers. Called once, after the debit."""
    shapes: Mapping[str, tuple[int, ...]]  # of what is released

    def describe(self) -> dict[str, Any]:
        """Return everything that decides what is released, as plain values."""
        target = None if self.target is None else Features.describe(_as_features(self.target))
        return {
            "unit": self.records.unit,
            "neighbours": self.neighbours.definition,
            "model": dict(self.settings),
            "features": self.features.describe(),
            "target": target,
            "max_rows": self.records.max_rows,
            "noise": self.plan.describe_noise(),
        }

    def read_and_compute(self, bits: Bits | None) -> Released:
        """Read the rows and release. Only what runs after the debit calls it."""
        return self.release(self.records.read(self.features, self.target), bits)

    def release(self, rows: Rows, bits: Bits | None) -> Released:
        """Compute sums of the rows and add noise. Only what runs after the debit calls it."""
        released = self.compute(rows, self.plan.noises, SYSTEM if bits is None else bits)
        if {name: each.shape for name, each in released.items()} != dict(self.shapes):
            raise AssertionError("a model released something else than it declared")
        return released

    def to_record(self, released: Released) -> dict[str, Any]:
        """Return what was released as plain values."""
        return {"fitted": {name: {"shape": list(each.shape), "cells": pack(each)} for name, each in released.items()}}

    def from_record(self, record: Mapping[str, Any]) -> Released:
        """Return what `to_record` wrote."""
        return {name: unpack(each["cells"], tuple(each["shape"])) for name, each in record["fitted"].items()}


def _as_features(target: Target) -> Features:
    from discreet.learn.features import CategoryFeature

    return Features((), (target,)) if isinstance(target, CategoryFeature) else Features((target,), ())  # type: ignore[arg-type]


@dataclass(frozen=True)
class Fitted:
    """What a fit released, what it cost, and where the account keeps it."""

    released: Released
    cost: Cost
    event: Composition
    reference: LedgerReference
    tainted: bool = False


def run_fit(fit: Fit, *, bits: Bits | None = None, id: str | None = None) -> Fitted:
    """Reserve, read and release, record."""
    options = RunOptions(bits=bits, id=id, fresh=True, shared=False)
    run = getattr(fit.records, "run", None)  # a session's records are read by its executor
    if run is not None:
        return run(fit, options)  # type: ignore[no-any-return]
    if id is not None:
        raise BadParameter("id", repr(id), "arrays have no name by which a retry finds them", "leave it out")
    return _run_on_account(fit, options)


def _run_on_account(fit: Fit, options: RunOptions) -> Fitted:
    """Charge an account for a fit on rows that the caller holds."""
    plan, account, spec = fit.plan, fit.plan.account, fit.describe() | SEEDED[options.tainted]
    if isinstance(plan.payer, Session):  # the caller's word: each row is one of the session's units
        spec |= {"unit": plan.payer.table.unit, "rows": "of arrays"}
        if plan.payer.invariants:
            spec["invariants"] = invariants_to_json(plan.payer.invariants)
        plan.payer.executor.check_quarantine()
    paid = account.reserve(
        plan.event, measurement=hash_measurement(spec), fresh=True, tainted=options.tainted,
        certified_delta=plan.terms.certified_delta, privacy_unit=privacy_unit_of(spec), shared=False,
    )  # fmt: skip
    assert not isinstance(paid, CachedAnswer)  # every fit is new
    if plan.payer is None:
        TALLY.add(plan.event, plan.terms, fit.neighbours)
    released = fit.read_and_compute(options.bits)
    record = fit.to_record(released)
    account.record(paid, encode_answer(record))
    return finish(fit, released, LedgerReference(paid.entry, spec, record, ()), paid, options)


def finish(fit: Fit, released: Released, reference: LedgerReference, paid: Receipt | None, options: RunOptions) -> Fitted:
    """Return what was released with what it cost."""
    plan = fit.plan
    budget = plan.account.budget
    remaining = budget.remaining if paid is None or paid.remaining is None else paid.remaining
    cost = Cost(plan.event, plan.terms.delta, plan.terms.currency, plan.charge, remaining, budget.limit)
    return Fitted(released, cost, plan.event, reference, options.tainted)


def read_neighbours(given: Neighbours | str | None, payer: Payer) -> Neighbours:
    """Return the neighbouring relation: the session's, else what is given, else add/remove."""
    read = given if given is None or isinstance(given, Neighbours) else Neighbours.parse(given)
    if not isinstance(payer, Session):
        return read or Neighbours.ADD_REMOVE
    if read is not None and read is not payer.neighbours:
        raise BadParameter("neighbours", repr(read.value), "the session has another relation", "leave it out")
    return payer.neighbours


class Tally:
    """The fits of this process that no account paid for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[Neighbours, list[tuple[Composition, Fraction, Fraction]]] = {}

    def add(self, event: Composition, terms: ChargeTerms, neighbours: Neighbours) -> None:
        """Count a fit, or a release of metrics; from the second on, warn with the ε of all of them."""
        with self._lock:
            fits = self._events.setdefault(neighbours, [])
            fits.append((event, terms.limit, terms.certified_delta))
            known = [*fits]
        if len(known) > 1:
            warnings.warn(self._describe(known), RepeatedFit, stacklevel=5)

    @staticmethod
    def _describe(fits: Sequence[tuple[Composition, Fraction, Fraction]]) -> str:
        delta = sum((each for _, _, each in fits), Fraction(0))
        if delta >= 1:
            return f"This is release {len(fits)} without an account. Together they promise nothing: their δ add up to 1."
        epsilon = min(
            Fraction(certified_epsilon(compose(*(event for event, _, _ in fits)), delta).upper),
            sum((each for _, each, _ in fits), Fraction(0)),
        )
        return (
            f"This is release {len(fits)} (fits and metrics) without an account in this process. If they read records of "
            f"the same people, together they cost ε = {format_up(epsilon, SHOWN_DIGITS)}{format_at(delta)}. "
            "Give account=, so that a budget limits them."
        )

    def clear(self) -> None:
        """Forget all fits: for tests."""
        with self._lock:
            self._events.clear()


TALLY = Tally()
"""The fits of this process that no account paid for."""


def to_plain(value: Any) -> Any:
    """Return a parameter as plain values that can be hashed: texts of what JSON does not know."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [*map(to_plain, value)]
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    return str(value)


def decode_record(encoded: bytes) -> Any:
    """Return a recorded answer as plain values."""
    return msgspec.json.decode(encoded)
