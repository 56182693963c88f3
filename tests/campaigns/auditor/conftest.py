"""Noise is fresh in every run of a campaign."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _freeze_garbage() -> Iterator[None]:
    """Keep old objects out of garbage collection: a collection during a call can exceed its time limit."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
