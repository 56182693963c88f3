"""Exact noise against NumPy's floats and against OpenDP's exact integers, in one run."""

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from benchmarks.peers import ask
from benchmarks.table import Section
from discreet import DiscreteGaussian, Gaussian, Laplace, noise

DRAWS = 10**6
ROUNDS = 7


def per_draw(draw: Callable[[], object], count: int = DRAWS, rounds: int = ROUNDS) -> float:
    """Nanoseconds a draw, best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        draw()
        best = min(best, time.perf_counter() - start)
    return best / count * 1e9


def variates() -> Section:
    """10⁶ draws each. The goal is a ratio to the plain NumPy call that gives the inexact law."""
    generator = np.random.default_rng()
    laplace = per_draw(lambda: generator.laplace(size=DRAWS))
    normal = per_draw(lambda: generator.normal(size=DRAWS))
    peer = ask("opendp", ["opendp==0.16.0", "numpy"], "opendp_noise.py")
    section = Section(
        "Exact noise, 10⁶ draws",
        f"`Generator.laplace` {laplace:.1f} ns, `Generator.normal` {normal:.1f} ns a draw; OpenDP {peer['version']} integer "
        "vector mechanisms, 5,000 draws. Ratio: ours to the NumPy call.",
        ["variate", "scale", "ns a draw", "ratio", "goal", "OpenDP ns", "times faster", "goal"],
    )
    cases = [
        ("discrete Laplace", noise.discrete_laplace, laplace, "laplace", {1: 4, 1000: 4, 2**30: 4}),
        ("rounded Gaussian", noise.rounded_gaussian, normal, "gaussian", {1: 3.5, 1000: 3.5, 2**20: 3.5, 2**30: 3.5}),
        ("discrete Gaussian", noise.discrete_gaussian, normal, "gaussian", {1: 5, 1000: 5, 10**5: 12, 2**30: 12}),
    ]
    for name, draw, baseline, family, goals in cases:
        for scale, goal in goals.items():
            draw(scale, 10)  # tables are built once
            ours = per_draw(lambda draw=draw, scale=scale: draw(scale, DRAWS))
            theirs = peer.get(f"{family} {float(scale):g}")
            faster = f"{theirs / ours:.0f}" if theirs else ""
            section.add(
                name, f"{scale:,}", f"{ours:.1f}", f"{ours / baseline:.2f}", f"≤ {goal}",
                f"{theirs:.0f}" if theirs else "", faster, "≥ 100" if theirs else "",
            )  # fmt: skip
    for name, draw, parameter in (
        ("geometric", noise.geometric, Fraction(1000)),
        ("uniform below", noise.uniform_below, 1000),
        ("Bernoulli", noise.bernoulli, Fraction(1, 3)),
        ("Bernoulli(e^-x)", noise.bernoulli_exp, Fraction(1)),
        ("binomial", noise.binomial, 1000),
    ):
        ours = per_draw(lambda draw=draw, parameter=parameter: draw(parameter, DRAWS))
        section.add(name, str(parameter), f"{ours:.1f}", "", "", "", "", "")
    for scale in (2**38, 2**50):
        for name, draw, *_ in cases:
            ours = per_draw(lambda draw=draw, scale=scale: draw(scale, 20_000), 20_000, 3)
            section.add(name, f"2^{scale.bit_length() - 1}", f"{ours:,.0f}", "", "≤ 20,000 ns", "", "", "")
    return section


def scalars() -> Section:
    """One number at a time, as a program that embeds a mechanism calls it."""
    section = Section("One scalar release", "Best of 2,000 calls.", ["mechanism", "value", "µs a call", "goal"])
    for mechanism in (Laplace(10), Gaussian(10), DiscreteGaussian(10), DiscreteGaussian(10**5)):
        for value in (42, 42.5):
            mechanism.release(value)
            ours = per_draw(lambda m=mechanism, value=value: m.release(value), 1, 2000) / 1000
            section.add(repr(mechanism), str(value), f"{ours:.0f}", "≤ 60")
    return section


SECTIONS = [variates, scalars]
