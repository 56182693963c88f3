"""Samplers: exact draws from integer distributions, at the speed of NumPy. This package knows nothing of privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.noise.bits import SYSTEM, Bits
    from discreet.noise.fair_coins import binomial
    from discreet.noise.gaussian import rounded_gaussian
    from discreet.noise.laplace import discrete_laplace, geometric
    from discreet.noise.lattice_gaussian import discrete_gaussian
    from discreet.noise.selection import SelectionRule, select
    from discreet.noise.uniform import bernoulli, bernoulli_exp, uniform_below

_HOMES = {
    "discreet.noise.bits": "SYSTEM Bits",
    "discreet.noise.fair_coins": "binomial",
    "discreet.noise.gaussian": "rounded_gaussian",
    "discreet.noise.laplace": "discrete_laplace geometric",
    "discreet.noise.lattice_gaussian": "discrete_gaussian",
    "discreet.noise.selection": "SelectionRule select",
    "discreet.noise.uniform": "bernoulli bernoulli_exp uniform_below",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """A sampler is fetched when it is first used: accounting takes `fixed` from here, and does without NumPy."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_HOME[name]), name)
    return globals()[name]


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
