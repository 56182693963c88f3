"""The oracles' precision is global state: every test starts from the same, and may ask for more inside itself.

What pytest has gathered lives to the end: frozen, it is not searched for garbage over and over.
"""

import gc

import mpmath
import pytest
from flint import ctx


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _oracle_precision() -> None:
    ctx.prec = 300
    mpmath.mp.dps = 40
