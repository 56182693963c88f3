"""The aggregates of SQL."""

from fractions import Fraction

from sqlglot import exp

from discreet.errors import QuestionRefused
from discreet.query import plan
from discreet.query.edges import checked_edges, edges_of
from discreet.query.read_expression import ExpressionReader
from discreet.query.syntax import only, read_number, refused, signed_number

KNOWN = "use COUNT, SUM, AVG, VARIANCE, STDDEV, MIN, MAX, MEDIAN, QUANTILE or HISTOGRAM"


class AggregateReader(ExpressionReader):
    """Reads aggregates of expressions."""

    def aggregate(self, node: exp.Expr) -> plan.Aggregate:
        """An aggregate function of the language."""
        match node:
            case exp.Count():
                only(node, "this", "big_int")
                return self._count(node)
            case exp.Sum():
                only(node, "this")
                return plan.Sum(self.value(node.this))
            case exp.Avg():
                only(node, "this")
                return plan.Mean(self.value(node.this))
            case exp.VariancePop() | exp.Variance():
                only(node, "this")
                return plan.Variance(self.value(node.this))
            case exp.StddevPop() | exp.Stddev():
                only(node, "this")
                return plan.Variance(self.value(node.this), root=True)
            case exp.Min() | exp.Max():
                only(node, "this")
                return plan.Quantile(self.value(node.this), plan.LEAST if isinstance(node, exp.Min) else plan.MOST)
            case exp.Median():
                only(node, "this")
                return plan.Quantile(self.value(node.this), Fraction(1, 2))
            case exp.Quantile() if type(node) is exp.Quantile:  # APPROX_QUANTILE is another
                only(node, "this", "quantile")
                return plan.Quantile(self.value(node.this), self._share(node, node.args.get("quantile")))
            case exp.PercentileCont() | exp.PercentileDisc():
                only(node, "this", "expression")
                return plan.Quantile(self.value(node.this), self._share(node, node.args.get("expression")))
            case exp.WithinGroup():
                return self._within_group(node)
            case exp.Anonymous():
                if is_of_sample(node):
                    raise refused(node, "variances here are the population's, not a sample's", "write VAR_POP or STDDEV_POP")
                return self._histogram(node)
        raise refused(node, f"{node.key.upper()} is not in the language", KNOWN)

    def _count(self, node: exp.Count) -> plan.Aggregate:
        if isinstance(node.this, exp.Star):
            only(node.this)
            return plan.CountRows()
        if not isinstance(node.this, exp.Distinct):
            return plan.CountValues(self.value(node.this))
        only(node.this, "expressions")
        if [self.value(part) for part in node.this.expressions] != [plan.Ref(self.table.unit)]:
            raise refused(node, "only distinct units can be counted", f"write COUNT(DISTINCT {self.table.unit})")
        return plan.CountUnits()

    def _share(self, node: exp.Expr, written: exp.Expr | None) -> Fraction:
        share = read_number(written) if isinstance(written, exp.Literal) else None
        if share is None or not 0 < share < 1:
            raise refused(node, "a quantile takes a share between 0 and 1", "write QUANTILE(column, 0.9)")
        return share

    def _within_group(self, node: exp.WithinGroup) -> plan.Quantile:
        """PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)."""
        only(node, "this", "expression")
        order = node.expression
        if not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc) or not isinstance(order, exp.Order):
            raise refused(node, "WITHIN GROUP goes with PERCENTILE_CONT or PERCENTILE_DISC only", KNOWN)
        only(node.this, "this")
        only(order, "expressions")
        if len(order.expressions) != 1 or not isinstance(order.expressions[0], exp.Ordered):
            raise refused(node, "a percentile is ordered by one value", "write WITHIN GROUP (ORDER BY column)")
        only(order.expressions[0], "this")
        return plan.Quantile(self.value(order.expressions[0].this), self._share(node, node.this.this))

    def _histogram(self, node: exp.Anonymous) -> plan.Histogram:
        if not is_histogram(node):
            raise refused(node, "this function is not in the language", KNOWN)
        only(node, "this", "expressions")
        if len(node.expressions) < 2:
            raise refused(
                node, "a histogram needs a width or edges", "write HISTOGRAM(column, 10) or HISTOGRAM(column, 0, 10, 20)"
            )
        value = self.value(node.expressions[0])
        numbers = [signed_number(part) for part in node.expressions[1:]]
        try:
            if len(numbers) > 1:
                return plan.Histogram(value, checked_edges(numbers))
            return plan.Histogram(value, edges_of(value, numbers[0], self.table))
        except QuestionRefused as refusal:
            raise refused(node, refusal.reason, refusal.way_out) from None


def is_histogram(node: exp.Expr) -> bool:
    """Whether it is the one function that the reader of SQL has no node for."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.upper() == "HISTOGRAM"


SAMPLED = ("VAR_SAMP", "VARIANCE_SAMP", "STDDEV_SAMP")
"""Functions that divide by n − 1. They are refused by name, so the reader of SQL must not take them for VARIANCE."""


def is_of_sample(node: exp.Expr) -> bool:
    """Whether it is a variance of a sample."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.upper() in SAMPLED


def is_aggregate(node: exp.Expr) -> bool:
    """Whether it is written as an aggregate."""
    return isinstance(node, exp.AggFunc | exp.WithinGroup) or is_histogram(node) or is_of_sample(node)
