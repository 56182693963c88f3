"""What is looked at in an answer: codes (this or that) and sizes (more or less)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.auditor.answers import Floats, Ints, Outputs, to_bits
from discreet.auditor.reading import PLACE_OF_LARGEST, SUMMARY, TEXT_OF

MAX_ORDERED = 6
EXACTLY, LOWEST_BIT = "the exact value of ", "the lowest bit of "
NO_EXPONENT = 9999
"""The trailing exponent of zero, and of what is no number."""


@dataclass(frozen=True)
class CategoricalFeature:
    """A feature with values that are equal or not."""

    name: str
    compute: Callable[[Outputs], Ints]


@dataclass(frozen=True)
class NumericFeature:
    """A feature with values that are smaller or larger; NaN where an answer has none."""

    name: str
    compute: Callable[[Outputs], Floats]


def list_features(
    columns: tuple[str, ...], exact: tuple[str, ...], lowest: tuple[str, ...]
) -> tuple[list[CategoricalFeature], list[NumericFeature]]:
    """Everything that is looked at, for answers with these columns: of some the exact values, of some the lowest bits."""
    numbers = tuple(name for name in columns if not name.startswith("the ") and name not in SUMMARY)
    codes = [
        CategoricalFeature("the sort of answer", lambda a: a.kinds),
        CategoricalFeature("the exact answer", lambda a: a.digests),
    ]
    codes += [CategoricalFeature(f"{LOWEST_BIT}{name}", _trailing(name)) for name in lowest]
    codes += [CategoricalFeature(f"{EXACTLY}{name}", _exact_bits(name)) for name in exact if not name.startswith(TEXT_OF)]
    codes += [
        CategoricalFeature(name, _code(name)) for name in columns if name.startswith(TEXT_OF) or name == PLACE_OF_LARGEST
    ]
    sizes = [
        NumericFeature(name, _column(name)) for name in columns if not name.startswith(TEXT_OF) and name != PLACE_OF_LARGEST
    ]
    if len(numbers) > 1:
        codes += [
            CategoricalFeature(
                "which are there", lambda a: _mix_codes((~np.isnan(a.get_numbers(numbers))).astype(np.int64))
            ),
            CategoricalFeature("the signs", lambda a: _mix_codes(np.sign(_numbers(a, numbers, 0.0)).astype(np.int64))),
        ]
    if 1 < len(numbers) <= MAX_ORDERED:
        codes.append(
            CategoricalFeature(
                "the order", lambda a: _mix_codes(np.argsort(_numbers(a, numbers, np.inf), axis=1, kind="stable"))
            )
        )
    return codes, sizes


def compute_trailing_exponents(values: Floats) -> Ints:
    """The exponent of the lowest bit that is set: the grid that a double lies on [Mir12].

    >>> compute_trailing_exponents(np.array([1.0, 0.5, 3.0, 0.75, 0.0])).tolist()
    [0, -1, 0, -2, 9999]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64) + (whole == 0)).astype(np.int64)
    return np.where(whole == 0, NO_EXPONENT, exponent - 53 + lowest)


def _column(name: str) -> Callable[[Outputs], Floats]:
    return lambda answers: answers.get_numbers((name,))[:, 0]


def _trailing(name: str) -> Callable[[Outputs], Ints]:
    return lambda answers: compute_trailing_exponents(answers.get_numbers((name,))[:, 0])


def _exact_bits(name: str) -> Callable[[Outputs], Ints]:
    return lambda answers: to_bits(answers.get_numbers((name,))[:, 0])


def _code(name: str) -> Callable[[Outputs], Ints]:
    return lambda answers: np.nan_to_num(answers.get_numbers((name,))[:, 0], nan=-1.0).astype(np.int64)


def _numbers(answers: Outputs, columns: tuple[str, ...], missing: float) -> Floats:
    found = answers.get_numbers(columns)
    return np.where(np.isnan(found), missing, found)


def _mix_codes(codes: Ints) -> Ints:
    """One code per row."""
    found = np.zeros(len(codes), np.uint64)
    for j in range(codes.shape[1]):
        found = (
            (found ^ (found >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9) + codes[:, j].astype(np.uint64) + np.uint64(1)
        )
    return found.view(np.int64)
