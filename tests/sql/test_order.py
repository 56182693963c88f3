"""The order in which a unit's contributions are kept: every group of a unit is kept equally often, whatever units and keys
are, and the engine computes the integers of the definition.

Of n units with k groups each, m of which are kept, group j is kept N_j times. If the kept groups of a unit are drawn at
random, (k − 1)/(n·m·(1 − m/k))·Σ(N_j − n·m/k)² is close to χ² with k − 1 degrees of freedom; a choice is rejected where it
exceeds the quantile of 1e-9 over the number of tests in this file.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2
from sqlglot import exp

from discreet.sql.dialects import DUCKDB
from discreet.sql.order import OrderHash, Part, cube
from tests.support.oracle import P, Q, constant, is_whole, key_hash, unit_hash

Ints = NDArray[np.int64]
Placing = Callable[[str, Ints, Sequence[Any]], Ints]
TESTS = 1000
CHUNK = 1 << 14
UNITS = 10**6


def unit_hashes(salt: str, units: Ints) -> Ints:
    """A of every unit, mod P."""
    alpha, beta = constant(salt, "unit first", 2**29, 2**30), constant(salt, "unit second", 2**28, 2**29)
    hashes: Ints = (alpha * np.fmod(units, P) + beta * np.fmod(units, Q)) % P
    return hashes


def place(salt: str, units: Ints, keys: Sequence[Any]) -> Ints:
    """The order of every unit's keys, one row for each unit."""
    mixed = (unit_hashes(salt, units)[:, None] + np.array([key_hash(salt, (key,)) for key in keys])) % P
    places: Ints = mixed * mixed % P * mixed % P
    return places


def place_by_product(salt: str, units: Ints, keys: Sequence[Any]) -> Ints:
    """The mutant: a unit times its keys as they are."""
    places: Ints = unit_hashes(salt, units)[:, None] * np.array(keys) % P
    return places


def place_without_cube(salt: str, units: Ints, keys: Sequence[Any]) -> Ints:
    """The mutant: a shift of the same circle for every unit, on which keys that follow a large gap come first more often."""
    places: Ints = (unit_hashes(salt, units)[:, None] + np.array([key_hash(salt, (key,)) for key in keys])) % P
    return places


def is_biased(salt: str, units: Ints, keys: Sequence[Any], kept: int, placing: Placing = place) -> bool:
    """Whether some group is kept too often, or too rarely, to be chance."""
    counts = np.zeros(len(keys), np.int64)
    for start in range(0, len(units), CHUNK):
        places = placing(salt, units[start : start + CHUNK], keys)
        first = np.argpartition(places, kept - 1, axis=1)[:, :kept] if kept > 1 else places.argmin(axis=1)
        counts += np.bincount(first.ravel(), minlength=len(keys))
    n, k = len(units), len(keys)
    statistic = (k - 1) / (n * kept * (1 - kept / k)) * float(((counts - n * kept / k) ** 2).sum())
    return bool(statistic > chi2.isf(1e-9 / TESTS, k - 1))


def key_sets(rng: Random, sets: int) -> list[list[Any]]:
    """Random keys: texts, and integers of any size."""
    found: list[list[Any]] = []
    for i in range(sets):
        size = rng.randint(2, 50)
        wide = (30, 2**31, 2**61)[i % 3]
        found.append([f"key {rng.random()}" for _ in range(size)] if i % 2 else rng.sample(range(-wide, wide), size))
    return found


CONSECUTIVE = np.arange(UNITS, dtype=np.int64)


@pytest.mark.parametrize("keys", [[1, 2, 3], [0, 1], range(10)])
@pytest.mark.parametrize("salt", ["discreet", "another"])
def test_consecutive_integers_as_units_and_keys_are_kept_equally_often(salt: str, keys: Sequence[int]) -> None:
    assert not is_biased(salt, CONSECUTIVE, keys, 1)
    if len(keys) > 3:
        assert not is_biased(salt, CONSECUTIVE, keys, 3)


def test_random_key_sets_are_kept_equally_often() -> None:
    rng = Random(1)
    for i, keys in enumerate(key_sets(rng, 200)):
        units = CONSECUTIVE[:10_000] * rng.choice([1, -1, P, Q, 10**6, 2**31]) + rng.randrange(-(2**40), 2**40)
        assert not is_biased(f"salt {i}", units, keys, 1), (i, keys)


@pytest.mark.nightly
def test_random_key_sets_are_kept_equally_often_by_a_million_units() -> None:
    for i, keys in enumerate(key_sets(Random(2), 200)):
        assert not is_biased(f"salt {i}", CONSECUTIVE, keys, min(3, len(keys) - 1)), (i, keys)


@pytest.mark.parametrize("mutant", [place_by_product, place_without_cube])
def test_the_mutants_are_biased(mutant: Placing) -> None:
    assert is_biased("discreet", CONSECUTIVE, [1, 2, 3], 1, mutant)


WHOLE = [
    0,
    1,
    -1,
    P,
    -P,
    Q,
    P * Q,
    2**31,
    -(2**31),
    2**63 - 1,
    -(2**63),
    *(Random(3).randrange(-(2**63), 2**63) for _ in range(40)),
]
HUGE = [2**64, -(2**100), 2**126, -(2**126), 2**63]


TYPES = {
    "BIGINT": WHOLE, "HUGEINT": [*WHOLE, *HUGE], "UBIGINT": [0, 2**64 - 1], "INTEGER": [0, 7, -(2**31), 2**31 - 1],
    "TINYINT": [-128, 127],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), TYPES.items())
def test_the_engine_computes_the_definition_for_integers_of_any_size(kind: str, values: list[int]) -> None:
    connection, hashing = duckdb.connect(), OrderHash("a salt", DUCKDB)
    connection.execute(f"CREATE TABLE t (k {kind})")
    connection.executemany("INSERT INTO t VALUES (?)", [[value] for value in values])
    unit = hashing.hash_unit(exp.column("k"), Part.INTEGER).sql("duckdb")
    hashed = hashing.hash_key("k", Part.INTEGER).sql("duckdb")
    rows = connection.execute(
        f"SELECT k, {unit}, {cube('h').sql('duckdb')} FROM (SELECT k, {hashed} AS h FROM t)"
    ).fetchall()
    assert [(k, u, h) for k, u, h in rows] == [(k, unit_hash("a salt", k), key_hash("a salt", (k,))) for k in values]


def test_the_array_and_the_oracle_are_the_same_definition() -> None:
    units, keys = np.array(WHOLE, np.int64), ["a", 7, None, True]
    expected = [[pow(unit_hash("s", int(u)) + key_hash("s", (key,)), 3, P) for key in keys] for u in WHOLE]
    assert place("s", units, keys).tolist() == expected
    assert all(is_whole(int(u)) for u in units)
