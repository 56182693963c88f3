"""Rényi divergences D_α of the single laws, α > 1, each rounded up.

D_α(P‖Q) = ln E_Q[(P/Q)^α]/(α − 1). Every form below takes out the largest privacy loss ε, so that what is left under the
logarithm lies between 0 and 1 and no large exponential appears.
"""

from fractions import Fraction

from discreet.accounting.elementary import exp_neg_bounds, log_bounds, tanh_half_up


def response_divergence(epsilon: Fraction, order: Fraction) -> Fraction:
    """Binary randomised response, and with it every ε-private mechanism [BS16, Prop. 3.3; Mir17, Prop. 5].

    >>> float(response_divergence(Fraction(1), Fraction(2))) <= 1
    True
    """
    tail = (1 + exp_neg_bounds((2 * order - 1) * epsilon)[1]) / (1 + exp_neg_bounds(epsilon)[0])
    return min(_add_log_tail(epsilon, tail, order), order * epsilon * tanh_half_up(epsilon))


def choice_divergence(epsilon: Fraction, truth: Fraction, wrong: Fraction, choices: int, order: Fraction) -> Fraction:
    """The k-ary response whose likelier answer has probability max(truth, wrong), ε the log of their ratio, rounded up.

    E = t·e^{(α−1)ε} + w·e^{−(α−1)ε} + (k−2)·wrong, t ≥ w the two probabilities of the answers that the neighbours swap.
    """
    high, low = max(truth, wrong), min(truth, wrong)
    once, twice = exp_neg_bounds((order - 1) * epsilon)[1], exp_neg_bounds(2 * (order - 1) * epsilon)[1]
    return min(
        _add_log_tail(epsilon, high + low * twice + (choices - 2) * wrong * once, order), response_divergence(epsilon, order)
    )


def laplace_divergence(epsilon: Fraction, order: Fraction) -> Fraction:
    """Continuous Laplace shifted by ε scales [Mir17, Prop. 6]."""
    tail = order + (order - 1) * exp_neg_bounds((2 * order - 1) * epsilon)[1]
    return _add_log_tail(epsilon, tail / (2 * order - 1), order)


def discrete_laplace_divergence(steps: int, scale: Fraction, order: Fraction) -> Fraction:
    """P(k) ∝ a^|k|, a = e^{−1/scale}, shifted by whole `steps`.

    Summing p^α·q^{1−α} over k ≤ 0, 0 < k < Δ and k ≥ Δ gives, with r = a^{2α−1},
    e^{(α−1)ε}·(1 + r^Δ + (1−a)·(r − r^Δ)/(1−r))/(1+a).
    """
    epsilon, slope = steps / scale, (2 * order - 1) / scale
    a_low, a_high = exp_neg_bounds(1 / scale)
    r_high = exp_neg_bounds(slope)[1]
    if r_high >= 1 or a_high >= 1:  # a scale past 2^120: only the pure bound is within reach of 128 bits
        return response_divergence(epsilon, order)
    last_low, last_high = exp_neg_bounds(steps * slope)
    middle = (1 - a_low) * max(Fraction(0), r_high - last_low) / (1 - r_high)
    tail = (1 + last_high + middle) / (1 + a_low)
    return min(_add_log_tail(epsilon, tail, order), response_divergence(epsilon, order))


def _add_log_tail(epsilon: Fraction, tail: Fraction, order: Fraction) -> Fraction:
    """ε + ln(tail)/(α − 1), between 0 and ε."""
    return max(Fraction(0), min(epsilon, epsilon + log_bounds(tail)[1] / (order - 1)))
