"""Every public name has an example that is run: in its docstring, or in a block of a page."""

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import discreet

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.M | re.S)
PACKAGES = (
    "accounting", "auditor", "codec", "errors", "events", "lab", "ledger", "local", "mechanisms", "noise", "planner",
    "testing", "units", "workload",
)  # fmt: skip


def list_public_names(module: Any) -> dict[str, Any]:
    """What a module exports: its `__all__`, or the functions and classes that it defines under a public name."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__ if name != "__version__"}
    mine = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return {n: v for n, v in mine.items() if not n.startswith("_") and (inspect.isfunction(v) or inspect.isclass(v))}


@cache
def read_executed_code() -> str:
    """The blocks that tests/test_docs.py runs, and the examples in the docstrings of all modules, which pytest runs."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [block for page in pages for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    lines = [
        line for path in (ROOT / "src").rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith((">>> ", "... ", "discreet.errors."))
    ]  # fmt: skip
    return "\n".join(blocks + lines)


def has_example(name: str, value: Any, code: str) -> bool:
    used = re.search(rf"(?<![\w\"'])(?:{re.escape(name)})\b(?!\s*=[^=])", code)
    return ">>> " in (inspect.getdoc(value) or "") or used is not None


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_every_public_name_has_an_example_that_is_run(package: str) -> None:
    code = read_executed_code()
    names = list_public_names(discreet if not package else import_module(f"discreet.{package}"))
    assert names
    assert [name for name, value in names.items() if not has_example(name, value, code)] == []


def test_a_name_without_an_example_is_found() -> None:
    assert not has_example("unheard_of", object, "print(1)")
    assert not has_example("unheard_of", object, "f(unheard_of=3)")  # a parameter is no use of the name
    assert has_example("unheard_of", object, "unheard_of(3)")


def list_members(value: Any) -> dict[str, Any]:
    return {name: member for name, member in vars(value).items() if not name.startswith("_")}


def test_every_public_name_and_method_has_a_docstring() -> None:
    """So that help() says something; what a class inherits is documented where it is defined."""
    missing = []
    for name, value in list_public_names(discreet).items():
        if inspect.isfunction(value) or inspect.isclass(value):
            missing += [] if inspect.getdoc(value) else [name]
        for member, part in list_members(value).items() if inspect.isclass(value) else ():
            function = getattr(part, "fget", None) or getattr(part, "__func__", part)
            if inspect.isfunction(function) and not inspect.getdoc(function):
                missing.append(f"{name}.{member}")
    assert missing == []
