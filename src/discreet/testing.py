"""For tests: bits that repeat. They are tainted, and whatever is made with them must not be published."""

from hashlib import sha512
from itertools import count

from discreet.exact import whole
from discreet.noise.bits import SEED_BYTES, Bits, Keystream


def seeded(seed: int) -> Bits:
    """The same words every time, for the same seed.

    >>> bool((seeded(7).words(3) == seeded(7).words(3)).all()), seeded(7).tainted
    (True, True)
    """
    name, turns = whole(seed, "seed"), count()
    return Keystream(lambda: sha512(f"discreet test bits {name}/{next(turns)}".encode()).digest()[:SEED_BYTES], tainted=True)
