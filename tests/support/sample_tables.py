"""Two tables as people meet them, made the same way every time: a census with one row per person, and a web log in which
some have one row and one has ten thousand, with every kind of bad number."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf, nan
from random import Random
from typing import Any

import duckdb
import pyarrow

from discreet.session.connect import connect
from discreet.session.session import Session
from tests.support.oracle import Row

SEXES = ("Female", "Male")
EDUCATION = ("School", "College", "Bachelors", "Masters", "Doctorate")
BRACKETS = ("<=50K", ">50K")
PAGES = ("/", "/about", "/buy", "/search", "/nobody-goes-here")
BAD = (None, nan, inf, -inf, 1e308, -1e308, -1.0, -0.0, 5e-324, 2.0**63, 1e19)
START = datetime(2024, 2, 28, 23, 59, 59, 999_999)


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows, what is declared about them, and the questions that an analyst asks."""

    name: str
    types: dict[str, str]
    declared: dict[str, Any]
    questions: tuple[str, ...]
    nobody: str  # a condition that no row meets
    rows: Sequence[Row] = field(repr=False)

    def session(self, rows: Sequence[Row], *, epsilon: Any, **more: Any) -> Session:
        """A budget over these rows instead of all of them."""
        connection = duckdb.connect()
        columns = ", ".join(f"{name} {kind}" for name, kind in self.types.items())
        connection.execute(f"CREATE TABLE {self.name} ({columns})")
        listed = pyarrow.table({name: [row[name] for row in rows] for name in self.types})
        connection.register("listed", listed)
        connection.execute(f"INSERT INTO {self.name} FROM listed")
        return connect(connection, table=self.name, epsilon=epsilon, **(self.declared | more))


def census(people: int = 2000) -> Sample:
    """One row per person."""
    rng = Random(1994)
    rows = []
    for person in range(people):
        schooled = min(int(rng.expovariate(0.7)), 4)
        rich = rng.random() < 0.08 + 0.14 * schooled
        rows.append(
            {
                "id": person, "age": min(90, 17 + int(rng.gammavariate(3, 8))), "sex": rng.choice(SEXES),
                "education": EDUCATION[schooled] if rng.random() > 0.03 else None,
                "hours": min(99, max(1, int(rng.gauss(40, 12)))),
                "gain": round(rng.lognormvariate(8, 1.5), 2) if rng.random() < 0.1 else 0.0, "income": BRACKETS[rich],
            }
        )  # fmt: skip
    return Sample(
        "census",
        {"id": "BIGINT", "age": "INTEGER", "sex": "VARCHAR", "education": "VARCHAR", "hours": "INTEGER", "gain": "DOUBLE",
         "income": "VARCHAR"},
        {"unit": "id", "unique": True, "bounds": {"age": (17, 90), "hours": (0, 100), "gain": (0, 50_000)},
         "keys": {"sex": SEXES, "education": EDUCATION, "income": BRACKETS}},
        (
            "SELECT COUNT(*) AS n, AVG(age) AS mean FROM census{where}",
            "SELECT education, COUNT(*) AS n, AVG(hours) AS mean, VARIANCE(hours) AS v, STDDEV(age) AS d FROM census{where} "
            "GROUP BY education",
            "SELECT sex, income, COUNT(*) AS n, SUM(gain) AS gain, AVG(gain) AS mean FROM census{where} "
            "GROUP BY sex, income",
            "SELECT income, SUM(age * hours) AS x, COUNT(education) AS schooled FROM census{where} GROUP BY income",
        ),
        "age < 0",
        rows,
    )  # fmt: skip


def web_log(users: int = 300, most: int = 10_000) -> Sample:
    """Users with 1 to `most` rows; about one number in six is missing, not a number, infinite, huge or negative."""
    rng = Random(80)
    rows = []
    for user in range(users):
        for visit in range(most if user == 0 else min(most, int(rng.paretovariate(0.9)))):
            weight = rng.choice(BAD) if rng.random() < 1 / 6 else rng.lognormvariate(9, 2)
            rows.append(
                {
                    "visitor": f"u{user}" if rng.random() > 0.01 else None,
                    "seen": START + timedelta(seconds=37 * visit + user),
                    "url": rng.choice(PAGES[:4]) if rng.random() > 0.02 else rng.choice((None, "/odd'; --", "")),
                    "bytes": weight, "status": rng.choice((200, 200, 200, 404, 500, None, -(2**31), 2**31 - 1)),
                }
            )  # fmt: skip
    return Sample(
        "log",
        {"visitor": "VARCHAR", "seen": "TIMESTAMP", "url": "VARCHAR", "bytes": "DOUBLE", "status": "INTEGER"},
        {"unit": "visitor", "max_groups": 3, "max_rows": 10, "bounds": {"bytes": (0, 100_000), "status": (100, 599)},
         "keys": {"url": PAGES}},
        (
            "SELECT COUNT(*) AS n, COUNT(DISTINCT visitor) AS people, COUNT(bytes) AS sized, SUM(bytes) AS total "
            "FROM log{where}",
            "SELECT url, COUNT(*) AS n, COUNT(DISTINCT visitor) AS people, SUM(bytes) AS total, AVG(bytes) AS mean "
            "FROM log{where} GROUP BY url",
            "SELECT url, VARIANCE(bytes) AS v, STDDEV(status) AS d, AVG(status) AS mean FROM log{where} GROUP BY url",
            "SELECT status // 100 AS class, COUNT(*) AS n, AVG(bytes) AS mean FROM log{where} GROUP BY status // 100",
        ),
        "seen < '2000-01-01'",
        rows,
    )  # fmt: skip
