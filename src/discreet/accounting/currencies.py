"""Currencies, and filters: budgets that stay sound when every next query is chosen after seeing the last answers.

**Theory of operation.** An account is opened with a budget in one currency, and both are fixed before the first answer. An
event costs an amount of the currency and a δ; it fits if the sums stay within the budget. The decision looks only at sums of
costs, and those are what the filter theorems allow to adapt to the answers. A `Currency` is one object that knows everything
about its notion that the rest of discreet needs:

- `cost(event)`: the amount and the δ that an event costs;
- `amount(epsilon, delta)`: what (ε, δ) buys, rounded down; `epsilon(amount, delta)`: what an amount promises, rounded up;
- `gaussian_variance(amount, l2_squared)`: the Gaussian noise that an amount buys;
- its name on the wire and on the command line, the symbol of its amounts, and its filter theorem.

To add a currency, write one subclass with the theorem that makes its sums a filter, and list it in `CURRENCY_FAMILIES`.

A share of an account's δ, `reserved_delta_share`, is set aside for partition selection and claims; the rest converts the
currency.

There is no filter on the composed curve δ(ε) and none on "the best order so far": neither is sound [TKRH26], see
docs/decisions/0002-no-filter-on-the-curve.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite
from typing import Any, ClassVar

from discreet._numbers import (
    Bounds,
    Number,
    ceil_float,
    check_probability,
    decimal_up,
    floor_float,
    format_rational,
    format_up,
    is_infinite,
    nearest_float,
    parse_rational,
    read_decimal,
    read_positive,
    sqrt_up,
    to_rational,
)
from discreet.accounting.basic import split_delta
from discreet.accounting.conversions import (
    divergence_within,
    epsilon_from_gdp,
    epsilon_from_rdp,
    epsilon_from_zcdp,
    mu_within,
    rho_within,
)
from discreet.accounting.gdp import mu_squared
from discreet.accounting.pure import pure
from discreet.accounting.renyi import renyi
from discreet.accounting.zcdp import zcdp
from discreet.errors import DELTA_CURRENCY, BadParameter, BudgetExceeded
from discreet.events import Composition, Event, check_additive, compose

DEFAULT_DELTA = Fraction(1, 10**6)
"""The δ at which ε is reported where the session has none."""

RESERVED_DELTA_SHARE = Fraction(1, 2)
"""The share of an account's δ that is set aside for partition selection and claims, unless the currency says otherwise."""

MAX_DENOMINATOR_BITS = 128
"""An account rounds a cost, or the sum of its costs, up if its denominator has more bits than this."""

MAX_PROPOSED_EPSILON = float(1 << 20)
"""No ε above this is proposed."""


class Currency(ABC):
    """An additive notion of privacy in which an account can be kept; immutable, and equal to another of the same name."""

    __slots__ = ()

    family: ClassVar[str]
    """The name without parameters, by which the currency is registered."""
    example: ClassVar[str]
    """A name that can be typed, for error messages."""
    theorem: ClassVar[str]
    """The theorem that makes Σcost ≤ limit a filter."""
    suits: ClassVar[str] = ""
    """What an account in this currency is good for, in words; an account with a δ says so when it is opened."""
    json_key: ClassVar[str]
    """The key of a reported cost in JSON."""
    counts_epsilon: ClassVar[bool] = False
    """Whether amounts are ε itself. No δ is then needed to convert them, and a certified (ε, δ) can be charged as it is."""
    reserved_delta_share: ClassVar[Fraction] = RESERVED_DELTA_SHARE
    """The share of an account's δ that is set aside for partition selection and claims; the rest converts the currency."""
    prefers_gaussian: ClassVar[bool] = False
    """Whether Gaussian noise never has a larger error than Laplace noise of the same cost."""
    noise_power: ClassVar[int] = 2
    """Noise that is k times as large costs about k^−noise_power as much."""

    @classmethod
    def parse(cls, parameter: str | None) -> "Currency | None":
        """The currency of this family with the parameter that was typed in parentheses; None if it has no such."""
        return cls() if parameter is None else None

    @property
    def name(self) -> str:
        """The name on the wire and on the command line."""
        return self.family

    @property
    @abstractmethod
    def symbol(self) -> str:
        """The symbol of an amount, such as ρ."""

    @property
    @abstractmethod
    def reported_symbol(self) -> str:
        """The symbol of a cost in a comparison of currencies, such as "zCDP ρ"."""

    def reported_value(self, amount: Fraction | float) -> Fraction | float:
        """An amount as it is reported in a comparison."""
        return amount

    @property
    def spends_delta(self) -> bool:
        """Whether an account may spend δ, on partition selection and on claims."""
        return self.reserved_delta_share > 0

    def cost(self, event: Event) -> tuple[Fraction | float, Fraction]:
        """What an event costs: an amount, and a δ. An infinite amount never fits.

        >>> from discreet.events import Claim
        >>> Pure().cost(Claim(Fraction(1), Fraction(1, 1000)))
        (Fraction(1, 1), Fraction(1, 1000))
        """
        core, delta = split_delta(event)
        if delta and not self.spends_delta:
            return inf, Fraction(0)
        return self.core_cost(core), delta

    @abstractmethod
    def core_cost(self, core: Event) -> Fraction | float:
        """The amount that an event without any δ costs, rounded up; ∞ where the notion has no bound."""

    def amount(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """What (ε, δ) of an account buys, rounded down.

        >>> Pure().amount(Fraction(1), Fraction(0)), round(float(Zcdp().amount(Fraction(1), Fraction(1, 10**6))), 6)
        (Fraction(1, 1), 0.022937)
        """
        if delta == 0 and not self.counts_epsilon:
            raise BadParameter("delta", "0", "this currency promises an ε only at some δ", "give a δ, for example 1e-6")
        amount = self.amount_at(epsilon, delta * (1 - self.reserved_delta_share))
        if amount <= 0:
            raise BadParameter(
                "epsilon", format_rational(epsilon), "too small at this δ to buy anything", "take a larger ε or δ"
            )
        return amount

    def epsilon(self, amount: Fraction, delta: Fraction) -> float:
        """The ε that an amount of an account promises at the account's δ, rounded up."""
        return self.epsilon_at(amount, delta * (1 - self.reserved_delta_share))

    @abstractmethod
    def amount_at(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """The largest amount that promises (ε, δ), all of δ being used for the conversion, rounded down."""

    @abstractmethod
    def epsilon_at(self, amount: Fraction, delta: Fraction) -> float:
        """The ε that an amount promises at δ, all of which is used for the conversion, rounded up."""

    def gaussian_variance(self, amount: Fraction, l2_squared: Fraction) -> Fraction | None:
        """The least variance of Gaussian noise that costs this amount at this squared l2 sensitivity; None if none does."""
        return None


@dataclass(frozen=True, slots=True)
class Pure(Currency):
    """Amounts are ε. Σε ≤ ε and Σδ ≤ δ make all of it (ε, δ)-private [RRUV16]."""

    family = example = "pure"
    symbol = "ε"
    theorem = "[RRUV16]"
    suits = "a few queries, or a guarantee without δ"
    json_key = "epsilon"
    reported_symbol = "pure ε"
    counts_epsilon = True
    reserved_delta_share = Fraction(1)
    noise_power = 1

    def cost(self, event: Event) -> tuple[Fraction | float, Fraction]:
        """As in `Currency`; an event with a finite pure ε has no δ to split off."""
        epsilon = pure(event)
        if epsilon < inf:
            return epsilon, Fraction(0)
        core, delta = split_delta(event)
        return pure(core), delta

    def core_cost(self, core: Event) -> Fraction | float:
        """As in `Currency`."""
        return pure(core)

    def amount(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """ε itself, at every δ."""
        return epsilon

    amount_at = amount

    def epsilon_at(self, amount: Fraction, delta: Fraction) -> float:
        """The amount itself, at every δ."""
        return ceil_float(amount)


@dataclass(frozen=True, slots=True)
class Zcdp(Currency):
    """Amounts are ρ. Σρ ≤ ρ and Σδ ≤ δ make all of it δ-approximately ρ-zCDP [WRRW23, Thm 1]."""

    family = example = "zcdp"
    symbol = "ρ"
    theorem = "[WRRW23, Thm 1]"
    suits = "many queries, many groups and partition selection"
    json_key = "rho"
    reported_symbol = "zCDP ρ"

    def core_cost(self, core: Event) -> Fraction | float:
        """As in `Currency`."""
        return zcdp(core)

    def amount_at(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """As in `Currency`."""
        return Fraction(rho_within(epsilon, delta))

    def epsilon_at(self, amount: Fraction, delta: Fraction) -> float:
        """As in `Currency`."""
        return epsilon_from_zcdp(amount, delta)

    def gaussian_variance(self, amount: Fraction, l2_squared: Fraction) -> Fraction:
        """ρ = Δ²/2σ² [BS16, Prop. 1.6]."""
        return l2_squared / (2 * amount)


@dataclass(frozen=True, slots=True)
class Gdp(Currency):
    """Amounts are μ². Σμ² ≤ μ² and Σδ ≤ δ: all of it is a mass of δ in front of a μ-GDP core [ST22; KTH23].

    So δ(ε) ≤ δ_μ(ε) + δ.

    **Proof** of the part with δ: weight every path by Π(1−δᵢ) of its steps; what is cut off weighs at most Σδᵢ ≤ δ.
    """

    family = example = "gdp"
    symbol = "μ²"
    theorem = "[ST22; KTH23]"
    suits = "many queries with Gaussian noise only"
    json_key = "mu"
    reported_symbol = "GDP μ"
    prefers_gaussian = True  # ε-private noise costs −2Φ⁻¹(1/(1+e^ε)) in μ [DRS22], at which Gaussian noise is never larger

    def reported_value(self, amount: Fraction | float) -> Fraction | float:
        """μ, which people speak of; a filter adds up μ²."""
        return sqrt_up(to_rational(amount)) if isfinite(amount) else amount

    def core_cost(self, core: Event) -> Fraction | float:
        """As in `Currency`."""
        return mu_squared(core)

    def amount_at(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """As in `Currency`."""
        return Fraction(mu_within(epsilon, delta)) ** 2

    def epsilon_at(self, amount: Fraction, delta: Fraction) -> float:
        """As in `Currency`."""
        return epsilon_from_gdp(sqrt_up(amount), delta)

    def gaussian_variance(self, amount: Fraction, l2_squared: Fraction) -> Fraction:
        """μ = Δ/σ [DRS22, Thm 2.7]."""
        return l2_squared / amount


@dataclass(frozen=True, slots=True)
class Rdp(Currency):
    """Amounts are Rényi divergences D_α at one order α, fixed before the first answer; no δ can be spent.

    ΣD_α ≤ ε̄ makes all of it (α, ε̄)-RDP [FZ21; Lec21].
    """

    order: Fraction

    family = "rdp"
    example = "rdp(16)"
    theorem = "[FZ21; Lec21]"
    suits = "training (DP-SGD) and other events whose divergence at one order is known"
    json_key = "divergence"
    reserved_delta_share = Fraction(0)

    @classmethod
    def parse(cls, parameter: str | None) -> "Rdp | None":
        """The currency of an order above 1, written as a rational."""
        try:
            order = parse_rational(parameter or "")
        except BadParameter:
            return None
        return cls(order) if order > 1 else None

    @property
    def name(self) -> str:
        """As in `Currency`, with the order.

        >>> Rdp(Fraction(16)).name
        'rdp(16)'
        """
        return f"rdp({self.order})"

    @property
    def symbol(self) -> str:
        """As in `Currency`, with the order."""
        return f"D_{self.order}"

    @property
    def reported_symbol(self) -> str:
        """As in `Currency`, with the order."""
        return f"Rényi D({self.order})"

    def core_cost(self, core: Event) -> Fraction | float:
        """As in `Currency`."""
        return renyi(core, self.order)

    def amount_at(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """As in `Currency`."""
        return divergence_within(self.order, epsilon, delta)

    def epsilon_at(self, amount: Fraction, delta: Fraction) -> float:
        """As in `Currency`."""
        return epsilon_from_rdp(self.order, amount, delta)

    def gaussian_variance(self, amount: Fraction, l2_squared: Fraction) -> Fraction:
        """D_α = αΔ²/2σ² [Mir17, Prop. 7]."""
        return l2_squared * self.order / (2 * amount)


CURRENCY_FAMILIES: dict[str, type[Currency]] = {kind.family: kind for kind in (Pure, Zcdp, Gdp, Rdp)}
"""Every currency that can be named: one line per family."""


def parse_currency(text: str) -> Currency:
    """The currency that has this name.

    >>> parse_currency("zcdp"), parse_currency("rdp(16)")
    (Zcdp(), Rdp(order=Fraction(16, 1)))
    """
    *others, last = (kind.example for kind in CURRENCY_FAMILIES.values())
    choices = f"{', '.join(others)} or {last}"
    if not isinstance(text, str):
        raise BadParameter("currency", f"of type {type(text).__name__}", "not a currency", f"name one: {choices}")
    family, opening, parameter = text.removesuffix(")").partition("(")
    kind = CURRENCY_FAMILIES.get(family) if text.endswith(")") == bool(opening) else None
    found = None if kind is None else kind.parse(parameter if opening else None)
    if found is None:
        order = ": the order of RDP must be a number above 1" if kind is Rdp else ""
        raise BadParameter("currency", repr(text), f"no such currency{order}", f"take {choices}")
    return found


@dataclass(frozen=True, slots=True)
class Filter:
    """A budget in one currency, and what has been spent of it. A charge makes a new filter.

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import to_sensitivity
    >>> budget, event = zcdp_filter(Fraction(1, 100)), GaussianEvent(Fraction(10), to_sensitivity(1))  # ρ = 1/200
    >>> budget.charge(event).charge(event).remaining
    Fraction(0, 1)
    >>> budget.charge(event * 3)
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: This costs ρ = 0.015, and ρ = 0.01 remains. Ask for less, or for a coarser answer.
    """

    currency: Currency
    limit: Fraction
    delta_limit: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    delta_spent: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """The amount of the currency that can still be spent."""
        return _add(self.limit, -1, self.spent)

    @property
    def delta_remaining(self) -> Fraction:
        """The δ that partition selection and claims can still spend."""
        return self.delta_limit - self.delta_spent

    def charge(self, event: Event) -> "Filter":
        """The filter after this event is charged. Raise `BudgetExceeded` if it does not fit."""
        check_additive(event)
        return self.charge_cost(*self.currency.cost(event))

    def charge_cost(self, amount: Fraction | float, delta: Fraction, max_bits: int | None = None) -> "Filter":
        """The filter after a known cost is charged. Raise `BudgetExceeded` if it does not fit.

        With `max_bits`, sums whose denominators are longer are rounded up to so many bits: a long history makes no long
        fractions. The exact sums are within the limits, so the rounded ones need not exceed them.
        """
        if is_infinite(amount) or _exceeds(spent := _add(self.spent, 1, to_rational(amount)), self.limit):
            raise BudgetExceeded(self.currency.symbol, cost=amount, remaining=self.remaining, limit=self.limit)
        delta_spent = self.delta_spent
        if delta:
            delta_spent += delta
            if _exceeds(delta_spent, self.delta_limit):
                raise BudgetExceeded(DELTA_CURRENCY, cost=delta, remaining=self.delta_remaining)
        if max_bits is not None and spent.denominator.bit_length() > max_bits:
            spent = min(round_up(spent, max_bits), self.limit)
        if max_bits is not None and delta_spent.denominator.bit_length() > max_bits:
            delta_spent = min(round_up(delta_spent, max_bits), self.delta_limit)
        return Filter(self.currency, self.limit, self.delta_limit, spent, delta_spent)

    def epsilon(self, delta: Number) -> float:
        """The ε that the whole *budget* promises at δ, of which `delta_limit` may be spent on its own; rounded up."""
        target = read_decimal(delta, "delta")
        if self.currency.counts_epsilon:
            return self.currency.epsilon_at(self.limit, target) if target >= self.delta_limit else inf
        rest = check_probability(target, "delta") - self.delta_limit
        return inf if rest <= 0 else self.currency.epsilon_at(self.limit, rest)

    def fitting_epsilon(self, delta: Fraction) -> Fraction:
        """The largest short decimal ε that the remaining budget buys at the account's δ; 0 if none does.

        >>> create_budget(1, 1e-6).fitting_epsilon(Fraction(1, 10**6))
        Fraction(1, 1)
        >>> pure_filter(Fraction(2, 3)).fitting_epsilon(Fraction(0))
        Fraction(3333, 5000)
        """
        return largest_epsilon(self.currency, self.remaining, delta)


def _add(first: Fraction, sign: int, second: Fraction) -> Fraction:
    """Return first ± second, exactly. For short rationals the operators take twice as long: they first look at the types."""
    (top, bottom), (other_top, other_bottom) = first.as_integer_ratio(), second.as_integer_ratio()
    return Fraction(top * other_bottom + sign * other_top * bottom, bottom * other_bottom)


def _exceeds(amount: Fraction, limit: Fraction) -> bool:
    """Whether an amount is above a limit. To compare the integers takes half as long as to compare the rationals."""
    (top, bottom), (limit_top, limit_bottom) = amount.as_integer_ratio(), limit.as_integer_ratio()
    return top * limit_bottom > limit_top * bottom


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a measurement was paid for. Only an account makes one, and whatever draws noise spends it before.

    One receipt allows one noise: of two noises on the same counts the mean is more exact than what was paid for. So a
    receipt is spent once. Where a measurement failed, and is continued, the account makes another receipt of its debit; then
    only what is recorded first is shown. Copies in the same process, those of `dataclasses.replace` too, are spent together
    with the original; a pickled one would not be, so it is refused.
    """

    entry: int
    event: Composition
    remaining: Fraction | None = None  # in the account's currency, right after this entry
    paid_by: str | None = None  # the other account of the family whose debit this continues; None: the account's own
    _unspent: list[bool] = field(default_factory=lambda: [True], repr=False, compare=False, kw_only=True)
    """Holds one element until it is spent. It is a parameter so that `dataclasses.replace` passes the same list on."""

    def __copy__(self) -> "Receipt":
        return self

    def __deepcopy__(self, memo: Any) -> "Receipt":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled: each receipt that is read back would pay for a noise of its own."""
        raise BadParameter(
            "receipt", "to be pickled", "what is read back could pay for the same noise again",
            "measure in the process that paid, or let the other process reserve with the same measurement",
        )  # fmt: skip

    def spend(self, event: Composition) -> None:
        """Use the receipt up for the noise of an event. Call it right before the noise is drawn.

        >>> from discreet.events import Claim, compose
        >>> event = compose(Claim(Fraction(1, 4), Fraction(0)))
        >>> receipt = Receipt(1, event)
        >>> receipt.spend(event)
        >>> receipt.spend(event)
        Traceback (most recent call last):
        discreet.errors.BadParameter: receipt is spent: its noise was drawn, and one receipt pays for one noise. Pay again.

        Raises:
            BadParameter: it paid for another event, or it is spent.
        """
        if event != self.event:
            raise BadParameter(
                "receipt", f"that of entry {self.entry}", "it is for another measurement", "pay for the event of this one"
            )
        try:
            self._unspent.pop()  # one step, so of two threads one is refused
        except IndexError:
            raise BadParameter(
                "receipt", "spent", "its noise was drawn, and one receipt pays for one noise", "pay again"
            ) from None

    def renew(self) -> "Receipt":
        """Return another receipt of the same debit. For accounts alone, which record one answer per debit."""
        return self._issue(self.event)

    def split(self, events: Sequence[Composition]) -> "tuple[Receipt, ...]":
        """Spend the receipt, and return one for each measurement of a workload that was paid for as one."""
        self.spend(compose(*events))
        return tuple(map(self._issue, events))

    def _issue(self, event: Composition) -> "Receipt":
        """Return an unspent receipt of the same debit."""
        return Receipt(self.entry, event, self.remaining, self.paid_by)


PROPOSED_DIGITS = (4, 8, 12)
"""The digits of a proposed ε: more than the first only where no ε so short fits."""


@lru_cache(maxsize=256)
def largest_epsilon(currency: Currency, amount: Fraction, delta: Fraction) -> Fraction:
    """The largest short decimal ε that costs at most an amount of an account at its δ; 0 if none does.

    Every ε that is returned was tried: `currency.amount` of it, which is what a query at that ε is charged, is at most the
    amount. An ε that a double holds as it is written, such as what remains of an account in pure ε, counts as short.
    """
    if amount <= 0:
        return Fraction(0)
    if currency.counts_epsilon:
        return amount if Fraction(repr(nearest_float(amount))) == amount else round_down(amount)
    promised = to_rational(min(currency.epsilon(amount, delta), MAX_PROPOSED_EPSILON))
    for digits in PROPOSED_DIGITS:
        step = digit_step(promised, digits)
        above = -(-promised // step) * step  # `amount` inverts `epsilon` up to rounding, so it may be this one
        for found in (above, above - step, above - 2 * step):
            if found > 0 and 0 < amount_or_zero(currency, found, delta) <= amount:
                return found
    return Fraction(0)


@lru_cache(maxsize=256)
def smallest_epsilon(currency: Currency, amount: Fraction, delta: Fraction, digits: int = 3) -> Fraction | float:
    """An ε of so many digits that an amount of an account promises at its δ, rounded up: what ε = 2 bought promises 2.

    >>> smallest_epsilon(Zcdp(), Zcdp().amount(Fraction(2), Fraction(1, 10**9)), Fraction(1, 10**9))
    Fraction(2, 1)
    """
    if amount <= 0:
        return Fraction(0)
    promised = currency.epsilon(amount, delta)
    if not isfinite(promised):
        return promised
    exact = amount if currency.counts_epsilon else to_rational(promised)
    step = digit_step(exact, digits)
    below = exact // step * step
    # An amount that ε buys promises that ε: `amount` is rounded down.
    return below if exact == below or amount_or_zero(currency, below, delta) >= amount else below + step


def amount_or_zero(currency: Currency, epsilon: Fraction, delta: Fraction) -> Fraction:
    """What an ε buys; 0 where it is too small to buy anything."""
    try:
        return currency.amount(epsilon, delta)
    except BadParameter:
        return Fraction(0)


def create_budget(epsilon: Number, delta: Number, currency: Currency | None = None) -> Filter:
    """A filter that promises (ε, δ). Without a δ it is kept in pure ε, else in zCDP unless another currency is given.

    >>> create_budget(1, 0).currency, create_budget(1, 1e-6).currency, create_budget(1, 1e-6, Pure()).limit
    (Pure(), Zcdp(), Fraction(1, 1))
    """
    exact_epsilon, exact_delta = read_positive(epsilon, "epsilon"), read_decimal(delta, "delta")
    if exact_delta != 0:
        check_probability(exact_delta, "delta")
    chosen = currency or (Pure() if exact_delta == 0 else Zcdp())
    return Filter(chosen, chosen.amount(exact_epsilon, exact_delta), exact_delta * chosen.reserved_delta_share)


def pure_filter(epsilon: Number, delta: Number = 0) -> Filter:
    """Σε ≤ epsilon and Σδ ≤ delta."""
    return Filter(Pure(), read_positive(epsilon, "epsilon"), _check_delta_limit(delta))


def zcdp_filter(rho: Number, delta: Number = 0) -> Filter:
    """Σρ ≤ rho, and Σδ ≤ delta."""
    return Filter(Zcdp(), read_positive(rho, "rho"), _check_delta_limit(delta))


def rdp_filter(order: Number, divergence: Number) -> Filter:
    """ΣD_α ≤ divergence at this one order; an event with a δ is refused."""
    alpha = read_decimal(order, "order")
    if alpha <= 1:
        raise BadParameter("order", order, "must exceed 1", "fix an order above 1, for example 16")
    return Filter(Rdp(alpha), read_positive(divergence, "divergence"))


def gdp_filter(mu: Number, delta: Number = 0) -> Filter:
    """Σμ² ≤ mu², and Σδ ≤ delta."""
    return Filter(Gdp(), read_positive(mu, "mu") ** 2, _check_delta_limit(delta))


def _check_delta_limit(delta: Number) -> Fraction:
    exact = read_decimal(delta, "delta")
    if not 0 <= exact < 1:
        raise BadParameter(
            "delta", delta, "must lie in [0, 1)", "give 0, or something far below one in the number of people"
        )
    return exact


# The cost of one event in every currency. Only the account's own currency is charged; the others are for comparison: each is
# what a filter of that currency would charge.


COMPARED_CURRENCIES: tuple[Currency, ...] = (Pure(), Zcdp(), Gdp(), *map(Rdp, (Fraction(2), Fraction(8), Fraction(32))))


@dataclass(frozen=True, slots=True)
class CurrencyCost:
    """The cost of an event in one currency: `value`, whose symbol is `symbol`, and the δ beside it."""

    name: str
    json_key: str
    symbol: str
    value: Bounds
    delta: Fraction
    exact: Fraction | float  # the upper end: no double is 3/10

    def to_dict(self) -> dict[str, Any]:
        """In plain values, costs rounded up; infinity is the string "inf"."""
        ends = {"lower": to_json_number(self.value.lower), "upper": to_json_number(decimal_up(self.exact))}
        return {self.json_key: ends if self.name == "epsilon" else ends["upper"], "delta": decimal_up(self.delta)}

    def __str__(self) -> str:
        beside = f" at δ = {format_up(self.delta, 3)}" if self.delta else ""
        return f"{self.symbol} = {'∞' if self.exact == inf else format_up(self.exact, 3)}{beside}"


@lru_cache(maxsize=64)
def compare_costs(event: Event, delta: Fraction) -> tuple[CurrencyCost, ...]:
    """The certified ε at δ (at 10⁻⁶ if there is no δ), then the cost in every compared currency.

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import count
    >>> [str(cost) for cost in compare_costs(GaussianEvent(Fraction(10), count()), Fraction(0))][1:4]
    ['pure ε = ∞', 'zCDP ρ = 0.005', 'GDP μ = 0.1']
    """
    at = delta or DEFAULT_DELTA
    epsilon = certified_epsilon(event, at)
    found = [CurrencyCost("epsilon", "epsilon", "ε", epsilon, at, epsilon.upper)]
    for currency in COMPARED_CURRENCIES:
        amount, delta_cost = currency.cost(event)
        value = currency.reported_value(amount)
        bounds = Bounds(floor_float(value), ceil_float(value))
        found.append(CurrencyCost(currency.name, currency.json_key, currency.reported_symbol, bounds, delta_cost, value))
    return tuple(found)


@lru_cache(maxsize=256)
def certified_epsilon(event: Event, delta: Fraction) -> Bounds:
    """A proven interval around the ε at δ; the pure ε where δ is 0."""
    if delta == 0:
        exact = pure(event)
        return Bounds(floor_float(exact), ceil_float(exact))
    from discreet.accounting.curve import epsilon as certified  # a pure budget needs no curve, and starts without it

    return certified(event, delta)


def to_json_number(value: float) -> float | str:
    """The number, or "inf", which JSON has no number for."""
    return value if isfinite(value) else str(value)


def round_up(exact: Fraction, max_bits: int = MAX_DENOMINATOR_BITS) -> Fraction:
    """The same number if its denominator has at most so many bits, else rounded up to so many significant bits.

    >>> round_up(Fraction(1, 3)), round_up(Fraction(1, 3**100)).numerator.bit_length() <= 129
    (Fraction(1, 3), True)
    """
    top, bottom = exact.as_integer_ratio()
    if bottom.bit_length() <= max_bits:
        return exact
    shift = max_bits - (top.bit_length() - bottom.bit_length())
    return Fraction(-(-(top << shift) // bottom), 1 << shift)


def round_down(value: Fraction, digits: int = 4) -> Fraction:
    """The largest decimal with so many digits that is not above `value`.

    >>> round_down(Fraction(2, 3)), round_down(Fraction(0))
    (Fraction(3333, 5000), Fraction(0, 1))
    """
    if value <= 0:
        return Fraction(0)
    step = digit_step(value, digits)
    return value // step * step


def digit_step(value: Fraction, digits: int) -> Fraction:
    """The last of so many digits of a positive number."""
    exponent = int(f"{float(value):.17e}".partition("e")[2])
    return Fraction(10) ** (exponent - digits + 1)
