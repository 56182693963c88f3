"""Poisson sampling: each record is in a step's batch independently, with exactly the stated probability.

The amplified cost of DP-SGD holds for this law and for no other: not for shuffled batches of a fixed size, and not for a
rate that a float rounds. Batches are of random size, and may be empty: an empty batch is a step like any other.
"""

from fractions import Fraction

import numpy as np

from discreet.noise import Bits, bernoulli
from discreet.noise.bits import Ints


def draw_batch(rate: Fraction, records: int, bits: Bits) -> Ints:
    """Return the positions of the records that are in a batch.

    >>> from discreet.noise import SYSTEM
    >>> draw_batch(Fraction(1), 3, SYSTEM).tolist(), draw_batch(Fraction(1, 10**9), 3, SYSTEM).tolist()
    ([0, 1, 2], [])
    """
    return np.flatnonzero(bernoulli(rate, records, bits)).astype(np.int64)
