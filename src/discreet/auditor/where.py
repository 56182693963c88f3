"""A function by its name."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from types import FunctionType
from typing import Any, TypeAlias

from discreet.errors import BadParameter

Where: TypeAlias = str | Callable[[Any], Any]
"""A function, or "module:function"."""


def found(where: Where) -> Callable[[Any], Any]:
    """The function itself; what its module prints goes to the errors.

    >>> found("math:sqrt")(9)
    3.0
    """
    if not isinstance(where, str):
        return where
    module, _, name = where.partition(":")
    if not module or not name:
        raise BadParameter("function", repr(where), "not of the form module:function", "write, for example, noise:add")
    try:
        with redirect_stdout(sys.stderr):
            function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as missing:
        raise BadParameter("function", repr(where), str(missing), "check the module's path and the name") from None
    if not callable(function):
        raise BadParameter("function", repr(where), "cannot be called", "name a function of one input")
    return function  # type: ignore[no-any-return]


def named(where: Where) -> str:
    """The name under which another process finds the function."""
    if isinstance(where, str):
        found(where)
        return where
    if (
        not isinstance(where, FunctionType)
        or getattr(sys.modules.get(where.__module__), where.__qualname__, None) is not where
    ):
        way = 'put it at the top of a module, or write "module:function"'
        raise BadParameter("function", repr(where), "no other process can find it", way)
    return f"{where.__module__}:{where.__qualname__}"
