"""autodp: its exact rule where all noise is Gaussian, else its default, Rényi composition with the improved conversion.

Its Fourier accountant (ComposeAFA) answered these cases with negative ε when it was tried, so it is not asked here.
"""

from math import exp

from autodp import mechanism_zoo as zoo
from autodp.transformer_zoo import AmplificationBySampling, ComposeGaussian, Composition
from timing import answer


def one(part, index):
    if part["law"] == "gaussian":
        gaussian = zoo.GaussianMechanism(part["width"], name=f"g{index}")
        if part["rate"] == 1:
            return gaussian
        return AmplificationBySampling(PoissonSampling=True)(gaussian, part["rate"], improved_bound_flag=True)
    if part["law"] == "laplace":
        return zoo.LaplaceMechanism(part["width"], name=f"l{index}")
    return zoo.RandresponseMechanism(exp(part["width"]) / (1 + exp(part["width"])), name=f"r{index}")


def epsilon(parts, delta):
    exact = all(part["law"] == "gaussian" and part["rate"] == 1 for part in parts)
    mechanisms = [one(part, index) for index, part in enumerate(parts)]
    composed = (ComposeGaussian if exact else Composition)()(mechanisms, [part["times"] for part in parts])
    return composed.get_approxDP(delta)


answer(epsilon)
