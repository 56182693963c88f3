"""All of an output is parsed, whatever its type: a single part without noise is found wherever it is."""

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
from discreet.auditor.outputs import Outputs
from discreet.auditor.parse_output import MAX_PARTS, parse_output
from discreet.auditor.sampling import CallSampler
from discreet.auditor.scores import MAX_COLUMNS, InformativeColumns, select_informative_columns
from discreet.auditor.targets import SampledMechanism

CONFIDENCE = 1 - 1e-7
PAIR = ([1], [1, 1])
MANY, PLACE = 100, 80
NOISE = np.random.default_rng(3)


class NoRepr:
    """An output whose repr raises."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@dataclass(frozen=True, slots=True)
class Slotted:
    held: Any


class Hostile:
    """An output that raises on almost every access."""

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
    "no repr": NoRepr,
    "hostile": lambda v: Hostile(v[0], v[PLACE]),
    "set": lambda v: {round(x) if j != PLACE else f"secret {x}" for j, x in enumerate(v)},
    "exception": lambda v: ValueError("no", v),
    "frame": lambda v: pandas.DataFrame({"a": v[:50], "b": v[50:]}),
}


def make_mutant(wrap: Wrap, place: int = PLACE, many: int = MANY) -> Callable[[list[int]], Any]:
    """Return a function of many numbers with enough noise and one without any."""

    def mutant(xs: list[int]) -> Any:
        values = NOISE.normal(0, 50, many)
        values[place] = len(xs)
        return wrap(values.tolist())

    return mutant


@pytest.mark.parametrize("name", WRAPS)
def test_one_number_without_noise_is_found_in_an_output_of_any_type(name: str) -> None:
    assert audit(make_mutant(WRAPS[name]), 1, [PAIR], samples=1_000).violation


@pytest.mark.parametrize("place", [0, 63, 64, 80, 999])
def test_a_histogram_without_noise_in_one_cell_is_found_wherever_it_is(place: int) -> None:
    def histogram(extra: int, n: int) -> Any:
        cells = NOISE.integers(-50, 50, (n, 1_000))
        cells[:, place] = 7 + extra
        return cells

    found = audit(SampledMechanism(histogram), 1, [(0, 1)], samples=4_000, confidence=CONFIDENCE)
    assert found.violation
    assert f"output[{place}]" in found.event


def first_columns(left: Outputs, right: Outputs) -> InformativeColumns:
    """The mutant: the first columns, whether they differ or not."""
    del right
    return InformativeColumns(tuple(left.columns[:MAX_COLUMNS]), (), ())


def test_an_audit_of_the_first_columns_only_misses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "select_informative_columns", first_columns)
    for name in ("list", "keys"):
        assert not audit(make_mutant(WRAPS[name]), 1, [PAIR], samples=1_000, confidence=CONFIDENCE).violation


def test_nothing_is_found_where_every_number_has_noise() -> None:
    """Columns are chosen on other outputs than those that are counted."""
    for name in ("keys", "text"):
        wide = make_mutant(WRAPS[name])

        def correct(xs: list[int], wide: Callable[[list[int]], Any] = wide) -> Any:
            return wide([1])

        assert not audit(correct, 0.1, [PAIR], samples=1_000, confidence=CONFIDENCE).violation


def test_a_list_of_two_million_is_an_output() -> None:
    """All of it is parsed for learning, and only the chosen columns for counting; the lists are not kept."""

    def long(xs: list[int]) -> list[float]:
        values = [0.25] * 2_000_000
        values[1_500_000] = float(len(xs))
        return values

    calls = CallSampler(long, 60.0)
    left, right = (calls.draw(data, 2) for data in PAIR)
    assert len(left.columns) > 2_000_000
    informative = select_informative_columns(left, right)
    assert "output[1500000]" in informative.columns
    again = calls.draw(PAIR[1], 2, inf, ("output[1500000]", "the sum"))
    assert again.numbers.tolist() == [[2.0, 0.25 * 1_999_999 + 2.0]] * 2
    assert again.digests.tolist() == right.digests.tolist() != left.digests.tolist()


def test_outputs_that_raise_are_parsed() -> None:
    for wrong in (Hostile(1, 2), NoRepr(3), [NoRepr(1), Hostile(1, 2)], {Slotted(1): NoRepr(2)}):
        assert parse_output(wrong).kind
    assert parse_output(NoRepr(3)).numbers["output.held"] == 3
    assert parse_output(NoRepr(3)).digest == parse_output(NoRepr(3)).digest != parse_output(NoRepr(4)).digest, (
        "an address in memory decides nothing"
    )
    endless: list[Any] = [1]
    endless += [endless, endless]
    assert parse_output(endless).kind == "list of 3"


def test_parts_beyond_the_limit_have_no_name() -> None:
    """Consecutive numbers count as one part, so a long list of them is parsed to its end."""
    assert len(parse_output(list(range(2 * MAX_PARTS))).blocks["output"]) == 2 * MAX_PARTS
    assert len(parse_output({j: j for j in range(2 * MAX_PARTS)}).numbers) < 1.1 * MAX_PARTS
