"""Exercises about the definition, against the textbooks, enumeration and independent computations."""

from fractions import Fraction
from itertools import combinations
from math import comb, e, exp, log, sqrt

import numpy as np
import pytest
from scipy import stats

from discreet.lab.exercises.definition import (
    catastrophe,
    cells,
    good_and_bad,
    group,
    least_epsilon,
    neighbours,
    no_promise,
    outcomes,
    output_by_output,
    post_processing,
    rules_of_thumb,
    sequential,
)


def test_outcome_range() -> None:
    found = outcomes().numbers
    assert found["P = 0.2"] == pytest.approx([0.16, 0.25], abs=1e-12)
    assert found["P = 0.5"] == pytest.approx([0.4, 0.6], abs=1e-12)
    assert outcomes(log(2), 0.2).numbers["P = 0.2"] == pytest.approx([0.1, 0.4], abs=1e-12)


def test_output_by_output() -> None:
    """Every event of the two outputs, tried; and step (3) by enumeration of all events of eight outputs."""
    for epsilon, truth in ((0.5, 0.75), (0.1, 0.6)):
        p, q = [truth, 1 - truth], [1 - truth, truth]
        events = [(i,) for i in range(2)] + [(0, 1)]
        least = max(sum(p[i] - exp(epsilon) * q[i] for i in event) for event in events)
        assert output_by_output(Fraction(epsilon), Fraction(truth)).results[0] == pytest.approx(least, rel=1e-9)
    p, q = [0.25] * 4 + [0.0] * 4, [0.0] * 4 + [0.25] * 4
    by_event = max(sum(p[i] - e * q[i] for i in event) for size in range(1, 9) for event in combinations(range(8), size))
    assert by_event == 1 > max(p), "a δ for single outputs is not enough"


def test_post_processing_and_sequential() -> None:
    assert post_processing().results == (1.0, 1e-6)
    assert sequential().results == pytest.approx((1.5, 3e-6))
    assert sequential(k=10, epsilon=Fraction(1, 5)).results[0] == pytest.approx(2)


def test_group_privacy() -> None:
    """The recursion of step (1), in floats; and a pair of chained tables that needs the whole δ."""
    for size, epsilon in ((1, 1.0), (3, 1.0), (5, 0.3)):
        delta = 0.0
        for _ in range(size):
            delta = exp(epsilon) * delta + 1e-6
        found = group(size, Fraction(epsilon))
        assert found.results == pytest.approx((delta, size * epsilon), rel=1e-9)
        assert delta <= found.numbers["bound"] * (1 + 1e-12)


def test_gender_and_hair() -> None:
    found = cells().numbers
    assert found["exact"] == [20, 32, 27, 9, 18, 40, 35, 10]
    assert (found["cells"], found["add or remove"], found["replace"]) == (8, 1, 2)
    assert cells(Fraction(1, 2)).results == (0.5, 1)
    assert len(found["private"]) == 8
    assert found["private"] != found["exact"]


def test_rules_of_thumb() -> None:
    found = rules_of_thumb().numbers
    for epsilon, most in found["advantage"].items():
        assert most == pytest.approx(np.tanh(float(epsilon) / 2), rel=1e-6)
    assert found["advantage"]["0.1"] < 0.05 < 0.4 < found["advantage"]["1"] < 0.5 < 0.99 < found["advantage"]["10"]
    assert found["between any two tables"] == pytest.approx(np.tanh(0.5), rel=1e-6)
    assert found["exposed"] == {"1/n": 1.0, "1/n²": 1e-4}


def test_least_epsilon() -> None:
    for n in (1, 10, 10_000):
        assert least_epsilon(n).results == pytest.approx((sqrt(2),))  # √2·Δ/ε with Δ = ε = 1/n


def test_no_promise() -> None:
    found = no_promise().numbers
    assert abs(found["with her"] - found["without her"]) < 2e-4, "the effect of her participation"
    assert found["with her"] > 20 * found["before"], "the effect of the study"


def test_good_and_bad() -> None:
    for epsilon, delta in ((1.0, 1e-5), (0.5, 1e-6)):
        found = good_and_bad(Fraction(epsilon), Fraction(delta)).numbers
        sigma = sqrt(2 * log(2 / delta)) / epsilon
        y = found["threshold"]
        assert log(stats.norm.pdf(y, 0, sigma) / stats.norm.pdf(y, -1, sigma)) == pytest.approx(epsilon, rel=1e-9)
        assert found["P(bad)"] == pytest.approx(stats.norm.sf(y / sigma), rel=1e-6)
        assert found["least δ"] < found["P(bad)"] < delta


def test_catastrophe() -> None:
    assert catastrophe().results == pytest.approx((float(1 - Fraction(999, 1000) ** 2000),), rel=1e-12)


def test_neighbours() -> None:
    """All graphs with four nodes: the number of edges changes by 1 by edge, and by up to n − 1 when a node comes."""
    nodes = 4
    edges = list(combinations(range(nodes), 2))
    graphs = [set(chosen) for size in range(len(edges) + 1) for chosen in combinations(edges, size)]
    assert len(graphs) == sum(comb(6, size) for size in range(7)) == 64
    by_edge = max(abs(len(graph | {edge}) - len(graph - {edge})) for graph in graphs for edge in edges)
    without = [sum(nodes - 1 not in edge for edge in graph) for graph in graphs]
    by_node = max(len(graph) - rest for graph, rest in zip(graphs, without, strict=True))
    assert neighbours(nodes).results[:2] == (by_edge, by_node) == (1, 3)
    assert neighbours(50).results[2] == 2
