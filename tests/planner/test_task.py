"""What can be planned: its sensitivity, and what a percentage is relative to."""

from dataclasses import replace
from typing import Any

import pytest

from discreet import BadParameter, Count, Histogram, Mean, Neighbours, Proportion, Sum, plan


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sum(3, 3), "below the upper bound"),
        (lambda: Mean(0, 0.5, whole=True), "whole bounds"),
        (lambda: Histogram(1), "at least 2"),
    ],
)
def test_impossible_queries_are_refused(make: Any, message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        make()


def test_relative_errors_are_of_the_size_or_of_the_whole_answer() -> None:
    assert plan(Count(), error="5%", n=1000).epsilon == plan(Count(), error=50, n=1000).epsilon
    assert plan(Count(), error="5%", size=40).epsilon == plan(Count(), error=2).epsilon
    assert plan(Histogram(10), error="5%", n=1000).epsilon == plan(Histogram(10), error=5).epsilon
    assert plan(Proportion(), error="5%", n=1000).epsilon == plan(Proportion(), error="0.05", n=1000).epsilon
    assert plan(Mean(10, 60), error="5%", n=1000).epsilon == plan(Mean(10, 60), error="2.5", n=1000).epsilon
    assert plan(Sum(-20, 10), error="5%", n=10).epsilon == plan(Sum(-20, 10), error=10).epsilon


def test_replacing_one_person_moves_two_cells_and_the_width_of_a_sum() -> None:
    for query, factor in ((Histogram(5), 2.0), (Sum(-5, 10, whole=True), 1.5), (Count(), 1.0)):
        one, two = (plan(query, epsilon=1, neighbours=relation).winner.scale for relation in Neighbours)
        assert two == factor * one


def test_a_task_counts_its_answers() -> None:
    task = plan(Histogram(7), epsilon=1, queries=3).task
    assert task.answers == 21
    assert replace(task, queries=1).sensitivity.l1 == 1
