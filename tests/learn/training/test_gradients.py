"""What one record adds to a step's sum: an integer vector of norm at most 2³⁰, whoever else is there."""

from fractions import Fraction
from math import isqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from discreet.learn.training import bookkeeping, quantise
from discreet.learn.training.bookkeeping import GradientModel, check_bookkeeping
from discreet.learn.training.quantise import (
    Dense,
    Factors,
    FloatTotal,
    Positions,
    Total,
    bound_float_error,
    clip_and_quantise,
    clip_factors,
)
from discreet.learn.training.rows import RowKind, TrainingRows
from tests.learn.training.models import BOUND, CASES, F32, LOSS, make_mlp, make_summer, norm_squared, sum_of


def subtract(a: list[int], b: list[int]) -> list[int]:
    return [x - y for x, y in zip(a, b, strict=True)]


def moves_within_norm(summer, features, targets, kind) -> bool:
    """H2: removing the last record moves the sum by what that record adds alone, of norm at most 2³⁰."""
    everyone = sum_of(summer, features, targets, kind)
    others = sum_of(summer, features[:-1], targets[:-1], kind)
    alone = sum_of(summer, features[-1:], targets[-1:], kind)
    return subtract(everyone, others) == alone and norm_squared(alone) <= BOUND


@pytest.mark.parametrize("method", ["book-keeping", "vmap"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("clip", [1e-3, 1.0, 1e4])
def test_one_record_moves_the_sum_by_its_contribution(name, method, clip):
    model, kind = CASES[name]
    features, targets = kind.make_synthetic(21)
    assert moves_within_norm(make_summer(model, kind, clip, method=method), features, targets, kind)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=3),
    st.integers(1, 30),
    st.sampled_from([1e-6, 1.0, 1e6, 1e30, 3e38]),
    st.sampled_from([1e-6, 0.1, 3.0, 1e6]),
    st.integers(0, 2**31),
)
def test_neighbours_of_random_models(widths, inputs, size, clip, seed):
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    before = inputs
    for width in widths:
        layers += [nn.Linear(before, width, bias=seed % 2 == 0), nn.ReLU()]
        before = width
    model, kind = nn.Sequential(*layers, nn.Linear(before, 3)), RowKind((inputs,), F32, classes=3)
    features, targets = kind.make_synthetic(6, seed)
    features[-1] *= size
    assert moves_within_norm(make_summer(model, kind, clip), features, targets, kind)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_a_record_that_is_no_number_adds_nothing(wrong):
    model, kind = CASES["mlp"]
    features, targets = kind.make_synthetic(5)
    features[2, 1] = wrong
    summer, others = make_summer(model, kind), [0, 1, 3, 4]
    assert sum_of(summer, features[2:3], targets[2:3], kind) == [0] * summer.gradients.size
    assert sum_of(summer, features, targets, kind) == sum_of(summer, features[others], targets[others], kind)


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_a_target_out_of_range_adds_nothing(wrong):
    model, kind = CASES["mlp"]
    features, targets = kind.make_synthetic(3)
    targets[1] = wrong
    summer = make_summer(model, kind)
    assert sum_of(summer, features[1:2], targets[1:2], kind) == [0] * summer.gradients.size


def test_tokens_out_of_range_add_nothing():
    model, kind = CASES["bag"]
    features, targets = kind.make_synthetic(3)
    features[1, 4] = 200
    summer = make_summer(model, kind)
    assert sum_of(summer, features[1:2], targets[1:2], kind) == [0] * summer.gradients.size


def test_overflow_inside_the_model_adds_nothing_and_leaves_the_others():
    """The record is finite; its activations are not."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
    with torch.no_grad():
        model[0].weight.fill_(1e30)
    kind = RowKind((6,), F32, classes=3)
    features, targets = kind.make_synthetic(4)
    features *= 1e-30
    features[1] = 1e20
    summer, others = make_summer(model, kind), [0, 2, 3]
    assert sum_of(summer, features, targets, kind) == sum_of(summer, features[others], targets[others], kind)


def test_an_empty_batch_is_zero():
    model, kind = CASES["cnn"]
    features, targets = kind.make_synthetic(0)
    summer = make_summer(model, kind)
    assert sum_of(summer, features, targets, kind) == [0] * summer.gradients.size


@pytest.mark.parametrize("name", CASES)
def test_replay_is_equal_in_every_order_and_chunk(name):
    model, kind = CASES[name]
    features, targets = kind.make_synthetic(37)
    summer, order = make_summer(model, kind), torch.randperm(37)
    once = sum_of(summer, features, targets, kind)
    assert sum_of(summer, features[order], targets[order], kind) == once
    summer.load(TrainingRows.of(features, targets, kind))
    pieces = [summer.sum(part.numpy()).tolist() for part in torch.randperm(37).split([1, 5, 17, 14])]
    assert [sum(each) for each in zip(*pieces, strict=True)] == once


def test_replay_is_equal_in_every_number_of_threads():
    model, kind = CASES["mlp"]
    features, targets = kind.make_synthetic(37)
    once = sum_of(make_summer(model, kind), features, targets, kind)
    torch.set_num_threads(2)
    assert sum_of(make_summer(model, kind), features, targets, kind) == once


@pytest.mark.parametrize("name", CASES)
def test_book_keeping_agrees_with_autograd_and_vmap(name):
    model, kind = CASES[name]
    features, targets = kind.make_synthetic(16)
    assert check_bookkeeping(GradientModel.of(model, LOSS, 1.0, "book-keeping"), features, targets)
    sums = []
    for method in ("book-keeping", "vmap"):
        summer = make_summer(model, kind, 0.5, method=method)
        total = torch.tensor(sum_of(summer, features, targets, kind), dtype=torch.float64)
        sums.append(torch.cat([each.flatten() for each in summer.gradients.split(total)]))
    assert (sums[0] - sums[1]).norm() <= 2e-3 * sums[1].norm()


def test_a_tied_weight_used_outside_its_layer_is_noticed():
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 6)

        def forward(self, rows):
            return nn.functional.linear(self.first(rows), self.first.weight)

    kind = RowKind((6,), F32, classes=6)
    assert not check_bookkeeping(GradientModel.of(Hidden(), LOSS, 1.0), *kind.make_synthetic(8))


# Mutants of clipping: the law above notices each


def test_without_clipping_the_law_fails(monkeypatch):
    model, kind = CASES["mlp"]
    features, targets = kind.make_synthetic(5)
    monkeypatch.setattr(quantise, "clip_factors", lambda norms, clip, keep: torch.full_like(norms, 1 / clip))
    summer = make_summer(model, kind, clip=1e-3)
    assert moves_within_norm(summer, features, targets, kind)  # the check of the norm alone keeps the promise: it drops
    monkeypatch.setattr(quantise, "check_norms", lambda wholes: (torch.ones(16, dtype=torch.bool), torch.ones(16)))
    assert not moves_within_norm(summer, features, targets, kind)


def test_clipping_each_layer_at_the_whole_norm_fails_the_law(monkeypatch):
    model, kind = make_mlp(hidden=60), RowKind((6,), F32, classes=3)

    def each_alone(gradients, clip, valid):
        return [clip_and_quantise([each], clip, valid)[0] for each in gradients]

    monkeypatch.setattr(bookkeeping, "clip_and_quantise", each_alone)
    monkeypatch.setattr(bookkeeping, "SMALL", 1)
    features, targets = kind.make_synthetic(5)
    assert not moves_within_norm(make_summer(model, kind, clip=1e-4), features, targets, kind)


def test_a_sum_in_floats_fails_the_replay(monkeypatch):
    model, kind = CASES["wide"]
    features, targets = kind.make_synthetic(40)

    def add_rounded(self, wholes, count):
        for part, whole in zip(self._parts, wholes, strict=True):
            shaken = torch.zeros_like(part.integers)
            whole.add_to(quantise.Part(shaken, part.doubles.zero_()), count)
            floats = part.integers.to(torch.float32) + (shaken + part.doubles.to(torch.int64)).to(torch.float32)
            part.integers.copy_(floats.to(torch.int64))

    monkeypatch.setattr(Total, "add", add_rounded)
    summer, order = make_summer(model, kind), torch.randperm(40)
    assert sum_of(summer, features, targets, kind) != sum_of(summer, features[order], targets[order], kind)


# The four forms of a gradient


def check_form(gradients, clip: float) -> None:
    valid = torch.ones(len(gradients[0].tensors()[0]), dtype=torch.bool)
    wholes = clip_and_quantise(gradients, clip, valid)
    fits, _ = quantise.check_norms(wholes)
    assert fits.all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([1e-30, 1e-3, 1.0, 1e3, 1e15]), st.sampled_from([1e-3, 1.0, 1e3]))
def test_positions_have_a_certified_norm(seed, size, clip):
    """The product of truncated factors is computed here in Python's integers, and its norm is within the bound."""
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(3, 5, 4, generator=source) * size
    outputs = torch.randn(3, 5, 2, generator=source)
    outputs[0, 1:] = -outputs[0, :1] / 4  # terms that nearly cancel out
    inputs[0, 1:] = inputs[0, :1]
    wholes = clip_and_quantise([Positions(inputs, outputs)], clip, torch.ones(3, dtype=torch.bool))
    (whole,) = wholes
    for row in range(3):
        a = [[int(x) for x in line] for line in whole.inputs[row].tolist()]
        g = [[int(x) for x in line] for line in whole.outputs[row].tolist()]
        product = [sum(g[t][o] * a[t][p] for t in range(5)) for o in range(2) for p in range(4)]
        assert norm_squared(product) <= BOUND
    total = Total([8])
    total.add(wholes, 3)
    expected = torch.einsum("bto,btp->op", whole.outputs, whole.inputs).flatten().to(torch.int64)
    assert torch.equal(total.take(), expected)


def test_positions_are_close_to_the_gradient():
    source = torch.Generator().manual_seed(1)
    inputs, outputs = torch.randn(8, 6, 30, generator=source), torch.randn(8, 6, 20, generator=source)
    sums = []
    for gradient in (Positions(inputs, outputs), Dense(torch.bmm(outputs.mT, inputs).flatten(1))):
        total = Total([600])
        total.add(clip_and_quantise([gradient], 1.0, torch.ones(8, dtype=torch.bool)), 8)
        sums.append(total.take().to(torch.float64))
    assert (sums[0] - sums[1]).norm() <= 1e-3 * sums[1].norm()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=40),
    st.integers(0, 1 << 31),
    st.sampled_from(["dense", "factors"]),
)
def test_a_norm_that_passes_is_within_the_bound_in_whole_numbers(values, factor, form):
    """Python's integers decide; also next to the bound, and where 64 bits would wrap around."""
    row = torch.tensor([values], dtype=torch.float64)
    if form == "dense":
        whole, exact = quantise.WholeDense(row.to(torch.int32), quantise.bound_squares(row)), norm_squared(values)
    else:
        outputs = torch.tensor([[float(factor)]], dtype=torch.float64)
        whole, exact = quantise.WholeFactors(row, outputs), norm_squared(values) * factor * factor
    fits, bound = quantise.check_norms([whole])
    assert int(bound.item()) >= exact
    assert exact <= BOUND or not fits.item()
    assert fits.item() or exact > BOUND * (1 - 2**-40)


@pytest.mark.parametrize(
    ("values", "fits"),
    [([1 << 30] * 16, False), ([1 << 30, 1], False), ([1 << 30, 0], False), ([(1 << 30) - 1, 0], True), ([0, 0], True)],
)
def test_norms_next_to_the_bound(values, fits):
    """2⁶⁰ + 1 is 2⁶⁰ as a double, and 16·2⁶⁰ is 0 in 64 bits: neither passes; nor does 2⁶⁰ itself, which rounding hides."""
    row = torch.tensor([values], dtype=torch.float64)
    assert quantise.check_norms([quantise.WholeDense(row.to(torch.int32), quantise.bound_squares(row))])[0].item() is fits


def test_a_bound_without_its_error_lets_a_norm_pass():
    """The mutant compares the rounded sum of squares: 2⁶⁰ + 1 passes."""
    row = torch.tensor([[float(1 << 30), 1.0]], dtype=torch.float64)
    rounded = torch.linalg.vector_norm(row, dim=1).square()
    assert quantise.check_norms([quantise.WholeDense(row.to(torch.int32), quantise.bound_squares(row))])[0].item() is False
    assert rounded.item() <= BOUND < norm_squared([1 << 30, 1])


def test_no_norm_that_is_no_number_passes():
    factors = Factors(torch.full((2, 3), torch.nan), torch.ones(2, 2))
    (whole,) = clip_and_quantise([factors], 1.0, torch.ones(2, dtype=torch.bool))
    total = Total([6])
    total.add([whole], 2)
    assert total.take().tolist() == [0] * 6


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=5),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.integers(0, 2**31),
)
def test_a_sum_of_floats_is_within_its_bound_of_the_real_sum(chunks, size, seed):
    """Of clipped gradients as they are, products of two floats of a record, in rational numbers."""
    source = torch.Generator().manual_seed(seed)
    total, expected, width = FloatTotal([6, 4]), [Fraction(0)] * 10, 8
    for count, wide in chunks:
        inputs, outputs, dense = (torch.randn(width, n, generator=source) * size for n in (3, 2, 4))
        valid = torch.arange(width) < count - 1  # the last record does not count
        dense[valid.logical_not()] = torch.nan
        gradients = [Factors(inputs, outputs), Dense(dense)]
        total.add(gradients, 1.0, valid, count, wide)
        norms = torch.stack([each.squared_norms() for each in gradients]).sum(0).sqrt()
        factors = clip_factors(norms, 1.0, valid & torch.isfinite(norms))[:count].to(torch.float32)
        for row in factors.nonzero().flatten().tolist():
            scaled, own = (outputs[row] * factors[row]).tolist(), factors[row].item()
            terms = [Fraction(a) * Fraction(b) for a in scaled for b in inputs[row].tolist()]
            terms += [Fraction(own) * Fraction(each) for each in dense[row].tolist()]
            expected = [a + b for a, b in zip(expected, terms, strict=True)]
    narrow = sum(not wide for _, wide in chunks)
    off = [Fraction(a) - b * 2**30 for a, b in zip(total.take().tolist(), expected, strict=True)]
    steps = bound_float_error(width, narrow) * 2**30 + (narrow + 1) * (isqrt(len(off)) + 1)
    assert sum(each * each for each in off) <= steps * steps
