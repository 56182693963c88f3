"""A session: open a source and an account, then ask; reserve, run, record."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.session.discovery import Discovery
    from discreet.session.executor import Executor, RunOptions

_HOME = {
    "Discovery": "discreet.session.discovery",
    "Executor": "discreet.session.executor",
    "RunOptions": "discreet.session.executor",
}


def __getattr__(name: str) -> Any:
    """What runs queries is fetched when it is first used: a session is opened without it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_HOME[name]), name)
    return globals()[name]


__all__ = ["Discovery", "Executor", "RunOptions"]
