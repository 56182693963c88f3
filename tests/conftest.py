"""The oracles' precision is global state: every test starts from the same, and may ask for more inside itself. The owner's
state (what passed validation, what is quarantined) is a folder of each test.

What pytest has gathered lives to the end: frozen, it is not searched for garbage over and over.
"""

import gc
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


@pytest.fixture(autouse=True)
def _oracle_precision() -> None:
    ctx.prec = 300
    mpmath.mp.dps = 40
