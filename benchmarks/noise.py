"""Exact noise against NumPy's floats and against OpenDP's exact integers, in one run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.peers import ask
from benchmarks.table import Section
from discreet import Binomial, DiscreteGaussian, Gaussian, Laplace, TruncatedGeometric, noise
from discreet.noise import bits

DRAWS = 10**6
ROUNDS = 7
GAUSSIAN_SCALES = (1, 1000, 10**5, 2**20, 2**30)
WIDE_SCALES = (2**34, 2**38, 2**44, 2**50)
"""Up to the widest that the samplers accept: a wider one is refused, so "any σ" of a goal ends there."""


def per_draw(draw: Callable[[], object], count: int = DRAWS, rounds: int = ROUNDS) -> float:
    """Nanoseconds a draw, best of several rounds."""
    return race([draw], count, rounds)[0]


def race(draws: list[Callable[[], object]], count: int = DRAWS, rounds: int = ROUNDS) -> list[float]:
    """Nanoseconds a draw of each, best of several rounds in which they take turns."""
    best = [float("inf")] * len(draws)
    for _ in range(rounds):
        for i, draw in enumerate(draws):
            start = time.perf_counter()
            draw()
            best[i] = min(best[i], time.perf_counter() - start)
    return [seconds / count * 1e9 for seconds in best]


@contextmanager
def processors(count: int) -> Iterator[None]:
    """Let long arrays be drawn on so many threads."""
    with patch.object(bits, "count_processors", lambda: count):
        yield


def variates() -> Section:
    """10⁶ draws each, on one core. The goal is a ratio to the plain NumPy call that gives the inexact law."""
    generator = np.random.default_rng()
    laplace = per_draw(lambda: generator.laplace(size=DRAWS))
    normal = per_draw(lambda: generator.normal(size=DRAWS))
    peer = ask("opendp", ["opendp==0.16.0", "numpy"], "opendp_noise.py")
    section = Section(
        "Exact noise, 10⁶ draws on one core",
        f"`Generator.laplace` {laplace:.1f} ns, `Generator.normal` {normal:.1f} ns a draw; OpenDP {peer['version']} integer "
        "vector mechanisms, 5,000 draws. Ratio: ours to the NumPy call, in turns. Wider scales than 2^50 are refused.",
        ["variate", "scale", "ns a draw", "ratio", "goal", "OpenDP ns", "times faster", "goal"],
    )
    cases = [
        ("discrete Laplace", noise.discrete_laplace, generator.laplace, "laplace", {1: 4, 1000: 4, 2**30: 4}),
        ("rounded Gaussian", noise.rounded_gaussian, generator.normal, "gaussian", dict.fromkeys(GAUSSIAN_SCALES, 1.8)),
        ("discrete Gaussian", noise.discrete_gaussian, generator.normal, "gaussian", dict.fromkeys(GAUSSIAN_SCALES, 2)),
    ]
    with processors(1):
        for name, draw, inexact, family, goals in cases:
            for scale, goal in goals.items():
                draw(scale, 10)  # tables are built once
                ours, baseline = race(
                    [lambda draw=draw, scale=scale: draw(scale, DRAWS), lambda inexact=inexact: inexact(size=DRAWS)]
                )
                theirs = peer.get(f"{family} {float(scale):g}")
                faster = f"{theirs / ours:.0f}" if theirs else ""
                section.add(
                    name, f"{scale:,}", f"{ours:.1f}", f"{ours / baseline:.2f}", f"≤ {goal}",
                    f"{theirs:.0f}" if theirs else "", faster, "≥ 100" if theirs else "",
                )  # fmt: skip
        _add_others(section, cases)
    return section


def _add_others(section: Section, cases: list[tuple[str, Any, Any, str, dict[int, float]]]) -> None:
    for name, draw, parameter in (
        ("geometric", noise.geometric, Fraction(1000)),
        ("uniform below", noise.uniform_below, 1000),
        ("Bernoulli", noise.bernoulli, Fraction(1, 3)),
        ("Bernoulli(e^-x)", noise.bernoulli_exp, Fraction(1)),
        ("binomial", noise.binomial, 1000),
    ):
        ours = per_draw(lambda draw=draw, parameter=parameter: draw(parameter, DRAWS))
        section.add(name, str(parameter), f"{ours:.1f}", "", "", "", "", "")
    for scale in WIDE_SCALES:
        for name, draw, inexact, *_ in cases:
            ours, baseline = race(
                [lambda draw=draw, scale=scale: draw(scale, DRAWS), lambda inexact=inexact: inexact(size=DRAWS)]
            )
            goal = "≤ 2" if draw is noise.discrete_gaussian else "≤ 20,000 ns"  # of the others, only for scales up to 2^30
            section.add(name, f"2^{scale.bit_length() - 1}", f"{ours:,.0f}", f"{ours / baseline:.2f}", goal, "", "", "")


def threads() -> Section:
    """10⁷ draws on one core and on two, against NumPy's generator, which uses one."""
    generator = np.random.default_rng()
    section = Section(
        "Exact noise, 10⁷ draws on two cores",
        "Ratio: ours on two cores to `Generator.normal`. Speed-up: one core to two, in the same run.",
        ["variate", "scale", "normal ns", "one core ns", "two cores ns", "ratio", "goal", "speed-up", "goal"],
    )
    for name, draw in (("rounded Gaussian", noise.rounded_gaussian), ("discrete Gaussian", noise.discrete_gaussian)):
        for scale in GAUSSIAN_SCALES:
            draw(scale, 10)

            def on(count: int, draw: Any = draw, scale: int = scale) -> None:
                with processors(count):
                    draw(scale, 10 * DRAWS)

            turns: list[Callable[[], object]] = [lambda: generator.normal(size=10 * DRAWS), partial(on, 1), partial(on, 2)]
            normal, one, two = race(turns, 10 * DRAWS, 4)
            section.add(
                name, f"{scale:,}", f"{normal:.1f}", f"{one:.1f}", f"{two:.1f}", f"{two / normal:.2f}", "< 1",
                f"{one / two:.2f}", "≥ 1.7",
            )  # fmt: skip
    return section


def scalars() -> Section:
    """One number at a time, as a program that embeds a mechanism calls it."""
    section = Section("One scalar release", "Best of 2,000 calls.", ["mechanism", "value", "µs a call", "goal"])
    reals = (Laplace(2), Laplace(10), Gaussian(10), DiscreteGaussian(10), DiscreteGaussian(10**5))
    cases = [(mechanism, value) for mechanism in reals for value in (42, 42.5)]
    for mechanism, value in [*cases, (Binomial(100), 42), (TruncatedGeometric(2, 0, 100), 42)]:
        mechanism.release(value)
        ours = per_draw(lambda m=mechanism, value=value: m.release(value), 1, 2000) / 1000
        section.add(repr(mechanism), str(value), f"{ours:.1f}", "≤ 15")
    return section


SECTIONS = [variates, threads, scalars]
