"""docs/facts.md is complete: every id, every test that it names, every name and command of its places exists."""

import ast
import re
from functools import cache, reduce
from importlib import import_module
from pathlib import Path

import pytest

from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES

ROOT = Path(__file__).parents[2]
SECTIONS = {"D": 32, "M": 19, "S": 4, "U": 12, "F": 18, "R": 11, "E": 15}
"""How many rows of each kind: definitions, mechanisms, sensitivity, accuracy, figures, reference values, errata."""
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| ([^|]+) \| `(\S+?)::(\w+)` \| `([^`]+)` \|$")


def rows(text: str) -> dict[str, tuple[str, str, str, str, str]]:
    """id → statement, source, file, test, place."""
    found = [ROW.match(line) for line in text.splitlines() if line.startswith("| ") and not line.startswith("| id")]
    assert all(found), "every line of a table has five cells in the stated form"
    cells = [match.groups() for match in found if match]
    assert len({cell[0] for cell in cells}) == len(cells), "an id is given once"
    return {cell[0]: (cell[1], cell[2], cell[3], cell[4], cell[5]) for cell in cells}


FACTS = rows((ROOT / "docs" / "facts.md").read_text(encoding="utf-8"))


@cache
def list_tests(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def exists(place: str) -> bool:
    """Whether a dotted name can be imported, or a command of the lab shows that name."""
    if place.startswith("discreet lab "):
        verb, name = place.split()[2:]
        return name in {"attack": ATTACKS, "exercise": EXERCISES, "show": {**FIGURES, **ERRATA}}[verb]
    parts = place.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[cut:], module)
        except AttributeError:
            return False
        return True
    return False


def test_the_map_is_complete() -> None:
    assert list(FACTS) == [f"{kind}{i}" for kind, count in SECTIONS.items() for i in range(1, count + 1)]


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_has_a_test_and_a_place(fact: str) -> None:
    statement, source, path, test, place = FACTS[fact]
    assert len(statement) > 10
    assert set(source.split(", ")) <= {"all", "exact", "N1", "N2", "L12", "S4", "B2", "ACG16", "Opacus"}
    assert test in list_tests(path)
    assert exists(place)


def test_everything_in_the_lab_is_on_the_map() -> None:
    places = {place for *_, place in FACTS.values()}
    for name in (*FIGURES, *ERRATA):
        assert f"discreet lab show {name}" in places
    for name in EXERCISES:
        assert f"discreet lab exercise {name}" in places
    for number, name in enumerate(FIGURES, 1):
        assert FACTS[f"F{number}"][-1] == f"discreet lab show {name}"


def test_a_wrong_map_is_noticed() -> None:
    """The mutants: a name that does not exist, a command that shows nothing, a missing test, an incomplete row."""
    for place in ("discreet.nothing", "discreet.units.Neighbors", "nowhere.at.all", "discreet lab show erratum-0"):
        assert not exists(place)
    assert "test_that_does_not_exist" not in list_tests("tests/lab/figures/test_figures.py")
    with pytest.raises(AssertionError):
        rows("| D1 | something | B2 | `tests/a.py::test_b` |")
    with pytest.raises(AssertionError):
        rows("| D1 | a | B2 | `t.py::test_b` | `x` |\n| D1 | b | B2 | `t.py::test_b` | `x` |")
