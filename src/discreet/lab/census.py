"""An invented table with the columns of a census, for the course: no person in it exists.

Every value is drawn by a fixed rule from a seeded generator, with shares and dependences that are plausible and not measured
anywhere. The columns are those of the Adult table that teaching texts use [N2]. `examples/census.csv` is this table.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from discreet._numbers import check_int

COLUMNS = (
    "id", "age", "workclass", "education", "education_num", "marital_status", "occupation", "sex", "capital_gain",
    "hours_per_week", "income",
)  # fmt: skip
WORKCLASSES = (("Private", 0.7), ("Self-employed", 0.12), ("Government", 0.13), ("Without-pay", 0.05))
EDUCATION = (("Some-school", 8, 0.15), ("HS-grad", 9, 0.35), ("Some-college", 10, 0.22), ("Bachelors", 13, 0.18),
             ("Masters", 14, 0.07), ("Doctorate", 16, 0.03))  # fmt: skip
MARITAL = (("Never-married", 0.33), ("Married", 0.46), ("Divorced", 0.14), ("Widowed", 0.07))
OCCUPATIONS = (("Clerical", 0.2), ("Craft", 0.2), ("Professional", 0.2), ("Sales", 0.15), ("Service", 0.25))


def make_census(n: int = 2000) -> list[dict[str, Any]]:
    """Return n invented people, the same in every run.

    >>> make_census()[0]
    {'id': 0, 'age': 52, 'workclass': 'Private', 'education': 'HS-grad', 'education_num': 9, 'marital_status': 'Divorced', \
'occupation': 'Service', 'sex': 'Male', 'capital_gain': 6353, 'hours_per_week': 29, 'income': '<=50K'}
    """
    generator = Random(1994)
    return [_draw_person(number, generator) for number in range(check_int(n, "n", 1))]


def write_census(path: str | Path, n: int = 2000) -> None:
    """Write the table as CSV."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(make_census(n))


def _draw_person(number: int, generator: Random) -> dict[str, Any]:
    age = 17 + int(sum(generator.random() for _ in range(3)) / 3 * 58)
    education, years = _choose([((name, num), share) for name, num, share in EDUCATION], generator)
    hours = 20 + int(40 * (generator.random() + generator.random()) / 2)
    richer = 0.03 + 0.05 * max(0, years - 9) + (0.1 if age > 35 else 0) + 0.004 * max(0, hours - 40)
    return {
        "id": number,
        "age": age,
        "workclass": _choose(WORKCLASSES, generator),
        "education": education,
        "education_num": years,
        "marital_status": _choose(MARITAL, generator),
        "occupation": _choose(OCCUPATIONS, generator),
        "sex": _choose((("Female", 0.5), ("Male", 0.5)), generator),
        "capital_gain": int(20_000 * generator.random() ** 2) if generator.random() < 0.09 else 0,
        "hours_per_week": hours,
        "income": ">50K" if generator.random() < richer else "<=50K",
    }


def _choose(weighted: Sequence[tuple[Any, float]], generator: Random) -> Any:
    """Choose one value by its share. Only `random()` is used, whose sequence Python guarantees."""
    point = generator.random()
    for value, share in weighted:
        point -= share
        if point < 0:
            return value
    return weighted[-1][0]
