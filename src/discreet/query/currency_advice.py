"""What the currency of an account does to counts, computed before any row is read, and which currency suits which use.

A δ makes an account additive in ρ or μ² instead of ε. One count then has more noise, because its ε buys less of the
currency; many counts have less, because noise grows with the root of their number and not with the number.
"""

from fractions import Fraction
from functools import lru_cache

from discreet._numbers import format_up
from discreet.accounting.cost import SHOWN_DIGITS, format_at, notion_of
from discreet.accounting.currencies import CURRENCY_FAMILIES, Currency, Pure, amount_or_zero
from discreet.query.calibrate import COMPARISON_CONFIDENCE, least_error_mechanism
from discreet.units import count

USUAL_EPSILON = Fraction(1, 10)
"""The ε of the single count that is compared."""

MAX_COUNTS = 1 << 20


@lru_cache(maxsize=64)
def explain_currency(currency: Currency, epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Say what an account of (ε, δ) in this currency does to counts, and which currency suits which use.

    >>> from discreet.accounting.currencies import Zcdp
    >>> for line in explain_currency(Zcdp(), Fraction(1), Fraction(1, 10**6)):
    ...     print(line)
    A single count at ε = 0.1 is ± 80 in zCDP at δ = 1e-6, and ± 30 in pure ε without δ. From about 10 counts on that share \
the budget, zCDP is the more accurate.
    Which currency suits which use: pure for a few queries, or a guarantee without δ; zcdp for many queries, many groups \
and partition selection; gdp for many queries with Gaussian noise only; rdp(16) for training (DP-SGD) and other events \
whose divergence at one order is known.
    """
    *others, last = (f"{kind.example} for {kind.suits}" for kind in CURRENCY_FAMILIES.values() if kind.suits)
    suits = f"Which currency suits which use: {'; '.join(others)}; {last}."
    return (_compare_with_pure(currency, epsilon, delta), suits) if delta else ()


def _compare_with_pure(currency: Currency, epsilon: Fraction, delta: Fraction) -> str:
    single = min(USUAL_EPSILON, epsilon)
    pure = f"± {count_error(Pure(), single):,.0f} in pure ε"
    said = f"A single count at ε = {format_up(single, SHOWN_DIGITS)} is"
    if currency.counts_epsilon:
        return f"{said} {pure}; δ is for partition selection, claims and publications."
    notion, amount = notion_of(currency), amount_or_zero(currency, single, delta)
    if amount == 0:
        return f"At δ = {format_up(delta, SHOWN_DIGITS)}, ε = {format_up(single, SHOWN_DIGITS)} buys nothing in {notion}."
    own = f"± {count_error(currency, amount):,.0f} in {notion}{format_at(delta)}"
    counts = find_break_even(currency, epsilon, delta)
    more = (
        "" if counts is None else f" From about {counts:,} counts on that share the budget, {notion} is the more accurate."
    )
    return f"{said} {own}, and {pure} without δ.{more if counts is None or counts > 1 else ''}"


def count_error(currency: Currency, amount: Fraction) -> float:
    """Return the half-width of one count at 95% that costs an amount of a currency, under add/remove of one unit."""
    return float(least_error_mechanism(count(), currency, amount).error(COMPARISON_CONFIDENCE))


def find_break_even(currency: Currency, epsilon: Fraction, delta: Fraction) -> int | None:
    """Return the smallest number of counts that share an account at which the currency has less noise than pure ε; None if
    there is none up to 2²⁰. The ratio of the two errors falls with the number, but for rounding to whole rows, so a
    bisection finds it."""
    amount = amount_or_zero(currency, epsilon, delta)

    def is_better(counts: int) -> bool:
        return count_error(currency, amount / counts) < count_error(Pure(), epsilon / counts)

    if amount == 0:
        return None
    high = 1
    while not is_better(high):
        high *= 2
        if high > MAX_COUNTS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_better(middle) else (middle, high)
    return high
