"""H1: what a record contributes does not depend on the other records."""

import pytest
import torch
from torch import nn

from discreet.errors import BadParameter
from discreet.learn.training import summing
from discreet.learn.training.bookkeeping import GradientModel
from discreet.learn.training.invariance import check_invariance
from discreet.learn.training.rows import RowKind, TrainingRows
from discreet.learn.training.summing import ChildSummer, make_invariance_error, open_summer
from tests.learn.training.models import CASES, F32, LOSS, Centred, make_mlp, make_summer, sum_of

SETTINGS = {"loss": LOSS, "clip": 1.0, "method": None}


@pytest.mark.parametrize("method", ["book-keeping", "vmap"])
@pytest.mark.parametrize("name", CASES)
def test_rows_do_not_influence_each_other(name, method):
    model, kind = CASES[name]
    assert check_invariance(GradientModel.of(model, LOSS, 1.0, method), kind, 16) is None


def test_a_model_that_mixes_rows_is_noticed_and_refused():
    kind = RowKind((6,), F32, classes=3)
    assert check_invariance(GradientModel.of(Centred(), LOSS, 1.0), kind, 16) is not None
    with pytest.raises(BadParameter, match="depends on"):
        open_summer(Centred(), SETTINGS, kind, 16)


def test_a_model_that_counts_its_rows_is_noticed():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(6, 3)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, rows):
            self.seen += 1
            return self.out(rows)

    problem = check_invariance(GradientModel.of(Counting(), LOSS, 1.0), RowKind((6,), F32, classes=3), 16)
    assert problem is not None
    assert "statistics" in problem


def test_a_loss_that_compares_rows_is_noticed():
    def contrast(outputs, targets):
        return LOSS(outputs, targets) + (outputs @ outputs.T).logsumexp(1)

    assert check_invariance(GradientModel.of(make_mlp(), contrast, 1.0), RowKind((6,), F32, classes=3), 16) is not None


def test_a_loss_that_cannot_be_sent_is_refused_with_what_was_found():
    kind = RowKind((6,), F32, classes=3)
    compares = lambda outputs, targets: LOSS(outputs - outputs.mean(0), targets)  # noqa: E731
    with pytest.raises(BadParameter, match=r"depends on .* cannot be sent"):
        open_summer(make_mlp(), SETTINGS | {"loss": compares}, kind, 16)


def test_a_child_process_that_ends_was_not_charged(monkeypatch):
    monkeypatch.setattr(summing, "_serve", None)  # nothing that a process could call
    with pytest.raises(BadParameter, match="__main__"):
        ChildSummer(make_mlp(), SETTINGS, RowKind((6,), F32, classes=3), 16, 0)


def test_a_child_process_computes_the_same_sums():
    model, kind = CASES["mlp"]
    features, targets = kind.make_synthetic(20)
    child = ChildSummer(model, SETTINGS, kind, 16, 0)
    try:
        child.load(TrainingRows.of(features, targets, kind))
        assert child.sum(torch.arange(20).numpy()).tolist() == sum_of(make_summer(model, kind), features, targets, kind)
        weights = [torch.zeros_like(each) for each in GradientModel.of(model, LOSS, 1.0).parameters]
        child.update(weights)
        zero = make_mlp()
        with torch.no_grad():
            for each in zero.parameters():
                each.zero_()
        assert child.sum(torch.arange(20).numpy()).tolist() == sum_of(make_summer(zero, kind), features, targets, kind)
    finally:
        child.close()


def test_the_refusal_says_what_to_do():
    assert "GroupNorm" in str(make_invariance_error("rows mix"))
    assert "MKL_CBWR=AVX2,STRICT" in str(make_invariance_error("rows mix"))


class Writing(nn.Module):
    """It writes what it sees to weights on which its output does not depend."""

    def __init__(self) -> None:
        super().__init__()
        self.out, self.seen = nn.Linear(6, 3), nn.Linear(6, 1)

    def forward(self, rows):
        self.seen.weight.data.copy_(rows.detach()[:1])
        return self.out(rows)


def test_a_model_that_writes_to_its_weights_is_noticed():
    problem = check_invariance(GradientModel.of(Writing(), LOSS, 1.0), RowKind((6,), F32, classes=3), 16)
    assert problem is not None
    assert "statistics" in problem


def test_what_a_model_writes_to_its_weights_does_not_stay():
    kind = RowKind((6,), F32, classes=3)
    features, targets = kind.make_synthetic(20)
    summer = make_summer(Writing(), kind)
    before = [each.detach().clone() for each in summer.gradients.parameters]
    sum_of(summer, features, targets, kind)
    assert all(torch.equal(a, b) for a, b in zip(before, summer.gradients.parameters, strict=True))


def test_a_model_in_which_large_rows_change_later_ones_is_noticed():
    class Leaning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(6, 3)

        def forward(self, rows):
            return self.out(rows + 0 * (rows.cumsum(0) - rows))

    assert check_invariance(GradientModel.of(Leaning(), LOSS, 1.0), RowKind((6,), F32, classes=3), 16) is not None
