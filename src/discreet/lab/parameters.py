"""The parameters of figures, exercises and attacks: read from the signature of their function, checked by the default.

Where the default is an int, a whole number of at least 1 is wanted; δ, β and a bias lie between 0 and 1; all others are
positive numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from inspect import signature
from typing import Any

from discreet._numbers import check_int, parse_rational, read_positive, read_probability
from discreet.errors import BadParameter

PROBABILITIES = frozenset({"delta", "beta", "bias", "probability"})
LARGEST = 10**7
"""The largest integer that a figure or exercise accepts: all of them are computed in seconds."""


def default_options(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a function with their defaults.

    >>> default_options(lambda epsilon=1, k=10: None)
    {'epsilon': 1, 'k': 10}
    """
    return {name: parameter.default for name, parameter in signature(function).parameters.items()}


def check_options(owner: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given parameters, each as a number of the kind of its default; refuse names that are not known."""
    for name in given:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise BadParameter(name, given[name], f"not a parameter of {owner}", has)
    return {name: _check_value(name, known[name], value) for name, value in given.items()}


def _check_value(name: str, default: Any, value: Any) -> Any:
    if isinstance(default, int):
        if check_int(value, name, minimum=1) > LARGEST:
            raise BadParameter(name, value, "too large to compute in seconds", f"give at most {LARGEST:,}")
        return value
    exact = read_probability(value, name) if name in PROBABILITIES else read_positive(value, name)
    return exact if isinstance(default, Fraction) else float(exact)


def format_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Write each parameter as people do: 3,143, 0.1, 1e-5.

    >>> format_options({"d": 3143, "epsilon": Fraction(1, 10), "delta": 1e-5})
    {'d': '3,143', 'epsilon': '0.1', 'delta': '1e-5'}
    """
    return {name: format_value(value) for name, value in options.items()}


def format_value(value: Any) -> str:
    """Write one parameter as people do."""
    if isinstance(value, int):
        return f"{value:,}"
    number = float(value)
    if 0 < abs(number) < 1e-3:
        mantissa, _, exponent = f"{number:.3e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{number:.4g}"


def split_flags(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split the words of a command line into names and flags with their values.

    >>> split_flags(["noise-l1", "--epsilon", "0.1", "--k=10"])
    (['noise-l1'], {'epsilon': '0.1', 'k': '10'})
    """
    names: list[str] = []
    flags: dict[str, str] = {}
    rest = [word for word in words if word]
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            names.append(word)
            continue
        flag, mark, text = word.partition("=")
        if not mark and not rest:
            raise BadParameter(flag, "missing", "it has no value", f"write {flag} and a number")
        flags[flag[2:].replace("-", "_")] = text if mark else rest.pop(0)
    return names, flags


def parse_number(flag: str, text: str, default: Any) -> Any:
    """Read the value of a flag exactly: an int where the default is one, else a rational.

    >>> parse_number("--k", "10", 5), parse_number("--epsilon", "0.1", Fraction(1))
    (10, Fraction(1, 10))
    """
    exact = parse_rational(text, flag)
    if not isinstance(default, int):
        return exact
    if exact.denominator != 1:
        raise BadParameter(flag, text, "not a whole number", "give one, such as 10")
    return int(exact)
