"""Clipped gradients as whole numbers: what one record adds to the sum of a step is known exactly, and so is its norm.

A record's gradient g is clipped to c = g·min(1, C/‖g‖) and counted in grid steps of C·2⁻³⁰: its contribution is an integer
vector v with ‖v‖₂ ≤ 2³⁰. Sums of integers are exact in any order, so a step's sum depends on who is in the batch and on
nothing else: not on the order, the chunks or the threads.

**Proof that one record moves the sum by at most 2³⁰.** v is computed from one record and the weights alone. Whether v counts
is decided from v: ‖v‖² is computed in 64-bit integers, and a record above 2⁶⁰ adds 0. So whatever floating point did before,
the integer vector that is added has norm at most 2³⁰. Truncation toward zero never lengthens a vector, so with a clipping
factor that aims at C(1 − 2⁻²⁰) a record is almost never dropped. A NaN fails every comparison, and counts as above. ∎

A gradient has one of four forms. `Dense`: one number per parameter and record. `Rows`: the touched rows of an embedding.
`Factors`: the outer product of activations and output gradients, never multiplied out per record: both factors are integers,
and their product *is* the contribution, with norm ‖Ã‖·‖G̃‖. `Sequence`: a sum of outer products over positions, whose norm is
⟨ÃÃᵀ, G̃G̃ᵀ⟩, computed in doubles with a bound on their error. Truncating the factors of a `Sequence` can lengthen their
product, so its norm is computed after truncation.

Sums of `Factors` and `Sequence` are products of matrices in doubles, exact in any order as long as no partial sum reaches
2⁵³: an entry of a partial sum is at most Σᵢ‖Ãᵢ‖‖G̃ᵢ‖ (Cauchy–Schwarz), which `Factors` keep below 2³⁰ for each record and
`Sequence` below 2⁵³ for each chunk.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

GRID_BITS = 30
"""The clip norm is 2³⁰ grid steps."""
FACTOR_BITS = 15
"""The norm to which activations are scaled before they are truncated."""
SQUARED_BOUND = 1 << (2 * GRID_BITS)
AIMS = (1 - 2.0**-20, 1 - 2.0**-7)
"""Which share of the clip norm a clipped gradient is scaled to: first, and again if the whole numbers exceed the bound."""
EXACT_DOUBLES = 2.0**53
NO_WRAP = 2.0**61
"""Sums of squares whose double is at most this are below 2⁶², so that 64-bit integers hold them."""


class Gradient(ABC):
    """The gradients of one parameter, one for each record of a chunk, as floats."""

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """Return ‖g‖² of each record in doubles; not finite where the record has no gradient."""

    @abstractmethod
    def quantise(self, factors: Tensor, keep: Tensor) -> "Whole":
        """Return trunc(2³⁰·factor·g) of each record, 0 for those that `keep` leaves out."""

    def squared_norms_of_floats(self) -> Tensor:
        """Return ‖g‖² of each record in doubles, or a little more, for sums of floats."""
        return self.squared_norms()

    @abstractmethod
    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """Add Σ factor·g to a vector of doubles; the sum within a chunk is in doubles too if `wide`."""


class Whole(ABC):
    """The contributions of the records of a chunk to one parameter's sum, as integers."""

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """Return ‖v‖² of each record as int64, or more; −1 where it is not below 2⁶²."""

    @abstractmethod
    def drop(self, keep: Tensor) -> None:
        """Set the contributions of records that `keep` leaves out to zero."""

    @abstractmethod
    def add_to(self, total: Tensor) -> None:
        """Add the sum over records to a vector of int64."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the integers of each record, for comparisons."""


def clip_and_quantise(gradients: list[Gradient], clip: float, valid: Tensor) -> list[Whole]:
    """Return the contributions of a chunk's records: every one of norm at most 2³⁰ over all parameters, or zero.

    Where the whole numbers exceed the bound, a record is scaled once more, by what it exceeds it by, and then dropped.
    """
    norms = torch.stack([each.squared_norms() for each in gradients]).sum(0).sqrt()
    keep = valid & torch.isfinite(norms)
    aims = torch.full_like(norms, AIMS[0])
    wholes = _quantise_all(gradients, norms, clip, aims, keep)
    squared = sum_squared_norms(wholes)
    fits = (squared >= 0) & (squared <= SQUARED_BOUND)
    if bool(fits.all()):
        return wholes
    shrunk = AIMS[1] * torch.where(squared > 0, SQUARED_BOUND / squared.to(torch.float64), 0.25).sqrt()
    wholes = _quantise_all(gradients, norms, clip, torch.where(fits, aims, shrunk), keep)
    squared = sum_squared_norms(wholes)
    fits = (squared >= 0) & (squared <= SQUARED_BOUND)
    for each in wholes:
        each.drop(fits)
    return wholes


def clip_factors(norms: Tensor, clip: float, aims: Tensor, keep: Tensor) -> Tensor:
    """Return aim·min(1, C/‖g‖)/C of each record, and 0 for those that `keep` leaves out."""
    factors = aims * torch.clamp(clip / norms, max=1.0) / clip
    return torch.where(keep, factors, torch.zeros_like(factors))


def _quantise_all(gradients: list[Gradient], norms: Tensor, clip: float, aims: Tensor, keep: Tensor) -> list[Whole]:
    factors = clip_factors(norms, clip, aims, keep)
    return [each.quantise(factors, keep) for each in gradients]


def sum_squared_norms(wholes: list[Whole]) -> Tensor:
    """Return ‖v‖² of each record over all parameters as int64; −1 where a part or a partial sum is not below 2⁶².

    Both summands are below 2⁶² each time, so no sum wraps around.
    """
    total = torch.zeros_like(wholes[0].squared_norms())
    for each in wholes:
        squared = each.squared_norms()
        added = total + squared
        known = (total >= 0) & (squared >= 0) & (added < 1 << 62)
        total = torch.where(known, added, torch.full_like(total, -1))
    return total


def _zero_rows(values: Tensor, keep: Tensor) -> Tensor:
    """Select zeros for rows that are left out: a product with 0 would keep NaN."""
    if bool(keep.all()):
        return values
    shaped = keep.view(-1, *([1] * (values.dim() - 1)))
    return torch.where(shaped, values, torch.zeros((), dtype=values.dtype))


def _sum_squares(values: Tensor) -> Tensor:
    """Return Σ v² of each row of int64; −1 where it could wrap around.

    Doubles decide that: Σ v² of non-negative terms is computed within a factor 2 for any length below 2⁵⁰.
    """
    flat = values.reshape(len(values), -1)
    estimate = torch.linalg.vector_norm(flat.to(torch.float64), dim=1).square()
    exact = (flat * flat).sum(1)
    return torch.where(estimate <= NO_WRAP, exact, torch.full_like(exact, -1))


# Dense


@dataclass(slots=True)
class Dense(Gradient):
    """Gradients as a matrix: a row for each record."""

    values: Tensor  # records × parameters

    def squared_norms(self) -> Tensor:
        """As in `Gradient`."""
        return torch.linalg.vector_norm(self.values, dim=1, dtype=torch.float64).square()

    def quantise(self, factors: Tensor, keep: Tensor) -> "WholeDense":
        """As in `Gradient`. A product that is rounded up is caught by the check of the norm."""
        scale = (factors * 2.0**GRID_BITS).to(self.values.dtype)
        scaled = _zero_rows(self.values * scale[:, None], keep)
        return WholeDense(scaled.to(torch.int64))  # a conversion truncates toward zero

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`."""
        keep, dtype = factors > 0, torch.float64 if wide else self.values.dtype
        total += factors.to(self.values.dtype).to(dtype) @ _zero_rows(self.values, keep).to(dtype)


@dataclass(slots=True)
class WholeDense(Whole):
    """Integers as a matrix: a row for each record."""

    values: Tensor

    def squared_norms(self) -> Tensor:
        """As in `Whole`."""
        return _sum_squares(self.values)

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.values = _zero_rows(self.values, keep)

    def add_to(self, total: Tensor) -> None:
        """As in `Whole`."""
        total += self.values.sum(0)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return (self.values,)


# Rows of an embedding


@dataclass(slots=True)
class Rows(Gradient):
    """The rows of an embedding that a record touches: the gradient of a row at its first position, zero at the others."""

    places: Tensor  # records × positions: which row
    values: Tensor  # records × positions × width
    rows: int

    def squared_norms(self) -> Tensor:
        """As in `Gradient`."""
        return torch.linalg.vector_norm(self.values.flatten(1), dim=1, dtype=torch.float64).square()

    def quantise(self, factors: Tensor, keep: Tensor) -> "WholeRows":
        """As in `Gradient`."""
        scale = (factors * 2.0**GRID_BITS).to(self.values.dtype)
        scaled = _zero_rows(self.values * scale[:, None, None], keep)
        return WholeRows(self.places, scaled.to(torch.int64), self.rows)

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`."""
        scaled = _zero_rows(self.values.to(torch.float64) * factors[:, None, None], factors > 0)
        total.view(self.rows, -1).index_add_(0, self.places.flatten(), scaled.flatten(0, 1))


@dataclass(slots=True)
class WholeRows(Whole):
    """The touched rows as integers."""

    places: Tensor
    values: Tensor
    rows: int

    def squared_norms(self) -> Tensor:
        """As in `Whole`: different positions that are not zero have different rows."""
        return _sum_squares(self.values)

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.values = _zero_rows(self.values, keep)

    def add_to(self, total: Tensor) -> None:
        """As in `Whole`. The sum is dense: which rows were touched shows nowhere."""
        total.view(self.rows, -1).index_add_(0, self.places.flatten(), self.values.flatten(0, 1))

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.places, self.values


def gather_rows(places: Tensor, gradients: Tensor, rows: int) -> Rows:
    """Return the gradients of an embedding's rows: those of equal places are summed at the first of them."""
    equal = places[:, :, None] == places[:, None, :]
    first = ~torch.tril(equal, -1).any(2)
    summed = torch.bmm(equal.to(gradients.dtype), gradients)
    return Rows(places, torch.where(first[:, :, None], summed, torch.zeros((), dtype=summed.dtype)), rows)


# Outer products


def _scale_activations(activations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return Ã = trunc(2¹⁵·A/‖A‖) in doubles, the factor ‖A‖/2¹⁵ that undoes the scaling, and ‖Ã‖², a whole number."""
    flat = activations.flatten(1)
    norms = torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64)
    scale = torch.where(norms > 0, 2.0**FACTOR_BITS / norms, torch.zeros_like(norms)).to(activations.dtype)
    whole = (flat * scale[:, None]).trunc_().to(torch.float64)
    return whole.view(activations.shape), norms / 2.0**FACTOR_BITS, torch.linalg.vecdot(whole, whole)


class Factors(Gradient):
    """Gradients G ⊗ A: output gradients times activations. A is truncated first, so that its norm is a whole number."""

    def __init__(self, activations: Tensor, outputs: Tensor) -> None:
        self.activations, self.outputs = activations, outputs  # records × inputs, records × outputs
        self.scaled: tuple[Tensor, Tensor, Tensor] | None = None

    def squared_norms(self) -> Tensor:
        """As in `Gradient`, of G ⊗ Ã·‖A‖/2¹⁵."""
        self.scaled = self.scaled or _scale_activations(self.activations)
        _, unit, squared = self.scaled
        return torch.linalg.vector_norm(self.outputs, dim=1, dtype=torch.float64).square() * squared * unit.square()

    def quantise(self, factors: Tensor, keep: Tensor) -> "WholeFactors":
        """As in `Gradient`, of the factor G alone: v = G̃ ⊗ Ã."""
        whole, unit, squared = self.scaled = self.scaled or _scale_activations(self.activations)
        scale = 2.0**GRID_BITS * factors * unit
        outputs = _zero_rows((self.outputs.to(torch.float64) * scale[:, None]).trunc_(), keep)
        inputs = _zero_rows(whole, keep)
        return WholeFactors(inputs, outputs, squared if inputs is whole else torch.linalg.vecdot(inputs, inputs))

    def squared_norms_of_floats(self) -> Tensor:
        """As in `Gradient`."""
        norms = (torch.linalg.vector_norm(each, dim=1, dtype=torch.float64) for each in (self.activations, self.outputs))
        return (next(norms) * next(norms)).square()

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`."""
        keep, dtype = factors > 0, torch.float64 if wide else self.outputs.dtype
        outputs = _zero_rows(self.outputs * factors[:, None].to(self.outputs.dtype), keep).to(dtype)
        total += (outputs.T @ _zero_rows(self.activations, keep).to(dtype)).flatten()


@dataclass(slots=True)
class WholeFactors(Whole):
    """Contributions G̃ ⊗ Ã, both of them whole numbers in doubles."""

    inputs: Tensor
    outputs: Tensor
    inputs_squared: Tensor

    def squared_norms(self) -> Tensor:
        """As in `Whole`: ‖Ã‖²·‖G̃‖². Whole numbers below 2⁵³ are exact as doubles; a larger sum fails the estimate."""
        outputs_squared = torch.linalg.vecdot(self.outputs, self.outputs)
        estimate = self.inputs_squared * outputs_squared
        known = (estimate <= NO_WRAP) & (self.inputs_squared < EXACT_DOUBLES) & (outputs_squared < EXACT_DOUBLES)
        zero = torch.zeros_like(estimate)
        first, second = (torch.where(known, each, zero).to(torch.int64) for each in (self.inputs_squared, outputs_squared))
        return torch.where(known, first * second, torch.full_like(first, -1))

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.inputs, self.outputs = _zero_rows(self.inputs, keep), _zero_rows(self.outputs, keep)

    def add_to(self, total: Tensor) -> None:
        """As in `Whole`: one product of matrices whose partial sums stay below 2⁵³ for up to 2²³ records."""
        total += (self.outputs.T @ self.inputs).flatten().to(torch.int64)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.inputs, self.outputs


class Sequence(Gradient):
    """Gradients Σₜ Gₜ ⊗ Aₜ over positions, for layers whose gradients are too large to be multiplied out per record."""

    def __init__(self, activations: Tensor, outputs: Tensor) -> None:
        self.activations, self.outputs = activations, outputs  # records × positions × inputs or outputs
        self.scaled: tuple[Tensor, Tensor, Tensor] | None = None

    def squared_norms(self) -> Tensor:
        """As in `Gradient`, of the truncated activations."""
        whole, unit, _ = self.scaled = self.scaled or _scale_activations(self.activations)
        return _inner_products(whole, self.outputs.to(torch.float64)).clamp(min=0) * unit.square()

    def quantise(self, factors: Tensor, keep: Tensor) -> "WholeSequence":
        """As in `Gradient`, of the factor G alone: v = Σₜ G̃ₜ ⊗ Ãₜ."""
        whole, unit, _ = self.scaled = self.scaled or _scale_activations(self.activations)
        scale = 2.0**GRID_BITS * factors * unit
        outputs = (self.outputs.to(torch.float64) * scale[:, None, None]).trunc_()
        return WholeSequence(_zero_rows(whole, keep), _zero_rows(outputs, keep))

    def squared_norms_of_floats(self) -> Tensor:
        """As in `Gradient`, with the bound on the error of the doubles."""
        inputs, outputs = self.activations.to(torch.float64), self.outputs.to(torch.float64)
        return _inner_products(inputs, outputs).clamp(min=0) + _bound_error(inputs, outputs)

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`."""
        keep, dtype = factors > 0, torch.float64 if wide else self.outputs.dtype
        outputs = _zero_rows(self.outputs * factors[:, None, None].to(self.outputs.dtype), keep).to(dtype)
        total += (outputs.flatten(0, 1).T @ _zero_rows(self.activations, keep).to(dtype).flatten(0, 1)).flatten()


def _inner_products(inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return ‖Σₜ Gₜ ⊗ Aₜ‖² = ⟨AAᵀ, GGᵀ⟩ of each record, in doubles."""
    products = torch.bmm(inputs, inputs.mT).mul_(torch.bmm(outputs, outputs.mT))
    return products.flatten(1).sum(1)


def _bound_error(inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return a bound on the error of `_inner_products`: γ‖A‖²‖G‖², where γ covers all of its roundings.

    Each entry of AAᵀ is off by at most p·u·(|A||A|ᵀ), likewise GGᵀ; the products and their T² sums add u each. The absolute
    inner product ⟨|A||A|ᵀ, |G||G|ᵀ⟩ is at most ‖A‖²‖G‖² (Cauchy–Schwarz). Twice the sum covers the second-order terms.
    """
    positions = inputs.shape[1]
    roundings = inputs.shape[2] + outputs.shape[2] + positions * positions + 8
    squares = (torch.linalg.vector_norm(each.flatten(1), dim=1).square() for each in (inputs, outputs))
    return 2 * roundings * 2.0**-53 * next(squares) * next(squares)


@dataclass(slots=True)
class WholeSequence(Whole):
    """Contributions Σₜ G̃ₜ ⊗ Ãₜ, both of them whole numbers in doubles."""

    inputs: Tensor
    outputs: Tensor

    def squared_norms(self) -> Tensor:
        """As in `Whole`: the inner product with the bound on its error, and −1 where partial sums of a chunk may be inexact."""
        upper = _inner_products(self.inputs, self.outputs).clamp(min=0) + _bound_error(self.inputs, self.outputs)
        upper = (upper * (1 + 2.0**-50)).ceil()
        squares = (torch.linalg.vector_norm(e.flatten(1), dim=1).square() for e in (self.inputs, self.outputs))
        limit = (2.0**52 / len(self.inputs)) ** 2
        known = (upper <= NO_WRAP) & (next(squares) * next(squares) <= limit)
        whole = torch.where(known, upper, torch.zeros_like(upper)).to(torch.int64)
        return torch.where(known, whole, torch.full_like(whole, -1))

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.inputs, self.outputs = _zero_rows(self.inputs, keep), _zero_rows(self.outputs, keep)

    def add_to(self, total: Tensor) -> None:
        """As in `Whole`: one product of matrices whose partial sums stay below 2⁵³."""
        product = self.outputs.flatten(0, 1).T @ self.inputs.flatten(0, 1)
        total += product.flatten().to(torch.int64)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.inputs, self.outputs
