"""Values can be copied and pickled, and what holds a budget cannot: a copy of it could spend the budget again."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import pytest

import discreet
from discreet import BadParameter, BudgetExceeded, Laplace, errors
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.query import builder
from tests.support.public_values import PEOPLE, list_public_values

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}
OVERLOADED = builder.Select, builder.Expression, builder.Condition
"""Their == builds a condition of a query, so their representations are compared, which hold every field."""


def are_equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Exception):
        return (one.args, vars(one)) == (other.args, vars(other))
    if isinstance(one, discreet.SyntheticTable):  # it holds arrays
        return (one.to_csv(), repr(one), one.metadata) == (other.to_csv(), repr(other), other.metadata)
    return repr(one) == repr(other) if isinstance(one, OVERLOADED) else bool(one == other)


def test_every_public_value_survives_copying_and_pickling() -> None:
    kinds = set()
    for name, value in list_public_values():
        kinds.add(type(value))
        for way, duplicate in WAYS.items():
            assert are_equal(duplicate(value), value), f"{name}: {way}"
    assert len(kinds) > 50


def test_the_comparison_can_fail() -> None:
    assert not are_equal(Laplace(2), Laplace(3))
    assert not are_equal(builder.col("a") > 1, builder.col("a") > 2)
    assert not are_equal(errors.QueryRefused("a", "b"), errors.QueryRefused("a", "c"))


def test_every_public_class_of_values_is_tried() -> None:
    """A new mechanism, task or claim must be added to `list_public_values`."""
    kinds = {type(each) for _, value in list_public_values() for each in (value if isinstance(value, tuple) else (value,))}
    public = [value for name in discreet.__all__ if isinstance(value := getattr(discreet, name), type)]
    # a tabulation holds its session, which cannot be copied
    untried = {discreet.WorkloadQuery, discreet.Tabulation}
    assert {each for each in public if is_dataclass(each) and fields(each)} - kinds == untried


def list_errors(kind: type[errors.DiscreetError]) -> list[type[errors.DiscreetError]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in list_errors(sub))]


def test_every_error_is_pickled_with_its_fields() -> None:
    """An error that cannot be read back ends a pool of processes."""
    for kind in list_errors(errors.DiscreetError):
        if not kind.__module__.startswith("discreet"):
            continue
        error = kind.__new__(kind)
        error.args, error.hint = ("what is wrong",), "what to do"  # type: ignore[attr-defined]
        for duplicate in WAYS.values():
            assert are_equal(duplicate(error), error), kind.__name__


def overspend(cost: int) -> None:
    raise BudgetExceeded("ε", cost=Fraction(cost), remaining=Fraction(1))


def test_an_error_comes_back_from_another_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(BudgetExceeded) as caught:
        pool.apply(overspend, (2,))
    assert (caught.value.cost, caught.value.remaining) == (2, 1)


@pytest.mark.parametrize("way", WAYS)
def test_what_holds_a_budget_is_never_duplicated(way: str) -> None:
    """The mutant, a copied account, would spend the budget twice."""
    people = discreet.connect(PEOPLE, unit="id", unique=True, epsilon=1)
    if way == "copy":
        assert copy.copy(people) is people
    else:
        with pytest.raises(BadParameter, match="spend the same budget again"):
            WAYS[way](people)
    with pytest.raises(BadParameter, match="spend the same budget again"):
        WAYS[way](MemoryAccount(create_budget(1, 0)))
