"""What is assumed of NumPy's float64 functions. Everything exact above leans on these two lines.

NumPy chooses its kernels by processor, so the margin is wide: log, cos, sin and exp are taken to be within ULPS units
in the last place of the true value of their (double) argument. The kernels seen so far stay within 1; the tests
measure the ones of this machine against Arb on random and on hard arguments. +, −, ×, ÷, √, floor and conversions are
IEEE-754 correctly rounded: relative error at most HALF_ULP.
"""

ULPS = 4
HALF_ULP = 2.0**-53
FUNCTION_ERROR = ULPS * 2 * HALF_ULP
"""Relative error of log, cos, sin, exp: ULPS units of at most 2^-52 each."""
