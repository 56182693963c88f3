"""Reports of every oracle, good ones and bad ones, and a counter that shares nothing with discreet's but the rules."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.local.bulk import encode_many
from discreet.local.oracles import Direct, FixedHashed, Hadamard, Hashed, Projective, SetOracle, Subset, Unary
from discreet.sql.reports import REJECTIONS
from discreet.testing import seeded_bits

ODDS = Fraction(2718, 1000)
ORACLES: dict[str, SetOracle] = {
    "direct": Direct(7, ODDS),
    "oue": Unary.optimised(37, ODDS),
    "sue": Unary.symmetric(32, Fraction(3, 2)),
    "subset": Subset(9, ODDS, 3),
    "hashed": Hashed.optimised(20, ODDS),
    "fixed hashed": FixedHashed(20, ODDS, 3, 16, "salt"),
    "hadamard": Hadamard(12, ODDS),
    "projective": Projective.optimised(12, ODDS),
}
COLLECTION, VERSION = "0123456789abcdef", 2
Row = dict[str, Any]


def make_rows(oracle: SetOracle, count: int = 120, seed: int = 1) -> list[Row]:
    """Return reports with a collection, a version and a nonce, many of them bad in one way or in several."""
    random = np.random.default_rng(seed)
    columns = encode_many(oracle, random.integers(0, oracle.values, count), seeded_bits(seed))
    rows: list[Row] = [
        {name: int(column[i]) for name, column in columns.items()}
        | {"collection": COLLECTION, "version": VERSION, "nonce": f"n{i}"}
        for i in range(count)
    ]
    names = [field.name for field in oracle.fields]
    for row in rows:
        for spoil in random.choice(12, 2):
            name = names[random.integers(len(names))]
            match spoil:
                case 0:
                    row[name] = None
                case 1:
                    row[name] = -1
                case 2:
                    row[name] = next(field.below for field in oracle.fields if field.name == name)
                case 3:
                    row[name] = (1 << 62) + 5
                case 4:
                    row["collection"] = [None, "another"][random.integers(2)]
                case 5:
                    row["version"] = [None, 1][random.integers(2)]
                case 6:
                    row["nonce"] = [None, "n3", "n4"][random.integers(3)]
                case 7:
                    row[names[len(names) // 2]] = row[names[0]]  # a list that has a value twice
                case 8:
                    row[names[0]], row[names[-1]] = row[names[-1]], row[names[0]]
    return rows


def count_slowly(oracle: SetOracle, rows: Sequence[Row], *, plain: bool = False) -> tuple[int, list[int], dict[str, int]]:
    """Return the valid reports, the supports of each value, and the rejected reports; `plain`: without looking at the
    collection, the version and the nonce."""
    rejected, valid = dict.fromkeys(REJECTIONS, 0), []
    for row in rows:
        report = tuple(row[field.name] for field in oracle.fields)
        if not plain and row["collection"] != COLLECTION:
            rejected["collection"] += 1
        elif not plain and row["version"] != VERSION:
            rejected["version"] += 1
        elif None in report or (not plain and row["nonce"] is None):
            rejected["length"] += 1
        elif not oracle.is_valid(report):
            rejected["range"] += 1
        else:
            valid.append((row["nonce"], report))
    if not plain:
        kept = {nonce: min(report for other, report in valid if other == nonce) for nonce, _ in valid}
        rejected["duplicate"] = len(valid) - len(kept)
        valid = list(kept.items())
    supports = [sum(oracle.supports(report, value) for _, report in valid) for value in range(oracle.values)]
    return len(valid), supports, rejected


def to_columns(rows: Sequence[Row], *, plain: bool = False) -> dict[str, list[Any]]:
    """Return rows as columns; `plain`: those of the reports alone."""
    names = [name for name in rows[0] if not plain or name not in ("collection", "version", "nonce")]
    return {name: [row[name] for row in rows] for name in names}
