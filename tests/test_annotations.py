"""Annotations resolve, as documentation tools and validators resolve them."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
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


def test_annotations_resolve() -> None:
    """As documentation tools and validators resolve them."""
    every = public_functions()
    assert len(every) > 300
    for one in every:
        get_type_hints(one)
    assert "values" in get_type_hints(Laplace.release)
