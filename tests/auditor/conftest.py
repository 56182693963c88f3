"""The same noise in every run: an audit is a function of the outputs, so its tests either pass or fail."""

import gc
from collections.abc import Iterator
from hashlib import sha512
from itertools import count

import pytest

from discreet.noise import SYSTEM
from discreet.noise.bits import SEED_BYTES, Keystream


@pytest.fixture(autouse=True)
def _same_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Seed the noise by the name of the test. The campaigns draw fresh noise."""
    assert isinstance(SYSTEM, Keystream)
    name, turns = request.node.name, count()
    monkeypatch.setattr(SYSTEM, "_seed", lambda: sha512(f"{name}/{next(turns)}".encode()).digest()[:SEED_BYTES])
    SYSTEM._reset()
    yield
    SYSTEM._reset()


@pytest.fixture(autouse=True)
def _freeze_garbage() -> None:
    """Keep old objects out of garbage collection: a collection during a call can exceed its time limit.

    They stay frozen: to unfreeze them would also unfreeze all that pytest has collected, for every later test.
    """
    gc.collect()
    gc.freeze()
