"""dp-accounting: privacy loss distributions at the default grid of 1e-4, connect-the-dots, pessimistic."""

from math import exp

from dp_accounting.pld import privacy_loss_distribution as pld
from timing import answer


def one(part):
    if part["law"] == "gaussian":
        return pld.from_gaussian_mechanism(part["width"], sampling_prob=part["rate"])
    if part["law"] == "laplace":
        return pld.from_laplace_mechanism(part["width"], sampling_prob=part["rate"])
    return pld.from_randomized_response(2 / (1 + exp(part["width"])), 2)


def epsilon(parts, delta):
    total = None
    for part in parts:
        loss = one(part).self_compose(part["times"]) if part["times"] > 1 else one(part)
        total = loss if total is None else total.compose(loss)
    return total.get_epsilon_for_delta(delta)


answer(epsilon)
