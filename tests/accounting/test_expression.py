"""Ledgers written as text: exact numbers, columns of mistakes, and nothing that is ever run."""

import re
from fractions import Fraction
from math import log
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._numbers import format_down, format_up
from discreet.accounting.curve import epsilon
from discreet.accounting.expression import COMBINATORS, NOISE_TERMS, parse
from discreet.accounting.pure import pure
from discreet.errors import BadExpression
from discreet.events import (
    NO_EVENT,
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    Parallel,
    SampledWithoutReplacement,
    SetResponseEvent,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    compose,
)
from discreet.units import Sensitivity, to_sensitivity

ONE = to_sensitivity(1)


def test_a_composition_of_three_events():
    text = "1000*laplace(scale=31.6) + 100*gaussian(sigma=50) + subsampled(gaussian(sigma=1), rate=0.01)*10000"
    assert parse(text) == compose(
        LaplaceEvent(Fraction(316, 10), ONE) * 1000,
        GaussianEvent(Fraction(50), ONE) * 100,
        Subsampled(GaussianEvent(Fraction(1), ONE), Fraction(1, 100)) * 10000,
    )


def test_every_name():
    assert parse("discrete_laplace(scale=3/2)") == DiscreteLaplaceEvent(Fraction(3, 2), ONE)
    assert parse("discrete_gaussian(sigma=.5, sensitivity=2)") == DiscreteGaussianEvent(Fraction(1, 2), to_sensitivity(2))
    assert parse("claim(epsilon=1, delta=1e-6)") == Claim(Fraction(1), Fraction(1, 10**6))
    assert parse("claim(epsilon=0)") == Claim(Fraction(0), Fraction(0))
    assert parse("binomial(n=100, sensitivity=3)") == BinomialEvent(100, to_sensitivity(3))
    assert parse("exponential(epsilon=0.5)") == ExponentialEvent(Fraction(1, 2))
    assert parse("threshold(scale=2, threshold=20)") == ThresholdEvent(Fraction(2), 20, 1)
    assert parse("threshold(scale=2, threshold=20, groups=3)") == ThresholdEvent(Fraction(2), 20, 3)
    assert parse("set_response(odds=3, share=1/2, pair=1/4)") == SetResponseEvent(
        Fraction(3), Fraction(1, 2), Fraction(1, 4)
    )
    assert "continuous" in NOISE_TERMS["laplace"].meaning
    assert all(one.meaning for one in (*NOISE_TERMS.values(), *COMBINATORS.values()))


def test_what_cannot_be_shuffled_is_refused_at_its_column():
    assert parse("2*shuffled(claim(epsilon=1), users=100)") == Shuffled(Claim(Fraction(1), Fraction(0)), 100) * 2
    for wrong in (
        "shuffled(gaussian(sigma=1), users=100)",
        "shuffled(claim(epsilon=1, delta=1e-6), users=100)",
        "shuffled(claim(epsilon=1), users=0)",
        "shuffled(claim(epsilon=1), users=1.5)",
        "subsampled(shuffled(claim(epsilon=1), users=9), rate=1/2)",
        "set_response(odds=1/2, share=1/2, pair=1/4)",
    ):
        with pytest.raises(BadExpression, match="column"):
            parse(wrong)


def test_every_name_that_takes_events():
    one, two = Claim(Fraction(1), Fraction(0)), Claim(Fraction(2), Fraction(0))
    both = "claim(epsilon=1) + claim(epsilon=2)"
    assert parse(f"subsampled({both}, rate=1/3)") == Subsampled(compose(one, two), Fraction(1, 3))
    assert parse(f"sampled({both}, rate=1/3)") == SampledWithoutReplacement(compose(one, two), Fraction(1, 3))
    assert parse(f"group({both}, size=3)") == Group(compose(one, two), 3)
    assert parse("group(claim(epsilon=1), size=1)") == one
    assert parse("parallel(claim(epsilon=1), claim(epsilon=2), 2*claim(epsilon=1))") == Parallel((one, two, one * 2))
    assert parse("3*parallel(claim(epsilon=1))") == Parallel((one,)) * 3


@pytest.mark.parametrize("name", ["laplace(scale=2", "discrete_laplace(scale=2", "gaussian(sigma=2", "binomial(n=2"])
def test_several_norms(name):
    moved = parse(f"{name}, l0=5, linf=8, l1=20)").sensitivity
    assert moved == Sensitivity(l0=5, linf=8, l1=20)
    assert parse(f"{name}, l2=3)").sensitivity == Sensitivity(l2=3)


@pytest.mark.parametrize("epsilon", ["0.05", "1", "40", "900", "5000"])
def test_a_response_costs_what_was_written_and_never_less(epsilon):
    seen = pure(parse(f"response(epsilon={epsilon})"))
    assert Fraction(epsilon) <= seen <= float(epsilon) * (1 + 1e-15)


def test_numbers_are_the_decimals_that_are_written():
    """0.1 is a tenth, not the double nearest to it."""
    assert parse("gaussian(sigma=0.1)") == GaussianEvent(Fraction(1, 10), ONE)
    assert parse("gaussian(sigma=1e-2)") == GaussianEvent(Fraction(1, 100), ONE)
    assert parse("gaussian(sigma=2**20)") == GaussianEvent(Fraction(1048576), ONE)
    assert parse("gaussian(sigma=3/1.5**100)") == GaussianEvent(3 / Fraction(3, 2) ** 100, ONE)
    assert parse("2**3*gaussian(sigma=1)*2") == GaussianEvent(Fraction(1), ONE) * 16


def test_repetition_on_either_side_and_nested():
    one = GaussianEvent(Fraction(1), ONE)
    for text in ("6*gaussian(sigma=1)", "gaussian(sigma=1)*6", "2*gaussian(sigma=1)*3", "2*(3*(gaussian(sigma=1)))"):
        assert parse(text) == one * 6
    assert parse("2*(gaussian(sigma=1) + claim(epsilon=1))") == compose(one * 2, Claim(Fraction(1), Fraction(0)) * 2)
    assert parse("0*gaussian(sigma=1)") == NO_EVENT
    assert parse(" gaussian ( sigma = 1 ) \n") == one
    assert parse("1e6*gaussian(sigma=1)") == one * 10**6


MISTAKES = {
    "": 1,
    "   ": 1,
    "gaussian": 9,
    "gaussian(": 10,
    "gaussian(sigma=)": 16,
    "gaussian(sigma=0)": 16,
    "gaussian(sigma=-1)": 16,
    "gaussian(sigma=nan)": 16,
    "gaussian(sigma=1e999999999)": 16,
    "gaussian(sigma=1/0)": 18,
    "gaussian(sigma=2**)": 19,
    "gaussian(sigma=2**1.5)": 19,
    "gaussian(sigma=2**1e9)": 19,
    "gaussian(sigma=2**9**9)": 20,
    "gaussian(sigma=1)**2": 19,
    "laplace(scale=1, l0=5)": 1,
    "gaussian(sgima=1)": 10,
    "gaussian(sigma=1, sigma=2)": 19,
    "gaussian(sigma=1": 17,
    "gaussian(sigma=1) +": 20,
    "gaussian(sigma=1) gaussian(sigma=1)": 19,
    "gaussian(sigma=1)*gaussian(sigma=1)": 1,
    "3": 1,
    "2.5*gaussian(sigma=1)": 1,
    "gaussian(sigma=1)*2.5": 19,
    "1e30*gaussian(sigma=1)": 1,
    "normal(sigma=1)": 1,
    "response(epsilon=1, sensitivity=2)": 21,
    "claim(epsilon=1, delta=1.5)": 24,
    "subsampled(gaussian(sigma=1))": 29,
    "subsampled(gaussian(sigma=1), rate=2)": 31,
    "__import__('os').system('true')": 1,
    "gaussian(sigma=(lambda: 1)())": 16,
    "group(gaussian(sigma=1))": 24,
    "group(gaussian(sigma=1), size=0)": 31,
    "group(gaussian(sigma=1), size=1.5)": 31,
    "group(gaussian(sigma=1), size=1e99)": 31,
    "group(size=2)": 7,
    "group(gaussian(sigma=1), gaussian(sigma=1), size=2)": 26,
    "parallel()": 10,
    "parallel(gaussian(sigma=1), rate=2)": 29,
    "sampled(gaussian(sigma=1), rate=2)": 28,
    "sampled(gaussian(sigma=1), 2)": 28,
    "binomial(n=2.5)": 12,
    "binomial(n=0)": 12,
    "exponential()": 13,
    "threshold(scale=1)": 18,
    "threshold(scale=1, threshold=3, groups=0)": 40,
    "laplace(scale=1, l0=1, l1=5, linf=2)": 1,
    "laplace(scale=1, linf=2)": 1,
    "2*laplace(scale=1, linf=2, l0=3, sensitivity=1)": 3,
    "(" * 5000: 51,
    "2*" * 3000 + "x": 6001,
}


@pytest.mark.parametrize(("text", "column"), MISTAKES.items(), ids=lambda value: str(value)[:30])
def test_a_mistake_is_reported_with_its_column(text, column):
    with pytest.raises(BadExpression) as error:
        parse(text)
    assert error.value.column == column
    assert error.value.hint


@given(st.text(alphabet="gausinlpcemrdotbhz()=*+,./0123456789 _eE-'\"", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_parsed_or_refused_and_never_crashes(text):
    column = 1
    try:
        parse(text)
    except BadExpression as error:
        column = error.column
    assert 1 <= column <= len(text) + 1


def test_a_very_long_text_is_refused_at_once():
    with pytest.raises(BadExpression):
        parse("gaussian(sigma=1)+" * 20_000)


def test_response_is_the_logarithm_of_its_odds():
    assert abs(log(3) - float(pure(parse(f"response(epsilon={log(3)!r})")))) < 1e-15


@pytest.mark.parametrize("name", [name for name, combinator in COMBINATORS.items() if combinator.required])
def test_a_number_that_is_missing_is_named_wherever_the_text_ends(name):
    (needed,) = COMBINATORS[name].required
    for text in (f"{name}(gaussian(sigma=1))", f"{name}(gaussian(sigma=1)", f"{name}(gaussian(sigma=1),)"):
        with pytest.raises(BadExpression, match=rf"{name} needs {needed}=\. Write {name}\(x, {needed}=…\)\."):
            parse(text)
    with pytest.raises(BadExpression, match=rf"{name} needs an event before {needed}=\. Write {name}\(x, {needed}=…\)\."):
        parse(f"{name}({needed}=1)")


def test_the_table_of_events_has_every_name_and_what_it_needs():
    page = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for name, each in {**NOISE_TERMS, **COMBINATORS}.items():
        row = next((row for row in rows if re.search(rf"`{name}[`(]", row)), "")
        assert row, name
        assert all(f"{needed}=" in row for needed in each.required), name


def test_the_table_of_wide_intervals_has_what_the_command_prints():
    """The page promises no other width: every row is computed again."""
    page = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text(encoding="utf-8")
    section = page.partition("## Where it is slow or wide")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+)` \| (\S+) \| (\S+) \| (\S+) \|$", section, re.MULTILINE)
    assert len(rows) > 10
    for text, *shown in rows:
        found = epsilon(parse(text), 1e-6)
        ratio = f"{found.upper / found.lower:.3f}"
        assert [format_down(found.lower, 3), format_up(found.upper, 3), ratio] == shown, text
