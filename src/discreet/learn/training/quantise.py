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
and their product *is* the contribution, with norm ‖Ã‖·‖G̃‖. `Positions`: a sum of outer products over positions, whose norm
is ⟨ÃÃᵀ, G̃G̃ᵀ⟩, computed in doubles with a bound on their error. Truncating the factors of a `Positions` can lengthen their
product, so its norm is computed after truncation.

Sums of `Factors` and `Positions` are products of matrices in doubles, exact in any order as long as no partial sum reaches
2⁵³: an entry of a partial sum is at most Σᵢ‖Ãᵢ‖‖G̃ᵢ‖ (Cauchy–Schwarz), which `Factors` keep below 2³⁰ for each record and
`Positions` below 2⁵³ for each chunk.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

GRID_BITS = 30
"""The clip norm is 2³⁰ grid steps."""
FACTOR_BITS = 15
"""The norm to which activations are scaled before they are truncated."""
SQUARED_BOUND = 1 << (2 * GRID_BITS)
AIM = 1 - 2.0**-20
"""The share of the clip norm that a gradient is clipped to, so that rounding does not lift it above the bound."""
SHRINK = 1 - 2.0**-7
"""By how much more than its excess a record above the bound is scaled, once."""
EXACT_DOUBLES = 2.0**53
MAX_FLOAT_RECORDS = 1 << 22
"""The most records of a data set whose gradients are summed as floats."""
TINY = 1e-30
"""Activations of a smaller norm count as this long."""
NO_WRAP = 2.0**61
"""Sums of squares whose double is at most this are below 2⁶², so that 64-bit integers hold them."""


class Gradient(ABC):
    """The gradients of one parameter, one for each record of a chunk, as floats."""

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """Return ‖g‖² of each record in doubles; not finite where the record has no gradient."""

    @abstractmethod
    def quantise(self, factors: Tensor, keep: Tensor | None) -> "Whole":
        """Return trunc(2³⁰·factor·g) of each record, 0 for those that `keep` leaves out."""

    def squared_norms_of_floats(self) -> Tensor:
        """Return ‖g‖² of each record in doubles, for sums of floats."""
        return self.squared_norms()

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the floats of each record, for comparisons."""

    @abstractmethod
    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """Add Σ factor·g to a vector of doubles; the sum within a chunk is in doubles too if `wide`."""


class Whole(ABC):
    """The contributions of the records of a chunk to one parameter's sum, as integers."""

    @abstractmethod
    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """Return ‖v‖² of each record, or more, as int64; and in doubles, within a factor 2, which tells a sum that wrapped
        around."""

    @abstractmethod
    def drop(self, keep: Tensor) -> None:
        """Set the contributions of records that `keep` leaves out to zero."""

    @abstractmethod
    def add_to(self, total: "Part") -> None:
        """Add the sum over records to a parameter's part of the total."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the integers of each record, for comparisons."""


FLUSH_RECORDS = 1 << 21
"""After so many records the doubles are moved to integers: sums of so many contributions stay below 2⁵²."""


class Part(NamedTuple):
    """One parameter's part of a total."""

    integers: Tensor
    doubles: Tensor  # whole numbers


class Total:
    """The exact sum of contributions: 64-bit integers, and doubles that hold whole numbers below 2⁵³."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.integers = torch.zeros(sum(sizes), dtype=torch.int64)
        self._doubles = torch.zeros(sum(sizes), dtype=torch.float64)
        views = zip(self.integers.split(list(sizes)), self._doubles.split(list(sizes)), strict=True)
        self._parts = [Part(*each) for each in views]
        self._records = 0

    def add(self, wholes: "list[Whole]", records: int) -> None:
        """Add the contributions of a chunk of so many records."""
        if self._records + records > FLUSH_RECORDS:
            self._flush()
        for part, whole in zip(self._parts, wholes, strict=True):
            whole.add_to(part)
        self._records += records

    def take(self) -> Tensor:
        """Return the sum, and start again at zero."""
        self._flush()
        found = self.integers.clone()
        self.integers.zero_()
        return found

    def _flush(self) -> None:
        self.integers += self._doubles.to(torch.int64)
        self._doubles.zero_()
        self._records = 0


def clip_and_quantise(gradients: list[Gradient], clip: float, valid: Tensor) -> list[Whole]:
    """Return the contributions of a chunk's records: every one of norm at most 2³⁰ over all parameters, or zero.

    Where the whole numbers exceed the bound, a record is scaled once more, by what it exceeds it by, and then dropped.
    """
    norms = torch.stack([each.squared_norms() for each in gradients]).sum(0).sqrt()
    keep = valid & torch.isfinite(norms)
    selected = None if bool(keep.all()) else keep
    factors = clip_factors(norms, clip, selected)
    wholes = [each.quantise(factors, selected) for each in gradients]
    fits, squared = check_norms(wholes)
    if bool(fits.all()):
        return wholes
    shrunk = SHRINK * torch.where(squared > SQUARED_BOUND, SQUARED_BOUND / squared, torch.full_like(squared, 0.25)).sqrt()
    factors = factors * torch.where(fits, torch.ones_like(shrunk), shrunk)
    wholes = [each.quantise(factors, selected) for each in gradients]
    fits, _ = check_norms(wholes)
    for each in wholes:
        each.drop(fits)
    return wholes


def add_clipped_floats(gradients: list[Gradient], clip: float, valid: Tensor, totals: Sequence[Tensor], wide: bool) -> None:
    """Add the sum of clipped gradients, in units of the clip norm, to vectors of doubles. See `bound_float_error`."""
    norms = torch.stack([each.squared_norms_of_floats() for each in gradients]).sum(0).sqrt()
    factors = clip_factors(norms, clip, valid & torch.isfinite(norms))
    for each, total in zip(gradients, totals, strict=True):
        each.add_floats(factors, total, wide)


def bound_float_error(chunk: int, narrow_chunks: int) -> Fraction:
    """Return a bound on ‖fl(Σ cᵢ) − Σ cᵢ‖, in units of the clip norm, of a step of at most `MAX_FLOAT_RECORDS` records.

    A contribution cᵢ is the exact product of two floats of one record, of norm at most 1. A sum of P terms in any order is
    off by at most γ·Σ|cᵢⱼ| in coordinate j, hence by γ·P in length, where γ = (P + 2)u/(1 − (P + 2)u): u = 2⁻²⁴ in the first
    `narrow_chunks` chunks, 2⁻⁵³ in the others, whose results are added up in doubles, K·u·B in length [Hig02, ch. 3-4].

    >>> float(bound_float_error(64, 5)) < 0.0014
    True
    """
    terms = chunk + 2
    narrow, wide = (Fraction(terms, 2**bits - terms) for bits in (24, 53))
    chunks = -(-MAX_FLOAT_RECORDS // chunk)
    return narrow * chunk * narrow_chunks + wide * MAX_FLOAT_RECORDS + Fraction(2 * chunks * MAX_FLOAT_RECORDS, 2**53)


def clip_factors(norms: Tensor, clip: float, keep: Tensor | None) -> Tensor:
    """Return aim·min(1, C/‖g‖)/C of each record, and 0 for those that `keep` leaves out."""
    factors = (clip / norms).clamp_(max=1.0).mul_(AIM / clip)
    return factors if keep is None else torch.where(keep, factors, torch.zeros_like(factors))


def check_norms(wholes: list[Whole]) -> tuple[Tensor, Tensor]:
    """Return which records have a norm of at most 2³⁰ over all parameters, in 64-bit integers; and the squared norms in
    doubles.

    Where the sum in doubles is at most 2⁶¹, neither a part nor the sum in integers wraps around: doubles are within a
    factor 2. A product in integers counts only if both of its factors are whole numbers that doubles hold exactly.
    """
    parts, estimates = [], []
    for each in wholes:
        if not isinstance(each, WholeFactors):
            part, estimate = each.squared_norms()
            parts.append(part)
            estimates.append(estimate)
    factors = [each for each in wholes if isinstance(each, WholeFactors)]
    if factors:
        inputs = torch.stack([each.inputs_squared for each in factors])
        outputs = torch.stack([torch.linalg.vecdot(each.outputs, each.outputs) for each in factors])
        parts.extend((inputs.to(torch.int64) * outputs.to(torch.int64)).unbind())
        known = torch.maximum(inputs, outputs) < EXACT_DOUBLES
        estimates.extend(torch.where(known, inputs * outputs, torch.full_like(inputs, torch.inf)).unbind())
    total = torch.stack(estimates).sum(0)
    return (total <= NO_WRAP) & (torch.stack(parts).sum(0) <= SQUARED_BOUND), total


def _zero_rows(values: Tensor, keep: Tensor | None) -> Tensor:
    """Select zeros for rows that are left out: a product with 0 would keep NaN."""
    if keep is None:
        return values
    shaped = keep.view(-1, *([1] * (values.dim() - 1)))
    return torch.where(shaped, values, torch.zeros((), dtype=values.dtype))


def _truncate(values: Tensor, factors: Tensor, keep: Tensor | None) -> Tensor:
    """Return trunc(2³⁰·factor·g) as 32-bit integers: at most the length of a clipped gradient, 2³⁰."""
    scale = (factors * 2.0**GRID_BITS).to(values.dtype).view(-1, *([1] * (values.dim() - 1)))
    return _zero_rows(values * scale, keep).to(torch.int32)  # a conversion truncates toward zero


def _sum_squares(values: Tensor) -> Tensor:
    """Return Σ v² of each row as int64."""
    wide = values.flatten(1).to(torch.int64)
    return (wide * wide).sum(1)


# Dense


class Dense(Gradient):
    """Gradients as a matrix: a row for each record."""

    def __init__(self, values: Tensor) -> None:
        self.values = values  # records × parameters

    def squared_norms(self) -> Tensor:
        """As in `Gradient`."""
        self.norms_squared = torch.linalg.vector_norm(self.values, dim=1, dtype=torch.float64).square()
        return self.norms_squared

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholeDense":
        """As in `Gradient`. A product that is rounded up is caught by the check of the norm."""
        estimates = _zero_rows(self.norms_squared * (factors * 2.0**GRID_BITS).square(), keep)
        return WholeDense(_truncate(self.values, factors, keep), estimates)

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`."""
        keep, dtype = factors > 0, torch.float64 if wide else self.values.dtype
        total += factors.to(self.values.dtype).to(dtype) @ _zero_rows(self.values, keep).to(dtype)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Gradient`."""
        return (self.values,)


@dataclass(slots=True)
class WholeDense(Whole):
    """Integers as a matrix: a row for each record."""

    values: Tensor
    estimates: Tensor  # of the squared norms

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """As in `Whole`. The estimate is from the floats, each of which was rounded once more by at most 2⁻²²."""
        return _sum_squares(self.values), self.estimates

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.values = _zero_rows(self.values, keep)

    def add_to(self, total: Part) -> None:
        """As in `Whole`: a product with ones, which is exact, and quicker than a sum over rows."""
        row, ones = total.doubles[None], torch.ones(1, len(self.values), dtype=torch.float64)
        torch.addmm(row, ones, self.values.to(torch.float64), out=row)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return (self.values,)


# Rows of an embedding


class Rows(Gradient):
    """The rows of an embedding that a record touches: the gradient of a row at its first position, zero at the others."""

    def __init__(self, places: Tensor, values: Tensor, rows: int) -> None:
        self.places, self.values, self.rows = places, values, rows  # records × positions (× width)

    def squared_norms(self) -> Tensor:
        """As in `Gradient`."""
        self.norms_squared = torch.linalg.vector_norm(self.values.flatten(1), dim=1, dtype=torch.float64).square()
        return self.norms_squared

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholeRows":
        """As in `Gradient`."""
        estimates = _zero_rows(self.norms_squared * (factors * 2.0**GRID_BITS).square(), keep)
        return WholeRows(_truncate(self.values, factors, keep), estimates, self.places, self.rows)

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`."""
        scaled = _zero_rows(self.values.to(torch.float64) * factors[:, None, None], factors > 0)
        total.view(self.rows, -1).index_add_(0, self.places.flatten(), scaled.flatten(0, 1))

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Gradient`."""
        return self.places, self.values


@dataclass(slots=True)
class WholeRows(WholeDense):
    """The touched rows as integers. Positions that are not zero have different rows, so norms are those of the values."""

    places: Tensor
    rows: int

    def add_to(self, total: Part) -> None:
        """As in `Whole`. The sum is dense: which rows were touched shows nowhere."""
        values = self.values.flatten(0, 1).to(torch.int64)
        total.integers.view(self.rows, -1).index_add_(0, self.places.flatten(), values)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.places, self.values


def gather_rows(places: Tensor, gradients: Tensor, rows: int) -> Rows:
    """Return the gradients of an embedding's rows: those of equal places are summed at the first of them."""
    positions = torch.arange(places.shape[1])
    equal = places[:, :, None] == places[:, None, :]
    first = torch.where(equal, positions, len(positions)).amin(2)
    summed = torch.zeros_like(gradients).scatter_add_(1, first[:, :, None].expand_as(gradients), gradients)
    return Rows(places, summed, rows)


# Outer products


def _scale_activations(activations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return Ã = trunc(2¹⁵·A/‖A‖) in doubles, the factor ‖A‖/2¹⁵ that undoes the scaling, and ‖Ã‖², a whole number.

    ‖A‖ need not be accurate. Where it is not finite, neither is the factor, so that the record is dropped; Ã then holds
    arbitrary integers.
    """
    flat = activations.flatten(1)
    norms = torch.linalg.vector_norm(flat, dim=1)
    whole = (flat * (2.0**FACTOR_BITS / norms.clamp(min=TINY))[:, None]).to(torch.int32).to(torch.float64)
    return whole.view(activations.shape), norms.to(torch.float64) * 2.0**-FACTOR_BITS, torch.linalg.vecdot(whole, whole)


class Factors(Gradient):
    """Gradients G ⊗ A: output gradients times activations. A is truncated first, so that its norm is a whole number."""

    def __init__(self, activations: Tensor, outputs: Tensor) -> None:
        self.activations, self.outputs = activations, outputs  # records × inputs, records × outputs

    def squared_norms(self) -> Tensor:
        """As in `Gradient`, of G ⊗ Ã·‖A‖/2¹⁵."""
        self.whole, self.unit, self.whole_squared = _scale_activations(self.activations)
        self.wide_outputs = self.outputs.to(torch.float64)
        outputs_squared = torch.linalg.vecdot(self.wide_outputs, self.wide_outputs)
        return outputs_squared * self.whole_squared * self.unit.square()

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholeFactors":
        """As in `Gradient`, of the factor G alone: v = G̃ ⊗ Ã."""
        scale = 2.0**GRID_BITS * factors * self.unit
        outputs = _zero_rows(self.wide_outputs * scale[:, None], keep).trunc_()
        return WholeFactors(self.whole, outputs, self.whole_squared)

    def squared_norms_of_floats(self) -> Tensor:
        """As in `Gradient`."""
        norms = (torch.linalg.vector_norm(each, dim=1, dtype=torch.float64) for each in (self.activations, self.outputs))
        return (next(norms) * next(norms)).square()

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`."""
        keep, dtype = factors > 0, torch.float64 if wide else self.outputs.dtype
        outputs = _zero_rows(self.outputs * factors[:, None].to(self.outputs.dtype), keep).to(dtype)
        total += (outputs.T @ _zero_rows(self.activations, keep).to(dtype)).flatten()

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Gradient`."""
        return self.activations, self.outputs


@dataclass(slots=True)
class WholeFactors(Whole):
    """Contributions G̃ ⊗ Ã, both of them whole numbers in doubles."""

    inputs: Tensor
    outputs: Tensor
    inputs_squared: Tensor

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """As in `Whole`: ‖Ã‖²·‖G̃‖², which `check_norms` computes for all factors at once."""
        raise AssertionError("norms of factors are checked together")

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`. The inputs are finite, so zero outputs suffice."""
        self.outputs = _zero_rows(self.outputs, keep)

    def add_to(self, total: Part) -> None:
        """As in `Whole`: one product of matrices whose partial sums stay below 2⁵³."""
        matrix = total.doubles.view(self.outputs.shape[1], -1)
        torch.addmm(matrix, self.outputs.T, self.inputs, out=matrix)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.inputs, self.outputs


class Positions(Gradient):
    """Gradients Σₜ Gₜ ⊗ Aₜ over positions, for layers whose gradients are too large to be multiplied out per record."""

    def __init__(self, activations: Tensor, outputs: Tensor) -> None:
        self.activations, self.outputs = activations, outputs  # records × positions × inputs or outputs

    def squared_norms(self) -> Tensor:
        """As in `Gradient`, of the truncated activations."""
        self.whole, self.unit, _ = _scale_activations(self.activations)
        return _inner_products(self.whole, self.outputs.to(torch.float64)).clamp(min=0) * self.unit.square()

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholePositions":
        """As in `Gradient`, of the factor G alone: v = Σₜ G̃ₜ ⊗ Ãₜ."""
        scale = 2.0**GRID_BITS * factors * self.unit
        outputs = _zero_rows(self.outputs.to(torch.float64) * scale[:, None, None], keep).trunc_()
        return WholePositions(self.whole, outputs)

    def add_floats(self, factors: Tensor, total: Tensor, wide: bool) -> None:
        """As in `Gradient`, always in doubles. Sums of floats do not use it: a record's own terms may cancel out."""
        outputs = _zero_rows(self.outputs * factors[:, None, None].to(self.outputs.dtype), factors > 0).to(torch.float64)
        total += (outputs.flatten(0, 1).T @ self.activations.to(torch.float64).flatten(0, 1)).flatten()

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Gradient`."""
        return self.activations, self.outputs


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
class WholePositions(Whole):
    """Contributions Σₜ G̃ₜ ⊗ Ãₜ, both of them whole numbers in doubles."""

    inputs: Tensor
    outputs: Tensor

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """As in `Whole`: the inner product with the bound on its error; infinite where sums of a chunk may be inexact."""
        upper = _inner_products(self.inputs, self.outputs).clamp(min=0) + _bound_error(self.inputs, self.outputs)
        upper = (upper * (1 + 2.0**-50)).ceil()
        squares = [torch.linalg.vector_norm(each.flatten(1), dim=1).square() for each in (self.inputs, self.outputs)]
        known = squares[0] * squares[1] <= (2.0**52 / len(self.inputs)) ** 2
        return upper.to(torch.int64), torch.where(known, upper, torch.full_like(upper, torch.inf))

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.outputs = _zero_rows(self.outputs, keep)

    def add_to(self, total: Part) -> None:
        """As in `Whole`: one product of matrices whose partial sums stay below 2⁵³, moved to integers at once."""
        product = self.outputs.flatten(0, 1).T @ self.inputs.flatten(0, 1)
        total.integers.add_(product.flatten().to(torch.int64))

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.inputs, self.outputs
