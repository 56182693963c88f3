"""What fails: before the debit where that can be known, and without a trace where it depends on a record."""

from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from discreet.errors import BadParameter
from discreet.learn.training import PrivateTrainer, TrainingFailed, summing, trainer
from discreet.learn.training.bookkeeping import GradientModel
from discreet.learn.training.invariance import check_invariance
from discreet.learn.training.quantise import Total
from discreet.learn.training.rows import RowKind, TrainingRows
from discreet.learn.training.summing import LocalSummer
from discreet.ledger.memory import MemoryAccount, create_budget
from tests.learn.training.models import F32, LOSS, sum_of

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

FEATURES = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
TARGETS = np.random.default_rng(1).integers(0, 3, 60)
KIND = RowKind((6,), F32, classes=3)
ODD = 40.0


class Picky(nn.Module):
    """It raises on some records."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, rows):
        if (rows[:, 0] == ODD).any():
            raise ValueError(f"the value {ODD} is not allowed")
        return self.out(rows)


def picky_loss(outputs, targets):
    if (outputs.detach().abs() > 1e3).any():
        raise ValueError("too large")
    return LOSS(outputs, targets)


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        return rows.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope


def make_trainer(**changes):
    given = {"expected": 60, "rate": 1, "steps": 2, "noise": 1, "delta": 1e-5, "chunk": 16} | changes
    return PrivateTrainer(given.pop("model", None) or nn.Linear(6, 3), given.pop("loss", LOSS), **given)


# Before the debit


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"optimizer": lambda w: torch.optim.LBFGS(w)}, "LBFGS"),
        ({"optimizer": lambda w: torch.optim.SparseAdam(w)}, "SparseAdam"),
        ({"scheduler": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o)}, "ReduceLROnPlateau"),
        ({"scheduler": lambda o: torch.optim.lr_scheduler.StepLR(o)}, "scheduler"),
    ],
)
def test_optimisers_that_need_a_loss_are_refused_before_the_debit(changes, says):
    account = MemoryAccount(create_budget(100, 1e-2))
    with pytest.raises(BadParameter, match=says):
        make_trainer(account=account, **changes).train(FEATURES, TARGETS)
    assert account.budget.spent == 0


def test_a_model_that_fails_on_invented_rows_is_refused_before_the_debit():
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(6, 3)

        def forward(self, rows):
            if len(rows) > 4:
                raise RuntimeError("at most four rows")
            return self.out(rows)

    account = MemoryAccount(create_budget(100, 1e-2))
    with pytest.raises(BadParameter, match="at most four rows"):
        make_trainer(model=Broken(), account=account).train(FEATURES, TARGETS)
    assert account.budget.spent == 0


def hook_forward(model):
    model.register_forward_hook(lambda *_: None)


def hook_forward_before(model):
    model.register_forward_pre_hook(lambda *_: None)


def hook_backward(model):
    model.register_full_backward_hook(lambda *_: None)


@pytest.mark.parametrize("hook", [hook_forward, hook_forward_before, hook_backward])
def test_hooks_are_refused(hook):
    model = nn.Linear(6, 3)
    hook(model)
    with pytest.raises(BadParameter, match="hook"):
        make_trainer(model=model)


HOOKS_OF_ALL = [nn.modules.module.register_module_forward_hook, nn.modules.module.register_module_full_backward_hook]


@pytest.mark.parametrize("register", HOOKS_OF_ALL)
def test_hooks_of_all_modules_are_refused(register):
    hook = register(lambda *_: None)
    try:
        with pytest.raises(BadParameter, match="hook"):
            make_trainer()
    finally:
        hook.remove()


def hook_later(trainer):
    hook_forward(trainer.model)


def freeze_later(trainer):
    trainer.model.weight.requires_grad_(False)


def compare_later(trainer):
    trainer.loss = nn.CrossEntropyLoss()


@pytest.mark.parametrize("change", [hook_later, freeze_later, compare_later])
def test_what_changed_since_the_trainer_was_made_is_checked_again(change):
    account = MemoryAccount(create_budget(100, 1e-2))
    trainer = make_trainer(account=account)
    change(trainer)
    for use in (lambda: trainer.train(FEATURES, TARGETS), trainer.quote):
        with pytest.raises(BadParameter):
            use()
    assert account.budget.spent == 0


def test_one_noise_is_never_added_to_several_numbers(monkeypatch):
    """The noise of one parameter would be added to all, if more were trained than planned: it protects none of them."""
    model = nn.Linear(6, 1)
    model.weight.requires_grad_(False)
    trainer = make_trainer(model=model, loss=lambda outputs, targets: (outputs[:, 0] - targets) ** 2)
    model.weight.requires_grad_(True)
    with pytest.raises(BadParameter, match="changed"):
        trainer.train(FEATURES, FEATURES[:, 0])
    monkeypatch.setattr(trainer, "_check_unchanged", lambda: None)
    with pytest.raises(TrainingFailed):
        trainer.train(FEATURES, FEATURES[:, 0])


def test_a_layer_that_book_keeping_cannot_follow_is_left_to_vmap():
    model = nn.Linear(6, 3)
    model.bias = nn.Parameter(torch.zeros(1))  # one for all outputs
    assert make_trainer(model=model).train(FEATURES, TARGETS).card.facts["gradients"] == "vmap"


def test_a_module_without_weights_yet_is_named():
    with pytest.raises(BadParameter, match="first row"):
        make_trainer(model=nn.LazyLinear(3), shape=(6,))


def test_gradients_written_in_python_are_refused():
    class Own(nn.Linear):
        def forward(self, rows):
            return FailsBackward.apply(super().forward(rows))

    account = MemoryAccount(create_budget(100, 1e-2))
    with pytest.raises(BadParameter, match="FailsBackward"):
        make_trainer(model=Own(6, 3), account=account).train(FEATURES, TARGETS)
    assert account.budget.spent == 0


class Remembering(nn.Module):
    """A module with state outside its buffers; `work` says what it does with it."""

    def __init__(self, work) -> None:
        super().__init__()
        self.out, self.work, self.calls, self.kept = nn.Linear(6, 3), work, 0, []
        self.cells, self.named, self.array, self.tensors = [0], {"calls": 0}, np.zeros(1), [torch.zeros(())]
        self.holder = SimpleNamespace(calls=0)

    def forward(self, rows):
        return self.work(self, rows)


def count_calls(self, rows):
    self.calls += 1
    return self.out(rows)


def keep_rows(self, rows):
    self.kept.append(rows.detach().mean().item())
    return self.out(rows)


def add_last(self, rows):
    before = self.__dict__.get("last", torch.zeros(6))
    self.__dict__["last"] = rows.detach().mean(0)
    return self.out(rows + before)


def count_in_a_list(self, rows):
    self.cells[0] += 1
    return self.out(rows)


def count_in_a_dict(self, rows):
    self.named["calls"] += 1
    return self.out(rows)


def count_in_an_array(self, rows):
    self.array[0] += 1
    return self.out(rows)


def count_in_a_tensor(self, rows):
    self.tensors[0] += 1
    return self.out(rows)


def count_in_an_object(self, rows):
    self.holder.calls += 1
    return self.out(rows)


def draw_random(self, rows):
    return self.out(rows + torch.rand(len(rows), 1))


def mix_zeros(self, rows):
    is_zero = (rows == 0).all(1).float().mean()
    return self.out(rows * (1 + is_zero))


def mix_bytes(self, rows):
    return self.out(rows * (1 + (rows.abs() > 20).any().float()))


def mix_huge(self, rows):
    return self.out(rows * (1 + (rows > 1e30).any().float()))


COUNTS = [count_in_a_list, count_in_a_dict, count_in_an_array, count_in_a_tensor, count_in_an_object]


@pytest.mark.parametrize("work", [count_calls, keep_rows, add_last, draw_random, mix_zeros, mix_bytes, mix_huge, *COUNTS])
@pytest.mark.parametrize("chunk", [16, 80])
def test_state_and_mixing_are_found(work, chunk):
    assert check_invariance(GradientModel.of(Remembering(work), LOSS, 1.0), KIND, chunk) is not None
    assert check_invariance(GradientModel.of(Remembering(lambda self, rows: self.out(rows)), LOSS, 1.0), KIND, chunk) is None


class KeepingLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.largest = 0.0

    def forward(self, outputs, targets):
        self.largest = max(self.largest, float(outputs.detach().abs().max()))
        return LOSS(outputs, targets)


def make_closing_loss():
    largest = [0.0]

    def keep(outputs, targets):
        largest[0] = max(largest[0], float(outputs.detach().abs().max()))
        return LOSS(outputs, targets)

    return keep


def keep_in(kept, outputs, targets):
    kept.append(len(outputs))
    return LOSS(outputs, targets)


def miss_a_class(outputs, targets):
    return LOSS(outputs, targets) * (1 + (targets == 2).any())


def see_one_class(outputs, targets):
    return LOSS(outputs, targets) * (1 + (targets == targets[0]).all())


@pytest.mark.parametrize(
    "make",
    [
        KeepingLoss, lambda: KeepingLoss().forward, make_closing_loss, lambda: partial(keep_in, []), lambda: miss_a_class,
        lambda: see_one_class,
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [16, 80])
def test_state_and_mixing_of_losses_are_found(make, chunk):
    assert check_invariance(GradientModel.of(nn.Linear(6, 3), make(), 1.0), KIND, chunk) is not None


@pytest.mark.parametrize("least", [0.0, 10.0, 1e6, 1e30])
def test_a_loss_scaled_by_the_largest_target_is_found(least):
    def scale(outputs, targets):
        return (outputs[:, 0] - targets / targets.abs().max().clamp(min=least)) ** 2

    kind = RowKind((6,), F32, target_dtype=F32)
    assert check_invariance(GradientModel.of(nn.Linear(6, 1), scale, 1.0), kind, 16) is not None
    alone = GradientModel.of(nn.Linear(6, 1), lambda outputs, targets: (outputs[:, 0] - targets) ** 2, 1.0)
    assert check_invariance(alone, kind, 16) is None


def test_a_place_is_found_in_a_large_chunk():
    def favour_one(self, rows):
        weights = torch.ones(len(rows), 1)
        weights[61] = 1 + 2**-20
        return self.out(rows * weights)

    assert check_invariance(GradientModel.of(Remembering(favour_one), LOSS, 1.0), KIND, 80) is not None


# After the debit


def sum_with(model, loss, features, targets, sums_floats: bool = False) -> list[int]:
    gradients = GradientModel.of(model, loss, 1.0, sums_floats=sums_floats)
    return sum_of(LocalSummer(gradients, KIND, 16, 3), features, targets, KIND)


@pytest.mark.parametrize("sums_floats", [False, True])
@pytest.mark.parametrize("odd", [[3], [0, 1, 2], [5, 17, 33], list(range(40))])
def test_a_record_that_raises_adds_nothing_and_leaves_the_others(odd, sums_floats):
    model = Picky()
    features, targets = KIND.make_synthetic(40)
    features[odd, 0] = ODD
    others = [each for each in range(40) if each not in odd]
    everyone = sum_with(model, LOSS, features, targets, sums_floats)
    expected = sum_with(model, LOSS, features[others], targets[others], sums_floats)
    if sums_floats:
        assert max((abs(a - b) for a, b in zip(everyone, expected, strict=True)), default=0) < 2**12
    else:
        assert everyone == expected


def test_a_loss_that_raises_on_a_record_is_the_same():
    model = nn.Linear(6, 3)
    features, targets = KIND.make_synthetic(20)
    features[7] = 1e6
    others = [each for each in range(20) if each != 7]
    assert sum_with(model, picky_loss, features, targets) == sum_with(model, LOSS, features[others], targets[others])


def train_beside(odd: bool, **changes) -> None:
    features = FEATURES.copy()
    if odd:
        features[13, 0] = ODD
    make_trainer(model=Picky(), **changes).train(features, TARGETS)


def test_training_shows_nothing_of_a_record_that_raises(capsys, caplog):
    train_beside(odd=False)
    train_beside(odd=True)
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_an_error_that_passes_shows_the_record(monkeypatch):
    """The mutant lets the exception pass: a run fails if, and only if, the record is there."""

    def add_at_once(rows, chunk, places, prepare, again=False):
        rows.load(chunk, places)
        prepare(again)()

    monkeypatch.setattr(summing, "add_without_errors", add_at_once)
    train_beside(odd=False)
    with pytest.raises(TrainingFailed):
        train_beside(odd=True)


def test_a_child_process_shows_nothing_either():
    child = summing.ChildSummer(Picky(), {"loss": LOSS, "clip": 1.0, "method": None}, KIND, 16, 0)
    features, targets = KIND.make_synthetic(20)
    features[4, 0] = ODD
    try:
        child.load(TrainingRows.of(features, targets, KIND))
        assert len(child.sum(np.arange(20))) == 21
    finally:
        child.close()


@pytest.mark.parametrize("method", [None, "book-keeping", "vmap"])
def test_an_embedding_that_changes_its_weights_is_refused(method):
    model = nn.Sequential(nn.Embedding(50, 3, max_norm=0.5), nn.Flatten(), nn.Linear(18, 3))
    with pytest.raises(BadParameter, match="max_norm"):
        make_trainer(model=model, method=method)


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse, torch.Tensor.cfloat, lambda values: values.to("meta")])
def test_tensors_that_cannot_be_read_are_refused_before_the_debit(make):
    account = MemoryAccount(create_budget(10, 1e-5))
    with pytest.raises(BadParameter, match="dense"):
        make_trainer(account=account).train(make(torch.from_numpy(FEATURES)), TARGETS)
    assert account.budget.spent == 0


def test_what_fails_while_a_chunk_is_added_is_not_added_again(monkeypatch):
    """A signal may raise anywhere, say of a time limit: a record that was added must not be added once more."""

    def add_and_raise(total, wholes, count):
        monkeypatch.undo()
        total.add(wholes, count)
        raise TimeoutError

    monkeypatch.setattr(Total, "add", add_and_raise)
    with pytest.raises(TrainingFailed):
        make_trainer().train(FEATURES, TARGETS)


def test_a_forked_child_does_not_add_noise_that_its_parent_adds(monkeypatch):
    monkeypatch.setattr(trainer.os, "getpid", count().__next__)
    with pytest.raises(TrainingFailed):
        make_trainer().train(FEATURES, TARGETS)
