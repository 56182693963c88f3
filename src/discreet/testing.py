"""For tests: seeded bits that can be repeated, and an assertion that an audit finds no violation of a claim.

Seeded bits are tainted: an answer made with them must not be published, and no ledger accepts it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from discreet._numbers import Number, check_int
from discreet.auditor import Finding, audit
from discreet.auditor.claims import Domain
from discreet.noise.bits import Bits, Keystream, seeds_from


def seeded_bits(seed: int) -> Bits:
    """Return bits that are the same for the same seed.

    >>> bool((seeded_bits(7).words(3) == seeded_bits(7).words(3)).all()), seeded_bits(7).tainted
    (True, True)
    """
    return Keystream(seeds_from(f"discreet test bits {check_int(seed, 'seed')}"), tainted=True)


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
    """Audit a function, and fail if it is certainly not (ε, δ)-private: for pytest.

    A private function fails in one of ten million runs (1 − `confidence`).

    >>> from discreet import Laplace
    >>> finding = assert_private(lambda xs: Laplace(1).release(len(xs)), epsilon=1, samples=4_000)
    >>> assert_private(lambda xs: len(xs), epsilon=1, samples=4_000)
    Traceback (most recent call last):
    AssertionError: The claim of ε = 1, δ = 0 is false: ...
    """
    finding = audit(
        function, (epsilon, delta), neighbours, domain=domain, confidence=confidence, samples=samples,
        seconds=seconds if seconds is not None or samples is not None else 10.0,
    )  # fmt: skip
    if finding.violation:
        raise AssertionError(str(finding))
    return finding
