"""The discrete Gaussian sampler rejects with exactly the right probability."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.noise import lattice_gaussian
from discreet.noise.bits import Workspace
from tests.support.scripted_bits import ScriptedBits


def test_rejection_of_the_discrete_gaussian_is_exact() -> None:
    """A(0)/A(k) brackets the ratio computed by Arb's quadrature, and the bulk bound b²/8 never rejects too little."""
    from flint import acb, arb

    variance = Fraction(2000) ** 2
    for k in (1, 500, 2000, 9000, 40000):

        def integral(k: int) -> arb:
            f = lambda t, _: (-(t**2) / (2 * 2000**2)).exp() * (t * k / 2000**2).cosh()  # noqa: E731
            return acb.integral(f, acb(-0.5), acb(0.5)).real

        chance = integral(0) / integral(k)
        value, error = lattice_gaussian._integral(k, variance, 16)
        assert error < Fraction(1, 1 << 64)
        assert abs(float(value) - float(integral(k))) < 1e-14
        assert float(1 - chance) <= (k / 2000**2) ** 2 / 8 + 1e-15


@pytest.mark.parametrize("many", [False, True])
def test_rejection_turns_exactly_at_its_probability(many: bool) -> None:
    """Words just below and just above 2⁶⁴·A(0)/A(k): accepted, rejected, in the bulk and in the scalar path.

    In bulk, four U have their first 16 bits from one word; k = 9000 is looked at only if 12 of them are ones, k = 200,000
    in any case.
    """
    from flint import acb, arb, ctx

    ctx.prec = 200
    sigma = 1025

    def integral(k: int) -> arb:
        return acb.integral(
            lambda t, _: (-(t**2) / (2 * sigma**2)).exp() * (t * k / sigma**2).cosh(), acb(-0.5), acb(0.5)
        ).real

    for k in (9000, 200_000):
        edge = int((integral(0) / integral(k) * arb(2) ** 64).floor().unique_fmpz())
        assert edge < 2**64 - 2**40  # the pair is one where rejection has some probability
        assert (edge >> 52 == 2**12 - 1) == (k == 9000)
        for word, rejected in ((edge - 2, False), (edge + 2, True), (2**64 - 1, True), (0, False)):
            assert is_rejected(word, k, sigma, many=many) == rejected
    assert not is_rejected(2**64 - 2, 0, sigma, many=many)


def is_rejected(word: int, k: int, sigma: int, *, many: bool) -> bool:
    """Say whether k is rejected with this U, as the only value or as the last of twenty."""
    values, script = np.array([k]), [word]
    if many:
        lanes = np.zeros(20, np.uint16)
        lanes[-1] = word >> 48
        values, script = np.array([0] * 19 + [k]), [*lanes.view(np.uint64).tolist(), word << 16 & 2**64 - 1]
    rejected = lattice_gaussian._draw_rejections(values, Fraction(sigma), ScriptedBits(script), Workspace())
    return rejected == [values.size - 1]


def test_coins_that_accept_too_much_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: large values are not looked at unless their first bits are all ones."""
    monkeypatch.setattr(lattice_gaussian, "isqrt", lambda x: x)
    assert not is_rejected(2**64 - 2**53, 200_000, 1025, many=True)
    monkeypatch.undo()
    assert is_rejected(2**64 - 2**53, 200_000, 1025, many=True)
