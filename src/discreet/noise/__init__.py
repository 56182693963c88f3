"""Samplers: exact draws from integer distributions, at the speed of NumPy. This package knows nothing of privacy."""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.noise.bits import SYSTEM, Bits
    from discreet.noise.counts import poisson, truncated_negative_binomial
    from discreet.noise.fair_coins import binomial
    from discreet.noise.gaussian import rounded_gaussian
    from discreet.noise.laplace import discrete_laplace, geometric
    from discreet.noise.lattice_gaussian import discrete_gaussian
    from discreet.noise.selection import SelectionRule, select
    from discreet.noise.uniform import bernoulli, bernoulli_exp, uniform_below

# A sampler is fetched when it is first used: accounting takes `fixed` from here, and does without NumPy.
__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.noise.bits": "SYSTEM Bits",
        "discreet.noise.counts": "poisson truncated_negative_binomial",
        "discreet.noise.fair_coins": "binomial",
        "discreet.noise.gaussian": "rounded_gaussian",
        "discreet.noise.laplace": "discrete_laplace geometric",
        "discreet.noise.lattice_gaussian": "discrete_gaussian",
        "discreet.noise.selection": "SelectionRule select",
        "discreet.noise.uniform": "bernoulli bernoulli_exp uniform_below",
    },
)

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
    "poisson",
    "rounded_gaussian",
    "select",
    "truncated_negative_binomial",
    "uniform_below",
]
