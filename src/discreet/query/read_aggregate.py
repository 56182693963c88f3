"""The aggregates of SQL."""

from fractions import Fraction

from sqlglot import exp

from discreet.errors import QueryRefused
from discreet.query import plan
from discreet.query.edges import check_edges, compute_edges
from discreet.query.read_expression import ExpressionReader
from discreet.query.syntax import allow_only, make_refusal, read_number, read_signed_number

AGGREGATES_HINT = "use COUNT, SUM, AVG, VARIANCE, STDDEV, MIN, MAX, MEDIAN, QUANTILE or HISTOGRAM"


class AggregateReader(ExpressionReader):
    """Reads aggregates of expressions."""

    def read_aggregate(self, node: exp.Expr) -> plan.Aggregate:
        """An aggregate function of the language."""
        match node:
            case exp.Count():
                allow_only(node, "this", "big_int")
                return self._read_count(node)
            case exp.Sum():
                allow_only(node, "this")
                return plan.Sum(self.read_value(node.this))
            case exp.Avg():
                allow_only(node, "this")
                return plan.Mean(self.read_value(node.this))
            case exp.VariancePop() | exp.Variance():
                allow_only(node, "this")
                return plan.Variance(self.read_value(node.this))
            case exp.StddevPop() | exp.Stddev():
                allow_only(node, "this")
                return plan.Variance(self.read_value(node.this), root=True)
            case exp.Min() | exp.Max():
                allow_only(node, "this")
                return plan.Quantile(
                    self.read_value(node.this), plan.MIN_QUANTILE if isinstance(node, exp.Min) else plan.MAX_QUANTILE
                )
            case exp.Median():
                allow_only(node, "this")
                return plan.Quantile(self.read_value(node.this), Fraction(1, 2))
            case exp.Quantile() if type(node) is exp.Quantile:  # APPROX_QUANTILE is another
                allow_only(node, "this", "quantile")
                return plan.Quantile(self.read_value(node.this), self._read_share(node, node.args.get("quantile")))
            case exp.PercentileCont() | exp.PercentileDisc():
                allow_only(node, "this", "expression")
                return plan.Quantile(self.read_value(node.this), self._read_share(node, node.args.get("expression")))
            case exp.WithinGroup():
                return self._read_within_group(node)
            case exp.Anonymous():
                if is_sample_variance(node):
                    raise make_refusal(
                        node, "variances here are the population's, not a sample's", "write VAR_POP or STDDEV_POP"
                    )
                return self._read_histogram(node)
        raise make_refusal(node, f"{node.key.upper()} is not in the language", AGGREGATES_HINT)

    def _read_count(self, node: exp.Count) -> plan.Aggregate:
        if isinstance(node.this, exp.Star):
            allow_only(node.this)
            return plan.CountRows()
        if not isinstance(node.this, exp.Distinct):
            return plan.CountValues(self.read_value(node.this))
        allow_only(node.this, "expressions")
        if [self.read_value(part) for part in node.this.expressions] != [plan.Ref(self.table.unit)]:
            raise make_refusal(node, "only distinct units can be counted", f"write COUNT(DISTINCT {self.table.unit})")
        return plan.CountUnits()

    def _read_share(self, node: exp.Expr, literal: exp.Expr | None) -> Fraction:
        share = read_number(literal) if isinstance(literal, exp.Literal) else None
        if share is None or not 0 < share < 1:
            raise make_refusal(node, "a quantile takes a share between 0 and 1", "write QUANTILE(column, 0.9)")
        return share

    def _read_within_group(self, node: exp.WithinGroup) -> plan.Quantile:
        """PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)."""
        allow_only(node, "this", "expression")
        order = node.expression
        if not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc) or not isinstance(order, exp.Order):
            raise make_refusal(node, "WITHIN GROUP goes with PERCENTILE_CONT or PERCENTILE_DISC only", AGGREGATES_HINT)
        allow_only(node.this, "this")
        allow_only(order, "expressions")
        if len(order.expressions) != 1 or not isinstance(order.expressions[0], exp.Ordered):
            raise make_refusal(node, "a percentile is ordered by one value", "write WITHIN GROUP (ORDER BY column)")
        allow_only(order.expressions[0], "this")
        return plan.Quantile(self.read_value(order.expressions[0].this), self._read_share(node, node.this.this))

    def _read_histogram(self, node: exp.Anonymous) -> plan.Histogram:
        if not is_histogram(node):
            raise make_refusal(node, "this function is not in the language", AGGREGATES_HINT)
        allow_only(node, "this", "expressions")
        if len(node.expressions) < 2:
            raise make_refusal(
                node, "a histogram needs a width or edges", "write HISTOGRAM(column, 10) or HISTOGRAM(column, 0, 10, 20)"
            )
        value = self.read_value(node.expressions[0])
        numbers = [read_signed_number(part) for part in node.expressions[1:]]
        try:
            if len(numbers) > 1:
                return plan.Histogram(value, check_edges(numbers))
            return plan.Histogram(value, compute_edges(value, numbers[0], self.table))
        except QueryRefused as refusal:
            raise make_refusal(node, refusal.reason, refusal.hint) from None


def is_histogram(node: exp.Expr) -> bool:
    """Whether it is the one function that the reader of SQL has no node for."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.upper() == "HISTOGRAM"


SAMPLE_FUNCTIONS = ("VAR_SAMP", "VARIANCE_SAMP", "STDDEV_SAMP")
"""Functions that divide by n − 1. They are refused by name, so the reader of SQL must not take them for VARIANCE."""


def is_sample_variance(node: exp.Expr) -> bool:
    """Whether it is a variance of a sample."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.upper() in SAMPLE_FUNCTIONS


def is_aggregate(node: exp.Expr) -> bool:
    """Whether it is written as an aggregate."""
    return isinstance(node, exp.AggFunc | exp.WithinGroup) or is_histogram(node) or is_sample_variance(node)
