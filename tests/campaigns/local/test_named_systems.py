"""Errors of the named systems over many salts and runs, at the size of their deployments."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm

from discreet.local.apple import CountMeanSketch, HadamardCountMeanSketch, solve_dictionary
from discreet.local.rappor import Rappor
from discreet.local.rappor_decoding import decode
from discreet.testing import seeded_bits

LIMIT = norm.isf(5e-10)


def check_squares(squares: np.ndarray, variance: float, tolerance: float) -> None:
    """Whether mean squares are the variance: within their standard error at 1e-9, which has to be below the tolerance."""
    error = squares.std() / sqrt(len(squares)) / variance
    assert LIMIT * error < tolerance
    assert abs(squares.mean() / variance - 1) < LIMIT * error


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [CountMeanSketch, HadamardCountMeanSketch])
def test_sketches_over_many_salts_have_the_stated_variance(kind):
    people, words, runs = [60, 30, 0], [b"a", b"b", b"c"], 30_000
    errors = np.empty((runs, 3))
    for run in range(runs):
        sketch = kind(Fraction(16), 4, 8, f"campaign {run}")
        found = sketch.estimate(sketch.draw_sketch(words, people, seeded_bits(run)), words)
        errors[run] = [float(each) - n for each, n in zip(found, people, strict=True)]
    for place in range(3):
        others = [n for i, n in enumerate(people) if i != place]
        variance = float(kind(Fraction(16), 4, 8, "").variance(people[place], others))
        assert abs(errors[:, place].mean()) < LIMIT * sqrt(variance / runs)
        check_squares(errors[:, place] ** 2, variance, 0.07)


@pytest.mark.nightly
def test_rappor_decodes_with_the_stated_errors():
    rappor = Rappor(32, 2, 8, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4), "campaign")
    texts, people, runs = [b"%d" % i for i in range(10)], [2000, 1000, 500, 250, 100, 50, 0, 0, 0, 0], 1500
    scores = np.empty((runs, 10))
    for run in range(runs):
        counts = rappor.draw_counts(texts, people, seeded_bits(run))
        found = {each.candidate: each for each in decode(rappor, counts, texts)}
        scores[run] = [(found[t].estimate - n) / found[t].standard_error for t, n in zip(texts, people, strict=True)]
    assert np.abs(scores.mean(axis=0)).max() < LIMIT / sqrt(runs)
    check_squares((scores**2).mean(axis=1), 1.0, 0.08)


@pytest.mark.nightly
def test_a_published_sketch_is_biased_and_its_dictionary_is_not():
    """With few functions, collisions of the published ones stay whatever n is."""
    kind, words, people = (
        CountMeanSketch(Fraction(16), 4, 16, "published"),
        [b"%d" % i for i in range(8)],
        [4000] + [500] * 7,
    )
    runs = 300
    plain, solved = np.empty((runs, 8)), np.empty((runs, 8))
    for run in range(runs):
        sketch = kind.draw_sketch(words, people, seeded_bits(run))
        plain[run] = [float(each) for each in kind.estimate(sketch, words)]
        solved[run] = solve_dictionary(kind, sketch, words)
    errors = solved.std(axis=0) / sqrt(runs)
    assert (np.abs(solved.mean(axis=0) - people) < LIMIT * errors).all()
    assert (np.abs(plain.mean(axis=0) - people) > LIMIT * plain.std(axis=0) / sqrt(runs)).any()
