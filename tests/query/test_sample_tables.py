"""Questions of a census and of a web log: also where there is little to count, nothing at all, or nothing that passes."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

import pytest

from discreet.errors import QueryRefused
from discreet.query import aggregates, ast
from discreet.query.answer import Answer
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import Estimate
from discreet.query.statistics import CentredSum, ValueCount, midpoint_of
from tests.support.oracle import Oracle, Row
from tests.support.sample_tables import Sample, census, web_log

SAMPLES = (census(), web_log())
SHORT = (census(400), web_log(100, 300))  # for the plain reference, which is slow


def asked(samples: Sequence[Sample]) -> list[Any]:
    """Every question of every sample."""
    return [pytest.param(s, q, id=f"{s.name}-{i}") for s in samples for i, q in enumerate(s.questions)]


ENORMOUS = 10**18  # no total of these tables moves by more than 10^15, so noise other than 0 has a chance below e^-100
VARIANTS: dict[str, Callable[[Sequence[Row]], Sequence[Row]]] = {
    "all": lambda rows: rows,
    "empty": lambda rows: [],
    "one row": lambda rows: rows[:1],
    "one that is all missing": lambda rows: [dict.fromkeys(rows[0])],
}


def shape(answer: Answer) -> Any:
    """All that is not a number: keys, names, kinds of numbers, words."""
    kinds = [
        (keys, [tuple(type(v) for v in (c.value, c.lower, c.upper, c.reliable)) for c in row]) for keys, row in answer.rows
    ]
    return answer.groups, answer.columns, kinds, answer.explanation, answer.event


def bounded_value(aggregate: ast.Aggregate, bounded: BoundedQuery, totals: dict[Any, int]) -> tuple[Fraction, bool] | None:
    """What the interval must contain, squared if the column is a root; None for an average of nothing."""
    found = [totals[measure] for measure in aggregate.statistics(bounded.table)]
    match aggregate:
        case aggregates.Sum(value=value):
            return found[0] * bounded.grid_range(CentredSum(value, 0)).grid, False
        case aggregates.Mean(value=value) | aggregates.Variance(value=value):
            grid, n = bounded.grid_range(CentredSum(value, 0)).grid, totals[ValueCount(value)]
            if n == 0:
                return None
            if isinstance(aggregate, aggregates.Mean):
                return (midpoint_of(value, bounded.table) + Fraction(found[0], n)) * grid, False
            return (Fraction(found[1], n) - Fraction(found[0], n) ** 2) * grid**2, aggregate.root
        case _:
            return Fraction(found[0]), False


def contains(cell: Estimate, truth: tuple[Fraction, bool] | None) -> bool:
    if truth is None:
        return cell.lower <= cell.value <= cell.upper
    value, root = truth
    lower, upper = (Fraction(end) ** 2 if root else Fraction(end) for end in (cell.lower, cell.upper))
    return lower <= value <= upper


def missed(answer: Answer, bounded: BoundedQuery, rows: Sequence[Row]) -> list[Any]:
    """The cells whose interval does not contain what the plain reference computes from `rows`."""
    exact, nothing = Oracle(bounded).answer(rows), (0,) * len(bounded.totals)
    wrong = []
    for keys, cells in answer.rows:
        totals = dict(zip(bounded.totals, exact.get(keys, nothing), strict=True))
        for (name, aggregate), cell in zip(bounded.query.aggregates, cells, strict=True):
            if not contains(cell, bounded_value(aggregate, bounded, totals)):
                wrong.append((keys, name, cell))
    return wrong


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("sample", "question"), [*asked(SHORT), pytest.param(SAMPLES[1], SAMPLES[1].questions[0], id="long")]
)
def test_the_interval_contains_the_bounded_truth(sample: Sample, question: str, variant: str) -> None:
    rows = VARIANTS[variant](sample.rows)
    session, text = sample.session(rows, epsilon=ENORMOUS), question.format(where="")
    bounded = session.calibrate(text, epsilon=ENORMOUS).bounded
    assert missed(session.ask(text, epsilon=ENORMOUS), bounded, rows) == []


@pytest.mark.parametrize(("sample", "question"), asked(SAMPLES))
def test_the_shape_does_not_depend_on_the_rows(sample: Sample, question: str) -> None:
    shapes = []
    for choose in VARIANTS.values():
        session = sample.session(choose(sample.rows), epsilon=2)
        shapes += [shape(session.ask(question.format(where=w), epsilon=1)) for w in ("", f" WHERE {sample.nobody}")]
    assert all(found == shapes[0] for found in shapes)


@pytest.mark.parametrize(("sample", "question"), asked(SAMPLES))
def test_every_number_is_finite(sample: Sample, question: str) -> None:
    answer = sample.session(sample.rows, epsilon=10).ask(question.format(where=""), epsilon=1)
    assert all(isfinite(v) for _, row in answer.rows for c in row for v in (c.value, c.lower, c.upper))


@pytest.mark.parametrize("sample", SHORT, ids=lambda sample: sample.name)
def test_the_reference_notices_what_is_left_out(sample: Sample) -> None:
    """Wrong twins: narrower bounds, a row less per person, a group less, people less."""
    text = sample.questions[1].format(where="")
    answer = sample.session(sample.rows, epsilon=ENORMOUS).ask(text, epsilon=ENORMOUS)
    narrower = {name: (low, high - 40) for name, (low, high) in sample.declared["bounds"].items()}
    others: list[dict[str, Any]] = [{"bounds": narrower}]
    if not sample.declared.get("unique"):
        others += [{"max_rows": 9}, {"max_groups": 2}]
    for changed in others:
        twin = sample.session([], epsilon=ENORMOUS, **changed).calibrate(text, epsilon=ENORMOUS).bounded
        assert missed(answer, twin, sample.rows), changed
    right = sample.session([], epsilon=ENORMOUS).calibrate(text, epsilon=ENORMOUS).bounded
    assert missed(answer, right, sample.rows) == []
    assert missed(answer, right, sample.rows[100:])


def test_unknown_keys_do_give_a_shape_that_depends_on_the_rows() -> None:
    """The shape law can fail: it is a promise about known keys only."""
    sample = web_log(60, 50)
    keys = {"delta": 1e-6, "keys": {}}
    full, empty = (
        sample.session(rows, epsilon=1000, **keys).ask("SELECT url, COUNT(*) AS n FROM log GROUP BY url", epsilon=900)
        for rows in (sample.rows, [])
    )
    assert shape(full) != shape(empty)
    assert len(empty) == 0


def test_the_samples_are_what_they_say() -> None:
    people, log = SAMPLES
    assert len({row["id"] for row in people.rows}) == len(people.rows)
    sizes: dict[Any, int] = {}
    for row in log.rows:
        sizes[row["visitor"]] = sizes.get(row["visitor"], 0) + 1
    assert min(sizes.values()) == 1
    assert max(sizes.values()) > 9_800
    assert repr(web_log().rows) == repr(log.rows)
    assert census().rows == people.rows


@pytest.mark.parametrize(("sample", "question"), asked(SAMPLES))
def test_what_cannot_be_drawn_is_refused_before_it_is_paid_for(sample: Sample, question: str) -> None:
    """Squares of bytes at a low price need noise wider than the samplers are made for."""
    session = sample.session(sample.rows, epsilon=10)
    refused = []
    try:
        session.ask(question.format(where=""), epsilon=Fraction(1, 10_000))
    except QueryRefused as refusal:
        refused.append(refusal.hint)
    assert all("pay more" in hint for hint in refused)
    assert (session.account.budget.spent == 0) == bool(refused)
