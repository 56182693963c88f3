"""The discrete Gaussian sampler rejects with exactly the right probability."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.noise import lattice_gaussian
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


@pytest.mark.parametrize("few", [True, False])
def test_rejection_turns_exactly_at_its_probability(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words just below and just above 2⁶⁴·A(0)/A(k): accepted, rejected, in the bulk and in the scalar path."""
    from flint import acb, arb, ctx

    ctx.prec = 200
    sigma, k = 1025, 9000

    def integral(k: int) -> arb:
        return acb.integral(
            lambda t, _: (-(t**2) / (2 * sigma**2)).exp() * (t * k / sigma**2).cosh(), acb(-0.5), acb(0.5)
        ).real

    edge = int((integral(0) / integral(k) * arb(2) ** 64).floor().unique_fmpz())
    assert edge < 2**64 - 2**40  # the pair is one where rejection has some probability
    if not few:
        monkeypatch.setattr(lattice_gaussian, "MAX_SCALAR_DRAWS", 0)
    for word, rejected in ((edge - 2, False), (edge + 2, True), (2**64 - 1, True), (0, False)):
        out = lattice_gaussian._draw_rejections(np.array([k], np.int64), Fraction(sigma), ScriptedBits([word]))
        assert out.tolist() == [rejected]
    assert not lattice_gaussian._draw_rejections(np.array([0], np.int64), Fraction(sigma), ScriptedBits([2**64 - 2])).any()
