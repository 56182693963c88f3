"""`PrivateTrainer` under audit: it passes; its mutants are caught by replay, by the sampler's law, or by a canary."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import discreet.learn.training  # noqa: F401 - asks for reproducible kernels before PyTorch is used
from discreet.auditor import CanaryGame, audit_training
from discreet.auditor.sampler_law import check_batches
from discreet.auditor.trainer_replay import CanaryTrainer, draw_batches, replay_trainer
from discreet.auditor.training import read_claim
from discreet.learn.training import (
    PrivateTrainer,
    quantise,
)
from discreet.learn.training import trainer as trainer_module
from discreet.learn.training.rows import draw_batch
from discreet.learn.training.summing import LocalSummer
from discreet.mechanisms import Gaussian

nn = torch.nn
LOSS = nn.CrossEntropyLoss(reduction="none")
Run = trainer_module._Run
CHUNK = 8


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def make_trainer(kind: type[PrivateTrainer] = PrivateTrainer, **changes: Any) -> PrivateTrainer:
    given: dict[str, Any] = {
        "expected": 100, "rate": "1/10", "steps": 10, "clip": 4, "noise": 1, "delta": 1e-5, "chunk": CHUNK,
        "optimizer": lambda weights: torch.optim.SGD(weights, lr=0.1),
    } | changes  # fmt: skip
    model = given.pop("model", None) or nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    return kind(model, LOSS, **given)


def find_refuted(trainer: PrivateTrainer, **given: Any) -> set[str]:
    return {name for name, found in replay_trainer(trainer, **given).items() if found.violation}


class Words(nn.Module):
    """An embedding that a record touches several times."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 4), nn.Linear(4, 3)

    def forward(self, tokens: Any) -> Any:
        return self.out(self.embed(tokens).mean(1))


MODELS: dict[str, Callable[[], PrivateTrainer]] = {
    "layers": make_trainer,
    "vmap": lambda: make_trainer(method="vmap"),
    "one layer, everyone in each batch": lambda: make_trainer(model=nn.Linear(3, 2), rate=1),
    "words": lambda: make_trainer(model=Words(), shape=(5,)),
    "pictures": lambda: make_trainer(
        model=nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), shape=(1, 3, 3)
    ),
    "float sums": lambda: make_trainer(sums="float"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_trainer_passes(name: str) -> None:
    assert find_refuted(MODELS[name]()) == set()


def test_a_replay_on_given_records_charges_nothing() -> None:
    from discreet.ledger.memory import MemoryAccount, create_budget

    account = MemoryAccount(create_budget(10, 1e-4))
    trainer = make_trainer(noise=None, epsilon=1, account=account, every=5, resumes=1)
    features = np.r_[np.random.default_rng(0).normal(size=(20, 3)), [[1e30, 0, 0], [np.nan, 0, 0]]].astype(np.float32)
    assert find_refuted(trainer, features=features, targets=np.arange(22) % 2) == set()
    assert account.budget.spent == 0


def test_the_whole_audit_of_a_trainer() -> None:
    found = audit_training(make_trainer(), runs=0, canaries=60, confidence=1 - Fraction(1, 10**9))
    assert list(found) == ["sensitivity", "steps", "charge", "order", "odd records", "sampler", "one run"]
    assert not any(each.violation for each in found.values()), found


# Mutants that a replay catches


def no_clipping(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quantise, "clip_factors", lambda norms, clip, keep: torch.full_like(norms, 1 / clip))
    patch.setattr(quantise, "check_norms", lambda wholes: (torch.ones(CHUNK, dtype=torch.bool), torch.zeros(CHUNK)))


def clip_per_layer(patch: pytest.MonkeyPatch) -> None:
    honest = quantise.clip_and_quantise
    each = lambda gradients, clip, valid: [honest([one], clip, valid)[0] for one in gradients]  # noqa: E731
    patch.setattr("discreet.learn.training.bookkeeping.clip_and_quantise", each)


def clip_the_mean(patch: pytest.MonkeyPatch) -> None:
    honest = LocalSummer.sum

    def clip_sum(self: LocalSummer, places: Any) -> Any:
        total = honest(self, places).astype(np.float64)
        return (total / max(np.linalg.norm(total), 1) * 25 * 2**30).astype(np.int64)

    patch.setattr(LocalSummer, "sum", clip_sum)


def true_mean(patch: pytest.MonkeyPatch) -> None:
    honest = Run._apply
    patch.setattr(Run, "_apply", lambda self, noisy: honest(self, noisy * 100 // max(self.count, 1)))


def sum_in_order(patch: pytest.MonkeyPatch) -> None:
    honest = LocalSummer.sum
    patch.setattr(LocalSummer, "sum", lambda self, places: honest(self, places) + np.int64(len(places) and places[0] % 2))


def skip_empty(patch: pytest.MonkeyPatch) -> None:
    def skip(self: Any, drawer: Any, report: Any) -> None:
        while self.step < self.schedule.steps:
            if len(batch := self._draw_batch()):
                self._apply(self.summer.sum(batch) + self._draw_noise())
            self.step += 1

    patch.setattr(Run, "_run_segment", skip)


def one_step_more(patch: pytest.MonkeyPatch) -> None:
    honest = Run.execute

    def continue_once(self: Any, *given: Any) -> Any:
        from dataclasses import replace

        self.schedule = replace(self.schedule, steps=self.schedule.steps + 1)
        return honest(self, *given)

    patch.setattr(Run, "execute", continue_once)


def noise_per_chunk(patch: pytest.MonkeyPatch) -> None:
    honest = LocalSummer.sum
    runs: list[Any] = []
    begin = Run.__init__

    def remember(self: Any, *given: Any) -> None:
        begin(self, *given)
        runs[:] = [self]

    def add_noise(self: LocalSummer, places: Any) -> Any:
        return honest(self, places) + sum(runs[0]._draw_noise() for _ in range(-(-len(places) // CHUNK)))

    patch.setattr(Run, "__init__", remember)
    patch.setattr(LocalSummer, "sum", add_noise)


def count_odd_records(patch: pytest.MonkeyPatch) -> None:
    honest = LocalSummer.sum
    patch.setattr(LocalSummer, "sum", lambda self, places: honest(self, places) + np.int64(len(places)))


def charge_after(patch: pytest.MonkeyPatch) -> None:
    load = LocalSummer.load
    reserve, execute = Run.reserve, Run.execute
    patch.setattr(Run, "reserve", lambda self: None)

    def charge_later(self: Any, *given: Any) -> Any:
        load(self.summer, None)  # type: ignore[arg-type]
        self.trace.log.append("load")
        reserve(self)
        return execute(self, *given)

    patch.setattr(Run, "execute", charge_later)


def charge_for_more_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trainer_module.TrainingPlan, "mechanism", property(lambda plan: Gaussian(plan.noise * 2**29)))


REPLAYED = {
    no_clipping: "sensitivity",
    clip_per_layer: "sensitivity",
    clip_the_mean: "sensitivity",
    true_mean: "steps",
    sum_in_order: "order",
    skip_empty: "steps",
    one_step_more: "charge",
    noise_per_chunk: "steps",
    count_odd_records: "odd records",
    charge_after: "charge",
    charge_for_more_noise: "charge",
}


@pytest.mark.parametrize("mutate", REPLAYED, ids=lambda each: each.__name__)
def test_a_replay_catches(mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    several = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1500), nn.Linear(1500, 2))  # small layers are one part
    trainer = make_trainer(model=several if mutate is clip_per_layer else None)
    assert REPLAYED[mutate] in find_refuted(trainer, removed=[0])


# Mutants of the sampler


def rate_from_length(self: Any) -> Any:
    return draw_batch(Fraction(10, max(self.count, 10)), self.count, self.bits)


def shuffle(self: Any) -> Any:
    return np.sort(np.random.default_rng().permutation(self.count)[: int(self.count * self.schedule.rate)])


@pytest.mark.parametrize("draw", [rate_from_length, shuffle])
def test_the_sampler_catches(draw: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer()
    assert not check_batches(draw_batches(trainer, 150, 100), 150, trainer.schedule.rate).violation
    monkeypatch.setattr(Run, "_draw_batch", draw)
    assert check_batches(draw_batches(trainer, 150, 100), 150, trainer.schedule.rate).violation


# Mutants of the noise, which only an attack sees


def without_clip(plan: Any, bits: Any) -> Any:
    return Gaussian(plan.noise * 2**30 / plan.schedule.clip).release(np.zeros(plan.schedule.parameters, np.int64), bits)


def attack_trainer(runs: int) -> Any:
    trainer = make_trainer(rate=1, steps=1, noise=4, clip=64)
    claim = read_claim(trainer)
    return CanaryGame.of(CanaryTrainer(trainer, 4, 1), claim, None, "none", 4).attack(runs, 1 - Fraction(1, 10**9))


@pytest.mark.nightly
def test_the_game_does_not_refute_the_trainer() -> None:
    assert not attack_trainer(4_000).violation


def test_the_game_refutes_noise_that_is_not_multiplied_by_the_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_module, "_draw_noise", without_clip)
    assert attack_trainer(1_000).violation
