"""Numbers and vectors of NumPy, pandas, Polars and PyTorch mean the Python numbers that they hold, everywhere."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest

import discreet
from discreet import (
    BadParameter,
    BadValues,
    Binomial,
    Count,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Histogram,
    Laplace,
    Mean,
    OptimalPartitionSelection,
    RandomizedResponse,
    RunningTotal,
    Sensitivity,
    SparseVector,
    Sum,
    Threshold,
    TruncatedGeometric,
    units,
)
from discreet.accounting import conversions, currencies
from discreet.errors import DiscreetError
from discreet.mechanisms import _additive_noise
from discreet.noise import bernoulli, discrete_gaussian, discrete_laplace, rounded_gaussian
from discreet.query.answer import Answer
from discreet.session.session import Session
from discreet.tabulation import WantedTable
from discreet.testing import seeded_bits
from tests.support.foreign_numbers import COLUMNS, INTEGERS, NO_NUMBERS, REALS, Tensor

TABLE = pd.DataFrame({"id": range(50), "pay": [float(i) for i in range(50)]})
EVENT = Laplace(2).event(1)


def open_session(**options: Any) -> Session:
    return discreet.connect(TABLE, unit="id", unique=True, bounds={"pay": (0, 64)}, **({"epsilon": 4} | options))


@cache
def quoting_session() -> Session:
    """A session for all calls that charge nothing: to open one costs more than they do."""
    return open_session()


@cache
def answer_once() -> Answer:
    return open_session().ask("SELECT COUNT(*) AS n FROM data", epsilon=1, bits=seeded_bits(1))


def quote_columns(**options: Any) -> Any:
    return quoting_session().quote("SELECT AVG(pay) AS m FROM data", **options).columns


def answer_cost(**options: Any) -> Any:
    return open_session().ask("SELECT AVG(pay) AS m FROM data", **options).cost.amount


# Every public callable that takes a number, with numbers that all formats hold exactly.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "WantedTable": (lambda **k: WantedTable(("dept",), **k), {"weight": 2, "error": 3}),
    "Laplace": (Laplace, {"scale": 2}),
    "Laplace.for_epsilon": (Laplace.for_epsilon, {"epsilon": 0.5, "sensitivity": 3}),
    "Laplace.release": (lambda **k: Laplace(2).release(0.5, seeded_bits(1), **k), {"grid": 0.25}),
    "Laplace.event": (Laplace(2).event, {"sensitivity": 3, "grid": 0.25}),
    "Laplace.error": (Laplace(2).error, {"confidence": 0.75, "size": 3, "grid": 0.25}),
    "Gaussian": (Gaussian, {"sigma": 2}),
    "Gaussian.for_epsilon": (Gaussian.for_epsilon, {"epsilon": 0.5, "delta": 0.125, "sensitivity": 3}),
    "Gaussian.for_rho": (Gaussian.for_rho, {"rho": 0.5, "sensitivity": 3}),
    "Gaussian.for_renyi": (Gaussian.for_renyi, {"alpha": 4, "epsilon": 0.5, "sensitivity": 3}),
    "Gaussian.release": (lambda **k: Gaussian(2).release(0.5, seeded_bits(1), **k), {"grid": 0.25}),
    "Gaussian.event": (Gaussian(2).event, {"sensitivity": 3, "grid": 0.25}),
    "Gaussian.error": (Gaussian(2).error, {"confidence": 0.75, "size": 3, "grid": 0.25}),
    "DiscreteGaussian": (DiscreteGaussian, {"sigma": 2}),
    "DiscreteGaussian.for_rho": (DiscreteGaussian.for_rho, {"rho": 0.5, "sensitivity": 3}),
    "DiscreteGaussian.for_epsilon": (DiscreteGaussian.for_epsilon, {"epsilon": 0.5, "delta": 0.125, "sensitivity": 3}),
    "DiscreteGaussian.release": (lambda **k: DiscreteGaussian(2).release(0.5, seeded_bits(1), **k), {"grid": 0.25}),
    "DiscreteGaussian.event": (DiscreteGaussian(2).event, {"sensitivity": 3, "grid": 0.25}),
    "DiscreteGaussian.error": (DiscreteGaussian(2).error, {"confidence": 0.75, "size": 3, "grid": 0.25}),
    "Binomial": (Binomial, {"n": 100}),
    "Binomial.for_epsilon": (Binomial.for_epsilon, {"epsilon": 0.5, "delta": 0.125, "sensitivity": 1}),
    "Binomial.event": (Binomial(10).event, {"sensitivity": 1, "grid": 1}),
    "Binomial.error": (Binomial(10).error, {"confidence": 0.75, "size": 3}),
    "TruncatedGeometric": (TruncatedGeometric, {"scale": 2, "lower": 0, "upper": 10}),
    "TruncatedGeometric.for_epsilon": (
        TruncatedGeometric.for_epsilon, {"epsilon": 0.5, "sensitivity": 3, "lower": 0, "upper": 10},
    ),
    "TruncatedGeometric.event": (TruncatedGeometric(2, 0, 10).event, {"sensitivity": 1, "grid": 1}),
    "TruncatedGeometric.error": (TruncatedGeometric(2, 0, 10).error, {"confidence": 0.75, "size": 3}),
    "Exponential": (Exponential, {"rate": 0.5}),
    "Exponential.for_epsilon": (Exponential.for_epsilon, {"epsilon": 0.5, "sensitivity": 3}),
    "Exponential.event": (Exponential(2).event, {"sensitivity": 3}),
    "Exponential.error": (Exponential(2).error, {"confidence": 0.75, "size": 3}),
    "RandomizedResponse": (RandomizedResponse, {"truth": 0.75, "choices": 3}),
    "RandomizedResponse.for_epsilon": (RandomizedResponse.for_epsilon, {"epsilon": 0.5, "choices": 3}),
    "RandomizedResponse.event": (RandomizedResponse(0.75).event, {"sensitivity": 1}),
    "RandomizedResponse.standard_deviation": (RandomizedResponse(0.75, 3).standard_deviation, {"n": 100, "holders": 20}),
    "RandomizedResponse.error": (RandomizedResponse(0.75).error, {"confidence": 0.75, "size": 3}),
    "Threshold": (Threshold, {"scale": 2, "threshold": 15}),
    "Threshold.for_epsilon": (Threshold.for_epsilon, {"epsilon": 0.5, "delta": 0.125, "sensitivity": 1}),
    "Threshold.event": (Threshold(2, 15).event, {"sensitivity": 1}),
    "Threshold.error": (Threshold(2, 15).error, {"confidence": 0.75, "size": 3}),
    "OptimalPartitionSelection": (OptimalPartitionSelection, {"epsilon": 0.5, "delta": 0.125}),
    "OptimalPartitionSelection.for_epsilon": (
        OptimalPartitionSelection.for_epsilon, {"epsilon": 0.5, "delta": 0.125, "sensitivity": 1},
    ),
    "OptimalPartitionSelection.event": (OptimalPartitionSelection(0.5, 0.125).event, {"sensitivity": 1}),
    "OptimalPartitionSelection.error": (OptimalPartitionSelection(0.5, 0.125).error, {"confidence": 0.75, "size": 3}),
    "SparseVector": (SparseVector, {"threshold": 7, "threshold_scale": 2, "scale": 4, "most": 2}),
    "SparseVector.for_epsilon": (
        SparseVector.for_epsilon, {"epsilon": 0.5, "sensitivity": 1, "threshold": 7, "most": 2},
    ),
    "SparseVector.event": (SparseVector(7, 2, 4).event, {"sensitivity": 3}),
    "SparseVector.error": (SparseVector(7, 2, 4).error, {"confidence": 0.75, "size": 3}),
    "calibrate": (
        lambda **k: discreet.calibrate(Gaussian, **k), {"sensitivity": 1, "epsilon": 2, "delta": 0.125, "times": 3},
    ),
    "calibrate, a rate": (
        lambda rate: discreet.calibrate(Laplace, sensitivity=1, epsilon=2, delta=0.125, rate=rate), {"rate": 0.5},
    ),
    "Sensitivity": (Sensitivity, {"l0": 4, "l1": 2, "l2": 1, "linf": 0.5}),
    "Sensitivity, squared": (Sensitivity, {"l0": 4, "l2_squared": 4}),
    "Sensitivity.scale_by": (Sensitivity(l0=4, linf=1).scale_by, {"factor": 0.5}),
    "units.counts": (units.counts, {"k": 4}),
    "units.bounded_sum": (units.bounded_sum, {"lower": 0, "upper": 0.5}),
    "units.mean": (units.mean, {"lower": 0, "upper": 0.5, "n": 8}),
    "units.proportion": (units.proportion, {"n": 8}),
    "repeat": (lambda times: discreet.repeat(EVENT, times), {"times": 3}),
    "shuffle": (lambda users: discreet.shuffle(EVENT, users), {"users": 3}),
    "shuffled_epsilon": (discreet.shuffled_epsilon, {"n": 100, "epsilon0": 2, "delta": 0.125}),
    "group": (lambda size: discreet.group(EVENT, size), {"size": 3}),
    "subsample": (lambda rate: discreet.subsample(EVENT, rate), {"rate": 0.5}),
    "dpsgd": (discreet.dpsgd, {"sigma": 2, "batch": 4, "n": 8, "epochs": 3}),
    "dpsgd, a rate": (discreet.dpsgd, {"sigma": 0.5, "rate": 0.25, "steps": 3}),
    "Training": (discreet.Training, {"sigma": 2, "batch": 4, "n": 8, "epochs": 3}),
    "Training, a rate": (discreet.Training, {"rate": 0.25, "steps": 3}),
    "epsilon": (lambda delta: discreet.epsilon(EVENT, delta), {"delta": 0.125}),
    "delta": (lambda epsilon: discreet.delta(EVENT, epsilon), {"epsilon": 0.25}),
    "renyi": (lambda order: discreet.renyi(EVENT, order), {"order": 4}),
    "tcdp": (lambda omega: discreet.tcdp(EVENT, omega), {"omega": 4}),
    "trade_off": (lambda alpha: discreet.trade_off(EVENT, alpha), {"alpha": 0.125}),
    "true_positive_rate": (lambda alpha: discreet.true_positive_rate(EVENT, alpha), {"alpha": 0.125}),
    "posterior_range": (discreet.posterior_range, {"epsilon": 0.5, "prior": 0.125}),
    "compare_guarantees": (lambda delta: discreet.compare_guarantees(EVENT, delta), {"delta": 0.125}),
    "gaussian_epsilon": (discreet.gaussian_epsilon, {"mu": 0.5, "delta": 0.125}),
    "gaussian_delta": (discreet.gaussian_delta, {"mu": 0.5, "epsilon": 0.25}),
    "RunningTotal.for_delta": (lambda delta: RunningTotal.for_delta(delta).append(EVENT).epsilon(), {"delta": 0.125}),
    "RunningTotal.append": (lambda times: RunningTotal.for_delta(0.125).append(EVENT, times).epsilon(), {"times": 3}),
    "conversions.epsilon_from_zcdp": (conversions.epsilon_from_zcdp, {"rho": 0.5, "delta": 0.125}),
    "conversions.epsilon_from_rdp": (conversions.epsilon_from_rdp, {"order": 4, "divergence": 0.5, "delta": 0.125}),
    "currencies.zcdp_filter": (currencies.zcdp_filter, {"rho": 0.5, "delta": 0.125}),
    "Mean": (Mean, {"lower": 0, "upper": 0.5}),
    "Sum": (Sum, {"lower": 0, "upper": 0.5}),
    "Histogram": (Histogram, {"cells": 4}),
    "plan": (
        lambda **k: discreet.plan(Count(), **k).half_width,
        {"epsilon": 0.5, "delta": 0.125, "n": 100, "queries": 3, "confidence": 0.75},
    ),
    "plan, an error": (lambda **k: discreet.plan(Mean(0, 16), **k).n, {"error": 4, "epsilon": 0.5}),
    "plan, a relative error": (lambda **k: discreet.plan(Mean(0, 16), error="25%", epsilon=0.5, **k).n, {"size": 8}),
    "plan, an rmse": (lambda **k: discreet.plan(Mean(0, 1), epsilon=0.5, **k).n, {"rmse": 0.5}),
    "connect": (lambda **k: open_session(**k).budget.limit, {"epsilon": 2, "delta": 0.125}),
    "connect, limits": (
        lambda **k: (t := discreet.connect(TABLE, unit="id", epsilon=1, **k).table) and (t.max_groups, t.max_rows),
        {"max_groups": 2, "max_rows": 3},
    ),
    "Session.quote": (quote_columns, {"epsilon": 0.5, "confidence": 0.75, "size": 32}),
    "Session.quote, an error": (quote_columns, {"error": 8, "size": 32}),
    "Session.ask": (answer_cost, {"epsilon": 0.5, "confidence": 0.75}),
    "Session.ask, an error": (answer_cost, {"error": 8, "size": 32}),
    "Session.calibrate": (lambda **k: quoting_session().calibrate("SELECT COUNT(*) FROM data", **k).event, {"epsilon": 0.5}),
    "Answer.limit": (lambda **k: answer_once().limit(**k).rows, {"rows": 1, "offset": 0}),
    "Session.records": (lambda **k: quoting_session().records("pay", **k).max_rows, {"max_rows": 2}),
    "Session.find_epsilon": (
        lambda **k: quoting_session().find_epsilon("SELECT COUNT(*) AS n FROM data", **k),
        {"error": 8, "size": 32, "confidence": 0.75},
    ),
    "noise.discrete_laplace": (lambda **k: discrete_laplace(**k, bits=seeded_bits(1)).tolist(), {"scale": 2, "size": 3}),
    "noise.rounded_gaussian": (lambda **k: rounded_gaussian(**k, bits=seeded_bits(1)).tolist(), {"sigma": 2, "size": 3}),
    "noise.discrete_gaussian": (lambda **k: discrete_gaussian(**k, bits=seeded_bits(1)).tolist(), {"sigma": 2, "size": 3}),
    "noise.bernoulli": (lambda **k: bernoulli(**k, bits=seeded_bits(1)).tolist(), {"p": 0.5, "size": 3}),
}  # fmt: skip

WHOLE = {
    "n", "size", "choices", "holders", "threshold", "lower", "upper", "most", "times", "l0", "k", "cells", "queries",
    "max_groups", "max_rows", "rows", "offset", "users", "batch", "steps",
}  # fmt: skip
"""Parameters that are whole numbers; a bound called `lower` or `upper` is one in TruncatedGeometric only, and the `size` of
a relative error is any number."""


def is_whole(call: str, parameter: str) -> bool:
    if parameter in ("lower", "upper"):
        return call.startswith("TruncatedGeometric")
    return parameter in WHOLE and call != "plan, a relative error"


@pytest.mark.parametrize("call", CALLS)
def test_a_number_means_the_same_in_every_format(call: str) -> None:
    function, arguments = CALLS[call]
    expected = function(**arguments)
    for parameter, value in arguments.items():
        formats = {**(INTEGERS if isinstance(value, int) else {}), **({} if is_whole(call, parameter) else REALS)}
        for name, wrap in formats.items():
            assert function(**{**arguments, parameter: wrap(value)}) == expected, f"{parameter} as {name}"


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_number_is_refused_by_the_name_of_the_parameter(call: str) -> None:
    function, arguments = CALLS[call]
    for parameter in arguments:
        wrong = {**NO_NUMBERS, **({"half": 0.5, "np.half": np.float64(0.5)} if is_whole(call, parameter) else {})}
        for name, value in wrong.items():
            if parameter in ("error", "rmse") and isinstance(value, str):
                continue  # an error may be a text such as "5%"
            if parameter == "epsilon" and call.startswith("Session") and isinstance(value, str):
                continue  # ε of a query may be a text such as "3/10", as people write it
            if (
                parameter in ("sigma", "rate", "epochs")
                and call.startswith(("dpsgd", "Training"))
                and isinstance(value, str)
            ):
                continue  # a rate may be a text such as "256/60000"
            if parameter in ("error", "size") and call.startswith(("Session", "plan")) and isinstance(value, list):
                continue  # one per group
            with pytest.raises(DiscreetError) as refused:
                function(**{**arguments, parameter: value})
            assert isinstance(refused.value, BadParameter), f"{parameter} as {name}: {refused.value}"


def takes_a_number(annotation: Any) -> bool:
    return any(each is int or each is float for each in (annotation, *get_args(annotation)))


NOT_TRIED = {
    "Bounds": "holds doubles that were computed",
    "Finding": "is what an audit returns",
    "RunningTotal": "is made by for_delta",
    "TrainingPlan": "is what plan returns",
    "Workload": "reads its numbers as `connect` and `ask` do, see tests/workload",
    "WorkloadQuery": "the same",
    "tabulate": "draws noise; what it reads numbers with is tried in tests/tabulation/test_tabulation.py",
    "synthesize": "the same, in tests/synthesis",
    "synthesize_publication": "takes a number of rows only, see tests/synthesis",
    "open_stream": "needs a folder, see tests/streams",
    "audit": "takes a claim, see tests/auditor",
    "assert_private": "calls audit",
    "advantage": "takes a tolerance only",
}


def test_every_public_callable_that_takes_a_number_is_tried() -> None:
    public = {name: getattr(discreet, name) for name in discreet.__all__} | {"Session": Session, "Answer": Answer}
    tried = {call.partition(",")[0] for call in CALLS}
    missing = set()
    for name, value in public.items():
        members = {name: value.__init__, **vars(value)} if inspect.isclass(value) else {name: value}
        for member, function in members.items():
            function = getattr(function, "__func__", function)
            hidden = member.startswith("_") or not inspect.isfunction(function) or name in NOT_TRIED
            if hidden or (inspect.isclass(value) and issubclass(value, Exception)):
                continue
            parameters = set(inspect.signature(function).parameters) - {"values", "rtol"}
            numbers = {p for p, hint in get_type_hints(function).items() if p in parameters and takes_a_number(hint)}
            call = name if member == name else f"{name}.{member}"
            if numbers and name != "Geometric" and call not in tried:
                missing.add(call)
    # The first is charged by `ask`, which is tried; the second takes the ε of what `calibrate` returned.
    assert missing <= {"Session.find_bounds", "Session.ask_calibrated"}, missing


# Vectors

ADDITIVE = {"Laplace": Laplace(2), "Gaussian": Gaussian(2), "DiscreteGaussian": DiscreteGaussian(2)}
COUNTING = {
    "TruncatedGeometric": TruncatedGeometric(2, 0, 1000),
    "Binomial": Binomial(10),
    "Threshold": Threshold(2, 15),
    "OptimalPartitionSelection": OptimalPartitionSelection(0.5, 0.125),
    "SparseVector": SparseVector(7, 2, 4),
    "RandomizedResponse": RandomizedResponse(0.75, 41),
    "Exponential": Exponential(0.5),
}
WHOLE_VALUES, REAL_VALUES = [3, 40, 0], [0.5, 3.25, -7.0]


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", ADDITIVE | COUNTING)
def test_a_vector_of_integers_means_the_same_in_every_format(name: str, kind: str) -> None:
    mechanism = (ADDITIVE | COUNTING)[name]
    if name == "RandomizedResponse" and kind == "array of objects":
        return  # an array of objects may hold any record, for a predicate
    expected = mechanism.release(WHOLE_VALUES, seeded_bits(5))
    found = mechanism.release(COLUMNS[kind](WHOLE_VALUES), seeded_bits(5))
    if isinstance(expected, list) and name != "SparseVector":
        assert type(found) is (list if kind in ("list", "tuple") else np.ndarray)  # no labels come out
        assert np.asarray(found).dtype.kind in "ib"
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", ADDITIVE)
def test_a_vector_of_reals_means_the_same_in_every_format(name: str, kind: str) -> None:
    expected = ADDITIVE[name].release(REAL_VALUES, seeded_bits(5))
    values = [Fraction(value) for value in REAL_VALUES] if kind == "array of objects" else REAL_VALUES
    found = ADDITIVE[name].release(COLUMNS[kind](values), seeded_bits(5))
    assert np.array_equal(found, expected)
    assert np.asarray(found).dtype == np.float64


@pytest.mark.parametrize("name", ADDITIVE)
def test_a_single_value_means_the_same_in_every_format(name: str) -> None:
    for formats, value in ((INTEGERS, 3), (REALS, 0.5)):
        expected = ADDITIVE[name].release(value, seeded_bits(5))
        for kind, wrap in formats.items():
            found = ADDITIVE[name].release(wrap(value), seeded_bits(5))
            assert found == expected, kind
            assert type(found) is (np.ndarray if type(wrap(value)) is np.ndarray else type(expected)), kind


@pytest.mark.parametrize("name", ADDITIVE | COUNTING)
def test_vectors_of_anything_else_are_refused_without_showing_a_value(name: str) -> None:
    mechanism = (ADDITIVE | COUNTING)[name]
    wrong: dict[str, Any] = {
        "NaN": pd.Series([1.0, np.nan]),
        "missing": pd.Series([41234, None], dtype="Int64"),
        "missing in Polars": pl.Series([41234, None]),
        "complex": np.array([41234j]),
        "texts": pd.Series(["41234"]),
        "durations": pd.Series(np.array([41234], "m8[ns]")),
        "a table": pd.DataFrame({"a": [41234], "b": [0.5]}),
        "a table of Polars": pl.DataFrame({"a": [41234], "b": [0.5]}),
        "a mask": np.ma.array([41234, 5], mask=[True, False]),
        "gradients": Tensor([41234.0], requires_grad=True),
        "wide integers": pl.Series([41234], dtype=pl.Int128),
        "a decimal NaN": [Decimal("NaN")],
        "a huge decimal": [Decimal("1e999999999")],
        "a text": "41234",
        "nothing": None,
        "a set": {41234},
    }
    if name != "RandomizedResponse":  # whose answers may be yes and no
        wrong |= {"bools": pd.Series([True]), "a bool": True, "bools in a list": [True, False]}
    for kind, values in wrong.items():
        with pytest.raises(BadValues) as refused:
            mechanism.release(values)
        assert "41234" not in str(refused.value), kind


def test_conversions_are_exact() -> None:
    """No integer passes through a double, and no Fraction or Decimal does: 2⁶² + 1 and 10⁻³⁰ + 1 would not survive."""
    odd = 2**62 + 1
    for wrap in (
        np.array,
        pd.Series,
        pl.Series,
        Tensor,
        list,
        lambda x: np.array(x, object),
        lambda x: pd.Series(x, dtype="UInt64"),
    ):
        read, _ = _additive_noise.read_values(wrap([odd, 5]))
        assert read.tolist() == [odd, 5]
    for exact in (Fraction(10**30 + 1, 10**30), Decimal("1.000000000000000000000000000001")):
        for form in (exact, [exact], np.array([exact])):
            read, _ = _additive_noise.read_values(form)
            assert read.reshape(-1).tolist() == [Fraction(exact)]
        assert discreet.pure(Laplace(1).event(exact)) == Fraction(exact)
        assert Laplace(exact).scale == Fraction(exact)
    with pytest.raises(BadParameter, match="finer than a double"):
        Laplace(np.longdouble(1) + np.finfo(np.longdouble).eps)


def test_rounding_to_the_grid_is_exact_for_rationals() -> None:
    """Half a grid step is rounded up, and a little less than half, which no double tells apart from half, is not."""
    half = Laplace(2**20).grid / 2
    for k, value in ((1, half), (0, half - Fraction(1, 10**40)), (-1, -half - Fraction(1, 10**40)), (0, -half)):
        noisy = [Laplace(2**20).release(wrapped, seeded_bits(3)) for wrapped in (value, [value])]
        start = Laplace(2**20).release(0.0, seeded_bits(3))
        assert noisy == [start + 2 * k * float(half), [start + 2 * k * float(half)]]


def test_no_size_of_a_rational_raises() -> None:
    for value in (Fraction(10) ** 400, -(Fraction(10) ** 400), Fraction(1, 10**400), Fraction(2) ** 1024):
        noisy = Laplace(Fraction(1, 3)).release(value)
        assert isinstance(noisy, float)
        assert noisy == max(-sys.float_info.max, min(sys.float_info.max, noisy))
    for _ in range(50):  # the sum lies beyond the doubles about every second time
        assert isinstance(Laplace(2.0**900).release(sys.float_info.max, grid=2.0**880), float)
        assert isinstance(Laplace(1).release(sys.float_info.max), float)


def test_none_of_the_libraries_is_imported_for_it() -> None:
    program = (
        "import sys; from discreet import Laplace; Laplace(2).release([1, 2]); "
        "print('pandas' in sys.modules, 'polars' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]
