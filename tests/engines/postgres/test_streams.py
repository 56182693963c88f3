"""A stream over a table in PostgreSQL: each step counts the rows of its period, bounded and cut, and goes on in another
session."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from discreet import connect, load_stream, open_stream
from discreet.ledger import open_ledger
from tests.support.postgres_server import Server, create_table

START = date(2026, 3, 1)
WARDS = ("north", "south", None)
ROWS = [  # unit, day, ward: units with several rows a day, in several wards, on days that follow each other
    (unit, START + timedelta(days=day), WARDS[(unit + row) % 3])
    for unit in range(9)
    for day in range(4)
    for row in range(unit % 3 + 1)
    if (unit + day) % 4
]


def count_in_python(at_most: int, apart: int) -> list[list[int]]:
    """The counts of each step, where a unit counts once in one ward: it has one row in each ward that it has rows in."""
    counted: dict[int, list[int]] = {}
    found = []
    for step in range(4):
        units = sorted({unit for unit, day, _ in ROWS if day == START + timedelta(days=step)})
        admitted = [
            unit
            for unit in units
            if len(counted.get(unit, [])) < at_most and all(step - each >= apart for each in counted.get(unit, []))
        ]
        for unit in admitted:
            counted.setdefault(unit, []).append(step)
        wards = [(unit, ward) for unit, day, ward in ROWS if unit in admitted and day == START + timedelta(days=step)]
        found.append([len({unit for unit, ward in wards if ward == each}) for each in WARDS])
    return found


def test_steps_count_what_plain_python_counts_and_go_on_in_another_session(postgres: Server, tmp_path: Path) -> None:
    create_table(postgres.owner, "visits", "id BIGINT, day DATE, ward TEXT", ROWS)
    open_ledger(tmp_path / "hr.ledger", create=True).open_account("wards", epsilon=2, delta=1e-6)

    def open_session() -> Any:
        declared: dict[str, Any] = {"keys": {"ward": [*WARDS]}, "max_groups": 3, "max_rows": 1}
        return connect(postgres.reader, table="visits", unit="id", ledger=tmp_path / "hr.ledger", **declared)

    stream = open_stream(
        open_session(), "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", name="visits", time="day", start=START,
        steps=30, at_most=2, apart=2, epsilon=1, state=tmp_path / "visits.state",
    )  # fmt: skip
    shown = [stream.tick() for _ in range(3)]
    again = load_stream(open_session(), "visits", state=tmp_path / "visits.state")
    assert [again.tick(step) for step in (1, 2, 3)] == shown
    assert again.tick().step == 4
    assert again.state is not None
    assert again.state.read_counts() == count_in_python(2, 2)
    assert count_in_python(2, 2) != count_in_python(4, 1), "the rows show whether units are cut"
    assert [each.keys for each in shown[0].estimates] == [(ward,) for ward in WARDS]
