"""Every small crowd by enumeration: all neighbours, all values of the others; and narrow intervals on every scale."""

import random
from fractions import Fraction
from itertools import permutations

import pytest

from discreet.accounting import delta
from discreet.accounting.elementary import exp_bounds, log_bounds
from discreet.accounting.shuffle_pairs import bound_delta, build_pair
from discreet.accounting.shuffling import pair_delta, pair_epsilon
from discreet.events import Claim, Event, RandomizedResponseEvent, SetResponseEvent, Shuffled
from tests.support.shuffled_reports import list_worst_deltas
from tests.support.small_randomisers import (
    Table,
    make_direct,
    make_hadamard,
    make_response,
    make_subset,
    make_unary,
)

POINTS = (0.0, 0.1, 0.4, 0.9)
MOST_USERS = 6


def list_randomisers() -> dict[str, tuple[Table, RandomizedResponseEvent | SetResponseEvent]]:
    found: dict[str, tuple[Table, RandomizedResponseEvent | SetResponseEvent]] = {}
    for odds in (Fraction(3, 2), Fraction(3), Fraction(12)):
        for values in (2, 3, 4):
            found[f"direct {values}, odds {odds}"] = make_direct(odds, values)
            found[f"response {values}, odds {odds}"] = make_response(odds / (odds + values - 1), values)
            found[f"lying response {values}, odds {odds}"] = make_response(1 / (1 + odds * (values - 1)), values)
        found[f"unary 3, odds {odds}"] = make_unary(odds, 3)
        found[f"subset 2 of 3, odds {odds}"] = make_subset(odds, 3, 2)
        found[f"subset 2 of 4, odds {odds}"] = make_subset(odds, 4, 2)
        found[f"hadamard 3, odds {odds}"] = make_hadamard(odds, 3)
    return found


RANDOMISERS = list_randomisers()


@pytest.mark.nightly
@pytest.mark.parametrize("name", RANDOMISERS)
def test_every_small_crowd_is_within_its_interval(name: str) -> None:
    table, event = RANDOMISERS[name]
    powers = [power for point in POINTS for power in exp_bounds(Fraction(point))]
    for users in range(1, MOST_USERS + 1):
        worst = list_worst_deltas(table, users, powers)
        crowd = Shuffled(event, users)
        for i, point in enumerate(POINTS):
            found, pair = delta(crowd, point), pair_delta(crowd, point)
            assert found.lower <= worst[2 * i]
            assert worst[2 * i + 1] <= found.upper
            low, high = bound_delta(build_pair(crowd), point, 1e-4)
            assert low <= pair.upper
            assert pair.lower <= high


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(300))
def test_clones_dominate_arbitrary_randomisers(seed: int) -> None:
    draw = random.Random(seed)
    values, reports = draw.choice([(2, 2), (2, 3), (3, 2), (3, 3), (2, 4), (4, 2)])
    rows = [[draw.randint(1, 9) for _ in range(reports)] for _ in range(values)]
    table = tuple(tuple(Fraction(p, sum(row)) for p in row) for row in rows)
    odds = max(a / b for p, q in permutations(table, 2) for a, b in zip(p, q, strict=True))
    crowd_of = [
        Shuffled(Claim(max(Fraction(0), log_bounds(odds)[1]), Fraction(0)), users) for users in range(1, MOST_USERS + 1)
    ]
    for crowd in crowd_of:
        worst = list_worst_deltas(table, crowd.users, [exp_bounds(Fraction(point))[1] for point in POINTS])
        for point, exact in zip(POINTS, worst, strict=True):
            assert exact <= pair_delta(crowd, point).upper


@pytest.mark.nightly
@pytest.mark.parametrize("users", [*range(1, 20), 33, 75, 150, 400, 1_000, 3_000, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9])
def test_intervals_are_narrow_on_every_scale(users: int) -> None:
    events: list[Event] = [Claim(Fraction(epsilon0), Fraction(0)) for epsilon0 in (1, 2, 4, 6)]
    for odds in (Fraction(3, 2), Fraction(3), Fraction(20), Fraction(150)):
        events += [RandomizedResponseEvent(odds / (odds + k - 1), k) for k in (2, 16, 128)]
        events += [
            SetResponseEvent(odds, 1 / (odds + 1), 1 / (odds + 1) ** 2),
            SetResponseEvent(odds, Fraction(1, 2), Fraction(1, 4)),
        ]
    for event in events:
        for target in (1e-3, 1e-6, 1e-12):
            found = pair_epsilon(Shuffled(event, users), target)
            assert found.width <= 1e-6 * found.upper, (event, target)
