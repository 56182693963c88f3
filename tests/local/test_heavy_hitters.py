"""Frequent values are found among very many, and those that are shown are frequent."""

from fractions import Fraction

import numpy as np
import pytest

from discreet import BadParameter
from discreet.local.heavy_hitters import PrefixSearch, count_candidates, encode_prefixes, find_heavy_hitters
from discreet.local.odds import odds_for_epsilon
from discreet.local.oracles import Projective
from discreet.testing import seeded_bits


def make_people(count: int, bits: int, shares: dict[int, float], seed: int = 1) -> np.ndarray:
    """People of whom some have frequent values, and the others a value of their own."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 1 << bits, count)
    places = iter(np.split(random.permutation(count), np.cumsum([int(share * count) for share in shares.values()])))
    for value in shares:
        values[next(places)] = value
    return values


@pytest.mark.parametrize("bits", [14, 30])
def test_frequent_values_are_found_with_intervals_that_cover(bits: int) -> None:
    shares = {5: 0.12, (1 << bits) - 1: 0.09, 1 << (bits - 1): 0.07}
    search = PrefixSearch(bits, odds_for_epsilon(3), first=6, step=6, keep=8)
    reports = encode_prefixes(search, make_people(40_000, bits, shares), seeded_bits(1))
    found = find_heavy_hitters(search, reports, confidence=1 - 1e-9)
    assert found.detection_floor < 0.07
    assert {hitter.value for hitter in found.found} == set(shares)
    for hitter in found.found:
        # The shares are those of the last round's people, whose number of holders varies: three deviations of a share.
        slack = 3 * (shares[hitter.value] / found.people[-1]) ** 0.5
        assert hitter.lower - slack <= shares[hitter.value] <= hitter.upper + slack
    assert sum(found.people) == 40_000
    assert "may be lost" in repr(found)
    assert found.to_dicts()[0]["value"] == found.found[0].value


def test_nothing_is_found_where_nothing_is_frequent() -> None:
    search = PrefixSearch(14, odds_for_epsilon(1), first=6, step=4, keep=8)
    reports = encode_prefixes(search, make_people(20_000, 14, {}), seeded_bits(2))
    assert find_heavy_hitters(search, reports, confidence=1 - 1e-9).found == ()


def test_no_people_get_an_empty_answer() -> None:
    search = PrefixSearch(8, Fraction(3), first=4, step=4)
    found = find_heavy_hitters(search, encode_prefixes(search, []))
    assert (found.found, found.people, found.detection_floor) == ((), (0, 0), float("inf"))


@pytest.mark.parametrize("oracle", [Projective.optimised(1000, Fraction(3)), Projective.optimised(1 << 22, Fraction(3))])
def test_supports_of_candidates_are_those_of_the_definition(oracle: Projective) -> None:
    random = np.random.default_rng(1)
    points, times = random.integers(0, oracle.points, 40), random.integers(1, 9, 40)
    candidates = random.integers(0, oracle.values, 10)
    expected = [
        sum(int(t) for point, t in zip(points, times, strict=True) if oracle.supports((int(point),), int(value)))
        for value in candidates
    ]
    assert count_candidates(oracle, points, times, candidates).tolist() == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [({"bits": 60}, "bits"), ({"bits": 8, "first": 9}, "first"), ({"bits": 8, "keep": 0}, "keep")],
    ids=str,
)
def test_searches_that_cannot_run_are_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(BadParameter, match=words):
        PrefixSearch(odds=Fraction(3), **options)


def test_each_round_needs_its_reports() -> None:
    with pytest.raises(BadParameter, match="of 1 rounds"):
        find_heavy_hitters(PrefixSearch(8, Fraction(3), first=4), [{"u": [1]}])
