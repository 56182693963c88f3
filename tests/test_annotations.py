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
from discreet import Laplace
from discreet.ledger import open_ledger, register_store
from discreet.ledger.verify import verify
from discreet.query.answer import Answer
from discreet.query.quote import Quote
from discreet.session.session import Session


def public_functions() -> list[Callable[..., Any]]:
    names = [m.name for m in pkgutil.walk_packages(discreet.__path__, "discreet.") if not m.name.endswith("__main__")]
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


@cache
def join_names(modules: frozenset[str]) -> dict[str, Any]:
    """What any of these modules imports, for type checkers too."""
    return {name: each for module in sorted(modules) for name, each in type_checking_names(module).items()}


def test_annotations_resolve() -> None:
    """As documentation tools and validators resolve them."""
    every = {id(one): one for one in public_functions()}.values()
    assert len(every) > 1500
    for one in every:
        modules = {each.__module__ for each in getattr(one, "__mro__", (one,)) if each.__module__.startswith("discreet")}
        get_type_hints(one, localns=join_names(frozenset(modules)))
    assert "values" in get_type_hints(Laplace.release)


def test_annotations_of_public_names_resolve_as_they_stand() -> None:
    """Without the names that only type checkers import: `typing.get_type_hints` is all that a user calls."""
    kinds = [Session, Answer, Quote, *(getattr(discreet, name) for name in discreet.__all__)]
    members = [part for kind in kinds if inspect.isclass(kind) for part in (kind, *vars(kind).values())]
    found = [open_ledger, register_store, verify, *members, *kinds]
    found = [getattr(one, "fget", None) or getattr(one, "__func__", one) for one in found]
    callables = [one for one in found if inspect.isfunction(one) or inspect.isclass(one)]
    assert len(callables) > 250
    for one in callables:
        get_type_hints(one)


def test_no_public_signature_names_a_private_type() -> None:
    for name in discreet.__all__:
        value = getattr(discreet, name)
        functions = [value, *vars(value).values()] if inspect.isclass(value) else [value]
        for function in functions:
            function = getattr(function, "__func__", function)
            if not inspect.isfunction(function) or function.__name__.startswith("_"):
                continue
            for parameter, hint in get_type_hints(function).items():
                private = isinstance(hint, type) and hint.__name__.startswith("_")
                assert not private, f"{name}.{function.__name__}: {parameter} is a {hint}"


def test_signatures_are_short_enough_to_read_in_help() -> None:
    """`help(discreet.epsilon)` names `Event`, not the seventeen kinds of it."""
    for name in discreet.__all__:
        value = getattr(discreet, name)
        functions = [value, *vars(value).values()] if inspect.isclass(value) else [value]
        for function in functions:
            function = getattr(function, "__func__", function)
            if inspect.isfunction(function):
                assert "LaplaceEvent |" not in str(inspect.signature(function)), (
                    f"{name}.{function.__name__}: quote the annotation"
                )
