"""For tests: bits that repeat, and an assertion that nothing can be found against a claim.

Seeded bits are tainted, and whatever is made with them must not be published.
"""

from collections.abc import Callable, Sequence
from hashlib import sha512
from itertools import count
from typing import Any

from discreet._numbers import Number, check_int
from discreet.auditor import Finding, audit
from discreet.auditor.claims import Domain
from discreet.noise.bits import SEED_BYTES, Bits, Keystream


def seeded_bits(seed: int) -> Bits:
    """The same words every time, for the same seed.

    >>> bool((seeded_bits(7).words(3) == seeded_bits(7).words(3)).all()), seeded_bits(7).tainted
    (True, True)
    """
    name, turns = check_int(seed, "seed"), count()
    return Keystream(lambda: sha512(f"discreet test bits {name}/{next(turns)}".encode()).digest()[:SEED_BYTES], tainted=True)


def assert_private(
    function: Callable[[Any], Any],
    epsilon: Number,
    delta: Number = 0,
    *,
    neighbours: Sequence[Any] | None = None,
    domain: Domain = (0, 1),
    confidence: Number = 1 - 1e-7,
    samples: int | None = None,
    seconds: float | None = None,
) -> Finding:
    """Fail if the function, attacked, leaks more than (ε, δ): for pytest. A right one fails once in ten million runs.

    >>> from discreet import Laplace
    >>> found = assert_private(lambda xs: Laplace(1).release(len(xs)), epsilon=1, samples=4_000)
    >>> assert_private(lambda xs: len(xs), epsilon=1, samples=4_000)
    Traceback (most recent call last):
    AssertionError: The claim of ε = 1, δ = 0 is false: ...
    """
    found = audit(
        function, (epsilon, delta), neighbours, domain=domain, confidence=confidence, samples=samples,
        seconds=seconds if seconds is not None or samples is not None else 10.0,
    )  # fmt: skip
    if found.violation:
        raise AssertionError(str(found))
    return found
