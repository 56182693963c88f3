"""A function by its name."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from types import FunctionType
from typing import Any, TypeAlias

from discreet.errors import BadParameter

FunctionReference: TypeAlias = str | Callable[[Any], Any]
"""A function, or "module:function"."""


def load_function(reference: FunctionReference) -> Callable[[Any], Any]:
    """The function itself; what its module prints goes to the errors.

    >>> load_function("math:sqrt")(9)
    3.0
    """
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    if not module or not name:
        raise BadParameter("function", repr(reference), "not of the form module:function", "write, for example, noise:add")
    try:
        with redirect_stdout(sys.stderr):
            function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as missing:
        raise BadParameter("function", repr(reference), str(missing), "check the module's path and the name") from None
    if not callable(function):
        raise BadParameter("function", repr(reference), "cannot be called", "name a function of one input")
    return function  # type: ignore[no-any-return]


def get_import_path(reference: FunctionReference) -> str:
    """The name under which another process finds the function."""
    if isinstance(reference, str):
        load_function(reference)
        return reference
    if (
        not isinstance(reference, FunctionType)
        or getattr(sys.modules.get(reference.__module__), reference.__qualname__, None) is not reference
    ):
        way = 'put it at the top of a module, or write "module:function"'
        raise BadParameter("function", repr(reference), "no other process can find it", way)
    return f"{reference.__module__}:{reference.__qualname__}"
