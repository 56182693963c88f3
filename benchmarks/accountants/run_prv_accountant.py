"""prv-accountant: the upper end of its interval, with an error of 1e-3 in ε and of δ/1000 in δ."""

from prv_accountant import PRVAccountant
from prv_accountant import privacy_random_variables as prv
from timing import answer


def one(part):
    if part["law"] == "gaussian" and part["rate"] < 1:
        return prv.PoissonSubsampledGaussianMechanism(sampling_probability=part["rate"], noise_multiplier=part["width"])
    if part["law"] == "gaussian":
        return prv.GaussianMechanism(noise_multiplier=part["width"])
    if part["law"] == "laplace":
        return prv.LaplaceMechanism(mu=1 / part["width"])
    return prv.PureDPMechanism(eps=part["width"])


def epsilon(parts, delta):
    times = [part["times"] for part in parts]
    accountant = PRVAccountant(
        prvs=[one(part) for part in parts], max_self_compositions=times, eps_error=1e-3, delta_error=delta / 1000
    )
    return accountant.compute_epsilon(delta, times)[2]


answer(epsilon)
