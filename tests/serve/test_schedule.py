"""The release schedule: classes follow from the query and the policy alone, and no clock moves a moment."""

from fractions import Fraction

import pytest

from discreet.errors import BadParameter
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import read_query
from discreet.query.policy import read_policy
from discreet.serve.schedule import JumpFreeClock, choose_class, find_next_class, makes_moment, read_classes
from discreet.units import Neighbours
from tests.support.policies import make_policy

TABLE = read_policy(make_policy(keys=("a", "b"), pay="real"))


def bound(text: str, unique: bool = True) -> BoundedQuery:
    table = TABLE if unique else read_policy(make_policy(limits="max_rows = 2", keys=("a", "b"), pay="real"))
    return bound_contributions(read_query(text, table), table, Neighbours.ADD_REMOVE)


def test_dearer_queries_have_longer_classes() -> None:
    classes, seconds = (1.0, 5.0, 30.0), 0.2
    cheap, ranked = bound("SELECT COUNT(*) AS n FROM people"), bound("SELECT COUNT(*) AS n FROM people", unique=False)
    median = bound("SELECT COUNT(*) AS n, MEDIAN(pay) AS m FROM people", unique=False)
    assert [choose_class(classes, seconds, each) for each in (cheap, ranked, median)] == [1.0, 5.0, 30.0]
    assert choose_class((), seconds, cheap) is None
    assert choose_class(classes, 1e9, cheap) == 30.0
    assert [find_next_class(classes, each) for each in classes] == [5.0, 30.0, None]


def test_the_clock_does_not_jump() -> None:
    wall, monotonic = [1000.0], [5.0]
    clock = JumpFreeClock(lambda: wall[0], lambda: monotonic[0])
    wall[0], monotonic[0] = -1e9, 7.0
    assert clock.now() == 1002.0


@pytest.mark.parametrize("wrong", ["off", [], ["1"], ["0s"], ["5s", "1s"], ["1s", "1s"], [1.0], {"1s": 1}])
def test_what_is_no_schedule(wrong: object) -> None:
    with pytest.raises(BadParameter):
        read_classes(wrong)


def test_an_ask_that_would_miss_its_moment_is_not_taken() -> None:
    assert makes_moment(1.0, [], 1)
    assert makes_moment(1.0, [1.0] * 3, 1)
    assert not makes_moment(1.0, [1.0] * 4, 1)
    assert makes_moment(1.0, [1.0] * 6, 2)
    assert Fraction(makes_moment(None, [1.0] * 99, 1)) == 1
