"""Parameters: read from a signature, checked by the kind of the default, written as people do."""

from fractions import Fraction
from typing import Any

import pytest

from discreet.errors import BadParameter
from discreet.lab.parameters import (
    LARGEST,
    check_options,
    default_options,
    format_value,
    parse_number,
    split_flags,
)

KNOWN: dict[str, Any] = {"k": 10, "epsilon": Fraction(1, 10), "alpha": 0.5, "delta": Fraction(1, 10**5)}


def test_values_take_the_kind_of_the_default() -> None:
    given = check_options("figure", KNOWN, {"k": 3, "epsilon": 0.2, "alpha": Fraction(1, 4), "delta": 1e-6})
    assert given == {"k": 3, "epsilon": Fraction(1, 5), "alpha": 0.25, "delta": Fraction(1, 10**6)}
    assert [type(value) for value in given.values()] == [int, Fraction, float, Fraction]
    assert default_options(lambda k=10, epsilon=Fraction(1, 10): None) == {"k": 10, "epsilon": Fraction(1, 10)}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("k", LARGEST + 1, "too large"),
        ("k", 0, "at least 1"),
        ("k", 2.5, "not an integer"),
        ("epsilon", 0, "must be positive"),
        ("delta", 1, "strictly between 0 and 1"),
        ("speed", 3, "not a parameter of figure. It has k, epsilon, alpha, delta"),
    ],
)
def test_what_is_impossible_is_refused(option: str, value: Any, words: str) -> None:
    with pytest.raises(BadParameter, match=f"{option} is .*{words}"):
        check_options("figure", KNOWN, {option: value})


def test_words_of_a_command_line() -> None:
    assert split_flags(["--k", "3", "counties", "--epsilon=1/3"]) == (["counties"], {"k": "3", "epsilon": "1/3"})
    assert split_flags(["", "a", "--max-k", "-1"]) == (["a"], {"max_k": "-1"})
    with pytest.raises(BadParameter, match="--k is missing"):
        split_flags(["counties", "--k"])
    assert parse_number("--epsilon", "1/3", Fraction(1)) == Fraction(1, 3)
    with pytest.raises(BadParameter, match="--k is 1/3: not a whole number"):
        parse_number("--k", "1/3", 5)


@pytest.mark.parametrize(
    ("value", "text"), [(3143, "3,143"), (Fraction(1, 10), "0.1"), (1e-4, "1e-4"), (2.5e-7, "2.5e-7"), (200.0, "200")]
)
def test_values_are_written_as_people_do(value: Any, text: str) -> None:
    assert format_value(value) == text
