"""Noise is fresh in every run of a campaign."""

import gc

import pytest


@pytest.fixture(autouse=True)
def _freeze_garbage() -> None:
    """Keep old objects out of garbage collection: a collection during a call can exceed its time limit.

    They stay frozen: to unfreeze them would also unfreeze all that pytest has collected, for every later test.
    """
    gc.collect()
    gc.freeze()
