"""The audit trail: what is changed later is found, and lines stand or fall with what they record."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from discreet.serve.control.errors import KeyTaken, TrailBroken
from discreet.serve.control.store import Control
from discreet.serve.control.trail import TrailHead, hash_body
from tests.serve.control.sample import add_ada, make_ask


@pytest.fixture
def run(sql_location: str) -> Callable[..., Any]:
    """Change rows as somebody with the database could."""

    def execute(sql: str) -> Any:
        if sql_location.startswith("postgresql:"):
            with psycopg.connect(sql_location, autocommit=True) as connection:
                cursor = connection.execute(sql)  # type: ignore[call-overload]
                return cursor.fetchall() if cursor.description else None
        connection = sqlite3.connect(sql_location, isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    return execute


def write_lines(control: Control, lines: int = 5) -> TrailHead:
    for number in range(lines):
        control.trail.append("steward", "grant", f"table {number}", {"person": "ada", "é": [number, 0.1, None]})
    return control.trail.head()


def test_a_trail_that_nobody_changed_is_whole(control: Control) -> None:
    assert control.trail.check() == 0
    empty = control.trail.head()
    head = write_lines(control)
    assert control.trail.check() == control.trail.check(head) == control.trail.check(empty) == head.number == 5
    newest = control.trail.list(limit=1).items[0]
    assert (newest.hash, newest.number) == (head.hash, 5)
    assert newest.details == {"person": "ada", "é": [4, 0.1, None]}
    assert [line.number for line in control.trail.list(subject="table 2").items] == [3]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("UPDATE control_trail SET body = REPLACE(body, 'ada', 'eve') WHERE number = 3", 3),
        ("UPDATE control_trail SET actor = 'eve' WHERE number = 3", 3),
        ("UPDATE control_trail SET subject = 'x' WHERE number = 3", 3),
        ("UPDATE control_trail SET seen = seen + 1 WHERE number = 3", 3),
        ("UPDATE control_trail SET hash = 'x' WHERE number = 3", 3),
        ("DELETE FROM control_trail WHERE number = 3", 3),
        ("DELETE FROM control_trail WHERE number = 1", 1),
        ("DELETE FROM control_trail WHERE number = 5", 5),
        ("DELETE FROM control_trail", 1),
        ("UPDATE control_trail SET body = 'x' WHERE number = 2", 2),
        ("UPDATE control_trail_head SET hash = 'x'", 6),
        ("DELETE FROM control_trail_head", 6),
    ],
)
def test_the_first_wrong_line_is_named(control: Control, run: Callable[..., Any], change: str, line: int) -> None:
    write_lines(control)
    run(change)
    with pytest.raises(TrailBroken) as broken:
        control.trail.check()
    assert broken.value.number == line


def test_a_line_with_a_new_hash_does_not_continue_the_chain(control: Control, run: Callable[..., Any]) -> None:
    write_lines(control)
    text = run("SELECT body FROM control_trail WHERE number = 3")[0][0].replace("ada", "eve")
    run(f"UPDATE control_trail SET body = '{text}', hash = '{hash_body(text)}' WHERE number = 3")
    with pytest.raises(TrailBroken, match=r"Line 4 .*continue"):
        control.trail.check()


def test_a_trail_that_was_rewritten_to_its_end_is_found_by_a_head_kept_elsewhere(
    control: Control, run: Callable[..., Any]
) -> None:
    head = write_lines(control)
    run("DELETE FROM control_trail WHERE number > 3")
    run("UPDATE control_trail_head SET number = 3, hash = (SELECT hash FROM control_trail WHERE number = 3)")
    assert control.trail.check() == 3  # alone, a trail that was cut off looks whole
    with pytest.raises(TrailBroken, match="kept"):
        control.trail.check(head)
    control.trail.append("eve", "nothing", "x")
    control.trail.append("eve", "nothing", "x")
    assert control.trail.check() == 5
    with pytest.raises(TrailBroken, match=r"Line 5 .*kept"):
        control.trail.check(head)


def test_lines_stand_and_fall_with_what_they_record(control: Control) -> None:
    add_ada(control)
    control.add_ask(make_ask(), by="ada")
    with pytest.raises(KeyTaken):
        control.add_ask(make_ask(measurement="other"), by="ada")
    control.add_ask(make_ask(), by="ada")  # a retry changes nothing
    assert [line.action for line in control.trail.list().items] == ["ask"]
    with suppress(KeyTaken), control.transaction():
        control.add_ask(make_ask("second"), by="ada")
        control.trail.append("ada", "more", "x")
        control.add_ask(make_ask(measurement="other"), by="ada")
    assert control.find_ask_by_key("ada", "second") is None
    assert control.trail.check() == 1
    with control.transaction():
        control.add_ask(make_ask("second"), by="ada")
        control.trail.append("ada", "more", "x")
    assert [line.action for line in control.trail.list().items] == ["more", "ask", "ask"]
    assert control.trail.check() == 3


def test_no_line_holds_a_question(control: Control) -> None:
    control.add_ask(make_ask(query="SELECT COUNT(*) FROM people WHERE name = 'Grace'"), by="ada")
    assert "Grace" not in repr(control.trail.list().items)
