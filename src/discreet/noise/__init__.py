"""Samplers: exact draws from integer distributions, at the speed of NumPy. This package knows nothing of privacy."""

from discreet.noise.bits import SYSTEM, Bits
from discreet.noise.fair_coins import binomial
from discreet.noise.gaussian import rounded_gaussian
from discreet.noise.laplace import discrete_laplace, geometric
from discreet.noise.lattice_gaussian import discrete_gaussian
from discreet.noise.selection import SelectionRule, select
from discreet.noise.uniform import bernoulli, bernoulli_exp, uniform_below

__all__ = [
    "SYSTEM",
    "Bits",
    "SelectionRule",
    "bernoulli",
    "bernoulli_exp",
    "binomial",
    "discrete_gaussian",
    "discrete_laplace",
    "geometric",
    "rounded_gaussian",
    "select",
    "uniform_below",
]
