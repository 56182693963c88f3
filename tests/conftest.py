"""The oracles' precision is global state: every test starts from the same, and may ask for more inside itself."""

import mpmath
import pytest
from flint import ctx


@pytest.fixture(autouse=True)
def _oracle_precision() -> None:
    ctx.prec = 300
    mpmath.mp.dps = 40
