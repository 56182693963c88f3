"""The exact sum of a batch: chunk after chunk in one buffer; in this process, or in one with reproducible kernels.

A `Summer` has the model, the records and the buffer. It is given the weights and the positions of a batch, and returns the
sum of the batch's contributions as 64-bit integers, to which noise must be added before anything else sees them.

**Records that raise.** A model or a loss may raise on some record. That must not show: the chunk is divided until the record
is alone, it contributes nothing, and the others what they always do, because a row does not depend on its place. So whether
a record contributes is decided from the record and the weights alone.
"""

import ctypes
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from discreet.errors import BadParameter, DiscreetError
from discreet.learn.training import SETTING
from discreet.learn.training.bookkeeping import GradientModel
from discreet.learn.training.invariance import check_invariance
from discreet.learn.training.quantise import FloatTotal
from discreet.learn.training.rows import Chunk, RowKind, TrainingRows
from discreet.noise.bits import Ints


class TrainingFailed(DiscreetError):
    """Training stopped after it was paid for. The message says nothing of the reason, which may depend on the records."""

    see = "docs/training.md#checkpoints"

    def __init__(self) -> None:
        super().__init__(
            "Training failed after the budget was charged. With checkpoints, run it again to resume; "
            "try the model on invented rows to find the reason."
        )


def keep_pages() -> None:
    """Ask the C library to keep freed memory: a chunk's arrays are allocated anew in every step, and page faults cost more
    than their arithmetic. Elsewhere than in glibc nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
        if mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT):
            mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    except (OSError, AttributeError):
        pass


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_KEPT = 1 << 25
"""The largest array that the C library keeps; it refuses to keep larger ones."""
KEPT_BYTES = 1 << 27


@contextmanager
def pin_kernels(threads: int) -> Iterator[None]:
    """Let PyTorch compute with so many threads for a while, and in the model's own precision: in half of it, as within
    `torch.autocast`, the error of a sum of floats exceeds its bound."""
    before, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    if before != threads:
        torch.set_num_threads(threads)
    if precision != FULL_PRECISION:
        torch.set_float32_matmul_precision(FULL_PRECISION)
    try:
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        if precision != FULL_PRECISION:
            torch.set_float32_matmul_precision(precision)
        if before != threads:
            torch.set_num_threads(before)


FULL_PRECISION = "highest"
"""Of products of 32-bit floats."""


@contextmanager
def keep_weights(weights: Sequence[torch.Tensor]) -> Iterator[None]:
    """Undo what a forward pass writes to weights: they leave, and nothing but noisy sums may change them."""
    before = [each.detach().clone() for each in weights]
    try:
        yield
    finally:
        with torch.no_grad():
            for each, values in zip(weights, before, strict=True):
                each.copy_(values)


class Summer(Protocol):
    """Where the sums of batches are computed."""

    def load(self, rows: TrainingRows) -> None:
        """Take the records."""
        ...

    def sum(self, places: Ints) -> Ints:
        """Return the sum of the contributions of the records at these positions."""
        ...

    def update(self, weights: Sequence[torch.Tensor]) -> None:
        """Take the weights of the next step."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class LocalSummer:
    """Sums in this process, with a fixed number of threads: kernels may round otherwise with another."""

    def __init__(
        self, gradients: GradientModel, kind: RowKind, chunk: int, narrow_chunks: int = 0, threads: int = 1
    ) -> None:
        self.gradients, self.narrow_chunks, self.threads = gradients, narrow_chunks, threads
        self._chunk, self._rows_per_chunk = Chunk(chunk, kind), chunk
        self._total = gradients.new_total()
        keep_pages()
        self._rows: TrainingRows | None = None

    def load(self, rows: TrainingRows) -> None:
        """As in `Summer`."""
        self._rows = rows

    def update(self, weights: Sequence[torch.Tensor]) -> None:
        """Nothing to do: the optimiser changes the weights of this very model."""

    def close(self) -> None:
        """Forget the records."""
        self._rows = None

    def sum(self, places: Ints) -> Ints:
        """As in `Summer`."""
        assert self._rows is not None
        with pin_kernels(self.threads), keep_weights(self.gradients.parameters):
            return (self._sum_floats if self.gradients.sums_floats else self._sum_exactly)(self._rows, places)

    def _sum_exactly(self, rows: TrainingRows, places: Ints) -> Ints:
        for start in range(0, len(places), self._rows_per_chunk):
            add_without_errors(
                rows, self._chunk, places[start : start + self._rows_per_chunk],
                lambda again: self.gradients.prepare_chunk(self._total, self._chunk),
            )  # fmt: skip
        return np.asarray(self._total.take().numpy())

    def _sum_floats(self, rows: TrainingRows, places: Ints) -> Ints:
        """Sum as floats and round to the grid. The bound on the error is part of the sensitivity."""
        total = FloatTotal(self.gradients.part_sizes)
        for number, start in enumerate(range(0, len(places), self._rows_per_chunk)):
            is_wide = number >= self.narrow_chunks
            add_without_errors(
                rows, self._chunk, places[start : start + self._rows_per_chunk],
                lambda again, is_wide=is_wide: self.gradients.prepare_floats(total, self._chunk, is_wide or again),  # type: ignore[misc]
            )  # fmt: skip
        return np.asarray(total.take().numpy())


def add_without_errors(
    rows: TrainingRows, chunk: Chunk, places: Ints, prepare: Callable[[bool], Callable[[], None]], again: bool = False
) -> None:
    """Place records into a chunk and add what they contribute; those on which model or loss raise contribute nothing.

    What fails while a chunk is added is not tried again: a part of it would count twice.
    """
    rows.load(chunk, places)
    try:
        add = prepare(again)
    except Exception:  # it may depend on a record, so it must not show
        middle = len(places) // 2
        for part in (places[:middle], places[middle:]) if middle else ():
            add_without_errors(rows, chunk, part, prepare, again=True)
        return
    with torch.no_grad():
        add()


class ChildSummer:
    """Sums in a child process, which sets `MKL_CBWR` before MKL is used."""

    def __init__(
        self, model: nn.Module, settings: dict[str, Any], kind: RowKind, chunk: int, narrow_chunks: int, threads: int = 1,
        reason: str = "it is computed elsewhere",
    ) -> None:  # fmt: skip
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        before = os.environ.get(SETTING[0])
        os.environ[SETTING[0]] = SETTING[1]
        try:
            self._process = context.Process(
                target=_serve, args=(other, model, settings, kind, chunk, narrow_chunks, threads), daemon=True
            )
            self._process.start()
        except Exception:
            elsewhere = "model and loss cannot be sent to a process with reproducible kernels, as functions of a module can"
            raise make_invariance_error(f"{reason}, and {elsewhere}") from None
        finally:
            if before is None:
                del os.environ[SETTING[0]]
            else:
                os.environ[SETTING[0]] = before
        other.close()
        try:
            problem = self._receive()
        except TrainingFailed:  # nothing was charged yet
            raise make_invariance_error(
                f"{reason}, and a process with reproducible kernels does not start. It imports the program: put what that "
                'does below if __name__ == "__main__"'
            ) from None
        if problem is not None:
            self.close()
            raise make_invariance_error(str(problem))

    def load(self, rows: TrainingRows) -> None:
        """As in `Summer`."""
        self._connection.send(("load", (rows.features, rows.targets, rows.kind, rows.valid)))
        self._receive()

    def update(self, weights: Sequence[torch.Tensor]) -> None:
        """As in `Summer`."""
        self._connection.send(("update", [each.detach().numpy() for each in weights]))
        self._receive()

    def sum(self, places: Ints) -> Ints:
        """As in `Summer`."""
        self._connection.send(("sum", places))
        return np.asarray(self._receive())

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.terminate()

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise TrainingFailed() from None


def _serve(
    connection: Connection, model: nn.Module, settings: dict[str, Any], kind: RowKind, chunk: int, narrow: int, threads: int
) -> None:
    """Run in the child: check the kernels, then sum what is asked for until the connection is closed."""
    torch.set_num_threads(threads)
    gradients = GradientModel.of(model, **settings)
    summer = LocalSummer(gradients, kind, chunk, narrow, threads)
    connection.send(check_invariance(gradients, kind, chunk))
    while True:
        try:
            order, given = connection.recv()
        except (EOFError, OSError):
            return
        if order == "load":
            summer.load(TrainingRows(*given))
            connection.send(None)
        elif order == "update":
            with torch.no_grad():
                for parameter, values in zip(gradients.parameters, given, strict=True):
                    parameter.copy_(torch.from_numpy(values))
            connection.send(None)
        else:
            connection.send(summer.sum(given))


def make_invariance_error(problem: str) -> BadParameter:
    """Refuse a model whose rows influence each other."""
    return BadParameter(
        "model", "not private for each record", problem,
        f"take layers that treat each row alone (GroupNorm instead of batch norm), import discreet.learn.training before "
        f"PyTorch is used, or start Python with {SETTING[0]}={SETTING[1]}",
    )  # fmt: skip


def open_summer(
    model: nn.Module, settings: dict[str, Any], kind: RowKind, chunk: int, narrow_chunks: int = 0, threads: int = 1
) -> tuple[Summer, GradientModel]:
    """Return where the batches of a model are summed: here if its rows do not influence each other, else in a child process
    with reproducible kernels. Refuse a model whose rows influence each other there, too."""
    gradients = GradientModel.of(model, **settings)
    with pin_kernels(threads):
        problem = check_invariance(gradients, kind, chunk)
    if problem is None:
        return LocalSummer(gradients, kind, chunk, narrow_chunks, threads), gradients
    return ChildSummer(model, settings, kind, chunk, narrow_chunks, threads, problem), gradients
