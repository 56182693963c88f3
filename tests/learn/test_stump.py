"""A stump: one unit moves the scores of all rules by no more than is charged, and the rule that is chosen is right."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.currencies import Pure, Zcdp
from discreet.errors import BadParameter, BudgetExceeded
from discreet.learn import BinnedNB, Stump, select
from discreet.learn.records import to_records
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.noise import SelectionRule
from discreet.session.connect import connect
from discreet.testing import seeded_bits
from tests.learn.exact_sums import EXTREME

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

CLASSES = ("no", "yes", "maybe")
DECLARED: dict[str, Any] = {"bounds": {"a": (-1, 1), "b": (-1, 1)}, "categories": {"c": ("x", "y")}, "classes": CLASSES}
records = st.tuples(
    st.sampled_from(EXTREME),
    st.sampled_from(EXTREME),
    st.sampled_from(["x", "y", "z", None]),
    st.sampled_from([*CLASSES, "other", None]),
)


def count_right(rows: list[Any], **options: Any) -> list[int]:
    """How many records each rule classifies rightly."""
    model = Stump(epsilon=1, **DECLARED, bins=4, **options)
    columns = {name: [row[place] for row in rows] for place, name in enumerate("abc")}
    given = to_records(columns, [row[3] for row in rows])
    declared = model._declare(given)
    found: list[int] = model._list_rules(declared).count_right(given.read(declared.features, declared.target)).tolist()
    return found


@settings(max_examples=100, deadline=None)
@given(others=st.lists(records, max_size=4), one=records, other=records)
def test_one_record_moves_every_score_by_one_at_most_and_all_in_the_same_direction(
    others: list[Any], one: Any, other: Any
) -> None:
    without, first, second = (count_right(rows) for rows in (others, [*others, one], [*others, other]))
    assert {b - a for a, b in zip(without, first, strict=True)} <= {0, 1}
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) <= 1


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(records, min_size=1, max_size=12))
def test_a_score_is_the_number_of_records_that_predictions_of_its_rule_hit(rows: list[Any]) -> None:
    columns = {name: [row[place] for row in rows] for place, name in enumerate("abc")}
    model, scores = Stump(epsilon=1, **DECLARED, bins=4), count_right(rows)
    model.fit(columns, [row[3] for row in rows])
    declared = model._declare(to_records(columns, [row[3] for row in rows]))
    for place, score in enumerate(scores):
        model._show(declared, model.plan, {"chosen": np.array([place])})
        assert score == sum(a == b[3] for a, b in zip(model.predict(columns), rows, strict=True)), model.rule_


@pytest.mark.parametrize(("relation", "rate"), [("add-remove", Fraction(1, 10)), ("replace", Fraction(1, 20))])
def test_a_fit_costs_its_epsilon_without_a_delta(relation: str, rate: Fraction) -> None:
    account = MemoryAccount(create_budget(0.15, 0, Pure()))
    model = Stump(epsilon=0.1, **DECLARED, neighbours=relation, account=account)
    assert (model.plan.choice.rate, model.plan.choice.rule) == (rate, SelectionRule.PERMUTE_AND_FLIP)  # type: ignore[attr-defined]
    assert (model.cost.epsilon.upper, model.cost.delta) == (0.1, 0)
    model.fit({"a": [0.5], "b": [0.0], "c": ["x"]}, ["yes"])
    assert account.budget.remaining == Fraction(5, 100)
    with pytest.raises(BudgetExceeded):
        model.fit({"a": [0.5], "b": [0.0], "c": ["x"]}, ["yes"])


def test_zcdp_pays_for_the_exponential_mechanism() -> None:
    account = MemoryAccount(create_budget(1, 1e-6, Zcdp()))
    plan = Stump(epsilon=1, delta=1e-6, **DECLARED, account=account).plan
    assert plan.choice.rule is SelectionRule.EXPONENTIAL  # type: ignore[attr-defined]
    assert plan.terms.limit * Fraction(999, 1000) < plan.charge <= plan.terms.limit
    assert plan.charge == plan.choice.rate**2 / 8  # type: ignore[attr-defined]  # of bounded range


def test_two_records_of_a_unit_halve_the_rate(tmp_path: Any) -> None:
    path = tmp_path / "people.csv"
    path.write_text(
        "id,a,state\n" + "".join(f"{n % 700},{n % 100},{'gone' if n % 100 >= 50 else 'here'}\n" for n in range(1400))
    )
    session = connect(
        path, unit="id", bounds={"a": (0, 100)}, keys={"state": ["here", "gone"]}, epsilon=2, delta=1e-6, currency="pure"
    )
    one, two = (session.records("a", target="state", max_rows=rows) for rows in (1, 2))
    model = Stump(epsilon=1)
    rates = [model._make_plan(model._declare(each)).choice.rate for each in (one, two)]
    assert rates == [1, Fraction(1, 2)]
    assert model.fit(two).rule_ == "a ≥ 50: 'gone', else 'here'"
    assert session.account.budget.remaining == 1


def test_few_records_at_a_small_epsilon_are_told_apart_by_the_one_column_that_does() -> None:
    generator, right = np.random.default_rng(0), []
    y = generator.integers(0, 2, 460)
    X = generator.uniform(-1, 1, (460, 30))
    X[:, 7] = np.clip(0.5 * (2 * y - 1) + generator.normal(0, 0.2, 460), -1, 1)
    for seed in range(20):
        model = Stump(epsilon=0.1, bounds=(-1, 1), classes=(0, 1)).fit(X, y, bits=seeded_bits(seed))
        right.append((model.predict(X) == y).mean())
    assert np.mean(right) > 0.8
    assert model.predict_proba(X[:3]).max(axis=1).min() > 0.999


def test_rules_say_what_they_ask_and_the_rule_without_a_question_too() -> None:
    model = Stump(epsilon=1, **DECLARED, bins=4)
    declared, texts = model._declare(None), []
    rules = model._list_rules(declared)
    for place in range(len(rules)):
        model._show(declared, model.plan, {"chosen": np.array([place])})
        texts.append(model.rule_)
    assert texts[:3] == ["always 'no'", "always 'yes'", "always 'maybe'"]
    assert texts[3] == "a ≥ -0.5: 'no', else 'yes'"
    assert texts[-1] == "c is another: 'maybe', else 'yes'"
    assert len(set(texts)) == len(rules) == 3 + (3 + 3 + 3) * 6


def test_what_would_leave_the_choice_unpaid_is_refused() -> None:
    X, y = np.zeros((4, 1)), [0, 1, 0, 1]
    stump, other = Stump(bounds=(-1, 1), classes=(0, 1)), BinnedNB(bounds=(-1, 1), classes=(0, 1))
    for candidates in ([stump], [other, stump]):
        with pytest.raises(BadParameter, match="choice"):
            select(candidates, X, y, epsilon=1, delta=1e-6)
    with pytest.raises(BadParameter, match="epsilon"):
        stump.fit(X, y)
    with pytest.raises(BadParameter, match="rules"):
        Stump(epsilon=1, bounds=[(0, 1)] * 50, classes=tuple(range(40))).fit(np.zeros((2, 50)), [0, 1])
    assert Stump(epsilon=1, **DECLARED).plan.describe_noise() == {"choice": "permute-and-flip at 1"}
