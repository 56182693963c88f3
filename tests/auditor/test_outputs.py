"""Many outputs as arrays: kinds, digests and columns, the same whatever outputs they are parsed with."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from discreet.auditor.outputs import FailedCall, Outputs, concatenate, from_array, from_objects
from discreet.auditor.scores import compute_trailing_exponents


def test_outputs_of_every_kind_are_distinguished() -> None:
    outputs = from_objects(
        [1.5, float("nan"), float("inf"), None, "x", "xx", [1, 2], [1], {"a": 1}, {"b": 1}, FailedCall("raises E")]
    )
    assert len(set(outputs.digests.tolist())) == 11
    kinds = [outputs.labels[code] for code in outputs.kinds.tolist()]
    assert len(set(kinds)) == 10  # the two texts are of one kind
    assert "['a']" in outputs.columns
    both = concatenate([outputs, from_array(np.array([1.5, 2.5]))])
    assert len(both) == 13
    assert compute_trailing_exponents(np.array([0.5, 3.0, np.nan])).tolist() == [-1, 0, 9999]


ANYTHING: list[Any] = [
    1.5, -0.0, float("nan"), float("inf"), 3, 2**60, True, None, "x", "xx", [1, 2], [1.5], (), {"a": 1}, {"b": 2.5, "a": 1},
    {"d", "e"}, np.float64(0.5), np.int64(3), FailedCall("raises E"), 2 + 1j, b"xy", [1, None, "x 2"], {"a": [1, [2, "y"]]},
    np.arange(3), np.array([1j]), Fraction(1, 3), SimpleNamespace(a=1, b="z"), ValueError("e"), object(), len, [0.5] * 40,
]  # fmt: skip
Parse = Callable[[Sequence[Any], tuple[str, ...]], Outputs]


def parses_each_alone(parse: Parse) -> bool:
    """Whether an output has the same kind, digest and numbers whatever outputs it is parsed with."""
    columns = (
        "the output",
        "['a']",
        "output[0]",
        "has 'e'",
        "the sum",
        "output.a",
        "the text of output[2]",
        "output[2] number[0]",
    )
    for seed in range(200):
        rng = Random(seed)
        choices = rng.choice([ANYTHING, ANYTHING[:2], ANYTHING[4:5], ANYTHING[:5]])
        drawn = [rng.choice(choices) for _ in range(rng.randint(1, 9))]
        together, parts = parse(drawn, columns), [parse([each], columns) for each in drawn]
        for i, part in enumerate(parts):
            if (together.kinds[i], together.digests[i]) != (part.kinds[0], part.digests[0]):
                return False
            if not np.array_equal(together.get_numbers(columns)[i], part.get_numbers(columns)[0], equal_nan=True):
                return False
    return True


def test_an_output_is_parsed_the_same_with_any_others() -> None:
    """Else an event could hold or not for a whole batch at once, and its count would be far from binomial."""

    def parse_batches(drawn: Sequence[Any], columns: tuple[str, ...]) -> Outputs:
        plain = all(type(each) is float for each in drawn)
        return from_array(np.array(drawn)) if plain else from_objects(drawn, columns)

    def keep_first_columns(drawn: Sequence[Any], columns: tuple[str, ...]) -> Outputs:
        kept = from_objects(drawn, columns)
        return from_objects(drawn, kept.columns[: len(drawn) % 4])

    assert parses_each_alone(from_objects)
    assert not parses_each_alone(parse_batches)
    assert not parses_each_alone(keep_first_columns)


def test_the_same_numbers_have_the_same_digest_whatever_their_type() -> None:
    """Else a sampler whose arrays change their type would be counted by batches."""
    values = [[1, -2, 0], [5, 7, 9]]
    digests = {
        tuple(from_array(np.array(values, kind)).digests.tolist()) for kind in (np.int8, np.int64, np.float32, np.float64)
    }
    assert len(digests) == 1
    for wide in (from_array(np.array([values[0]])), from_array(np.array([values[1]]))):
        assert wide.digests[0] in next(iter(digests))
    assert len(set(from_array(np.array([[1, 2], [2, 1], [2**60, 1], [2**60 + 1, 1]])).digests.tolist())) == 4


def test_columns_are_found_under_their_names() -> None:
    parts = [from_objects([[1.0, 2.0], [3.0, "x"]]), from_objects([{"a": [1, 2, 3], "b": 2.5}]), from_array(np.ones((2, 5)))]
    both = concatenate(parts)
    assert len(both) == 5
    for j, name in enumerate(both.columns):
        assert both.columns.find(name) == j
        for part, start in zip(parts, (0, 2, 3), strict=True):
            assert np.array_equal(
                part.get_numbers((name,))[:, 0], both.numbers[start : start + len(part), j], equal_nan=True
            )
    assert both.columns.find("output[5]") is None
    assert both.columns.find("nothing") is None
    with pytest.raises(IndexError):
        both.columns[len(both.columns)]
