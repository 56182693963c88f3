"""The oracles' precision is global state: every test starts from the same, and may ask for more inside itself. The owner's
state (what passed validation, what is quarantined) is a folder of each test.

What pytest has gathered lives to the end: frozen, it is not searched for garbage over and over. It is unfrozen before the
interpreter exits, which frees nothing that is frozen: DuckDB's bindings (nanobind) would report their types as leaked. They
report the types of their own modules all the same when a worker of xdist exits, after its last test: what a worker writes to
its standard error from then on is dropped.
"""

import atexit
import gc
import os
from uuid import uuid4

import mpmath
import pytest
from flint import ctx


@pytest.fixture(autouse=True)
def _owner_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_STATE", str(tmp_path_factory.getbasetemp() / f"state-{uuid4().hex}"))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    gc.unfreeze()
    if hasattr(config, "workerinput"):
        atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))


@pytest.fixture(autouse=True)
def _oracle_precision() -> None:
    ctx.prec = 300
    mpmath.mp.dps = 40
