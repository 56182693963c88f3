"""What a currency does to counts is computed, not remembered."""

from fractions import Fraction

import pytest

from discreet.accounting.currencies import Currency, Gdp, Pure, Rdp, Zcdp
from discreet.query.currency_advice import count_error, explain_currency, find_break_even
from tests.support.people import session

MILLIONTH = Fraction(1, 10**6)
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.mark.parametrize("currency", ["pure", "zcdp", "gdp"])
def test_the_half_widths_are_those_of_answers(currency: str) -> None:
    asked = session(epsilon=1, delta=MILLIONTH, currency=currency)
    [(_, (estimate,))] = asked.ask(COUNT, epsilon=Fraction(1, 10)).rows
    half_width = (estimate.upper - estimate.lower) / 2
    said, _ = explain_currency(asked.account.budget.currency, Fraction(1), MILLIONTH)
    assert said.startswith(f"A single count at ε = 0.1 is ± {half_width:.0f} in ")
    assert half_width == {"pure": 30, "zcdp": 80, "gdp": 74}[currency]


@pytest.mark.parametrize("currency", [Zcdp(), Gdp(), Rdp(Fraction(16))], ids=str)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(5)])
def test_the_break_even_is_where_the_errors_cross(currency: Currency, epsilon: Fraction) -> None:
    amount, found = currency.amount(epsilon, MILLIONTH), find_break_even(currency, epsilon, MILLIONTH)
    assert found is not None
    for counts in range(1, 2 * found):
        own, pure = count_error(currency, amount / counts), count_error(Pure(), epsilon / counts)
        assert (own < pure) == (counts >= found) or abs(own - pure) <= 1, "but for rounding to whole rows"


def test_without_delta_there_is_nothing_to_say_and_too_little_says_so() -> None:
    assert explain_currency(Pure(), Fraction(1), Fraction(0)) == ()
    said, suits = explain_currency(Rdp(Fraction(16)), Fraction(2), MILLIONTH)
    assert said == "At δ = 1e-6, ε = 0.1 buys nothing in Rényi."
    assert all(name in suits for name in ("pure for", "zcdp for", "gdp for", "rdp(16) for"))
