"""Readings: what a fact means in each notion of privacy. Every reading is total, and answers ∞ where it has none."""

from discreet.accounting.gaussian import gaussian_delta, gaussian_epsilon
from discreet.accounting.pure import pure
from discreet.accounting.zcdp import zcdp

__all__ = ["gaussian_delta", "gaussian_epsilon", "pure", "zcdp"]
