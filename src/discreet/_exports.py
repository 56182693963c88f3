"""Public names of a package that are fetched from their modules when they are first used, so that imports cost little."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def export_lazily(
    package: dict[str, Any], homes: Mapping[str, str], parts: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package, given its `globals()`.

    `homes` maps each module to the names that it has, with spaces between them; `parts` are modules of the package itself. A
    name that was fetched stays in the package.

    >>> space = {"__name__": "somewhere"}
    >>> fetch, listed = export_lazily(space, {"math": "pi tau"})
    >>> fetch("tau") == space["tau"], "pi" in listed()
    (True, True)
    >>> fetch("e")
    Traceback (most recent call last):
    AttributeError: module 'somewhere' has no attribute 'e'
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def fetch(name: str) -> Any:
        if name in parts:
            return import_module(f"{package['__name__']}.{name}")
        if name not in home:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        package[name] = getattr(import_module(home[name]), name)
        return package[name]

    def list_names() -> list[str]:
        return sorted({*package, *home, *parts})

    return fetch, list_names
