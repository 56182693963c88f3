"""The oracles' precision is global state: every test starts from the same, and may ask for more inside itself. The owner's
state (what passed validation, what is quarantined) is a folder of each test.

What pytest collects lives to the end: the garbage collector rests while it collects, and what was collected is frozen, so
that it is not searched for garbage over and over; what tests make is searched less often than usual. Before the interpreter
exits, it is unfrozen, and Hypothesis's callback of the garbage collector removed: both would keep modules alive to the very
end, and DuckDB's bindings (nanobind) report types that are still alive then as leaked. Should a worker of xdist report some
all the same, after its last test: what it writes to its standard error from then on is dropped.
"""

import atexit
import gc
import os
from collections.abc import Iterator
from uuid import uuid4

import mpmath
import pytest
from flint import ctx


@pytest.fixture(autouse=True)
def _owner_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_STATE", str(tmp_path_factory.getbasetemp() / f"state-{uuid4().hex}"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


LAST = "test_connect_says_what_it_returns"
"""Reads what the type checker found when `make check` ran it, which `make test` does beside the first tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with Spark's test: it is the longest, and a worker that began it last would end minutes after the others."""
    items.sort(key=lambda item: (item.name == LAST, "engines/spark/" not in item.nodeid))


GARBAGE_THRESHOLDS = 100_000, 50, 1000
"""Python's own, 700, 10 and 10, take a thirtieth more time: they search the modules that tests import again and again."""


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def pytest_unconfigure(config: pytest.Config) -> None:
    gc.unfreeze()
    gc.callbacks.clear()
    if hasattr(config, "workerinput"):
        atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))


@pytest.fixture(autouse=True)
def _oracle_precision() -> None:
    ctx.prec = 300
    mpmath.mp.dps = 40
