"""Clipped gradients as whole numbers: what one record adds to the sum of a step is known exactly, and so is its norm.

A record's gradient g is clipped to c = g·min(1, C/‖g‖) and counted in grid steps of C·2⁻³⁰: its contribution is an integer
vector v with ‖v‖₂ ≤ 2³⁰. Sums of integers are exact in any order, so a step's sum depends on who is in the batch and on
nothing else: not on the order, the chunks or the threads.

**Proof that one record moves the sum by at most 2³⁰.** v is computed from one record and the weights alone. Whether v counts
is decided from v: a bound on ‖v‖² that holds whatever rounding did (`bound_squares`) is compared with 2⁶⁰, and a record
whose bound is above adds 0. So whatever floating point did before, the integer vector that is added has norm at most 2³⁰.
Truncation toward zero never lengthens a vector, so with a clipping factor that aims at C(1 − 2⁻¹²) a record is almost never
dropped. A NaN fails every comparison, and counts as above. ∎

A gradient has one of four forms. `Dense`: one number per parameter and record. `Rows`: the touched rows of an embedding.
`Factors`: the outer product of activations and output gradients, never multiplied out per record: both factors are integers,
and their product *is* the contribution, with norm ‖Ã‖·‖G̃‖. `Positions`: a sum of outer products over positions, whose norm
is ⟨ÃÃᵀ, G̃G̃ᵀ⟩, computed in doubles with a bound on their error. Truncating the factors of a `Positions` can lengthen their
product, so its norm is computed after truncation.

Sums are products of matrices in doubles that hold integers, exact in any order and for any number of rows as long as no
partial sum reaches 2⁵³: an entry of a partial sum is at most Σᵢ‖Ãᵢ‖‖G̃ᵢ‖ (Cauchy–Schwarz), which `Factors` keep below 2³⁰ for
each record and `Positions` below 2⁵³ for each chunk.

Everything that rounds is computed in chunks, or in blocks of a chunk, whose shape is fixed. Sums, which are exact, leave the
padding rows at the end of a chunk out.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

GRID_BITS = 30
"""The clip norm is 2³⁰ grid steps."""
FACTOR_BITS = 15
"""The norm to which activations are scaled before they are truncated."""
SQUARED_BOUND = 1 << (2 * GRID_BITS)
AIM = 1 - 2.0**-12
"""The share of the clip norm that a gradient is clipped to, so that rounded norms do not lift it above the bound."""
SHRINK = 1 - 2.0**-7
"""By how much more than its excess a record above the bound is scaled, once."""
MAX_FLOAT_RECORDS = 1 << 22
"""The most records of a data set whose gradients are summed as floats."""
BLOCK_NUMBERS = 1 << 17
"""About so many numbers of a matrix are handled at once, so that they stay in the cache from one operation to the next."""
TINY = 1e-30
"""Activations of a smaller norm count as this long."""


class Gradient(ABC):
    """The gradients of one parameter, one for each record of a chunk, as floats."""

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """Return about ‖g‖² of each row in doubles; not finite where the row has no gradient."""

    @abstractmethod
    def quantise(self, factors: Tensor, keep: Tensor | None) -> "Whole":
        """Return trunc(2³⁰·factor·g) of each row; 0 for those that `keep` leaves out."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the floats of each record, for comparisons."""

    @abstractmethod
    def sum_floats(self, factors: Tensor, wide: bool) -> Tensor:
        """Return Σ factor·g of the first rows as one vector; the sum is in doubles if `wide`."""


class Whole(ABC):
    """The contributions of the records of a chunk to one parameter's sum, as integers that doubles hold."""

    @abstractmethod
    def bound_squared_norms(self) -> Tensor:
        """Return at least ‖v‖² of each record in doubles, whatever rounding did; NaN or infinite where that is not known."""

    @abstractmethod
    def drop(self, keep: Tensor) -> None:
        """Set the contributions of records that `keep` leaves out to zero."""

    @abstractmethod
    def add_to(self, total: "Part", count: int) -> None:
        """Add the sum over the first rows to a parameter's part of the total."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the integers of each record, for comparisons: tensors that nothing else holds."""


FLUSH_RECORDS = 1 << 21
"""After so many records the doubles are moved to integers: sums of so many contributions stay below 2⁵²."""


@dataclass(slots=True)
class Part:
    """One parameter's part of a total."""

    integers: Tensor
    doubles: Tensor  # whole numbers
    is_empty: bool = True  # nothing was added to the doubles yet: what they hold does not count

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add a product of matrices of whole numbers to the doubles."""
        matrix = self.doubles.view(left.shape[0], -1)
        torch.addmm(matrix, left, right, beta=0 if self.is_empty else 1, out=matrix)
        self.is_empty = False


class Total:
    """The exact sum of contributions: 64-bit integers, and doubles that hold whole numbers below 2⁵³."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.integers = torch.zeros(sum(sizes), dtype=torch.int64)
        doubles = torch.zeros(sum(sizes), dtype=torch.float64)
        views = zip(self.integers.split(list(sizes)), doubles.split(list(sizes)), strict=True)
        self._parts = [Part(*each) for each in views]
        self._records = 0

    def add(self, wholes: "list[Whole]", count: int) -> None:
        """Add the contributions of a chunk, of so many records."""
        if self._records + count > FLUSH_RECORDS:
            self._flush()
        for part, whole in zip(self._parts, wholes, strict=True):
            whole.add_to(part, count)
        self._records += count

    def take(self) -> Tensor:
        """Return the sum, and start again at zero."""
        self._flush()
        found = self.integers.clone()
        self.integers.zero_()
        return found

    def _flush(self) -> None:
        for part in self._parts:
            if not part.is_empty:
                part.integers += part.doubles.to(torch.int64)
                part.is_empty = True
        self._records = 0


def clip_and_quantise(gradients: list[Gradient], clip: float, valid: Tensor) -> list[Whole]:
    """Return the contributions of a chunk's records: every one of norm at most 2³⁰ over all parameters, or zero.

    Rows that are not `valid` are scaled by 0. Where the bound on a norm exceeds 2³⁰, a record is scaled once more, by what
    it exceeds it by, and then dropped.
    """
    norms = torch.stack([each.squared_norms() for each in gradients]).sum(0).sqrt()
    finite = torch.isfinite(norms)
    keep = valid & finite
    selected = None if bool(finite.all()) else keep
    factors = clip_factors(norms, clip, keep)
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


class FloatTotal:
    """A sum of clipped gradients that is rounded to the grid. See `bound_float_error`.

    Sums of chunks in the model's own floats are rounded one by one and added as integers; those in doubles are added up
    first. Rounding is toward zero, by less than a step each time.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = list(sizes)
        self._integers = torch.empty(sum(sizes), dtype=torch.int64)
        self._parts = self._integers.split(self._sizes)
        self._empty = [True] * len(self._parts)
        self._doubles: tuple[Tensor, ...] | None = None

    def add(self, gradients: list[Gradient], clip: float, valid: Tensor, count: int, wide: bool) -> None:
        """Add the sum of the clipped gradients of the first rows of a chunk."""
        norms = torch.stack([each.squared_norms() for each in gradients]).sum(0).sqrt()
        factors = clip_factors(norms, clip, valid & torch.isfinite(norms))[:count].mul_(2.0**GRID_BITS)
        for place, each in enumerate(gradients):
            found = each.sum_floats(factors, wide)
            if found.dtype is torch.float64:
                if self._doubles is None:
                    self._doubles = torch.zeros(sum(self._sizes), dtype=torch.float64).split(self._sizes)
                self._doubles[place].add_(found)
            elif self._empty[place]:
                self._parts[place].copy_(found)
                self._empty[place] = False
            else:
                self._parts[place].add_(found.to(torch.int64))

    def take(self) -> Tensor:
        """Return the sum on the grid."""
        for place, part in enumerate(self._parts):
            if self._empty[place]:
                part.zero_()
            if self._doubles is not None:
                part.add_(self._doubles[place].to(torch.int64))
        return self._integers


def bound_float_error(chunk: int, narrow_chunks: int) -> Fraction:
    """Return a bound on ‖fl(Σ cᵢ) − Σ cᵢ‖, in units of the clip norm, of a step of at most `MAX_FLOAT_RECORDS` records.

    A contribution cᵢ is the exact product of two floats of one record, of norm at most 1. A sum of P terms in any order is
    off by at most γ·Σ|cᵢⱼ| in coordinate j, hence by γ·P in length, where γ = (P + 2)u/(1 − (P + 2)u): u = 2⁻²⁴ in the first
    `narrow_chunks` chunks, 2⁻⁵³ in the others, whose results are added up in doubles, K·u·B in length [Hig02, ch. 3-4].
    Rounding to the grid is not part of it.

    >>> float(bound_float_error(64, 5)) < 0.0014
    True
    """
    terms = chunk + 2
    narrow, wide = (Fraction(terms, 2**bits - terms) for bits in (24, 53))
    chunks = -(-MAX_FLOAT_RECORDS // chunk)
    return narrow * chunk * narrow_chunks + wide * MAX_FLOAT_RECORDS + Fraction(2 * chunks * MAX_FLOAT_RECORDS, 2**53)


def clip_factors(norms: Tensor, clip: float, keep: Tensor) -> Tensor:
    """Return aim·min(1, C/‖g‖)/C of each record, and 0 for those that `keep` leaves out."""
    factors = (clip / norms).clamp_(max=1.0).mul_(AIM / clip)
    return torch.where(keep, factors, torch.zeros_like(factors))


def bound_squares(values: Tensor) -> Tensor:
    """Return at least Σ v² of each row of whole numbers, in doubles.

    **Proof.** n squares and their sum, in any order and with or without fused products, are each off by a factor of at most
    1 + u, u = 2⁻⁵³, and so are the root and its square: the result is at least Σv²·(1 − u)ⁿ⁺³, and that times
    1 + (2n + 16)u is at least Σv² for n ≤ 2⁴⁰ [Hig02, ch. 3]. Whole numbers do not underflow. ∎

    >>> bound_squares(torch.tensor([[3.0, 4.0]], dtype=torch.float64)).item() >= 25
    True
    """
    flat = values.flatten(1)
    return torch.linalg.vector_norm(flat, dim=1).square_().mul_(1 + (flat.shape[1] + 8) * 2.0**-52)


def check_norms(wholes: list[Whole]) -> tuple[Tensor, Tensor]:
    """Return which records are proven to have a norm of at most 2³⁰ over all parameters; and the bounds on ‖v‖².

    The sum of the bounds is rounded up like each of them. A NaN does not pass.
    """
    total = torch.stack([each.bound_squared_norms() for each in wholes]).sum(0) * (1 + (len(wholes) + 8) * 2.0**-52)
    return total <= SQUARED_BOUND, total


def _zero_rows(values: Tensor, keep: Tensor | None) -> Tensor:
    """Select zeros for rows that are left out: a product with 0 would keep NaN."""
    if keep is None:
        return values
    shaped = keep.view(-1, *([1] * (values.dim() - 1)))
    return torch.where(shaped, values, torch.zeros((), dtype=values.dtype))


def _truncate(values: Tensor, scale: Tensor, keep: Tensor | None) -> Tensor:
    """Return trunc(scale·g) of each row as whole numbers in doubles, by way of 32-bit integers, which truncate toward zero.
    What they do not hold becomes some other integer, whose norm is bounded like that of any."""
    shaped = scale.view(-1, *([1] * (values.dim() - 1)))
    return _zero_rows(values * shaped, keep).to(torch.int32).to(torch.float64)


def _square_norms(values: Tensor) -> Tensor:
    return torch.linalg.vector_norm(values.flatten(1), dim=1).to(torch.float64).square_()


# Dense


def list_blocks(rows: int, width: int, count: int | None = None) -> list[slice]:
    """Return the blocks of rows of a matrix that are handled at once. Their shapes depend on that of the matrix alone;
    blocks without any of the first `count` rows are left out.

    >>> list_blocks(20, 1 << 14, 9)
    [slice(0, 8, None), slice(8, 16, None)]
    """
    step = max(1, BLOCK_NUMBERS // max(1, width))
    return [slice(start, min(rows, start + step)) for start in range(0, rows if count is None else min(rows, count), step)]


class Dense(Gradient):
    """Gradients as a matrix: a row for each record."""

    def __init__(self, values: Tensor, norms: Tensor | None = None, count: int | None = None) -> None:
        self.values = values  # records × parameters
        self.norms = norms  # if they are known
        self.count = len(values) if count is None else count  # rows behind them are padding

    def squared_norms(self) -> Tensor:
        """As in `Gradient`."""
        if self.norms is None:
            self.norms = torch.linalg.vector_norm(self.values, dim=1)
        return self.norms.to(torch.float64).square_()

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholeDense":
        """As in `Gradient`. A product that is rounded up is caught by the check of the norm."""
        scale = (factors * 2.0**GRID_BITS).to(self.values.dtype)[:, None]
        whole = torch.empty(self.values.shape, dtype=torch.int32)
        bounds = torch.zeros(len(whole), dtype=torch.float64)
        for part in list_blocks(len(whole), whole.shape[1], self.count):
            whole[part] = _zero_rows(self.values[part] * scale[part], None if keep is None else keep[part])
            bounds[part] = bound_squares(whole[part].to(torch.float64))
        return WholeDense(whole, bounds)

    def sum_floats(self, factors: Tensor, wide: bool) -> Tensor:
        """As in `Gradient`."""
        dtype, count = torch.float64 if wide else self.values.dtype, len(factors)
        return factors.to(self.values.dtype).to(dtype) @ zero_unused(self.values[:count], factors).to(dtype)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Gradient`."""
        return (self.values,)


def zero_unused(values: Tensor, factors: Tensor) -> Tensor:
    """Select zeros for records whose factor is 0."""
    keep = factors > 0
    return values if bool(keep.all()) else _zero_rows(values, keep)


@dataclass(slots=True)
class WholeDense(Whole):
    """Integers as a matrix: a row for each record."""

    values: Tensor  # of 32 bits
    bounds: Tensor

    def bound_squared_norms(self) -> Tensor:
        """As in `Whole`."""
        return self.bounds

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.values = _zero_rows(self.values, keep)

    def add_to(self, total: Part, count: int) -> None:
        """As in `Whole`: a product with ones, which is exact, and quicker than a sum over rows."""
        for part in list_blocks(count, self.values.shape[1]):
            block = self.values[part].to(torch.float64)
            total.add_product(torch.ones(1, len(block), dtype=torch.float64), block)

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.values, self.bounds


# Rows of an embedding


class Rows(Gradient):
    """The rows of an embedding that a record touches: the gradient of a row at its first position, zero at the others."""

    def __init__(self, places: Tensor, values: Tensor, rows: int) -> None:
        self.places, self.values, self.rows = places, values, rows  # records × positions (× width)

    def squared_norms(self) -> Tensor:
        """As in `Gradient`."""
        return _square_norms(self.values)

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholeRows":
        """As in `Gradient`."""
        values = _truncate(self.values, (factors * 2.0**GRID_BITS).to(self.values.dtype), keep)
        return WholeRows(values, bound_squares(values), self.places, self.rows)

    def sum_floats(self, factors: Tensor, wide: bool) -> Tensor:
        """As in `Gradient`, always in doubles."""
        count = len(factors)
        scaled = zero_unused(self.values[:count].to(torch.float64) * factors[:, None, None], factors)
        total = torch.zeros(self.rows, scaled.shape[2], dtype=torch.float64)
        return total.index_add_(0, self.places[:count].flatten(), scaled.flatten(0, 1)).flatten()

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Gradient`."""
        return self.places, self.values


@dataclass(slots=True)
class WholeRows(WholeDense):
    """The touched rows as integers. Positions that are not zero have different rows, so norms are those of the values."""

    places: Tensor
    rows: int

    def add_to(self, total: Part, count: int) -> None:
        """As in `Whole`. The sum is dense: which rows were touched shows nowhere."""
        values = self.values[:count].flatten(0, 1).to(torch.int64)
        total.integers.view(self.rows, -1).index_add_(0, self.places[:count].flatten(), values)


def gather_rows(places: Tensor, gradients: Tensor, rows: int) -> Rows:
    """Return the gradients of an embedding's rows: those of equal places are summed at the first of them."""
    positions = torch.arange(places.shape[1])
    equal = places[:, :, None] == places[:, None, :]
    first = torch.where(equal, positions, len(positions)).amin(2)
    summed = torch.zeros_like(gradients).scatter_add_(1, first[:, :, None].expand_as(gradients), gradients)
    return Rows(places, summed, rows)


# Outer products


def _scale_activations(activations: Tensor, norms: Tensor) -> tuple[Tensor, Tensor]:
    """Return Ã = trunc(2¹⁵·A/‖A‖), and the factor ‖A‖/2¹⁵ that undoes the scaling.

    ‖A‖ need not be accurate. Where it is not finite, neither is the factor, so that the record is dropped; Ã then holds
    arbitrary integers.
    """
    whole = _truncate(activations, 2.0**FACTOR_BITS / norms.clamp(min=TINY), None)
    return whole, norms.to(torch.float64) * 2.0**-FACTOR_BITS


class Factors(Gradient):
    """Gradients G ⊗ A: output gradients times activations."""

    def __init__(self, activations: Tensor, outputs: Tensor) -> None:
        self.activations, self.outputs = activations, outputs  # records × inputs, records × outputs

    def squared_norms(self) -> Tensor:
        """As in `Gradient`."""
        self.norms = torch.linalg.vector_norm(self.activations, dim=1)
        return _square_norms(self.outputs).mul_(self.norms.to(torch.float64).square())

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholeFactors":
        """As in `Gradient`, of each factor alone: v = G̃ ⊗ Ã."""
        inputs, unit = _scale_activations(self.activations, self.norms)
        outputs = _truncate(self.outputs.to(torch.float64), 2.0**GRID_BITS * factors * unit, keep)
        return WholeFactors(inputs, outputs)

    def sum_floats(self, factors: Tensor, wide: bool) -> Tensor:
        """As in `Gradient`."""
        count, dtype = len(factors), torch.float64 if wide else self.outputs.dtype
        outputs = zero_unused(self.outputs[:count] * factors[:, None].to(self.outputs.dtype), factors).to(dtype)
        return (outputs.T @ zero_unused(self.activations[:count], factors).to(dtype)).flatten()

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Gradient`."""
        return self.activations, self.outputs


@dataclass(slots=True)
class WholeFactors(Whole):
    """Contributions G̃ ⊗ Ã, both of them whole numbers in doubles."""

    inputs: Tensor
    outputs: Tensor

    def bound_squared_norms(self) -> Tensor:
        """As in `Whole`: ‖Ã‖²·‖G̃‖²."""
        return bound_squares(self.inputs).mul_(bound_squares(self.outputs)).mul_(1 + 2.0**-50)

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`. The inputs are finite, so zero outputs suffice."""
        self.outputs = _zero_rows(self.outputs, keep)

    def add_to(self, total: Part, count: int) -> None:
        """As in `Whole`: one product of matrices whose partial sums stay below 2⁵³."""
        total.add_product(self.outputs[:count].T, self.inputs[:count])

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.inputs, self.outputs


class Positions(Gradient):
    """Gradients Σₜ Gₜ ⊗ Aₜ over positions, for layers whose gradients are too large to be multiplied out per record."""

    def __init__(self, activations: Tensor, outputs: Tensor) -> None:
        self.activations, self.outputs = activations, outputs  # records × positions × inputs or outputs

    def squared_norms(self) -> Tensor:
        """As in `Gradient`, of the truncated activations."""
        norms = torch.linalg.vector_norm(self.activations.flatten(1), dim=1)
        self.inputs, self.unit = _scale_activations(self.activations, norms)
        return _inner_products(self.inputs, self.outputs.to(torch.float64)).clamp(min=0) * self.unit.square()

    def quantise(self, factors: Tensor, keep: Tensor | None) -> "WholePositions":
        """As in `Gradient`, of the factor G alone: v = Σₜ G̃ₜ ⊗ Ãₜ."""
        scale = 2.0**GRID_BITS * factors * self.unit
        outputs = _zero_rows(self.outputs.to(torch.float64) * scale[:, None, None], keep).trunc_()
        return WholePositions(self.inputs, outputs)

    def sum_floats(self, factors: Tensor, wide: bool) -> Tensor:
        """As in `Gradient`, always in doubles. Sums of floats do not use it: a record's own terms may cancel out."""
        count = len(factors)
        outputs = zero_unused(self.outputs[:count] * factors[:, None, None].to(self.outputs.dtype), factors)
        product = outputs.to(torch.float64).flatten(0, 1).T @ self.activations[:count].to(torch.float64).flatten(0, 1)
        return product.flatten()

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
    return 2 * roundings * 2.0**-53 * bound_squares(inputs) * bound_squares(outputs)


@dataclass(slots=True)
class WholePositions(Whole):
    """Contributions Σₜ G̃ₜ ⊗ Ãₜ, both of them whole numbers in doubles."""

    inputs: Tensor
    outputs: Tensor

    def bound_squared_norms(self) -> Tensor:
        """As in `Whole`: the inner product with the bound on its error; infinite where sums of a chunk may be inexact."""
        upper = _inner_products(self.inputs, self.outputs).clamp(min=0) + _bound_error(self.inputs, self.outputs)
        known = bound_squares(self.inputs) * bound_squares(self.outputs) <= (2.0**52 / len(self.inputs)) ** 2
        return torch.where(known, upper * (1 + 2.0**-50), torch.full_like(upper, torch.inf))

    def drop(self, keep: Tensor) -> None:
        """As in `Whole`."""
        self.outputs = _zero_rows(self.outputs, keep)

    def add_to(self, total: Part, count: int) -> None:
        """As in `Whole`: one product of matrices whose partial sums stay below 2⁵³, moved to integers at once."""
        product = self.outputs[:count].flatten(0, 1).T @ self.inputs[:count].flatten(0, 1)
        total.integers.add_(product.flatten().to(torch.int64))

    def tensors(self) -> tuple[Tensor, ...]:
        """As in `Whole`."""
        return self.inputs, self.outputs
