"""What is no event is refused by every function that takes one, with what to pass instead."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from discreet import (
    BadParameter,
    Binomial,
    Gaussian,
    RunningTotal,
)
from discreet.accounting import compare_guarantees, delta, epsilon
from discreet.accounting.basic import basic_composition, split_delta
from discreet.accounting.gdp import gdp
from discreet.accounting.pure import pure
from discreet.accounting.renyi import find_best_order, renyi
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp
from discreet.events import (
    Claim,
    Composition,
    Group,
    Parallel,
    SampledWithoutReplacement,
    Subsampled,
    compose,
    group,
    parallel,
    repeat,
    subsample,
    subsample_without_replacement,
)
from tests.support.every_mechanism import MAKERS

GUARANTEES: dict[str, Callable[[Any], object]] = {
    "epsilon": lambda event: epsilon(event, 1e-5),
    "delta": lambda event: delta(event, 1),
    "pure": pure,
    "zcdp": zcdp,
    "gdp": gdp,
    "renyi": lambda event: renyi(event, 2),
    "find_best_order": lambda event: find_best_order(event, 1e-5),
    "tcdp": lambda event: tcdp(event, 4),
    "basic_composition": basic_composition,
    "split_delta": split_delta,
    "compare_guarantees": lambda event: compare_guarantees(event, 1e-5),
    "compose": compose,
    "repeat": lambda event: repeat(event, 3),
    "group": lambda event: group(event, 2),
    "parallel": parallel,
    "subsample": lambda event: subsample(event, 0.5),
    "subsample_without_replacement": lambda event: subsample_without_replacement(event, 0.5),
    "Composition": lambda event: Composition(((event, 2),)),
    "Parallel": lambda event: Parallel((event,)),
    "Group": lambda event: Group(event, 2),
    "Subsampled": lambda event: Subsampled(event, Fraction(1, 2)),
    "SampledWithoutReplacement": lambda event: SampledWithoutReplacement(event, Fraction(1, 2)),
    "RunningTotal": lambda event: RunningTotal.for_delta(1e-5).append(event),
}


@pytest.mark.parametrize("name", GUARANTEES)
def test_what_is_no_event_is_refused_with_what_to_pass_instead(name: str) -> None:
    mechanisms = [*(make(Fraction(1, 3)) for make in MAKERS.values()), Binomial(4)]
    for wrong in [*mechanisms, Gaussian, None, 3, "gaussian(sigma=1)", object()]:
        with pytest.raises(BadParameter, match=r"\.event\(sensitivity=1\)"):
            GUARANTEES[name](wrong)


def test_the_message_for_a_mechanism_names_it() -> None:
    with pytest.raises(BadParameter, match=r"Pass Gaussian\(sigma=1\.1\)\.event\(sensitivity=1\)"):
        epsilon(Gaussian(1.1), 1e-5)  # type: ignore[arg-type]


def test_sum_composes_events() -> None:
    event = Gaussian(3).event(1)
    assert sum([event] * 3) == event * 3
    assert sum([event * 2, Claim(Fraction(1), Fraction(0))]) == compose(event, event, Claim(Fraction(1), Fraction(0)))
    for wrong in (1, 0.0, "0", None):
        with pytest.raises(TypeError):
            wrong + event  # type: ignore[operator]
