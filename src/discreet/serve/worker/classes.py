"""What a worker does for the lab: it makes the tables of classes, and runs attacks.

The name of a class comes from the queue, so a web process that was taken over may have written it. It is checked against a
pattern that is no path and no table of the configuration; the class's rows are made here from its seed, so no name, policy
or source that comes from the queue is ever opened. The worst that such a process can do here is to make more
invented tables.
"""

import csv
import os
import secrets
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.errors import BadParameter
from discreet.serve.classroom import (
    CLASS_NAME,
    MAX_EPSILON,
    MAX_ROWS,
    MIN_ROWS,
    Class,
    check_attack,
    find_class,
    invent_class,
)
from discreet.serve.config import PopulationConfig, TableConfig
from discreet.serve.control.store import Control
from discreet.units import Neighbours

CURRENCY = "pure"
"""A class adds up ε: the sum that students see is the sum that they can check."""


def find_class_table(control: Control, state: Path, name: str) -> TableConfig | None:
    """Return the configuration of a class's table; its rows and its policy are written if they are not there."""
    found = _find_checked(control, name)
    if found is None:
        return None
    folder = state / "classes"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    policy, rows = folder / f"{name}.policy.toml", folder / f"{name}.csv"
    if not rows.exists():
        _write(policy, lambda path: path.write_text(found.policy, encoding="utf-8"))
        _write(rows, lambda path: _write_rows(path, found))
    return TableConfig(
        name=name, source=str(rows), policy=policy, population=name, classes=(), title=found.title,
        description="A class: invented people, and one budget for all students.", invented=True,
        neighbours=Neighbours.REPLACE,  # students know who is in the table: the value is secret, and ε must cover it
    )  # fmt: skip


def find_class_population(control: Control, name: str) -> PopulationConfig | None:
    """Return the population of a class: its root account is what all students have together."""
    found = _find_checked(control, name)
    if found is None:
        return None
    return PopulationConfig(name=name, epsilon=Fraction(found.epsilon), delta=Fraction(0), currency=CURRENCY)


def _find_checked(control: Control, name: str) -> Class | None:
    """Return a class as the web stored it, if it is one that the page can open."""
    found = find_class(control, name)
    if found is None or found.name != name or not MIN_ROWS <= found.rows <= MAX_ROWS:
        return None
    return found if 0 < Fraction(found.epsilon) <= MAX_EPSILON else None


def check_class_name(name: str, taken: Callable[[str], bool]) -> None:
    """Refuse a name that is not one of a class."""
    if not CLASS_NAME.fullmatch(name) or taken(name):
        raise BadParameter("class", repr(name[:40]), "not a class", "open one on the page of the lab")


def run_attack(payload: dict[str, Any]) -> dict[str, Any]:
    """Run an attack of the lab against a table that it invents, and return what it found in words."""
    from discreet.lab.attacks import ATTACKS

    name, given = str(payload.get("attack")), payload.get("options")
    options = check_attack(name, {str(key): str(value) for key, value in (given if isinstance(given, dict) else {}).items()})
    attack = ATTACKS[name]
    result = attack.run(**{key: _convert(attack.options[key], Fraction(value)) for key, value in options.items()})
    return {"title": result.title, "lines": list(result.lines)}


def _convert(default: Any, value: Fraction) -> Any:
    return int(value) if isinstance(default, int) else value


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that is whole or not there; another worker may write the same one."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    write(draft)
    os.replace(draft, path)


def _write_rows(path: Path, found: Class) -> None:
    columns, rows = invent_class(found)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(["" if value is None else value for value in row] for row in rows)
