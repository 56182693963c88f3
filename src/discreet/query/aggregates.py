"""The aggregates: one frozen class for each, with everything that discreet knows about it.

To add one, write a class here (the interface is `ast.Aggregate`), let `parser` read it from SQL and `builder` from Python.
A new statistic, if it needs one, stands in `statistics`, with its SQL in `discreet.sql`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

from discreet._numbers import ceil_float, nearest_float, sqrt_up
from discreet.errors import QueryRefused
from discreet.query.ast import Aggregate, DateTrunc, GroupValue, Ref, Value, format_number, format_value, quote_name
from discreet.query.estimates import (
    SHARE_OF_ROWS,
    AnswerColumn,
    Average,
    Estimate,
    NoisyStatistics,
    PairAverage,
    PairStatistics,
    PredictedError,
    QuantileEstimator,
    StatisticNoise,
    estimate_count,
    estimate_quantiles,
    estimate_sum,
)
from discreet.query.grid import grid_range_of
from discreet.query.schema import ROW, Kind, Table, parse_unit
from discreet.query.statistics import (
    CellCounts,
    CentredProduct,
    CentredSum,
    DistinctCount,
    RowCount,
    ScalarStatistic,
    UnitCount,
    ValueCount,
    build_histogram,
    build_quantile_tree,
    midpoint_of,
    pair_values,
)
from discreet.query.validate import MAX_CONSTANT, check_edges, check_group_value, check_ref, check_value


class _Count(Aggregate):
    """What counts have in common: one statistic, whose noisy value is the estimate."""

    __slots__ = ()
    counted: ClassVar[str] = "rows"
    """What is counted, for people."""

    def check(self, table: Table) -> None:
        """Accept: nothing but rows is looked at."""

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield the noisy count ± the error of its noise."""
        [statistic] = self.statistics(noisy.table)
        assert not isinstance(statistic, CellCounts)
        error = noisy.error(statistic)
        return ((estimate_count(n, error),) for n in noisy.scalars[statistic])

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the error of the noise; a relative one is a share of the size."""
        [statistic] = self.statistics(noise.table)
        return PredictedError(((None, float(noise.error(statistic))),), tuple((size, float(size)) for size in sizes))

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        return (size / 10,)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        return (AnswerColumn(name, Fraction(0), is_count=True, is_additive=True, unit=self.counted),)


@dataclass(frozen=True, slots=True)
class CountRows(_Count):
    """COUNT(*)."""

    def to_sql(self, unit: str) -> str:
        return "COUNT(*)"

    def statistics(self, table: Table) -> tuple[ScalarStatistic, ...]:
        return (RowCount(),)


@dataclass(frozen=True, slots=True)
class CountValues(_Count):
    """COUNT(value): the rows where it is not NULL."""

    value: Value
    counted: ClassVar[str] = "values"

    def to_sql(self, unit: str) -> str:
        return f"COUNT({format_value(self.value)})"

    def check(self, table: Table) -> None:
        """Accept a plain column without bounds: whether it is NULL can be seen without them."""
        check_ref(self.value, table) if isinstance(self.value, Ref) else check_value(self.value, table)

    def statistics(self, table: Table) -> tuple[ScalarStatistic, ...]:
        return (ValueCount(self.value),)

    def values_with_bounds(self) -> tuple[Value, ...]:
        return () if isinstance(self.value, Ref) else (self.value,)


@dataclass(frozen=True, slots=True)
class CountUnits(_Count):
    """COUNT(DISTINCT unit)."""

    def to_sql(self, unit: str) -> str:
        return f"COUNT(DISTINCT {', '.join(map(quote_name, parse_unit(unit) or (ROW,)))})"

    def statistics(self, table: Table) -> tuple[ScalarStatistic, ...]:
        return (UnitCount(),)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        """Return one column; it adds up if each unit is counted in one group only."""
        return (AnswerColumn(name, Fraction(0), is_count=True, is_additive=max_groups == 1, unit=f"distinct {table.unit}"),)


@dataclass(frozen=True, slots=True)
class CountDistinct(_Count):
    """COUNT(DISTINCT value) of what rows can be grouped by: a column that does not hold reals, bins of one that does, or
    parts of dates."""

    value: GroupValue

    def to_sql(self, unit: str) -> str:
        return f"COUNT(DISTINCT {format_value(self.value)})"

    def check(self, table: Table) -> None:
        """Refuse reals: whether two of them are equal depends on the engine."""
        check_group_value(self.value, table)
        if isinstance(self.value, Ref) and table.columns[self.value.column].kind is Kind.REAL:
            name = self.value.column
            raise QueryRefused(f"`{name}` holds reals, which are not counted one by one", f"bin them: {name} // 10")

    def statistics(self, table: Table) -> tuple[ScalarStatistic, ...]:
        return (DistinctCount(self.value),)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        """Return one column; it does not add up, because one value may occur in several groups."""
        return (AnswerColumn(name, Fraction(0), is_count=True, unit="distinct values"),)

    def values_with_bounds(self) -> tuple[Value, ...]:
        return () if isinstance(self.value, Ref | DateTrunc) else (self.value,)


class _OfNumbers(Aggregate):
    """What aggregates of a bounded numeric expression have in common."""

    __slots__ = ()
    value: Value

    def check(self, table: Table) -> None:
        """Refuse an expression without bounds, or without room for its results."""
        check_value(self.value, table)

    def values_with_bounds(self) -> tuple[Value, ...]:
        return (self.value,)

    def _declared_ends(self, table: Table) -> tuple[float, float]:
        """Return the ends of the declared range; at least a grid step apart."""
        grid_range = grid_range_of(self.value, table)
        return (
            nearest_float(grid_range.lower * grid_range.grid),
            ceil_float(max(grid_range.upper, grid_range.lower + 1) * grid_range.grid),
        )

    def _declared_width(self, table: Table) -> Fraction:
        return _range_width(self.value, table)


def _range_width(value: Value, table: Table) -> Fraction:
    """Return how wide the declared range is; at least a grid step."""
    grid_range = grid_range_of(value, table)
    return max(grid_range.upper - grid_range.lower, 1) * grid_range.grid


@dataclass(frozen=True, slots=True)
class Sum(_OfNumbers):
    """SUM(value)."""

    value: Value

    def to_sql(self, unit: str) -> str:
        return f"SUM({format_value(self.value)})"

    def statistics(self, table: Table) -> tuple[CentredSum]:
        return (CentredSum(self.value, 0),)

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield the noisy sum ± the error of its noise."""
        [total] = self.statistics(noisy.table)
        error, grid_range = noisy.error(total), grid_range_of(self.value, noisy.table)
        return ((estimate_sum(n, error, grid_range),) for n in noisy.scalars[total])

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the error of the noise; a relative one is a share of `size` times the largest value."""
        [total] = self.statistics(noise.table)
        grid_range = grid_range_of(self.value, noise.table)
        largest = max(grid_range.magnitude, 1) * grid_range.grid
        half_width = ceil_float(noise.error(total) * grid_range.grid)
        return PredictedError(((None, half_width),), tuple((size, ceil_float(size * largest)) for size in sizes))

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        low, high = self._declared_ends(table)
        return (size * abs(low + high) / 20,)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        limit = Fraction(0) if grid_range_of(self.value, table).lower >= 0 else None
        return (AnswerColumn(name, limit, is_additive=True),)


@dataclass(frozen=True, slots=True)
class Mean(_OfNumbers):
    """AVG(value), from the sum of distances to the middle of the declared range and the count of values."""

    value: Value
    depends_on_size: ClassVar[bool] = True

    def to_sql(self, unit: str) -> str:
        return f"AVG({format_value(self.value)})"

    def statistics(self, table: Table) -> tuple[CentredSum, ValueCount]:
        return CentredSum(self.value, midpoint_of(self.value, table)), ValueCount(self.value)

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield the ratio of the two noisy statistics, with every ratio that their errors allow."""
        total, count = self.statistics(noisy.table)
        average, errors = Average.of(self.value, noisy.table), (noisy.error(total, 2), noisy.error(count, 2))
        pairs = zip(noisy.scalars[total], noisy.scalars[count], strict=True)
        return ((average.estimate_mean(s, n, *errors),) for s, n in pairs)

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the half-width over each size; a relative one is a share of the declared range."""
        total, count = self.statistics(noise.table)
        average, errors = Average.of(self.value, noise.table), (noise.error(total, 2), noise.error(count, 2))
        half_widths = tuple((size, ceil_float(average.mean_half_width(size, *errors))) for size in sizes)
        return PredictedError(half_widths, ((None, ceil_float(self._declared_width(noise.table))),))

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        low, high = self._declared_ends(table)
        return (abs(low + high) / 20, (high - low) / 8)

    def row_count_error(self, noise: StatisticNoise) -> float | None:
        return float(noise.noises[ValueCount(self.value)].error(noise.confidence, 2))

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        grid_range = grid_range_of(self.value, table)
        return (AnswerColumn(name, grid_range.lower * grid_range.grid),)


@dataclass(frozen=True, slots=True)
class Variance(_OfNumbers):
    """The population's variance, or with `root` its standard deviation."""

    value: Value
    root: bool = False
    depends_on_size: ClassVar[bool] = True

    def to_sql(self, unit: str) -> str:
        return f"{'STDDEV' if self.root else 'VARIANCE'}({format_value(self.value)})"

    def statistics(self, table: Table) -> tuple[CentredSum, CentredSum, ValueCount]:
        centre = midpoint_of(self.value, table)
        return CentredSum(self.value, centre), CentredSum(self.value, centre, 2), ValueCount(self.value)

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield the variance of the noisy moments, with every variance that their errors allow."""
        statistics = self.statistics(noisy.table)
        average, errors = Average.of(self.value, noisy.table), [noisy.error(each, 3) for each in statistics]
        moments = zip(*(noisy.scalars[each] for each in statistics), strict=True)
        return ((average.estimate_variance(s, q, n, *errors, root=self.root),) for s, q, n in moments)

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the half-width over each size; a relative one is a share of the largest possible value."""
        average = Average.of(self.value, noise.table)
        errors = [noise.error(each, 3) for each in self.statistics(noise.table)]
        halves = [(size, average.variance_half_width(size, *errors)) for size in sizes]
        half_widths = tuple((size, ceil_float(sqrt_up(half) if self.root else half)) for size, half in halves)
        largest = self._declared_width(noise.table) / 2
        return PredictedError(half_widths, ((None, ceil_float(largest if self.root else largest**2)),))

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        low, high = self._declared_ends(table)
        even = (high - low) ** 2 / 12
        return ((even**0.5 if self.root else even) / 10,)

    def row_count_error(self, noise: StatisticNoise) -> float | None:
        return float(noise.noises[ValueCount(self.value)].error(noise.confidence, 3))

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        return (AnswerColumn(name, Fraction(0)),)


class _OfPairs(Aggregate):
    """What covariances and correlations have in common: two bounded numeric expressions, over the rows where neither is
    NULL."""

    __slots__ = ()
    left: Value
    right: Value
    depends_on_size: ClassVar[bool] = True

    def check(self, table: Table) -> None:
        """Refuse expressions without bounds, without room for their results, or nested too deeply."""
        for value in (self.left, self.right, *pair_values(self.left, self.right)):
            check_value(value, table)

    def values_with_bounds(self) -> tuple[Value, ...]:
        return (self.left, self.right)

    def row_count_error(self, noise: StatisticNoise) -> float | None:
        *_, count = self._pair_statistics(noise.table)
        return float(noise.error(count, len(self.statistics(noise.table))))

    def _pair_statistics(self, table: Table) -> tuple[CentredSum, CentredSum, CentredProduct, ValueCount]:
        left, right = pair_values(self.left, self.right)
        x, y = midpoint_of(left, table), midpoint_of(right, table)
        return CentredSum(left, x), CentredSum(right, y), CentredProduct(left, right, x, y), ValueCount(left)

    def _average(self, table: Table) -> PairAverage:
        return PairAverage(Average.of(self.left, table), Average.of(self.right, table))

    def _greatest_covariance(self, table: Table) -> Fraction:
        """Return a quarter of the product of the ranges."""
        return _range_width(self.left, table) * _range_width(self.right, table) / 4


@dataclass(frozen=True, slots=True)
class Covariance(_OfPairs):
    """COVAR_POP(left, right): the population's covariance."""

    left: Value
    right: Value

    def to_sql(self, unit: str) -> str:
        return f"COVAR_POP({format_value(self.left)}, {format_value(self.right)})"

    def statistics(self, table: Table) -> tuple[ScalarStatistic, ...]:
        return self._pair_statistics(table)

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield the covariance of the noisy moments, with every covariance that their errors allow."""
        average, errors = self._average(noisy.table), self._errors(noisy)
        moments = zip(*(noisy.scalars[each] for each in self._pair_statistics(noisy.table)), strict=True)
        return ((average.estimate_covariance(PairStatistics(*found), errors),) for found in moments)

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the half-width over each size; a relative one is a share of the largest possible covariance."""
        average, errors = self._average(noise.table), self._errors(noise)
        half_widths = tuple((size, ceil_float(average.covariance_half_width(size, errors))) for size in sizes)
        return PredictedError(half_widths, ((None, ceil_float(self._greatest_covariance(noise.table))),))

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        """Return the limits of values that are spread evenly and move together: their covariance is R·S/12."""
        greatest = ceil_float(self._greatest_covariance(table))
        return (greatest / 30, greatest / 4)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        return (AnswerColumn(name, -self._greatest_covariance(table)),)

    def _errors(self, noise: StatisticNoise) -> PairStatistics:
        """Return how far off each of the four statistics may be, all of them holding together."""
        return PairStatistics(*(noise.error(each, 4) for each in self._pair_statistics(noise.table)))


@dataclass(frozen=True, slots=True)
class Correlation(_OfPairs):
    """CORR(left, right): Pearson's correlation, the covariance over the product of the standard deviations."""

    left: Value
    right: Value

    def to_sql(self, unit: str) -> str:
        return f"CORR({format_value(self.left)}, {format_value(self.right)})"

    def statistics(self, table: Table) -> tuple[ScalarStatistic, ...]:
        x, y, products, count = self._pair_statistics(table)
        return x, y, products, count, CentredSum(x.value, x.centre, 2), CentredSum(y.value, y.centre, 2)

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield the correlation of the noisy moments, with every correlation that their errors allow."""
        average, (errors, square_errors) = self._average(noisy.table), self._errors(noisy)
        moments = zip(*(noisy.scalars[each] for each in self.statistics(noisy.table)), strict=True)
        return (
            (average.estimate_correlation(PairStatistics(x, y, products, n), errors, (xx, yy), square_errors),)
            for x, y, products, n, xx, yy in moments
        )

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the half-width over each size, if the values are spread evenly; a relative one is a share of 1."""
        average, (errors, square_errors) = self._average(noise.table), self._errors(noise)
        half_widths = tuple((size, average.correlation_half_width(size, errors, square_errors)) for size in sizes)
        return PredictedError(half_widths, ((None, 1.0),), "if values are spread evenly")

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        """Return the limits of a correlation of 1."""
        return (1 / 10, 1 / 4)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        return (AnswerColumn(name, Fraction(-1)),)

    def _errors(self, noise: StatisticNoise) -> tuple[PairStatistics, tuple[int, int]]:
        """Return how far off each of the six statistics may be, all of them holding together."""
        x, y, products, count, xx, yy = (noise.error(each, 6) for each in self.statistics(noise.table))
        return PairStatistics(x, y, products, count), (xx, yy)


MIN_QUANTILE, MAX_QUANTILE = Fraction(1, 100), Fraction(99, 100)
"""MIN and MAX are the 1% and 99% quantiles: a true extreme is one person's value."""


@dataclass(frozen=True, slots=True)
class Quantile(_OfNumbers):
    """The value below which a share `q` of the rows lies, 0 < q < 1."""

    value: Value
    q: Fraction
    depends_on_size: ClassVar[bool] = True

    def to_sql(self, unit: str) -> str:
        return f"QUANTILE({format_value(self.value)}, {format_number(self.q)})"

    def check(self, table: Table) -> None:
        """Refuse a share that is not between 0 and 1, and what every numeric expression is refused for."""
        check_value(self.value, table)
        if not isinstance(self.q, Fraction) or not 0 < self.q < 1 or self.q.denominator > MAX_CONSTANT:
            raise QueryRefused("A quantile takes a share between 0 and 1", "write QUANTILE(column, 0.9)")

    def statistics(self, table: Table) -> tuple[CellCounts]:
        return (build_quantile_tree(self.value, table),)

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield the quantile of the tree of noisy counts."""
        return ((each,) for each in estimate_quantiles(self.value, self._estimator(noisy.table), noisy))

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the error of the rank, as a share of the rows: that of the value depends on the values."""
        estimator = self._estimator(noise.table)
        rank_error = estimator.rank_error(noise.noises[estimator.tree], noise.tail)
        return PredictedError(tuple((size, min(1.0, rank_error / size)) for size in sizes), ((None, 1.0),), SHARE_OF_ROWS)

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        """Return shares of the rows, which are shares of the range if the values are spread evenly."""
        low, high = self._declared_ends(table)
        return (abs(low + nearest_float(self.q) * (high - low)) / 10 / (high - low), 1 / 8)

    def row_count_error(self, noise: StatisticNoise) -> float | None:
        estimator = self._estimator(noise.table)
        return estimator.size_error(noise.noises[estimator.tree], noise.tail)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        grid_range = grid_range_of(self.value, table)
        return (AnswerColumn(name, grid_range.lower * grid_range.grid),)

    def _estimator(self, table: Table) -> QuantileEstimator:
        [tree] = self.statistics(table)
        return QuantileEstimator(tree, self.q)


@dataclass(frozen=True, slots=True)
class Histogram(Aggregate):
    """Counts between these edges: [e₀, e₁), [e₁, e₂), …, of which the last is closed. What lies outside is not counted."""

    value: Value
    edges: tuple[Fraction, ...]
    has_cells: ClassVar[bool] = True

    def to_sql(self, unit: str) -> str:
        return f"HISTOGRAM({', '.join([format_value(self.value), *map(format_number, self.edges)])})"

    def check(self, table: Table) -> None:
        """Refuse edges that do not increase. A plain column needs no bounds: it is only compared with the edges."""
        check_value(build_histogram(self.value, check_edges(self.edges)).cell, table)

    def statistics(self, table: Table) -> tuple[CellCounts]:
        return (build_histogram(self.value, self.edges),)

    def estimate(self, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
        """Yield every cell's noisy count ± the error of its noise."""
        [counts] = self.statistics(noisy.table)
        error = noisy.error(counts)
        return (tuple(estimate_count(n, error) for n in row) for row in noisy.cell_counts[counts].tolist())

    def predict(self, noise: StatisticNoise, sizes: tuple[int, ...]) -> PredictedError:
        """Return the error of the noise of one cell; a relative one is a share of the size."""
        [counts] = self.statistics(noise.table)
        return PredictedError(((None, float(noise.error(counts))),), tuple((size, float(size)) for size in sizes))

    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        return (size / 10 / (len(self.edges) - 1),)

    def columns(self, name: str, table: Table, max_groups: int) -> tuple[AnswerColumn, ...]:
        """Return one column per cell.

        >>> from discreet.query.schema import Column
        >>> histogram = Histogram(Ref("age"), (Fraction(0), Fraction(18), Fraction(65, 2)))
        >>> people = Table("people", "id", {"id": Column(Kind.INTEGER)})
        >>> [column.name for column in histogram.columns("h", people, 1)]
        ['h[0,18)', 'h[18,32.5]']
        """
        edges = [f"{nearest_float(edge):.12g}" for edge in self.edges]
        last = len(edges) - 2
        names = (f"{name}[{low},{high}{']' if i == last else ')'}" for i, (low, high) in enumerate(pairwise(edges)))
        column = AnswerColumn(name, Fraction(0), is_count=True, is_additive=True, unit="rows")
        return tuple(replace(column, name=each, histogram_of=format_value(self.value)) for each in names)

    def values_with_bounds(self) -> tuple[Value, ...]:
        return () if isinstance(self.value, Ref) else (self.value,)
