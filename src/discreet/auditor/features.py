"""What is looked at in an answer: codes (this or that) and sizes (more or less)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.auditor.answers import Answers, Floats, Ints, bits
from discreet.auditor.reading import PLACE, SUMMARY, TEXT_OF

MOST_ORDERED = 6
EXACTLY, LOWEST_BIT = "the exact value of ", "the lowest bit of "
NOTHING = 9999
"""The trailing exponent of zero, and of what is no number."""


@dataclass(frozen=True)
class Code:
    """A feature with values that are equal or not."""

    name: str
    of: Callable[[Answers], Ints]


@dataclass(frozen=True)
class Size:
    """A feature with values that are smaller or larger; NaN where an answer has none."""

    name: str
    of: Callable[[Answers], Floats]


def features(columns: tuple[str, ...], exact: tuple[str, ...], lowest: tuple[str, ...]) -> tuple[list[Code], list[Size]]:
    """Everything that is looked at, for answers with these columns: of some the exact values, of some the lowest bits."""
    numbers = tuple(name for name in columns if not name.startswith("the ") and name not in SUMMARY)
    codes = [Code("the sort of answer", lambda a: a.sort), Code("the exact answer", lambda a: a.whole)]
    codes += [Code(f"{LOWEST_BIT}{name}", _trailing(name)) for name in lowest]
    codes += [Code(f"{EXACTLY}{name}", _exactly(name)) for name in exact if not name.startswith(TEXT_OF)]
    codes += [Code(name, _code(name)) for name in columns if name.startswith(TEXT_OF) or name == PLACE]
    sizes = [Size(name, _column(name)) for name in columns if not name.startswith(TEXT_OF) and name != PLACE]
    if len(numbers) > 1:
        codes += [
            Code("which are there", lambda a: _mixed((~np.isnan(a.under(numbers))).astype(np.int64))),
            Code("the signs", lambda a: _mixed(np.sign(_numbers(a, numbers, 0.0)).astype(np.int64))),
        ]
    if 1 < len(numbers) <= MOST_ORDERED:
        codes.append(Code("the order", lambda a: _mixed(np.argsort(_numbers(a, numbers, np.inf), axis=1, kind="stable"))))
    return codes, sizes


def trailing_exponents(values: Floats) -> Ints:
    """The exponent of the lowest bit that is set: the grid that a double lies on [Mir12].

    >>> trailing_exponents(np.array([1.0, 0.5, 3.0, 0.75, 0.0])).tolist()
    [0, -1, 0, -2, 9999]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64) + (whole == 0)).astype(np.int64)
    return np.where(whole == 0, NOTHING, exponent - 53 + lowest)


def _column(name: str) -> Callable[[Answers], Floats]:
    return lambda answers: answers.under((name,))[:, 0]


def _trailing(name: str) -> Callable[[Answers], Ints]:
    return lambda answers: trailing_exponents(answers.under((name,))[:, 0])


def _exactly(name: str) -> Callable[[Answers], Ints]:
    return lambda answers: bits(answers.under((name,))[:, 0])


def _code(name: str) -> Callable[[Answers], Ints]:
    return lambda answers: np.nan_to_num(answers.under((name,))[:, 0], nan=-1.0).astype(np.int64)


def _numbers(answers: Answers, columns: tuple[str, ...], missing: float) -> Floats:
    found = answers.under(columns)
    return np.where(np.isnan(found), missing, found)


def _mixed(codes: Ints) -> Ints:
    """One code per row."""
    found = np.zeros(len(codes), np.uint64)
    for j in range(codes.shape[1]):
        found = (
            (found ^ (found >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9) + codes[:, j].astype(np.uint64) + np.uint64(1)
        )
    return found.view(np.int64)
