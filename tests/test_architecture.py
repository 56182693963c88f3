"""ARCHITECTURE.md shows the real imports, and the tools that write into it count what they say."""

import re
from pathlib import Path

import pytest

import marked_block
from draw_layers import BLOCK, WRONG, draw_layers, find_unlayered, read_layers
from trace_calls import Trace, trace

ROOT = Path(__file__).parent.parent

SAMPLE = '''
class Counter:
    """A class body, which is no function."""

    step = [n for n in range(3)]

    def count(self, limit):
        return sum(n for n in self.steps(limit) if (lambda k: k > 0)(n))

    def steps(self, limit):
        yield from range(limit)


def total():
    return Counter().count(4) + (lambda: 1)()


half = lambda x: x / 2
'''


def missing_modules(text: str) -> set[str]:
    """The modules in backticks that do not exist, as paths from the root or from src/discreet."""
    named = set(re.findall(r"`((?:\w+/)*\w+/\w+\.py)\b", text))
    return {path for path in named if not any((ROOT / under / path).exists() for under in ("", "src", "src/discreet"))}


def test_the_map_names_modules_that_exist() -> None:
    assert missing_modules(marked_block.PAGE.read_text(encoding="utf-8")) == set()


def test_a_module_that_does_not_exist_is_noticed() -> None:
    text = "`query/ast.py`, `query/nowhere.py: read`, `discreet/__init__.py`, `tests/conftest.py`, `engines/<name>/`"
    assert missing_modules(text) == {"query/nowhere.py"}


def test_the_drawing_of_the_layers_is_that_of_the_imports() -> None:
    assert marked_block.read_block(BLOCK) == draw_layers(), "run: python tools/draw_layers.py --write"


def test_every_import_points_down() -> None:
    assert WRONG not in draw_layers()


def test_every_module_stands_in_a_layer() -> None:
    assert find_unlayered() == set()


def test_layers_are_read_as_import_linter_writes_them(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "p"\n[[tool.importlinter.contracts]]\ntype = "forbidden"\n'
        '[[tool.importlinter.contracts]]\ntype = "layers"\ncontainers = ["p"]\nlayers = ["a", "(b) | c", "d : e"]\n'
    )
    package, layers = read_layers(tmp_path / "pyproject.toml")
    assert package == "p"
    assert [layer.modules for layer in layers] == [("p.a",), ("p.b", "p.c"), ("p.d", "p.e")]
    assert [layer.independent for layer in layers] == [True, True, False]


def test_a_block_is_replaced_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked_block, "PAGE", tmp_path / "page.md")
    marked_block.PAGE.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n<!-- b -->\nother\n<!-- /b -->\n")
    marked_block.write_block("a", "new")
    assert marked_block.PAGE.read_text() == "before\n<!-- a -->\nnew\n<!-- /a -->\nafter\n<!-- b -->\nother\n<!-- /b -->\n"
    assert (marked_block.read_block("a"), marked_block.read_block("b")) == ("new", "other")


def test_the_tracer_counts_functions_and_neither_bodies_nor_lambdas_apart(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    source = tmp_path / "sample.py"
    body = trace(lambda: exec(compile(SAMPLE, source, "exec"), names), tmp_path)
    assert body == Trace(())
    total, half = names["total"], names["half"]
    assert callable(total)
    assert callable(half)
    assert set(trace(total, tmp_path).entered) == {
        ("sample.py", name) for name in ("total", "Counter.count", "Counter.steps")
    }
    assert trace(lambda: half(2), tmp_path).functions == 1


def test_the_tracer_counts_changes_of_file() -> None:
    found = Trace((("a.py", "f"), ("a.py", "g"), ("b.py", "h"), ("a.py", "f")))
    assert (found.functions, found.files, found.changes) == (3, 2, 2)
