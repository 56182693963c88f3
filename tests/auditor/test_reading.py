"""All of an answer is looked at, whatever it is made of: a single part without noise is found wherever it hides."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest

from discreet import audit
from discreet.auditor import attack
from discreet.auditor.claims import Point
from discreet.auditor.evidence import Evidence
from discreet.auditor.outputs import Outputs, concatenate, from_array, from_objects
from discreet.auditor.parse_output import MAX_PARTS, parse_output
from discreet.auditor.sampling import CallSampler
from discreet.auditor.scores import MAX_COLUMNS, InformativeColumns, select_informative_columns
from discreet.auditor.targets import SampledMechanism
from discreet.auditor.worker_pool import RestartSampler
from tests.auditor.boxes import unsendable

SURE = 1 - 1e-7
PAIR = ([1], [1, 1])
MANY, PLACE = 100, 80
NOISE = np.random.default_rng(3)


class Mute:
    """An answer that says nothing of itself."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __repr__(self) -> str:
        raise RuntimeError("nothing to see")


@dataclass(frozen=True, slots=True)
class Slotted:
    held: Any


class Hostile:
    """Everything that can be asked of it raises."""

    def __init__(self, noise: float, secret: float) -> None:
        self.noise, self.secret = noise, secret

    def __getattribute__(self, name: str) -> Any:
        if name in ("noise", "secret", "__dict__", "__class__"):
            return super().__getattribute__(name)
        raise KeyError(name)

    def __len__(self) -> int:
        raise OSError

    def __iter__(self) -> Any:
        raise OSError

    def __eq__(self, other: object) -> bool:
        raise OSError

    def __hash__(self) -> int:
        raise OSError

    __repr__ = __str__ = __float__ = __bool__ = __index__ = __len__  # type: ignore[assignment]


Wrap = Callable[[list[float]], Any]
WRAPS: dict[str, Wrap] = {
    "list": list,
    "tuple of whole numbers": lambda v: tuple(round(x) for x in v),
    "array": np.array,
    "array of 4 × 25": lambda v: np.array(v).reshape(4, 25),
    "array of float32": lambda v: np.array(v, np.float32),
    "array of objects": lambda v: np.array([*v, "end"], object),
    "numpy numbers": lambda v: [np.float64(x) for x in v],
    "keys": lambda v: {f"k{j}": x for j, x in enumerate(v)},
    "keys of keys": lambda v: {"a": {j: {"b": [x]} for j, x in enumerate(v)}},
    "lists of lists": lambda v: [[x, 0] for x in v],
    "ragged lists": lambda v: [v[:70], [v[70:], "and so on"]],
    "mixed": lambda v: [x if j % 3 else None if j % 2 else "x" for j, x in enumerate(v)],
    "complex numbers": lambda v: [complex(0, x) for x in v],
    "complex array": lambda v: np.array(v) * 1j,
    "fractions": lambda v: [Fraction(x) for x in v],
    "decimals": lambda v: [Decimal(x) for x in v],
    "text": lambda v: " ".join(f"{x:.3f}" for x in v),
    "characters": lambda v: "".join(chr(300 + round(x)) for x in v),
    "texts": lambda v: [f"{round(x)}" for x in v],
    "bytes": lambda v: bytes(round(x) % 256 for x in v),
    "attributes": lambda v: SimpleNamespace(**{f"a{j}": x for j, x in enumerate(v)}),
    "slots": lambda v: Slotted(Slotted(v)),
    "no repr": Mute,
    "hostile": lambda v: Hostile(v[0], v[PLACE]),
    "set": lambda v: {round(x) if j != PLACE else f"secret {x}" for j, x in enumerate(v)},
    "exception": lambda v: ValueError("no", v),
    "frame": lambda v: pandas.DataFrame({"a": v[:50], "b": v[50:]}),
}


def box(wrap: Wrap, place: int = PLACE, many: int = MANY) -> Callable[[list[int]], Any]:
    """So many numbers with noise that hides everything, and one without any."""

    def answer(xs: list[int]) -> Any:
        values = NOISE.normal(0, 50, many)
        values[place] = len(xs)
        return wrap(values.tolist())

    return answer


@pytest.mark.parametrize("name", WRAPS)
def test_one_number_without_noise_is_found_in_any_answer(name: str) -> None:
    assert audit(box(WRAPS[name]), 1, [PAIR], samples=1_000).violation


@pytest.mark.parametrize("place", [0, 63, 64, 80, 999])
def test_a_histogram_without_noise_in_one_cell_is_found_wherever_it_is(place: int) -> None:
    def histogram(extra: int, n: int) -> Any:
        cells = NOISE.integers(-50, 50, (n, 1_000))
        cells[:, place] = 7 + extra
        return cells

    found = audit(SampledMechanism(histogram), 1, [(0, 1)], samples=4_000, confidence=SURE)
    assert found.violation
    assert f"answer[{place}]" in found.event


def first_columns(left: Outputs, right: Outputs) -> InformativeColumns:
    """The mutant: the first numbers of an answer, whatever they tell."""
    del right
    return InformativeColumns(tuple(left.columns[:MAX_COLUMNS]), (), ())


def test_who_looks_at_the_first_numbers_only_misses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "select_informative_columns", first_columns)
    for name in ("list", "keys"):
        assert not audit(box(WRAPS[name]), 1, [PAIR], samples=1_000, confidence=SURE).violation


def test_nothing_is_found_where_every_number_has_noise() -> None:
    """The choice among all columns is made on other answers than those that are counted."""
    for name in ("keys", "text"):
        wide = box(WRAPS[name])

        def right(xs: list[int], wide: Callable[[list[int]], Any] = wide) -> Any:
            return wide([1])

        assert not audit(right, 0.1, [PAIR], samples=1_000, confidence=SURE).violation


CHANGES: dict[str, Callable[[Any, int], Any]] = {
    "shift": lambda cell, extra: cell + 0.5 * extra,
    "scale": lambda cell, extra: cell * (1 + 2 * extra),
    "lowest bits": lambda cell, extra: np.round(cell * 8) / 8 + extra / 16,
    "modulo 3": lambda cell, extra: np.round(cell) * 3 + extra,
}


@pytest.mark.parametrize("name", CHANGES)
def test_columns_that_tell_in_different_ways_are_kept(name: str) -> None:
    sides = [np.random.default_rng(extra).normal(size=(1_000, 300)) for extra in (0, 1)]
    for extra, cells in enumerate(sides):
        cells[:, 222] = CHANGES[name](cells[:, 222], extra)
    assert "answer[222]" in select_informative_columns(*map(from_array, sides)).columns


def test_a_list_of_two_million_is_an_answer() -> None:
    """All of it is read, by those who learn; by those who count, only what was chosen; and neither keeps the lists."""

    def long(xs: list[int]) -> list[float]:
        values = [0.25] * 2_000_000
        values[1_500_000] = float(len(xs))
        return values

    calls = CallSampler(long, 60.0)
    left, right = (calls.draw(data, 2) for data in PAIR)
    assert len(left.columns) > 2_000_000
    telling = select_informative_columns(left, right)
    assert "answer[1500000]" in telling.columns
    again = calls.draw(PAIR[1], 2, inf, ("answer[1500000]", "the sum"))
    assert again.numbers.tolist() == [[2.0, 0.25 * 1_999_999 + 2.0]] * 2
    assert again.digests.tolist() == right.digests.tolist() != left.digests.tolist()


@pytest.mark.nightly
def test_a_list_of_two_million_is_audited_inside_the_time_limit() -> None:
    found = audit(box(list, 1_500_000, 2_000_000), 0.1, [PAIR], seconds=120, limit=10)
    assert found.violation
    assert "answer[1500000]" in found.event


def test_answers_that_cannot_be_read_or_sent_are_answers() -> None:
    for wrong in (Hostile(1, 2), Mute(3), [Mute(1), Hostile(1, 2)], {Slotted(1): Mute(2)}):
        assert parse_output(wrong).kind
    assert parse_output(Mute(3)).numbers["answer.held"] == 3
    assert parse_output(Mute(3)).digest == parse_output(Mute(3)).digest != parse_output(Mute(4)).digest, (
        "an address decides nothing"
    )
    endless: list[Any] = [1]
    endless += [endless, endless]
    assert parse_output(endless).kind == "list of 3"
    answers = RestartSampler(unsendable, 1, 5.0).draw([1], 2)
    assert set(answers.labels.values()) == {"a function that cannot be sent"}


def test_a_part_too_many_is_not_named() -> None:
    """Numbers in a row count as one part, so a long list of them is read to its end."""
    assert len(parse_output(list(range(2 * MAX_PARTS))).blocks["answer"]) == 2 * MAX_PARTS
    assert len(parse_output({j: j for j in range(2 * MAX_PARTS)}).numbers) < 1.1 * MAX_PARTS


def test_the_same_numbers_have_the_same_hash_whatever_their_type() -> None:
    """Else a sampler whose arrays change their type would be counted by batches."""
    values = [[1, -2, 0], [5, 7, 9]]
    hashes = {
        tuple(from_array(np.array(values, kind)).digests.tolist()) for kind in (np.int8, np.int64, np.float32, np.float64)
    }
    assert len(hashes) == 1
    for wide in (from_array(np.array([values[0]])), from_array(np.array([values[1]]))):
        assert wide.digests[0] in next(iter(hashes))
    assert len(set(from_array(np.array([[1, 2], [2, 1], [2**60, 1], [2**60 + 1, 1]])).digests.tolist())) == 4


def test_columns_have_the_names_that_they_are_found_under() -> None:
    parts = [from_objects([[1.0, 2.0], [3.0, "x"]]), from_objects([{"a": [1, 2, 3], "b": 2.5}]), from_array(np.ones((2, 5)))]
    both = concatenate(parts)
    assert len(both) == 5
    for j, name in enumerate(both.columns):
        assert both.columns.find(name) == j
        for part, start in zip(parts, (0, 2, 3), strict=True):
            assert np.array_equal(
                part.get_numbers((name,))[:, 0], both.numbers[start : start + len(part), j], equal_nan=True
            )
    assert both.columns.find("answer[5]") is None
    assert both.columns.find("nothing") is None
    with pytest.raises(IndexError):
        both.columns[len(both.columns)]


# -- what is not seen ------------------------------------------------------------------------------------------------------


def test_a_finding_names_what_it_cannot_see() -> None:
    """A box that tells everything once in a while, and one that knows who asks: neither is found, as the finding says."""
    calls = [0]

    def now_and_then(xs: list[int]) -> int:
        calls[0] += 1
        return len(xs) if calls[0] % 2_003 == 0 else round(NOISE.normal(0, 50))

    def knows_who_asks(xs: list[int]) -> int:
        return round(NOISE.normal(0, 50)) if xs in PAIR else len(xs)

    for wrong in (now_and_then, knows_who_asks):
        found = audit(wrong, 1, [PAIR], samples=4_000, confidence=SURE)
        assert not found.violation
        assert found.to_dict()["not_seen"] == list(found.not_seen)
        for words in ("recognises the auditor", "fewer than", "other inputs"):
            assert words in str(found)
        assert "no proof" in found.grade()


@pytest.mark.parametrize("point", [Point(1.0, 0.0), Point(0.1, 0.01), Point(3.0, 1e-6)])
@pytest.mark.parametrize("n", [50, 1_000, 200_000])
def test_an_event_that_is_rarer_cannot_refute(point: Point, n: int) -> None:
    seen = Evidence(0, n, 0, n, point, 1e-4)
    least = round(seen.min_detectable_probability * n)
    assert least == n or dataclasses.replace(seen, true_positives=least).is_violation
    assert not dataclasses.replace(seen, true_positives=least - 1).is_violation
