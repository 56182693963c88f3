"""Runs inside a library's own environment: its noisy answers to 0 and to 1, as JSON.

python peer_noise.py LIBRARY laplace|gaussian COUNT
"""

import json
import sys

EPSILON, DELTA = 0.5, 1e-5


def diffprivlib(law):
    from diffprivlib.mechanisms import Gaussian, Laplace

    if law == "laplace":
        return Laplace(epsilon=EPSILON, sensitivity=1).randomise
    return Gaussian(epsilon=EPSILON, delta=DELTA, sensitivity=1).randomise


def python_dp(law):
    from pydp.algorithms.numerical_mechanisms import GaussianMechanism

    mechanism = GaussianMechanism(EPSILON, DELTA, 1.0)
    return mechanism.add_noise


def opendp(law):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    return dp.m.make_laplace(*space, scale=1 / EPSILON)


def main(library, law, count):
    answer = {"diffprivlib": diffprivlib, "python-dp": python_dp, "opendp": opendp}[library](law)
    print(json.dumps({str(int(x)): [float(answer(x)) for _ in range(int(count))] for x in (0.0, 1.0)}))


main(*sys.argv[1:])
