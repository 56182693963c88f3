"""`PrivateTrainer`: DP-SGD for PyTorch models, with certified cost, exact noise and one debit for each run.

**Theory of operation.** `quote` fixes the plan from public numbers and measures a step on invented rows. `train`

1. *checks* the model on invented rows (`validate`, `invariance`), and the types of the columns;
2. *reserves*: debits the whole cost, before a record is read;
3. *steps*: draws a batch, sums its contributions as integers (`summing`), adds Gaussian noise that a second thread drew
   meanwhile, and hands the noisy mean to the optimiser. An empty batch is a step of noise alone;
4. *records* what was released: the hash of the weights.

Everything that leaves is a function of the noisy integer sums: weights, checkpoints, the result. There is no training loss,
no gradient norm, no batch size and no number of records. Progress names the step and its ε, and is for the owner: its
moments say little, but not nothing, about the sizes of batches (`report_at_pace`), and how long the whole run takes shows
them on average, to someone who watches the process.
"""

import copy
import os
import queue
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet import __version__
from discreet._numbers import Number, check_int
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import certified_epsilon
from discreet.errors import BadParameter, BudgetExceeded, DiscreetError
from discreet.events import Composition
from discreet.learn.charging import TALLY, Payer, read_neighbours
from discreet.learn.records import Records
from discreet.learn.session_records import SessionRecords
from discreet.learn.training.bookkeeping import (
    GradientModel,
    LossFunction,
    Method,
    check_bookkeeping,
    count_multiplied,
    list_trained,
)
from discreet.learn.training.card import ModelCard, describe_guarantee
from discreet.learn.training.checkpoint import Attempts, Checkpoint, new_run
from discreet.learn.training.plan import Schedule, Sums, TrainingPlan, TrainingQuote, make_plan, make_schedule
from discreet.learn.training.quantise import GRID_BITS, MAX_FLOAT_RECORDS
from discreet.learn.training.rows import DeclaredRows, RowKind, TrainingRows, draw_batch, to_tensor
from discreet.learn.training.summing import LocalSummer, Summer, TrainingFailed, open_summer, pin_kernels
from discreet.learn.training.validate import check_maker, check_model, check_optimizer, infer_kind
from discreet.ledger.account import CachedAnswer
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.entries import encode_answer, hash_measurement, privacy_unit_of
from discreet.mechanisms._additive_noise import add_saturating
from discreet.noise import SYSTEM, Bits, rounded_gaussian
from discreet.noise.bits import Ints
from discreet.query.record import LedgerReference
from discreet.query.schema import ROW
from discreet.session.executor import SEEDED
from discreet.session.session import Session
from discreet.text import to_printable
from discreet.units import Neighbours, invariants_to_json

MAX_REPORTS = 100
"""Progress is reported at most so often."""

BAR_WIDTH = 20
"""Letters of a progress bar."""

MAX_UNCLAMPED = 1 << 20
"""Noise multipliers up to this draw noise beyond 2⁶² with a chance below exp(−2²²)."""

OptimizerMaker = Callable[[Any], torch.optim.Optimizer]
SchedulerMaker = Callable[[torch.optim.Optimizer], Any]


@dataclass(frozen=True)
class Progress:
    """How far a run is: nothing in it depends on a record."""

    step: int
    steps: int
    epsilon: float  # of the steps made so far, for information: the whole cost is paid
    seconds: float  # since the run began, at the plan's pace


def draw_bar(progress: Progress) -> None:
    """Show how far a run is on stderr: a bar, the step, its ε and the time."""
    done = progress.step * BAR_WIDTH // progress.steps
    bar = "█" * done + "░" * (BAR_WIDTH - done)
    line = f"{bar} step {progress.step:,} of {progress.steps:,}, ε {progress.epsilon:.3g} so far, {progress.seconds:,.0f} s"
    print("\r" + to_printable(line), end="\n" if progress.step == progress.steps else "", file=sys.stderr, flush=True)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, what it cost, and its certificate."""

    model: nn.Module
    plan: TrainingPlan
    cost: Cost
    event: Composition
    reference: LedgerReference
    card: ModelCard
    tainted: bool

    @property
    def guarantee(self) -> str:
        """What is guaranteed, in a sentence."""
        return self.card.guarantee

    def certify(self, key: Any) -> dict[str, Any]:
        """Return the certificate of the run: signed, and checked by `discreet verify`. Only a ledger's runs have one."""
        from discreet.ledger.certificate import make_certificate

        account = self.plan.open_account()
        if not isinstance(account, LedgerAccount):
            raise BadParameter(
                "account", "not in a ledger", "only a ledger's runs have a certificate", "train with a ledger"
            )
        return make_certificate(
            account, self.reference.entry, measurement=self.reference.measurement, answer=self.reference.record,
            software=f"discreet {__version__}", key=key, tainted=self.tainted,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"TrainedModel({type(self.model).__name__}; {self.cost.describe()})"


class PrivateTrainer:
    """Train a PyTorch model with differential privacy (DP-SGD).

    Args:
        model: the module to train; it is copied, and the copy is trained.
        loss: a function of outputs and targets that returns one number per record, such as
            `nn.CrossEntropyLoss(reduction="none")`.
        expected: about how many records there are: a public guess. It sets what the noisy sum is divided by.
        rate: the probability with which a record is in a step's batch, such as "1/100".
        steps: how many steps are made.
        clip: the norm to which each record's gradient is clipped.
        epsilon, delta: the cost of the whole run; the least noise is found.
        noise: the noise multiplier instead of epsilon: noise of deviation noise·clip on each sum.
        optimizer: makes any optimiser of PyTorch from the parameters; without one, Adam at 0.001.
        scheduler: makes a learning-rate scheduler from the optimiser; it steps once per step.
        account: a session or an account that pays; without one, a budget in memory.
        shape: of one record, where the first layer does not tell it.
        sums: "exact", or "float" for quicker steps: the error of floating point is then bounded, and part of the cost.
        method: "book-keeping" or "vmap", to choose how gradients are computed.
        chunk: how many records are computed at once; without it, a batch or an even share of one.
        threads: with how many threads gradients are computed; noise is drawn beside them.
        every, resumes: how many steps a checkpoint is apart, and how often the run may be resumed; r resumptions cost
            r·every steps more.
        neighbours: "add-remove", or the session's.
        max_rows: how many records one privacy unit has at most; more than one cost as much as the group.

    >>> import torch
    >>> from torch import nn
    >>> trainer = PrivateTrainer(nn.Linear(4, 2), nn.CrossEntropyLoss(reduction="none"), expected=1000, rate="1/10",
    ...                          steps=20, epsilon=1, delta=1e-5)
    >>> trained = trainer.train(torch.randn(1000, 4), torch.randint(0, 2, (1000,)))
    >>> trained.cost.epsilon.upper <= 1
    True
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        *,
        expected: int,
        rate: Number | str,
        steps: int,
        clip: Number = 1,
        epsilon: Number | None = None,
        delta: Number | None = None,
        noise: Number | None = None,
        optimizer: OptimizerMaker | None = None,
        scheduler: SchedulerMaker | None = None,
        account: Payer = None,
        shape: tuple[int, ...] | None = None,
        sums: Sums = "exact",
        method: Method | None = None,
        chunk: int | None = None,
        threads: int = 1,
        every: int | None = None,
        resumes: int = 0,
        neighbours: Neighbours | str | None = None,
        max_rows: int | None = None,
    ) -> None:
        check_model(model, loss)
        if method not in (None, "book-keeping", "vmap"):
            raise BadParameter("method", repr(method), "no such method", 'take "book-keeping" or "vmap", or leave it out')
        _check_neighbours(neighbours, account)
        if account is not None and not isinstance(account, Session) and not hasattr(account, "reserve"):
            raise BadParameter("account", f"of type {type(account).__name__}", "not a session or an account", "leave it out")
        for name, maker in (("optimizer", optimizer), ("scheduler", scheduler)):
            check_maker(name, maker)
        self.model, self.loss, self.payer, self.shape, self.method = model, loss, account, shape, method
        self.threads = check_int(threads, "threads", 1)
        self.optimizer: OptimizerMaker = optimizer or (lambda given: torch.optim.Adam(given, lr=1e-3))
        self.scheduler = scheduler
        self.schedule: Schedule = make_schedule(
            expected=expected, rate=rate, steps=steps, clip=clip, chunk=chunk, sums=sums, every=every, resumes=resumes,
            parameters=sum(each.numel() for each in list_trained(model).values()),
            multiplied=count_multiplied(model, method, sums == "float"), max_rows=max_rows,
        )  # fmt: skip
        self._given = {"epsilon": epsilon, "noise": noise, "delta": delta}
        self._declares_rows = max_rows is not None
        self.plan = make_plan(self.schedule, payer=account, **self._given)

    def __repr__(self) -> str:
        schedule = self.schedule
        return (
            f"PrivateTrainer({type(self.model).__name__}; {schedule.steps:,} steps, rate {schedule.rate}, "
            f"{self.plan.cost().describe()})"
        )

    # -- before the debit -------------------------------------------------------------------------------------------------

    def quote(self) -> TrainingQuote:
        """Return the certified cost, the noise, and what the run takes on this machine. No record is needed."""
        self._check_unchanged()
        kind = infer_kind(self.model, self.loss, self.shape, None, None)
        gradients = GradientModel.of(self.model, **self._choose_settings(kind))
        summer = LocalSummer(gradients, kind, self.schedule.chunk, self.schedule.narrow_chunks, self.threads)
        rows = max(1, round(float(self.schedule.divisor)))
        chunk = min(rows, self.schedule.chunk)
        summer.load(TrainingRows.of(*kind.make_synthetic(chunk), kind))
        places = np.arange(chunk)
        step = min(_measure(lambda: summer.sum(places)) for _ in range(3)) * -(-rows // self.schedule.chunk)
        noise = min(_measure(lambda: _draw_noise(self.plan, SYSTEM)) for _ in range(2))
        return TrainingQuote(self.plan, gradients.method, step, noise, self._estimate_memory(kind))

    def _check_unchanged(self) -> None:
        """Check model and loss again: since the trainer was made they may have changed, and then the plan is of others."""
        check_model(self.model, self.loss)
        if sum(each.numel() for each in list_trained(self.model).values()) != self.schedule.parameters:
            raise BadParameter(
                "model", "changed", "other parameters require a gradient than when the trainer was made, and its noise is "
                "planned for those", "make a new PrivateTrainer",
            )  # fmt: skip

    def _estimate_memory(self, kind: RowKind) -> int:
        """Bytes beyond the records: weights, gradient, two moments, integers, doubles, two noises; a chunk's activations."""
        seen: list[int] = []
        probe = copy.deepcopy(self.model)
        for layer in probe.modules():
            layer.register_forward_hook(lambda _, __, out: seen.append(out.numel() if isinstance(out, Tensor) else 0))
        with torch.no_grad():
            probe(kind.make_synthetic(2)[0])
        activations = sum(seen) // 2 * self.schedule.chunk
        return 48 * self.schedule.parameters + 4 * 4 * activations

    def _choose_settings(self, kind: RowKind) -> dict[str, Any]:
        """How gradients are computed: by book-keeping where it agrees with autograd on invented rows."""
        settings: dict[str, Any] = {
            "loss": self.loss, "clip": float(self.schedule.clip), "method": self.method,
            "sums_floats": self.schedule.sums == "float",
        }  # fmt: skip
        if self.method is None:
            tried = GradientModel.of(self.model, **settings)
            with pin_kernels(self.threads):
                agrees = tried.method == "book-keeping" and check_bookkeeping(tried, *kind.make_synthetic(4))
            settings["method"] = "book-keeping" if agrees else "vmap"
        return settings

    # -- training ---------------------------------------------------------------------------------------------------------

    def train(
        self,
        features: Any,
        targets: Any = None,
        *,
        progress: Callable[[Progress], None] | bool | None = None,
        checkpoint: str | Path | None = None,
        bits: Bits | None = None,
    ) -> TrainedModel:
        """Debit the cost, train, and return the model with its guarantee.

        Args:
            features: an array, a frame of numbers or a tensor, a row for each record; or what `session.records(…)` returns,
                which the session's account pays for. Each record is one privacy unit, or a unit has `max_rows`.
            targets: the class or the number of each record; records of a session have their own.
            progress: True shows a progress bar on stderr; a function is called with a `Progress` now and then.
            checkpoint: a file in which the run is kept every so many steps, and from which it is resumed if the file
                exists. It needs `every=` and an account in a ledger.
            bits: for tests: seeded bits. A ledger refuses them.

        Raises:
            BudgetExceeded: if the account cannot pay; nothing is charged then.
            BadParameter: if model, loss or columns cannot be trained on; nothing is charged then.
            TrainingFailed: if something failed after the debit.
        """
        declared, shown = None, draw_bar if progress is True else progress or None
        if isinstance(features, Records):
            if not isinstance(features, SessionRecords):
                raise BadParameter(
                    "features", type(features).__name__, "not records of a session", "give arrays as they are"
                )
            if targets is not None:
                raise BadParameter("targets", "given", "the records have their own", "name it: records(…, target=…)")
            declared = DeclaredRows(features)
            return self._pay_from(features)._train(*declared.make_empty(), declared, shown, checkpoint, bits)
        self._check_units()
        given, wanted = to_tensor(features, "features"), to_tensor(targets, "targets")
        return self._train(given, wanted, None, shown, checkpoint, bits)

    def _check_units(self) -> None:
        """Refuse rows of arrays where the account's units are something else than rows, unless the caller says how many."""
        if isinstance(self.payer, Session) and self.payer.table.unit_columns and not self._declares_rows:
            raise BadParameter(
                "features", "rows of arrays", f"one {self.payer.table.unit} may have several, and it is the privacy unit",
                "train on session.records(…), or say with max_rows= how many rows one unit has at most",
            )  # fmt: skip

    def _pay_from(self, records: SessionRecords) -> "PrivateTrainer":
        """Return this trainer with the records' session as its payer."""
        if self.payer is not None and self.payer is not records.session:
            raise BadParameter("account", "not the records' session", "the session of the records pays", "leave it out")
        if records.max_rows > self.schedule.max_rows:
            raise BadParameter(
                "max_rows", self.schedule.max_rows, f"one unit has up to {records.max_rows} of the records",
                f"give PrivateTrainer max_rows={records.max_rows}, or the records max_rows=1",
            )  # fmt: skip
        if self.schedule.sums == "float":
            raise BadParameter(
                "sums", "'float'", f"its error is bounded for at most {MAX_FLOAT_RECORDS:,} records, and those of a session "
                "are not counted before they are paid for", 'take sums="exact"',
            )  # fmt: skip
        _check_neighbours(None, records.session)
        paying = copy.copy(self)
        paying.payer = records.session
        paying.plan = self.plan if self.payer is not None else make_plan(self.schedule, payer=records.session, **self._given)
        return paying

    def _train(
        self, given: Tensor, wanted: Tensor, declared: DeclaredRows | None, progress: Callable[[Progress], None] | None,
        checkpoint: str | Path | None, bits: Bits | None,
    ) -> TrainedModel:  # fmt: skip
        self._check_unchanged()
        self._check_columns(given, wanted)
        path = self._check_checkpoint(checkpoint)
        shape = tuple(given.shape[1:])
        if self.shape is not None and tuple(self.shape) != shape:
            raise BadParameter(
                "features", f"of shape {shape}", f"records of shape {tuple(self.shape)} were declared", "reshape"
            )
        kind = infer_kind(
            self.model,
            self.loss,
            shape,
            given.dtype,
            wanted[:1].expand(2, *wanted.shape[1:]) if len(wanted) else _two(wanted),
        )
        settings = self._choose_settings(kind)
        schedule = self.schedule
        summer, gradients = open_summer(self.model, settings, kind, schedule.chunk, schedule.narrow_chunks, self.threads)
        try:
            run = self._make_run(gradients, summer, path, bits)
            run.read_from(declared)
            run.reserve()
            return run.execute(given, wanted, kind, progress)
        finally:
            summer.close()

    def _make_run(self, gradients: GradientModel, summer: Summer, path: Path | None, bits: Bits | None) -> "_Run":
        """Return a new run; an audit puts one that is recorded in its place."""
        return _Run(self, gradients, summer, path, bits or SYSTEM, bits is not None and bits is not SYSTEM)

    def _check_columns(self, features: Tensor, targets: Tensor) -> None:
        """Refuse by shapes and types, never by values."""
        if features.dim() < 2:
            raise BadParameter(
                "features", f"{features.dim()}-dimensional", "a row for each record is needed", "reshape them"
            )
        if len(features) != len(targets):
            raise BadParameter(
                "targets", "of another length than features", "each record has one", "give as many as records"
            )
        if self.schedule.sums == "float" and len(features) > MAX_FLOAT_RECORDS:
            raise BadParameter("sums", "'float'", f"at most {MAX_FLOAT_RECORDS:,} records", 'take sums="exact"')

    def _check_checkpoint(self, checkpoint: str | Path | None) -> Path | None:
        if checkpoint is None:
            if self.schedule.every is not None:
                raise BadParameter("checkpoint", "missing", "every= is given", "name the file, or leave every= out")
            return None
        if self.schedule.every is None:
            raise BadParameter("checkpoint", str(checkpoint), "every= is missing", "give every=, say steps // 10")
        if not isinstance(self.plan.open_account(), LedgerAccount):
            raise BadParameter(
                "checkpoint", str(checkpoint), "only a ledger counts the steps of a run durably: a copied checkpoint could "
                "otherwise be continued twice for one debit", "give account=, an account in a ledger",
            )  # fmt: skip
        return Path(checkpoint)

    def describe(self) -> dict[str, Any]:
        """Return everything that decides what is trained, as plain values, except the records."""
        rows = self.schedule.max_rows
        unit = ROW if rows == 1 else f"unit of at most {rows} rows"
        if isinstance(self.payer, Session):
            unit = self.payer.table.unit
        layers = sha256(repr(self.model).encode()).hexdigest()
        return {
            "unit": unit, "neighbours": Neighbours.ADD_REMOVE.definition, "model": layers, "training": self.plan.describe(),
        }  # fmt: skip


def _check_neighbours(neighbours: Neighbours | str | None, account: Payer) -> None:
    if read_neighbours(neighbours, account) is not Neighbours.ADD_REMOVE:
        raise BadParameter(
            "neighbours", "'replace'", "the cost of a Poisson sample is proven for adding or removing one record",
            'leave it out, or open the session with neighbours="add-remove"',
        )  # fmt: skip


def _two(targets: Tensor) -> Tensor:
    """Two targets of the type and shape of none."""
    return torch.zeros((2, *targets.shape[1:]), dtype=targets.dtype)


def _measure(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _draw_noise(plan: TrainingPlan, bits: Bits) -> Ints:
    return rounded_gaussian(plan.mechanism.sigma, plan.schedule.parameters, bits)


class _Run:
    """One run: a debit, the steps, and what is recorded."""

    def __init__(
        self, trainer: PrivateTrainer, gradients: GradientModel, summer: Summer, path: Path | None, bits: Bits, tainted: bool
    ) -> None:
        self.trainer, self.gradients, self.summer, self.path = trainer, gradients, summer, path
        self.account = trainer.plan.open_account()
        self.plan, self.schedule, self.bits, self.tainted = trainer.plan, trainer.schedule, bits, tainted
        self.spec = trainer.describe() | SEEDED[tainted]
        self.weights = list(gradients.parameters)
        self.initial = [each.detach().clone() for each in self.weights]
        check_optimizer(trainer.optimizer, trainer.scheduler, self.weights)
        self.optimizer = trainer.optimizer(self.weights)
        self._check_optimizer()
        self.scheduler = None if trainer.scheduler is None else trainer.scheduler(self.optimizer)
        self.scale = float(self.schedule.clip / (self.schedule.divisor * (1 << GRID_BITS)))
        self.step = 0
        self.process = os.getpid()
        self.attempts: Attempts | None = None
        self.declared: DeclaredRows | None = None

    def read_from(self, declared: DeclaredRows | None) -> None:
        """Say where the records are read once the run is paid: of a session, or as they were given."""
        self.declared = declared
        if declared is not None:
            executor = declared.records.session.executor
            self.spec |= {"columns": list(declared.columns)} | declared.records.describe(executor)
        elif isinstance(self.trainer.payer, Session):
            self.spec |= {"rows": "of arrays"}
            if self.trainer.payer.invariants:
                self.spec["invariants"] = invariants_to_json(self.trainer.payer.invariants)

    def _check_optimizer(self) -> None:
        held = {id(each) for group in self.optimizer.param_groups for each in group["params"]}
        missing = [n for n, each in zip(self.gradients.names, self.weights, strict=True) if id(each) not in held]
        if missing:
            raise BadParameter(
                "optimizer", f"without {', '.join(missing[:3])}", "not every parameter that requires a gradient is trained",
                "give it all parameters, or freeze those: requires_grad_(False)",
            )  # fmt: skip

    # -- reserve ----------------------------------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Debit the whole cost, or continue the debit of the checkpoint's run."""
        plan, payer = self.plan, self.plan.payer
        if isinstance(payer, Session):
            payer.executor.check_quarantine()
        run, is_new = None, self.path is not None and not self.path.exists()
        if self.path is not None:
            run = self._open_checkpoint(self.path)
        try:
            paid = self.account.reserve(
                plan.event, measurement=hash_measurement(self.spec), id=run, fresh=True, tainted=self.tainted,
                certified_delta=plan.terms.certified_delta, privacy_unit=privacy_unit_of(self.spec), shared=False,
            )  # fmt: skip
        except (BudgetExceeded, BadParameter):  # nothing is charged, so there is no run to continue
            if self.path is not None and is_new:
                self.path.unlink(missing_ok=True)
            raise
        if isinstance(paid, CachedAnswer):
            raise BadParameter(
                "checkpoint", str(self.path), "its run is finished, and one debit pays for one result",
                "take the result of that run, or train anew under another file name",
            )  # fmt: skip
        self.paid = paid
        if payer is None:
            TALLY.add(plan.event, plan.terms, Neighbours.ADD_REMOVE)
        if run is not None:
            assert self.schedule.every is not None
            limit = self.schedule.steps // self.schedule.every + self.schedule.resumes
            self.attempts = Attempts(self.account, run, privacy_unit_of(self.spec), limit)

    def _open_checkpoint(self, path: Path) -> str:
        """Return the run's id: of the checkpoint, whose state is taken over, or of a new run, written down first."""
        digest = hash_measurement(self.spec)
        if not path.exists():
            self.run_id = new_run()
            self._save(path)
            return self.run_id
        found = Checkpoint.load(path)
        shapes = [each.shape for each in found.weights]
        if found.plan != digest or shapes != [each.shape for each in self.weights]:
            raise BadParameter(
                "checkpoint", str(path), "it is of a run with another model or another plan",
                "give the settings of that run, or another file name for a new one",
            )  # fmt: skip
        self.run_id, self.step = found.run, found.step
        with torch.no_grad():
            for parameter, values in zip(self.weights, found.weights, strict=True):
                parameter.copy_(values)
        self.optimizer.load_state_dict(found.optimizer)
        if self.scheduler is not None and found.schedule is not None:
            self.scheduler.load_state_dict(found.schedule)
        return found.run

    def _save(self, path: Path) -> None:
        weights = [each.detach().clone() for each in self.weights]
        schedule = None if self.scheduler is None else self.scheduler.state_dict()
        digest = hash_measurement(self.spec)
        Checkpoint(self.run_id, digest, self.step, weights, self.optimizer.state_dict(), schedule).save(path)

    # -- steps ------------------------------------------------------------------------------------------------------------

    def execute(
        self, features: Tensor, targets: Tensor, kind: RowKind, progress: Callable[[Progress], None] | None
    ) -> TrainedModel:
        """Make the steps, record, and return the result."""
        try:
            if self.declared is not None:
                features, targets = self.declared.read()
            self.summer.load(TrainingRows.of(features, targets, kind))
            self.count = len(features)
            with ThreadPoolExecutor(1) as drawer, report_at_pace(self.plan, progress) as report:
                while self.step < self.schedule.steps:
                    self._run_segment(drawer, report)
        except DiscreetError:
            raise
        except Exception:
            raise TrainingFailed() from None
        return self._finish()

    def _run_segment(self, drawer: ThreadPoolExecutor, report: Callable[[int], None]) -> None:
        """Make the steps up to the next checkpoint, under an attempt of their own."""
        end = self.schedule.steps
        if self.attempts is not None:
            self.attempts.claim()
            assert self.schedule.every is not None
            end = min(end, self.step + self.schedule.every)
        noise = drawer.submit(self._draw_noise)
        self.summer.update(self.weights)
        while self.step < end:
            drawn = noise
            batch = self._draw_batch()
            total = self.summer.sum(batch)
            self._check_process()  # a child that was forked has the noise that was drawn ahead, and so has its parent
            ready = drawn.result()
            if self.step + 1 < end:
                noise = drawer.submit(self._draw_noise)
            self._apply(self._add_noise(total, ready))
            self.step += 1
            report(self.step)
        if self.path is not None:
            self._save(self.path)

    def _check_process(self) -> None:
        """Stop in a forked child: noise that is added to two sums protects neither."""
        if os.getpid() != self.process:
            raise TrainingFailed()

    def _draw_batch(self) -> Ints:
        """Return the positions of a step's records."""
        return draw_batch(self.schedule.rate, self.count, self.bits)

    def _draw_noise(self) -> Ints:
        """Return the noise of a step. It runs in a thread of its own."""
        return _draw_noise(self.plan, self.bits)

    def _add_noise(self, total: Ints, noise: Ints) -> Ints:
        """Add noise to a sum, in its place. Noise beyond 2⁶² would wrap around, which is post-processing of the noisy sum;
        where it might happen, the result is clamped. Each number has noise of its own."""
        if noise.shape != total.shape:
            raise AssertionError("noise of another shape than the sum")
        if self.plan.noise > MAX_UNCLAMPED:
            return add_saturating(total, noise)
        return np.add(total, noise, out=total)

    def _apply(self, noisy: Ints) -> None:
        """Let the optimiser make a step with the noisy mean. From here on all is post-processing."""
        mean = torch.from_numpy(noisy).to(self.weights[0].dtype).mul_(self.scale)
        for parameter, part in zip(self.weights, self.gradients.split(mean), strict=True):
            parameter.grad = part
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        self.summer.update(self.weights)

    # -- record -----------------------------------------------------------------------------------------------------------

    def _finish(self) -> TrainedModel:
        still = [
            name for name, before, now in zip(self.gradients.names, self.initial, self.weights, strict=True)
            if torch.equal(before, now.detach())
        ]  # fmt: skip
        if still:
            warnings.warn(f"These parameters did not move: {', '.join(still)}. Check the optimizer.", stacklevel=4)
        digest = sha256(b"".join(each.detach().numpy().tobytes() for each in self.weights)).hexdigest()
        record = {"trained": {"weights_sha256": digest, "parameters": list(self.gradients.names), "steps": self.step}}
        self.account.record(self.paid, encode_answer(record))
        model = copy.deepcopy(self.trainer.model)
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, values in zip(self.gradients.names, self.weights, strict=True):
                own[name].copy_(values)
        cost = self.plan.cost(self.paid.remaining)
        reference = LedgerReference(self.paid.entry, self.spec, record, ())
        return TrainedModel(model, self.plan, cost, self.plan.event, reference, self._make_card(cost, digest), self.tainted)

    def _make_card(self, cost: Cost, digest: str) -> ModelCard:
        unit, schedule = str(self.spec["unit"]), self.schedule
        facts = {
            "software": f"discreet {__version__}, PyTorch {torch.__version__}",
            "unit": unit,
            "epsilon": cost.epsilon.upper,
            "delta": float(cost.delta),
            **self.plan.describe(),
            "gradients": self.gradients.method,
            "steps_made": self.step,
            "model": type(self.trainer.model).__name__,
            "optimizer": type(self.optimizer).__name__,
            "weights_sha256": digest,
        }
        made = schedule.paid_steps if self.step == schedule.steps else self.step
        return ModelCard(facts, describe_guarantee(cost.epsilon.upper, cost.delta, unit, schedule.paid_steps, made))


@contextmanager
def report_at_pace(plan: TrainingPlan, progress: Callable[[Progress], None] | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call after each step. Progress is reported from another thread, at most `MAX_REPORTS` times and
    no earlier than at the pace of the slowest segment so far, rounded up to a power of two: so that the moment of a report
    says little about the sizes of batches.

    A callback that raises is not called again.
    """
    if progress is None:
        yield lambda step: None
        return
    steps = plan.schedule.steps
    spacing = max(1, -(-steps // MAX_REPORTS))
    made: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    start = time.monotonic()

    def watch() -> None:
        pace = 0.0
        while (step := made.get()) is not None:
            elapsed = time.monotonic() - start
            while pace * step < elapsed:
                pace = max(pace * 2, 2.0**-12)
            time.sleep(max(0.0, start + pace * step - time.monotonic()) if step < steps else 0.0)
            epsilon = certified_epsilon(plan.schedule.event_at(plan.noise, step), plan.terms.delta).upper
            try:
                progress(Progress(step, steps, epsilon, pace * step))
            except Exception:
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda step: made.put(step) if step % spacing == 0 or step == steps else None
    finally:
        made.put(None)
        thread.join(timeout=5)


__all__ = ["PrivateTrainer", "Progress", "TrainedModel", "TrainingQuote"]
