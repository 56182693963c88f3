"""What is looked at in an answer: codes (this or that) and sizes (more or less)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.auditor.answers import Answers, Floats, Ints

MOST_ORDERED = 6
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


def features(columns: tuple[str, ...]) -> tuple[list[Code], list[Size]]:
    """Everything that is looked at, for answers with these columns."""
    codes = [Code("the sort of answer", lambda a: a.sort), Code("the exact answer", lambda a: a.whole)]
    codes += [Code(f"the lowest bit of {name}", _trailing(name)) for name in columns[:4]]
    sizes = [Size(name, _column(name)) for name in columns]
    if len(columns) > 1:
        codes += [
            Code("the place of the largest", lambda a: _numbers(a, columns, -np.inf).argmax(axis=1)),
            Code("which are there", lambda a: _mixed((~np.isnan(a.under(columns))).astype(np.int64))),
            Code("the signs", lambda a: _mixed(np.sign(_numbers(a, columns, 0.0)).astype(np.int64))),
        ]
        sizes += [
            Size("the sum", lambda a: _numbers(a, columns, 0.0).sum(axis=1)),
            Size("the largest", lambda a: _numbers(a, columns, -np.inf).max(axis=1)),
            Size("the smallest", lambda a: _numbers(a, columns, np.inf).min(axis=1)),
            Size("how many are there", lambda a: (~np.isnan(a.under(columns))).sum(axis=1).astype(np.float64)),
        ]
    if 1 < len(columns) <= MOST_ORDERED:
        codes.append(Code("the order", lambda a: _mixed(np.argsort(_numbers(a, columns, np.inf), axis=1, kind="stable"))))
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
