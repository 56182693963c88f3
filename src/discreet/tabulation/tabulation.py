"""`tabulate`: many tables that add up, from one debit and one pass over the rows.

**Theory of operation.** plan → reserve → read and sum → add noise → record → estimate. What the account is charged for are
the noisy tables; estimates, intervals and display values are post-processing of them (`tables.make_tables`), repeated from
the record whenever they are asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from discreet._numbers import Number
from discreet.accounting.cost import Cost
from discreet.formats import count_things, make_html_notes
from discreet.noise import Bits
from discreet.query.cells import describe_total, explain_cells, explain_weight
from discreet.query.record import LedgerReference
from discreet.session.executor import ProgressCallback, RunOptions
from discreet.session.session import Session
from discreet.tabulation.margins import Ints, Measured
from discreet.tabulation.plan import TabulationPlan, plan_tabulation
from discreet.tabulation.tables import TabulatedTable, explain_display, make_tables
from discreet.tabulation.wanted import TablesLike


@dataclass(frozen=True, repr=False)
class Tabulation(Mapping[str, TabulatedTable]):
    """The tables of a tabulation by name, what they cost, and the noisy tables that they are estimated from."""

    plan: TabulationPlan
    measured: Mapping[Measured, Ints]  # what was paid for: each exact table or contrast plus noise
    reference: LedgerReference
    charged: bool  # whether anything was charged for it now; False: all of it was recorded before
    tainted: bool = False  # whether the noise may be repeatable

    @cached_property
    def tables(self) -> dict[str, TabulatedTable]:
        """All tables by name."""
        wanted = self.plan.wanted
        names = {table.name: margin for table, margin in zip(wanted.tables, wanted.margins, strict=True)}
        return make_tables(
            names, wanted.columns, wanted.bounded.keys.columns, self.measured, self.plan.errors, self.plan.confidence,
            self.plan.step,
        )  # fmt: skip

    @property
    def cost(self) -> Cost:
        """What it costs, and what remains."""
        return self.plan.cost

    def __getitem__(self, name: str) -> TabulatedTable:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(table.name for table in self.plan.wanted.tables)

    def __len__(self) -> int:
        return len(self.plan.wanted.tables)

    @property
    def display_note(self) -> str:
        """What display values are, or why there are none."""
        return explain_display(next(iter(self.tables.values())).display is not None, self.plan.step)

    def list_notes(self) -> list[str]:
        """What one unit can change, what intervals cover, what display values are, its cost, and what is not declared."""
        bounded = self.plan.wanted.bounded
        covered = (
            f"Each interval covers {describe_total(bounded.weight)}, with {100 * self.plan.confidence:.6g}% confidence; "
            "`estimate` is unbiased and may be negative, and all tables add up."
        )
        paid = str(self.cost) if self.charged else self.cost.describe_free(f" (entry {self.reference.entry})")
        said = [explain_cells(bounded), covered, *explain_weight(bounded.weight, bounded.step), self.display_note]
        return [*said, paid, *self.plan.list_notes()]

    def __repr__(self) -> str:
        lines = []
        for table in self.tables.values():
            lines += [
                f"{table.name} ({count_things(len(table), 'cell')}, ±{table.half_width:,.1f})",
                *table.list_lines(),
                "",
            ]
        return "\n".join([*lines, *self.list_notes()])

    def _repr_html_(self) -> str:
        return make_html_notes(repr(self).splitlines())

    def __hash__(self) -> int:
        return id(self)


def tabulate(
    session: Session,
    tables: TablesLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    weight: str | None = None,
    confidence: Number = 0.95,
    id: str | None = None,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: ProgressCallback | None = None,
) -> Tabulation:
    """Charge the account once for several tables that add up, and return them with an interval for every cell.

    >>> import discreet
    >>> people = discreet.connect("examples/people.csv", unit="id", unique=True, epsilon=1, delta=1e-6,
    ...     keys={"dept": ["sales", "research", "legal"]}, bounds={"age": (18, 70)})
    >>> found = tabulate(people, [("dept", "decade"), "dept", ()], columns={"decade": "age // 10"}, epsilon=1)
    >>> found["dept"].header
    ('dept', 'estimate', 'sd', 'lower', 'upper', 'reliable', 'display')
    >>> bool(abs(found["dept_decade"].estimate.sum() - found["total"].estimate) < 1e-6)
    True

    Raises:
        BudgetExceeded: if the account, or a parent of it, does not hold the cost; nothing was charged.
        QueryRefused, BadParameter: if it cannot be asked; nothing was charged.
        EngineFailed: if reading the rows failed after it was charged.
    """
    plan = plan_tabulation(
        session, tables, epsilon=epsilon, delta=delta, columns=columns, where=where, weight=weight, confidence=confidence
    )
    return execute_tabulation(plan, RunOptions(bits, progress, id, fresh))


def execute_tabulation(plan: TabulationPlan, options: RunOptions) -> Tabulation:
    """Charge the account for a plan, and return its tables."""
    execution = plan.execute(options)
    return Tabulation(plan, execution.answers, execution.reference, execution.receipt is not None, options.tainted)
