"""Annotations resolve, as documentation tools and validators resolve them.

A module may import the types of its annotations under TYPE_CHECKING, so that `discreet --help` stays quick: these imports
are made here.
"""

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, get_type_hints

import discreet
from discreet import (
    Laplace,
)

CORE = ("accounting", "cli", "mechanisms", "noise", "_numbers", "events", "units")


def public_functions() -> list[Callable[..., Any]]:
    names = [m.name for m in pkgutil.walk_packages(discreet.__path__, "discreet.") if m.name.split(".")[1] in CORE]
    found: list[Callable[..., Any]] = [getattr(discreet, name) for name in discreet.__all__]
    for module in map(importlib.import_module, names):
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                found += [value, *vars(value).values()] if inspect.isclass(value) else [value]
    found = [getattr(one, "fget", None) or getattr(one, "__func__", one) for one in found]
    return [one for one in found if inspect.isfunction(one) or inspect.isclass(one)]


@cache
def type_checking_names(module: str) -> dict[str, Any]:
    """What a module imports for type checkers alone."""
    names: dict[str, Any] = dict(vars(sys.modules[module]))
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), names)
    return names


def test_annotations_resolve() -> None:
    """As documentation tools and validators resolve them."""
    every = public_functions()
    assert len(every) > 300
    for one in every:
        modules = {each.__module__ for each in getattr(one, "__mro__", (one,)) if each.__module__.startswith("discreet")}
        get_type_hints(one, localns={name: each for module in modules for name, each in type_checking_names(module).items()})
    assert "values" in get_type_hints(Laplace.release)
