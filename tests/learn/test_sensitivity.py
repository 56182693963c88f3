"""One record moves what a fit releases by no more than its event says, and no other record's contribution by one bit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.learn import Additive, LinearRegression, LogisticRegression, PrivateEstimator, Ridge, descent
from discreet.learn.features import ONE
from discreet.units import Neighbours
from tests.support.scripted_releases import measure_distance, replay

DECLARED: dict[str, Any] = {
    "epsilon": 1,
    "delta": 1e-6,
    "bounds": {"age": (0, 100), "pay": (-5, 5)},
    "categories": {"dept": ("a", "b", "c"), "sex": (0, 1)},
    "expected": 50,
    "steps": 4,
}
MODELS: dict[str, Callable[..., PrivateEstimator]] = {
    "two classes": lambda **more: LogisticRegression(**DECLARED, classes=("no", "yes"), **more),
    "three classes": lambda **more: LogisticRegression(**DECLARED, classes=("no", "yes", "maybe"), **more),
    "numbers": lambda **more: LinearRegression(**DECLARED, target_bounds=(-10, 10), **more),
    "ridge": lambda **more: Ridge(alpha=3, **DECLARED, target_bounds=(-10, 10), **more),
    "additive classes": lambda **more: Additive(**DECLARED, classes=("no", "yes"), **more),
    "additive numbers": lambda **more: Additive(**DECLARED, target_bounds=(-10, 10), **more),
}
WILD = [float("nan"), float("inf"), float("-inf"), 1e308, -1e308, None, "text", "12", 2**80, 0.1, 3, True, (1, 2)]
NUMBERS = st.one_of(st.floats(-20, 120), st.sampled_from(WILD))
KEYS = st.sampled_from(["a", "b", "c", "z", None, float("nan"), 7, ""])
SEXES = st.sampled_from([0, 1, 1.0, "1", None, 5])
TARGETS = st.one_of(st.sampled_from(["no", "yes", "maybe", "other", None]), st.floats(-50, 50), st.sampled_from(WILD))
RECORDS = st.tuples(NUMBERS, NUMBERS, KEYS, SEXES, TARGETS)


def to_columns(records: list[tuple[Any, ...]]) -> tuple[dict[str, list[Any]], list[Any]]:
    columns = [[*column] for column in zip(*records, strict=True)] if records else [[] for _ in range(5)]
    return dict(zip(("age", "pay", "dept", "sex"), columns, strict=False)), columns[4]


def list_bounds(model: PrivateEstimator) -> dict[str, Any]:
    return {vector.name: vector.l2_squared for vector in model._list_vectors(model._declare(None))}


def find_violation(model: PrivateEstimator, records: list[tuple[Any, ...]], others: list[tuple[Any, ...]], seed: int) -> str:
    """Return which release two data sets move further than the model's event says; "" if none."""
    one, other, bounds = (
        replay(model, *to_columns(records), seed=seed), replay(model, *to_columns(others), seed=seed), list_bounds(model),
    )  # fmt: skip
    return ", ".join(name for name in one if measure_distance(one[name], other[name]) > bounds[name])


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=25, deadline=None)
@given(records=st.lists(RECORDS, min_size=1, max_size=12), place=st.integers(0, 11), seed=st.integers(0, 99))
def test_adding_or_removing_a_record_is_within_the_event(name: str, records: list[Any], place: int, seed: int) -> None:
    at = place % len(records)
    assert not find_violation(MODELS[name](), records, records[:at] + records[at + 1 :], seed)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=15, deadline=None)
@given(records=st.lists(RECORDS, min_size=1, max_size=8), record=RECORDS, seed=st.integers(0, 99))
def test_replacing_a_record_is_within_the_event(name: str, records: list[Any], record: Any, seed: int) -> None:
    assert not find_violation(MODELS[name](neighbours=Neighbours.REPLACE), records, [record, *records[1:]], seed)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=10, deadline=None)
@given(records=st.lists(RECORDS, min_size=2, max_size=10), seed=st.integers(0, 99), data=st.data())
def test_sums_are_the_same_in_any_order(name: str, records: list[Any], seed: int, data: st.DataObject) -> None:
    other = data.draw(st.permutations(records))
    one, two = replay(MODELS[name](), *to_columns(records), seed=seed), replay(MODELS[name](), *to_columns(other), seed=seed)
    assert all(np.array_equal(a, b) for key in one for a, b in zip(one[key], two[key], strict=True))


def test_sums_of_many_rows_are_those_of_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: a row's contribution does not depend on how many rows stand beside it, nor on where they are cut."""
    rng = np.random.default_rng(1)
    n = 3000
    X = {
        "age": rng.uniform(0, 100, n),
        "pay": rng.normal(size=n),
        "dept": rng.choice(["a", "b", "z"], n),
        "sex": rng.integers(0, 3, n),
    }
    for name, y in (("three classes", rng.choice(["no", "yes", "maybe", "?"], n)), ("numbers", rng.normal(size=n) * 8)):
        whole = replay(MODELS[name](), X, y)
        monkeypatch.setattr(descent, "CHUNK", 17)
        pieces = replay(MODELS[name](), X, y)
        monkeypatch.undo()
        cuts = [slice(0, 1), slice(1, 8), slice(8, 1500), slice(1500, n)]
        parts = [replay(MODELS[name](), {key: each[cut] for key, each in X.items()}, y[cut]) for cut in cuts]
        for key, sums in whole.items():
            for place, total in enumerate(sums):
                assert np.array_equal(total, pieces[key][place])
                assert np.array_equal(total, sum(part[key][place] for part in parts))


def test_a_record_without_a_declared_target_contributes_nothing() -> None:
    record = (50, 1.0, "a", 1)
    for name in MODELS:
        one = replay(MODELS[name](), *to_columns([(*record, "unheard of")]))
        none = replay(MODELS[name](), *to_columns([]))
        assert all(np.array_equal(a, b) for key in one for a, b in zip(one[key], none[key], strict=True))


# Mutants: each is a mistake that the tests above must notice


def clip_nothing(residuals: Any, limits: Any) -> Any:
    return residuals


def clip_residual_alone(residuals: Any, limits: Any) -> Any:
    return np.clip(residuals, -limits.max(), limits.max())


def clip_each_class(residuals: Any, limits: Any) -> Any:
    return np.clip(residuals, -limits, limits)


def round_to_nearest(residuals: Any, limits: Any) -> Any:
    lengths = np.sqrt((residuals**2).sum(axis=0))
    return np.rint(residuals * np.minimum(1, (limits + 0.5) / np.maximum(lengths, 1)))


@contextmanager
def mutate(monkeypatch: pytest.MonkeyPatch, name: str, mutant: Any) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(descent, name, mutant)
        yield


FAR = (0, 5, "z", 7, "maybe")
NEAR = [(100, 5, "a", 0, "no"), (100, -5, "b", 1, "yes"), (50, 0, "c", 0, "maybe"), (0, 5, "z", 7, "maybe")]


@pytest.mark.parametrize("mutant", [clip_nothing, clip_residual_alone, clip_each_class, round_to_nearest])
def test_a_wrong_clip_is_found(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "three classes"
    assert not any(find_violation(MODELS[name](), [each, *NEAR], NEAR, seed) for each in NEAR for seed in range(6))
    with mutate(monkeypatch, "clip_residuals", mutant):
        assert any(find_violation(MODELS[name](), [each, *NEAR], NEAR, seed) for each in NEAR for seed in range(6))


def keep_lengths(self: Any, middles: Any, widths: Any) -> Any:
    """Rows are made longer, and clipped as if they were not."""
    return replace(STANDARDISE(self, middles, widths), lengths=self.lengths)


def shift_by_own_mean(self: Any, middles: Any, widths: Any) -> Any:
    """The mean is that of the rows, not a released one: a record shifts all others."""
    return STANDARDISE(self, self.numbers.mean(axis=0) / ONE if len(self.numbers) else middles, widths)


STANDARDISE = descent.IntegerRows.standardise


@pytest.mark.parametrize("mutant", [keep_lengths, shift_by_own_mean])
def test_a_wrong_scale_of_rows_is_found(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(100, 5, "a", 0, "no"), (100, -5, "b", 1, "yes"), (0, 5, "c", 0, "yes"), (0, -5, "z", 7, "no")] * 40
    model = MODELS["two classes"]()

    def is_found() -> bool:
        return any(find_violation(model, [each, *many], many, seed) for each in many[:4] for seed in range(12))

    assert not is_found()
    monkeypatch.setattr(descent.IntegerRows, "standardise", mutant)
    assert is_found()


def test_sums_of_the_target_on_a_wrong_grid_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_to_scale(prepared: Any) -> Any:
        target = prepared.target[prepared.present]
        return np.array([target.sum(), (target * target).sum()], np.int64)

    many = [(*each[:4], 10.0) for each in NEAR]
    for name in ("numbers", "additive numbers"):
        assert not find_violation(MODELS[name](), many, many[1:], 0)
    monkeypatch.setattr(descent, "sum_target", forget_to_scale)
    assert "target" in find_violation(MODELS["numbers"](), many, many[1:], 0)


def test_a_divisor_that_counts_the_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean instead of a sum: one record changes the share of all others."""
    honest = descent.Descent.sum_gradients

    def divide(self: Any, prepared: Any, weights: Any) -> Any:
        return honest(self, prepared, weights) * 50 // max(len(prepared.target), 1)

    many = NEAR * 2
    assert not any(find_violation(MODELS["two classes"](), [FAR, *many], many, seed) for seed in range(6))
    monkeypatch.setattr(descent.Descent, "sum_gradients", divide)
    assert any(find_violation(MODELS["two classes"](), [FAR, *many], many, seed) for seed in range(6))


def test_sums_in_floats_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that are no integers: the sum is then rounded as a whole, and depends on what stands beside a row."""
    honest = descent.IntegerRows.sum_products

    def sum_floats(self: Any, residuals: Any) -> Any:
        sums = honest(self, residuals)
        sums[1:3] = ((residuals / 3.0).astype(np.float32) @ self.numbers.astype(np.float32)).astype(np.int64)
        return sums

    rng = np.random.default_rng(1)
    n = 200
    X = {
        "age": rng.uniform(0, 100, n),
        "pay": rng.normal(size=n),
        "dept": rng.choice(["a", "b"], n),
        "sex": rng.integers(0, 2, n),
    }
    y = rng.choice(["no", "yes"], n)

    def differs() -> bool:
        whole = replay(MODELS["two classes"](), X, y)["gradients"]
        parts = [
            replay(MODELS["two classes"](), {k: v[i : i + 1] for k, v in X.items()}, y[i : i + 1])["gradients"]
            for i in range(n)
        ]
        return any(not np.array_equal(total, sum(part[t] for part in parts)) for t, total in enumerate(whole))

    assert not differs()
    monkeypatch.setattr(descent.IntegerRows, "sum_products", sum_floats)
    assert differs()


def test_integers_stay_where_doubles_are_exact() -> None:
    """The largest logit and the largest sum of a chunk, from the constants."""
    from discreet.learn.features import Features
    from discreet.learn.linear import MAX_CLIP

    for numbers, categories in ((0, 1), (1, 0), (500, 3), (3000, 400)):
        features = Features.of({f"n{i}": (0, 1) for i in range(numbers)}, {f"c{i}": (1, 2) for i in range(categories)})
        largest = 1 << (descent.MAX_WEIGHT_BITS + descent.count_weight_bits(features))
        assert largest * (ONE * (1 + categories) + ONE * numbers) < 2**53  # standardised numbers reach 1
        assert descent.count_weight_bits(features) >= 8
    residual = int(MAX_CLIP * (1 << descent.RESIDUAL_BITS))  # of the shortest row, which is the intercept alone
    assert residual * ONE * descent.CHUNK < 2**53
