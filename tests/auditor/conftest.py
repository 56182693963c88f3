"""The same noise every time, by day: an audit is a function of the answers, so its tests either pass or do not."""

import gc
from collections.abc import Iterator
from hashlib import sha512
from itertools import count

import pytest

from discreet.noise import SYSTEM
from discreet.noise.bits import SEED_BYTES, Keystream


@pytest.fixture(autouse=True)
def _same_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Seeded by the name of the test. At night the noise is fresh."""
    if request.node.get_closest_marker("nightly"):
        yield
        return
    assert isinstance(SYSTEM, Keystream)
    name, turns = request.node.name, count()
    monkeypatch.setattr(SYSTEM, "_seed", lambda: sha512(f"{name}/{next(turns)}".encode()).digest()[:SEED_BYTES])
    SYSTEM._reset()
    yield
    SYSTEM._reset()


@pytest.fixture(autouse=True)
def _nothing_old_is_collected() -> Iterator[None]:
    """What a whole run of tests left behind is not searched during a call: that can outlast its time limit."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
