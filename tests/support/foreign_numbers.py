"""Numbers and columns as other libraries hold them: NumPy, pandas, Polars, and a stand-in for PyTorch.

PyTorch is not among the development tools: its wheel on PyPI brings several gigabytes of CUDA. `Tensor` has the protocol
of a tensor on the CPU, with its failures, and no more; the tests were run with torch 2.13 itself in its place.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl


class Tensor:
    """As much of `torch.Tensor` as can be seen from outside: no NumPy scalar, no `kind` of a dtype, no labels."""

    def __init__(self, values: Any, *, requires_grad: bool = False) -> None:
        self._array, self.requires_grad = np.array(values), requires_grad

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> str:
        return f"torch.{self._array.dtype}"

    def item(self) -> Any:
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        return self._array.item()

    def __float__(self) -> float:
        if self._array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return float(self._array.item())

    def __array__(self, dtype: Any = None) -> Any:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self._array if dtype is None else self._array.astype(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return len(self._array)

    def __iter__(self) -> Iterator["Tensor"]:
        return (Tensor(each) for each in self._array)

    def __index__(self) -> int:
        if self._array.dtype.kind not in "biu":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._array)


INTEGERS: dict[str, Callable[[int], Any]] = {
    "np.int64": np.int64,
    "np.uint8": np.uint8,
    "0-d array of integers": lambda x: np.array(x),
    "0-d array of objects": lambda x: np.array(x, dtype=object),
    "pandas integer": lambda x: pd.Series([x], dtype="Int64")[0],
    "Polars integer": lambda x: pl.Series([x])[0],
    "tensor of integers": lambda x: Tensor(x),
}
"""An integer as each library holds it."""

REALS: dict[str, Callable[[float], Any]] = {
    "float": float,
    "Fraction": Fraction,
    "Decimal": lambda x: Decimal(str(x)),
    "np.float64": np.float64,
    "np.float32": np.float32,
    "np.float16": np.float16,
    "0-d array": lambda x: np.array(float(x)),
    "pandas float": lambda x: pd.Series([float(x)])[0],
    "Polars float": lambda x: pl.Series([float(x)])[0],
    "Polars decimal": lambda x: pl.Series([str(x)]).cast(pl.Decimal(20, 10))[0],
    "tensor": lambda x: Tensor(float(x)),
    "short tensor": lambda x: Tensor(np.float32(x)),
}
"""A real as each library holds it."""

NO_NUMBERS: dict[str, Any] = {
    "bool": True,
    "np.bool": np.True_,
    "0-d array of a bool": np.array(True),
    "tensor of a bool": Tensor(True),
    "NaN": float("nan"),
    "np.nan": np.float64("nan"),
    "NaN in an array": np.array(np.nan),
    "decimal NaN": Decimal("NaN"),
    "complex": 1j,
    "complex array": np.array(1j),
    "str": "1",
    "np.str": np.str_("1"),
    "str in an array": np.array("1"),
    "bytes": b"1",
    "duration": np.timedelta64(1, "ns"),
    "date": np.datetime64("2026-01-01"),
    "list": [1],
    "array of one": np.array([1]),
    "column of one": pd.Series([1]),
    "Polars column of one": pl.Series([1]),
    "tensor of one": Tensor([1]),
    "pandas NA": pd.NA,
    "object": object(),
}
"""What is no number, though some of it converts to one."""

COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "array of objects": lambda x: np.array(x, dtype=object),
    "pandas": pd.Series,
    "pandas with labels": lambda x: pd.Series(x, index=[f"person {i}" for i in range(len(x))], name="pay"),
    "pandas, nullable": lambda x: pd.Series(x).convert_dtypes(),
    "pandas index": pd.Index,
    "Polars": pl.Series,
    "tensor": Tensor,
}
"""A vector as each library holds it."""
