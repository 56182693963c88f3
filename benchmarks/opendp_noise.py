"""Runs inside OpenDP's environment: nanoseconds per draw of its integer vector mechanisms, as JSON."""

import json
import time
from importlib.metadata import version

import opendp.prelude as dp

dp.enable_features("contrib")
COUNT = 5000


def per_draw(measurement):
    def once():
        start = time.perf_counter()
        measurement([0] * COUNT)
        return time.perf_counter() - start

    return min(once() for _ in range(5)) / COUNT * 1e9


integers = dp.vector_domain(dp.atom_domain(T=int))
timings = {"version": version("opendp")}
for scale in (1.0, 1000.0, 2.0**30):
    timings[f"laplace {scale:g}"] = per_draw(dp.m.make_laplace(integers, dp.l1_distance(T=int), scale))
    timings[f"gaussian {scale:g}"] = per_draw(dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale))
print(json.dumps(timings))
