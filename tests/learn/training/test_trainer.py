"""The whole trainer: what is charged, what leaves, and the hypotheses of DP-SGD's proof, each with a mutant."""

import json
import re
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from discreet import epsilon
from discreet.accounting.currencies import Pure
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Subsampled
from discreet.learn.training import PrivateTrainer, TrainingFailed, summing
from discreet.learn.training import trainer as trainer_module
from discreet.learn.training.bookkeeping import GradientModel
from discreet.learn.training.quantise import GRID_BITS
from discreet.learn.training.rows import RowKind, TrainingRows
from discreet.learn.training.summing import LocalSummer
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.testing import seeded_bits
from tests.learn.training.models import BOUND, LOSS, Centred, make_mlp

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

FEATURES = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
TARGETS = np.random.default_rng(1).integers(0, 3, 60)


def make_trainer(**changes):
    given = {
        "expected": 600, "rate": Fraction(1), "steps": 1, "clip": 1, "noise": 1, "delta": 1e-5, "chunk": 16,
        "optimizer": lambda weights: torch.optim.SGD(weights, lr=1.0),
    } | changes  # fmt: skip
    model = given.pop("model", None) or nn.Linear(6, 3)
    return PrivateTrainer(model, given.pop("loss", LOSS), **given)


@pytest.fixture
def without_noise(monkeypatch):
    """Replay: no noise is drawn, so that a step shows its exact sum."""
    monkeypatch.setattr(trainer_module, "_draw_noise", lambda plan, bits: np.zeros(plan.schedule.parameters, np.int64))


def released_sum(trainer, features, targets) -> list[int]:
    """What one step of plain gradient descent moved the weights by, in grid steps of the sum, to the float's precision."""
    trained = trainer.train(features, targets).model
    moved = [
        (a - b).detach().double().flatten() for a, b in zip(trainer.model.parameters(), trained.parameters(), strict=True)
    ]
    scale = float(trainer.schedule.divisor / trainer.schedule.clip) * 2**GRID_BITS
    return [round(float(each) * scale) for each in torch.cat(moved)]


def neighbours_differ_within_the_norm(trainer) -> bool:
    """H2 and H4: data sets that differ in one record differ by at most the norm, and by nothing else."""
    rounding = 1 << (GRID_BITS + 1)  # of the weights, in float32: a small part of a norm of 600 records
    differences = []
    for count in (60, 59):
        differences.append(released_sum(trainer, FEATURES[:count], TARGETS[:count]))
    squared = sum((a - b) ** 2 for a, b in zip(*differences, strict=True))
    return squared <= BOUND + rounding * rounding // 64


def test_neighbours_differ_within_the_norm(without_noise):
    assert neighbours_differ_within_the_norm(make_trainer())


def test_a_mean_over_the_true_batch_fails_the_law(without_noise, monkeypatch):
    apply = trainer_module._Run._apply

    def divide_by_count(self, noisy):
        apply(self, (noisy * (float(self.schedule.divisor) / self.count)).astype(np.int64))

    monkeypatch.setattr(trainer_module._Run, "_apply", divide_by_count)
    assert not neighbours_differ_within_the_norm(make_trainer())


# H3: sampling


def batch_sizes_vary_like_poisson(draw) -> bool:
    """The variance of the sizes is nq(1 − q) within five of its deviations; and each record is in as often as others."""
    n, q, times = 400, 0.25, 400
    batches = [draw(n) for _ in range(times)]
    sizes = np.array([len(each) for each in batches])
    variance, expected = sizes.var(), n * q * (1 - q)
    often = np.bincount(np.concatenate(batches), minlength=n)
    chi = ((often - times * q) ** 2).sum() / (times * q * (1 - q))
    return abs(variance / expected - 1) < 5 * (2 / times) ** 0.5 and abs(chi - n) < 5 * (2 * n) ** 0.5


def test_batches_are_poisson_samples():
    from discreet.learn.training.rows import draw_batch

    bits = seeded_bits(5)
    assert batch_sizes_vary_like_poisson(lambda n: draw_batch(Fraction(1, 4), n, bits))
    shuffled = np.random.default_rng(2)
    assert not batch_sizes_vary_like_poisson(lambda n: shuffled.permutation(n)[: n // 4])
    assert not batch_sizes_vary_like_poisson(lambda n: np.flatnonzero(shuffled.random(n) < 0.3))


# H5 and H6: noise and steps


def draws_fresh_noise_for_each_step(monkeypatch, draw, steps: int = 6) -> bool:
    drawn: list[bytes] = []

    def watch(plan, bits):
        noise = draw(plan, bits)
        drawn.append(noise.tobytes())
        return noise

    monkeypatch.setattr(trainer_module, "_draw_noise", watch)
    make_trainer(steps=steps, rate="1/10").train(FEATURES, TARGETS)
    return len(drawn) == steps and len(set(drawn)) == steps


def test_noise_is_fresh_in_each_step(monkeypatch):
    honest = trainer_module._draw_noise
    kept: list = []

    def repeat(plan, bits):
        kept.append(honest(plan, bits))
        return kept[0]

    assert draws_fresh_noise_for_each_step(monkeypatch, honest)
    assert not draws_fresh_noise_for_each_step(monkeypatch, repeat)


def has_the_stated_deviation(noise: int, clip: float) -> bool:
    """The noise of a step of no records at all: deviation z·C on the sum, whatever the clip norm is."""
    trainer = make_trainer(model=nn.Linear(600, 30), noise=noise, clip=clip, expected=100)
    empty = np.zeros((0, 600), np.float32), np.zeros(0, np.int64)
    moved = np.array(released_sum(trainer, *empty), np.float64) / 2**GRID_BITS
    return abs(moved.std() / noise - 1) < 0.03 and abs(moved.mean()) < 0.05 * noise


def test_an_empty_batch_is_a_step_of_noise_alone(monkeypatch):
    assert has_the_stated_deviation(2, 1.0)
    assert has_the_stated_deviation(1, 8.0)
    honest = trainer_module._draw_noise
    monkeypatch.setattr(trainer_module, "_draw_noise", lambda plan, bits: honest(plan, bits) // 2)
    assert not has_the_stated_deviation(2, 1.0)


def test_the_event_has_the_steps_the_rate_and_the_noise_of_the_run(monkeypatch):
    applied: list[int] = []
    apply = trainer_module._Run._apply
    monkeypatch.setattr(trainer_module._Run, "_apply", lambda self, noisy: (applied.append(1), apply(self, noisy))[1])
    trained = make_trainer(steps=7, rate="1/10", noise=Fraction(3, 2)).train(FEATURES, TARGETS)
    [(step, times)] = trained.event.parts
    assert isinstance(step, Subsampled)
    assert (step.rate, times, len(applied)) == (Fraction(1, 10), 7, 7)
    assert step.event.sigma / step.event.sensitivity.l2 == Fraction(3, 2)


# H8: what leaves


def what_leaves(trained, reports) -> str:
    facts = trained.card.to_dict()
    del facts["weights_sha256"]
    shown = [(each.step, each.steps, each.epsilon) for each in reports]
    shapes = [tuple(each.shape) for each in trained.model.state_dict().values()]
    return json.dumps([facts, repr(trained), trained.guarantee, shapes, shown, trained.cost.to_dict()])


def show_neighbours() -> list[str]:
    """What leaves of data sets of other sizes."""
    shown = []
    for count in (60, 59, 0):
        reports: list = []
        trained = make_trainer(steps=3, rate="1/10").train(FEATURES[:count], TARGETS[:count], progress=reports.append)
        shown.append(what_leaves(trained, reports))
    return shown


def test_neighbours_show_the_same_but_for_the_weights(capsys, caplog):
    shown = show_neighbours()
    assert shown[0] == shown[1] == shown[2]
    assert capsys.readouterr() == ("", "")
    assert not caplog.records
    assert "loss" not in shown[0]


def test_a_progress_bar_shows_the_step_its_epsilon_and_the_time(capsys):
    make_trainer(steps=3, rate="1/10").train(FEATURES, TARGETS, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.strip().split("\r")[-1]
    assert re.fullmatch(r"█{20} step 3 of 3, ε [\d.]+ so far, \d+ s", last)
    make_trainer(steps=3, rate="1/10").train(FEATURES, TARGETS, progress=False)
    assert capsys.readouterr() == ("", "")


def count_records(self, cost, digest, honest=trainer_module._Run._make_card):
    card = honest(self, cost, digest)
    card.facts["records"] = self.count
    return card


def show_the_sum(self, *given, honest=trainer_module._Run._make_card):
    card = honest(self, *given)
    card.facts["norm"] = self.summer.sum(np.arange(self.count)).tolist()
    return card


@pytest.mark.parametrize("mutant", [count_records, show_the_sum])
def test_a_card_that_says_more_is_found(mutant, monkeypatch):
    monkeypatch.setattr(trainer_module._Run, "_make_card", mutant)
    assert len(set(show_neighbours())) > 1


def test_an_exception_inside_the_run_says_nothing(monkeypatch):
    trainer = make_trainer()

    def fail(self, places):
        raise ValueError("record 17 has the value 3.14")

    monkeypatch.setattr(LocalSummer, "sum", fail)
    with pytest.raises(TrainingFailed) as caught:
        trainer.train(FEATURES, TARGETS)
    assert "3.14" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# Charging


def test_the_debit_comes_first_and_stays(monkeypatch):
    account = MemoryAccount(create_budget(10, 1e-4))
    trainer = make_trainer(noise=None, epsilon=1, account=account)
    seen: list = []

    def look(*_, **__):
        seen.append(account.budget.spent)
        raise RuntimeError

    from discreet.learn.training.rows import TrainingRows

    monkeypatch.setattr(TrainingRows, "of", look)
    with pytest.raises(TrainingFailed):
        trainer.train(FEATURES, TARGETS)
    assert seen == [trainer.plan.charge]
    assert account.budget.spent == trainer.plan.charge > 0


def test_an_account_that_cannot_pay_reads_nothing(monkeypatch):
    account = MemoryAccount(create_budget(Fraction(1, 2), 1e-4))
    monkeypatch.setattr(trainer_module.TrainingRows, "of", lambda *_: pytest.fail("a record was read"))
    with pytest.raises(BudgetExceeded):
        make_trainer(noise=None, epsilon=1, account=account).train(FEATURES, TARGETS)
    assert account.budget.spent == 0


def test_a_second_run_without_an_account_warns():
    trainer = make_trainer(rate="1/10")
    trainer.train(FEATURES, TARGETS)
    with pytest.warns(UserWarning, match="without an account"):
        trainer.train(FEATURES, TARGETS)


def test_epsilon_is_reached_and_not_exceeded():
    plan = make_trainer(noise=None, epsilon=2, rate="1/20", steps=50).plan
    assert 1.999 < epsilon(plan.event, 1e-5).upper <= 2


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "expected"),
    [
        (Fraction(256, 60000), 1.1, 14100, 2.385122),
        (Fraction(1, 100), 1.0, 10000, 6.187713),
        (Fraction(256, 20000), 1.0, 780, 2.119332),
        (Fraction(4096, 50000), 3.0, 2500, 6.578897),
    ],
)
def test_known_runs_have_their_known_cost(rate, noise, steps, expected):
    bounds = make_trainer(rate=rate, noise=noise, steps=steps).plan.cost().epsilon
    assert bounds.lower - 2e-6 <= expected <= bounds.upper + 2e-6


def test_a_run_of_a_ledger_has_a_certificate(tmp_path):
    from discreet.ledger.verify import verify

    account = open_ledger(tmp_path / "ledger", create=True).open_account("ml", 5, 1e-4, Pure())
    trained = make_trainer(noise=None, epsilon=1, rate="1/10", account=account).train(FEATURES, TARGETS)
    certificate = trained.certify(load_key(tmp_path / "key"))
    assert certificate["guarantee"]["epsilon"] <= 1
    assert certificate["release"]["trained"]["weights_sha256"] == trained.card.facts["weights_sha256"]
    assert verify is not None
    with pytest.raises(BadParameter, match="bits"):
        make_trainer(account=account).train(FEATURES, TARGETS, bits=seeded_bits(1))


def test_sums_of_floats_cost_more_and_train_alike():
    exact, floats = (make_trainer(sums=sums, noise=None, epsilon=1, rate="1/10", steps=4) for sums in ("exact", "float"))
    assert floats.schedule.sensitivity > exact.schedule.sensitivity == 1 << GRID_BITS
    assert floats.plan.noise > exact.plan.noise
    assert float(floats.plan.noise / exact.plan.noise) < 1.01


def test_sums_of_floats_are_within_their_bound(without_noise):
    torch.manual_seed(3)
    model = make_mlp()
    sums = [released_sum(make_trainer(model=model, sums=each), FEATURES, TARGETS) for each in ("exact", "float")]
    difference = sum((a - b) ** 2 for a, b in zip(*sums, strict=True)) ** 0.5
    assert difference < 0.01 * 60 * 2**GRID_BITS  # truncated factors against rounded sums


def move_of_a_float_sum(precision) -> float:
    """How far one record moves the sum of 256 that point in one direction, in parts of the sensitivity."""
    trainer = make_trainer(expected=256, sums="float", chunk=None)
    nn.init.zeros_(trainer.model.weight)
    features, targets = torch.from_numpy(np.abs(np.random.default_rng(2).normal(size=(256, 6))).astype(np.float32)), 0
    kind = RowKind((6,), torch.float32, classes=3)
    with precision:
        summer = LocalSummer(
            GradientModel.of(trainer.model, LOSS, 1.0, sums_floats=True), kind, trainer.schedule.chunk,
            trainer.schedule.narrow_chunks,
        )  # fmt: skip
        summer.load(TrainingRows.of(100 * features, torch.full((256,), targets), kind))
        everyone = np.arange(256)
        moves = [summer.sum(everyone) - summer.sum(np.delete(everyone, place)) for place in range(20)]
    return max(float(np.linalg.norm(each.astype(float))) for each in moves) / trainer.schedule.sensitivity


def test_half_precision_around_the_trainer_stays_outside(monkeypatch):
    half = torch.autocast("cpu", dtype=torch.bfloat16)
    assert move_of_a_float_sum(half) <= 1
    monkeypatch.setattr(summing, "pin_kernels", lambda threads: nullcontext())
    assert move_of_a_float_sum(half) > 1


def test_products_are_computed_in_full_precision_and_the_setting_is_put_back(monkeypatch):
    seen, honest = [], LocalSummer._sum_exactly
    note = lambda self, *given: (seen.append(torch.get_float32_matmul_precision()), honest(self, *given))[1]  # noqa: E731
    monkeypatch.setattr(LocalSummer, "_sum_exactly", note)
    torch.set_float32_matmul_precision("medium")
    try:
        make_trainer().train(FEATURES, TARGETS)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == ["highest"]


# What is refused, before anything is charged


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))}, "GroupNorm"),
        ({"model": nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))}, "dropout"),
        ({"loss": nn.CrossEntropyLoss()}, 'reduction="none"'),
        ({"model": nn.Linear(6, 3).requires_grad_(False)}, "requires a gradient"),
        ({"model": nn.Linear(6, 3).half()}, "float"),
        ({"rate": "1/0"}, "fraction"),
        ({"rate": 2}, "at most 1"),
        ({"rate": "1/1000"}, "larger rate"),
        ({"clip": 0}, "clip"),
        ({"epsilon": 1}, "one of epsilon and noise"),
        ({"noise": None}, "epsilon"),
        ({"delta": None}, "delta"),
        ({"resumes": 1}, "every"),
        ({"steps": 10, "every": 3}, "divide"),
        ({"neighbours": "replace"}, "neighbours"),
        ({"sums": "int"}, "sums"),
        ({"method": "hooks"}, "method"),
        ({"account": 3}, "account"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes, says):
    with pytest.raises(BadParameter, match=says):
        make_trainer(**changes)


@pytest.mark.parametrize(
    ("changes", "features", "targets"),
    [
        ({}, FEATURES[:, :5], TARGETS),
        ({}, FEATURES, TARGETS[:50]),
        ({}, FEATURES[0], TARGETS[:6]),
        ({}, FEATURES.astype(str), TARGETS),
        ({}, FEATURES, FEATURES[:, 0]),
        ({"loss": nn.functional.cross_entropy}, FEATURES, TARGETS),
        ({"model": Centred()}, FEATURES, TARGETS),
        ({"optimizer": lambda weights: torch.optim.SGD(list(weights)[:1], lr=1)}, FEATURES, TARGETS),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_the_charge(changes, features, targets):
    account = MemoryAccount(create_budget(100, 1e-2))
    with pytest.raises(BadParameter):
        make_trainer(account=account, **changes).train(features, targets)
    assert account.budget.spent == 0


def test_frozen_batch_norm_is_fine():
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model[1].requires_grad_(False).eval()
    before = model[1].running_mean.clone()
    trained = make_trainer(model=model).train(FEATURES, TARGETS)
    assert torch.equal(trained.model[1].running_mean, before)


def test_a_parameter_that_does_not_move_is_named():
    trainer = make_trainer(optimizer=lambda w: torch.optim.SGD([{"params": [w[0]]}, {"params": w[1:], "lr": 0.0}], lr=1.0))
    with pytest.warns(UserWarning, match="did not move: weight|did not move: bias"):
        trainer.train(FEATURES, TARGETS)


def test_the_given_model_is_left_as_it_is():
    model = nn.Linear(6, 3)
    before = model.weight.detach().clone()
    trained = make_trainer(model=model).train(FEATURES, TARGETS)
    assert torch.equal(model.weight, before)
    assert model.weight.requires_grad
    assert trained.model.weight.requires_grad
    assert not torch.equal(trained.model.weight, before)


def test_a_quote_needs_no_data():
    quote = make_trainer(model=make_mlp(), noise=None, epsilon=1, rate="1/10", steps=100).quote()
    assert quote.cost.epsilon.upper <= 1
    assert min(quote.seconds, quote.noise_seconds, quote.memory) > 0
    assert "100 steps" in str(quote)
    assert json.loads(json.dumps(quote.to_dict()))["steps"] == 100


def test_training_learns():
    rows = np.random.default_rng(3).normal(size=(2000, 6)).astype(np.float32)
    classes = (rows[:, 0] > 0).astype(np.int64) + (rows[:, 1] > 0)
    trained = make_trainer(
        expected=2000,
        rate="1/10",
        steps=60,
        noise=None,
        epsilon=2,
        scheduler=lambda o: torch.optim.lr_scheduler.ConstantLR(o),
    ).train(rows, classes)
    with torch.no_grad():
        right = (trained.model(torch.from_numpy(rows)).argmax(1).numpy() == classes).mean()
    assert right > 0.7
    assert "not protected" in str(trained.card)


def test_common_mistakes_get_a_hint_that_can_be_followed():
    model = nn.Linear(6, 3)
    with pytest.raises(BadParameter, match=r"optimizer is of type SGD: .* optimizer=lambda weights"):
        make_trainer(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    with pytest.raises(BadParameter, match=r"targets\.long\(\)"):
        make_trainer().train(FEATURES, TARGETS.astype(np.float32))
    assert repr(make_trainer()).startswith("PrivateTrainer(Linear; 1 steps, rate 1, ε = ")


def test_a_card_shows_long_fractions_as_decimals_too_and_leaves_out_what_is_not_set():
    card = make_trainer(noise=Fraction(757079, 500000)).train(FEATURES, TARGETS).card.to_markdown()
    assert "757079/500000 (about 1.514)" in card
    assert "None" not in card
