"""`PrivateTrainer` under audit: runs that are recorded, with batches and releases that a script decides. Needs PyTorch.

`replay_trainer` makes the run's own steps, on data with and without one record, with the same batches but for that record,
and lets both optimisers continue with the same released sums. Then it compares in whole numbers:

- *sensitivity*: the sum of each step moves by at most the norm that was charged for;
- *steps*: both make the same steps, with the same noise and shapes, and after the same releases have the same weights, so
  that no divisor or rate follows from the records; a batch without records is a step, too;
- *charge*: the account is debited before records are loaded, for at least so many steps, and with no more noise than is
  added;
- *order*: the sum does not depend on the order of the records;
- *odd records*: records that are not numbers, or of a class that does not exist, add nothing.

`CanaryTrainer` is for attacks: the same trainer on a linear loss, whose gradient for a record is the record itself.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet.accounting.currencies import Filter, Receipt
from discreet.auditor.finding import Check
from discreet.auditor.training_replay import squared_distance
from discreet.events import Composition, GaussianEvent, Group, Subsampled
from discreet.learn.training.plan import CLIP_RANGE
from discreet.learn.training.quantise import GRID_BITS
from discreet.learn.training.rows import to_tensor
from discreet.learn.training.summing import open_summer
from discreet.learn.training.trainer import PrivateTrainer, _Run
from discreet.learn.training.validate import infer_kind
from discreet.noise import SYSTEM
from discreet.noise.bits import Ints

REPLAYED_STEPS = 5
CLIPPED_FRACTION = 1 << 16
"""One more replay has a clip norm so many times smaller: invented records may have gradients that are not clipped."""
MAX_REPLAYED = 48
"""Records of a replay, at most, unless the caller gives more."""


@dataclass
class RunTrace:
    """What a run did: the sums that noise was added to, the noises, the weights after each step, and the debits."""

    sums: list[Ints] = field(default_factory=list)
    sigmas: list[Fraction] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # "reserve" and "load", in their order
    events: list[Composition] = field(default_factory=list)


@dataclass(frozen=True)
class Script:
    """The batch of each step, and what is released instead of the exact sums."""

    batches: Sequence[Ints]
    releases: Sequence[Ints] = ()


class RecordedRun(_Run):
    """A run that writes down what it does. With a script it adds no noise; without one it is a run like any other."""

    trace: RunTrace
    script: Script | None = None

    def execute(self, *given: Any) -> Any:
        """Write down that records are read."""
        self.trace.log.append("load")
        return super().execute(*given)

    def _draw_batch(self) -> Ints:
        if self.script is None:
            return super()._draw_batch()
        return self.script.batches[self.step] if self.step < len(self.script.batches) else np.empty(0, np.int64)

    def _draw_noise(self) -> Ints:
        self.trace.sigmas.append(self.plan.mechanism.sigma)
        return super()._draw_noise() if self.script is None else np.zeros(self.schedule.parameters, np.int64)

    def _apply(self, noisy: Ints) -> None:
        self.trace.sums.append(noisy.copy())
        place = len(self.trace.sums) - 1
        scripted = self.script is not None and place < len(self.script.releases)
        super()._apply(self.script.releases[place].copy() if scripted and self.script is not None else noisy)
        digest = sha256(b"".join(each.detach().numpy().tobytes() for each in self.weights)).hexdigest()
        self.trace.weights.append(digest)


class _FreeAccount:
    """Takes the place of an account: it charges nothing, and writes down what it is asked for."""

    def __init__(self, budget: Filter, trace: RunTrace) -> None:
        self.budget, self._trace = budget, trace

    def reserve(self, event: Composition, **details: Any) -> Receipt:
        self._trace.log.append("reserve")
        self._trace.events.append(event)
        return Receipt(0, event, self.budget.remaining)

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        return answer


def _copy_unpaid(trainer: PrivateTrainer, trace: RunTrace, steps: int) -> PrivateTrainer:
    """Return the same trainer with so many steps and without checkpoints, which charges no account."""
    budget = trainer.plan.open_account().budget
    unpaid = copy.copy(trainer)
    unpaid.schedule = replace(trainer.schedule, steps=steps, every=None, resumes=0)
    account: Any = _FreeAccount(budget, trace)
    unpaid.plan = replace(trainer.plan, schedule=unpaid.schedule, payer=account)
    return unpaid


def trace_run(trainer: PrivateTrainer, features: Any, targets: Any, script: Script | None, steps: int) -> RunTrace:
    """Train for some steps by a script, without noise and without a charge, and return what the run did."""
    trace = RunTrace()
    unpaid = _copy_unpaid(trainer, trace, steps)

    def make_run(gradients: Any, summer: Any, path: Any, bits: Any) -> RecordedRun:
        run = RecordedRun(unpaid, gradients, summer, None, SYSTEM, False)
        run.trace, run.script = trace, script
        return run

    unpaid._make_run = make_run  # type: ignore[method-assign]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a weight that has no gradient on these rows does not move
        unpaid.train(features, targets)
    return trace


# -- replay -----------------------------------------------------------------------------------------------------------------


def invent_rows(trainer: PrivateTrainer, count: int) -> tuple[Tensor, Tensor]:
    """Return invented records for a trainer, of very different sizes."""
    kind = infer_kind(trainer.model, trainer.loss, trainer.shape, None, None)
    features, targets = kind.make_synthetic(count)
    if features.dtype.is_floating_point:
        sizes = 10.0 ** (torch.arange(count, dtype=torch.float64) % 9 - 4)
        features = features * sizes.to(features.dtype).view(-1, *([1] * (features.dim() - 1)))
    return features, targets


def replay_trainer(
    trainer: PrivateTrainer, features: Any = None, targets: Any = None, *, removed: Sequence[int] | None = None
) -> dict[str, Check]:
    """Replay a trainer without noise on neighbouring data, of invented records unless some are given. Nothing is charged."""
    chunk = trainer.schedule.chunk
    if features is None:
        features, targets = invent_rows(trainer, max(MAX_REPLAYED, 2 * chunk + 1) if chunk <= 64 else MAX_REPLAYED)
    given, wanted = to_tensor(features, "features"), to_tensor(targets, "targets")
    replay = _Replay(trainer, given, wanted, REPLAYED_STEPS)
    chosen = removed if removed is not None else sorted({0, len(given) // 2, len(given) - 1})
    problems = [replay.compare_without(place) for place in chosen]
    problems.append(_Replay(_clip_all(trainer), given, wanted, REPLAYED_STEPS).compare_without(chosen[0]))
    checks = {
        "sensitivity": next((moved for moved, _ in problems if moved), ""),
        "steps": next((found for _, found in problems if found), ""),
        "charge": replay.check_charge(chosen[0]),
    }
    if trainer.schedule.sums == "exact":
        checks |= {"order": replay.check_order(chosen[0]), "odd records": replay.check_odd_records()}
    passed = {
        "sensitivity": f"{len(chosen)} neighbouring data sets move every step's sum by at most the stated norm, in integers",
        "steps": "neighbouring data make the same steps, with the same noise, and the same weights after the same releases",
        "charge": "the whole run is charged before records are read",
        "order": "the order of the records has no effect",
        "odd records": "records that are not numbers, or of a class that does not exist, add nothing",
    }
    return {name: Check(name, problem, passed[name]) for name, problem in checks.items()}


def _clip_all(trainer: PrivateTrainer) -> PrivateTrainer:
    """Return the same trainer with so small a clip norm that every record is clipped."""
    clipping = copy.copy(trainer)
    clipping.schedule = replace(trainer.schedule, clip=max(CLIP_RANGE[0], trainer.schedule.clip / CLIPPED_FRACTION))
    clipping.plan = replace(trainer.plan, schedule=clipping.schedule)
    return clipping


class _Replay:
    """Runs on parts of the same records."""

    def __init__(self, trainer: PrivateTrainer, features: Tensor, targets: Tensor, steps: int) -> None:
        self.trainer, self.features, self.targets, self.steps = trainer, features, targets, steps

    def run(self, order: Sequence[int], batches: Sequence[set[int]], releases: Sequence[Ints] = ()) -> RunTrace:
        """Run on the records of `order`, in that order; batches name records."""
        places = {record: place for place, record in enumerate(order)}
        positions = [np.array(sorted(places[each] for each in batch if each in places), np.int64) for batch in batches]
        where = torch.tensor(list(order), dtype=torch.int64)
        return trace_run(self.trainer, self.features[where], self.targets[where], Script(positions, releases), self.steps)

    def choose_batches(self, record: int) -> list[set[int]]:
        """Batches that hold a record: everyone, it alone, one chunk and it, and random halves."""
        count, chunk = len(self.features), self.trainer.schedule.chunk
        others = [each for each in range(count) if each != record]
        source = np.random.default_rng(record)
        batches = [set(range(count)), {record}, {*others[:chunk], record}]
        while len(batches) < self.steps:
            batches.append({record, *(each for each in others if source.random() < 0.5)})
        return batches

    def compare_without(self, record: int) -> tuple[str, str]:
        """Return what one record changes too much, and what it changes besides the sums."""
        batches, everyone = self.choose_batches(record), range(len(self.features))
        before = self.run(everyone, batches)
        after = self.run([each for each in everyone if each != record], batches, before.sums)
        return self._find_moved(before, after), _find_other_difference(before, after)

    def _find_moved(self, before: RunTrace, after: RunTrace) -> str:
        bound = _read_gaussian(before.events)[0].sensitivity.l2_squared if before.events else Fraction(1 << 2 * GRID_BITS)
        for step, (one, other) in enumerate(zip(before.sums, after.sums, strict=False)):
            if one.shape == other.shape and (moved := squared_distance(one, other)) > bound:
                return f"one record moves the sum of step {step + 1} by {(moved / bound) ** 0.5:.4g} times the stated norm"
        return ""

    def check_charge(self, record: int) -> str:
        """Return how the run differs from what was charged."""
        trace = self.run(range(len(self.features)), self.choose_batches(record))
        if trace.log[:1] != ["reserve"]:
            return "records are read before the account is charged"
        charged, steps = _read_gaussian(trace.events)
        if len(trace.sums) > steps:
            return f"{len(trace.sums)} steps are made, and {steps} are charged for"
        if any(sigma < charged.sigma for sigma in trace.sigmas):
            return "less noise is added than is charged for"
        return ""

    def check_order(self, record: int) -> str:
        """Return whether the order of records matters."""
        batches, count = self.choose_batches(record), len(self.features)
        before = self.run(range(count), batches)
        after = self.run(np.random.default_rng(1).permutation(count).tolist(), batches, before.sums)
        same = len(before.sums) == len(after.sums)
        same = same and all(np.array_equal(a, b) for a, b in zip(before.sums, after.sums, strict=True))
        return "" if same else "the sum of a step depends on the order of the records"

    def check_odd_records(self) -> str:
        """Return whether a record with values that are no numbers, or out of range, adds something."""
        few = min(4, len(self.features))
        odd = _Replay(self.trainer, *_append_odd(self.features[:few], self.targets[:few]), self.steps)
        batches = [set(range(len(odd.features)))] * self.steps
        before = odd.run(range(few), batches)
        after = odd.run(range(len(odd.features)), batches, before.sums)
        same = all(np.array_equal(a, b) for a, b in zip(before.sums, after.sums, strict=False))
        return "" if same else "a record that is not a number, or of a class that does not exist, changes the sum"


def _read_gaussian(events: Sequence[Composition]) -> tuple[GaussianEvent, int]:
    """Return the noise of one step that was charged for, and how many steps."""
    ((step, times),) = events[0].parts
    if isinstance(step, Group):
        ((step, times),) = step.event.parts  # type: ignore[union-attr]
    inner = step.event if isinstance(step, Subsampled) else step
    assert isinstance(inner, GaussianEvent)
    return inner, int(times)


def _find_other_difference(before: RunTrace, after: RunTrace) -> str:
    if len(before.sums) != len(after.sums):
        return f"with one record less, {len(after.sums)} steps are released instead of {len(before.sums)}"
    if sorted(before.sigmas) != sorted(after.sigmas):
        return "with one record less, other noise is drawn"
    if any(one.shape != other.shape for one, other in zip(before.sums, after.sums, strict=True)):
        return "with one record less, what is released has another shape"
    if before.weights != after.weights:
        return "after the same releases the weights differ, so a divisor or a rate follows from the records"
    return ""


def _append_odd(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Append records of NaN and infinities, or of indices and classes that do not exist."""
    rows, wanted = [features], [targets]
    values: list[float] = [torch.nan, torch.inf, -torch.inf] if features.dtype.is_floating_point else [-1, 1 << 40]
    for value in values:
        odd = features[:1].clone()
        odd.view(-1)[0] = value
        rows.append(odd)
        wanted.append(targets[:1])
    for value in [torch.nan] if targets.dtype.is_floating_point else [-1, 1 << 20]:
        odd = targets[:1].clone()
        odd.view(-1)[0] = value
        rows.append(features[:1])
        wanted.append(odd)
    return torch.cat(rows), torch.cat(wanted)


# -- attacks ----------------------------------------------------------------------------------------------------------------


def linear_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss ⟨w, x⟩: its gradient by the weights w is the record x."""
    return outputs[:, 0]


class CanaryTrainer:
    """A trainer with the same settings and a linear loss: `(rows, seed)` trains and returns the released sums."""

    def __init__(self, trainer: PrivateTrainer, dimension: int, steps: int) -> None:
        schedule, plan = trainer.schedule, trainer.plan
        made = type(trainer)(
            nn.Linear(dimension, 1, bias=False), linear_loss, expected=schedule.expected, rate=schedule.rate,
            steps=min(steps, schedule.steps), clip=schedule.clip, noise=plan.noise,
            delta=plan.terms.delta or Fraction(1, 10**6), optimizer=lambda weights: torch.optim.SGD(weights, lr=0.0),
            sums=schedule.sums, chunk=schedule.chunk, threads=trainer.threads,
        )  # fmt: skip
        self.trainer = _copy_unpaid(made, RunTrace(), made.schedule.steps)
        self.kind = infer_kind(
            self.trainer.model, linear_loss, (dimension,), torch.float32, torch.zeros(2, dtype=torch.int64)
        )
        settings = self.trainer._choose_settings(self.kind)
        run = self.trainer.schedule
        self.summer, self.gradients = open_summer(
            self.trainer.model, settings, self.kind, run.chunk, run.narrow_chunks, self.trainer.threads
        )

    def run(self, rows: Any, make: Callable[..., RecordedRun] = RecordedRun) -> RunTrace:
        """Train once and return what the run did."""
        run = make(self.trainer, self.gradients, self.summer, None, SYSTEM, False)
        run.trace = RunTrace()
        features = torch.from_numpy(np.ascontiguousarray(rows, np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run.reserve()
            run.execute(features, torch.zeros(len(features), dtype=torch.int64), self.kind, None)
        return run.trace

    def __call__(self, rows: Any, seed: int) -> Any:
        """Train once; return the noisy sums, in the units of the rows. The seed is not used: noise is fresh."""
        scale = float(self.trainer.schedule.clip) / (1 << GRID_BITS)
        return np.stack(self.run(rows).sums).astype(np.float64) * scale


def draw_batches(trainer: PrivateTrainer, records: int, batches: int) -> list[Ints]:
    """Return batches as the trainer's own runs draw them."""
    run: Any = object.__new__(RecordedRun)
    run.schedule, run.plan, run.count, run.bits, run.step = trainer.schedule, trainer.plan, records, SYSTEM, 0
    return [_Run._draw_batch(run) for _ in range(batches)]
