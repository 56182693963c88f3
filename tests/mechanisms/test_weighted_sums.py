"""The error of a weighted sum of noises stays finite and ordered at tails that doubles can hardly hold."""

from fractions import Fraction

from discreet.mechanisms import Laplace
from discreet.mechanisms.weighted_sums import weighted_sum_error


def test_a_tiny_tail_is_shared_out_without_rounding_to_nothing() -> None:
    """The union of the parts is wider than the sum itself is at a tail that is a thousand times as likely, and finite."""
    noise, terms = Laplace(10), ((Fraction(1, 2), 20), (Fraction(1, 3), 3))
    assert (
        weighted_sum_error(noise, terms, 1e-22)
        > weighted_sum_error(noise, terms, 1e-19)
        > weighted_sum_error(noise, terms, 1e-5)
    )
