"""The guarantee page of tables that add up, with a hierarchy or without: written for a publication, and written again.

**Theory of operation.** All that a page says follows from the measurements beside it and from what their certificate states
(`Statement`), but for its title and for what the publisher declared about the source. So a reader can write the page again
from the folder, and `is_same_page` compares the two, word by word. Of the section on contribution bounding it compares what
one unit can change and how contributions are limited, which the certificate states; the notes on the source that follow
are not signed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol
from unicodedata import normalize

from discreet._numbers import format_up, read_decimal
from discreet.accounting.cost import Cost
from discreet.errors import BadEventEncoding
from discreet.events import Composition, DiscreteGaussianEvent, GaussianEvent
from discreet.ledger.certificate import certified_cost, read_certificate, read_entries
from discreet.query.cells import (
    BoundedCells,
    describe_total,
    explain_cell_limits,
    explain_cells,
    explain_change,
    explain_weight,
)
from discreet.query.record import LedgerReference
from discreet.query.schema import Key
from discreet.tabulation.files import DESCRIPTION_FILE, MEASUREMENTS_FILE
from discreet.tabulation.hierarchy_estimation import HierarchyModel
from discreet.tabulation.hierarchy_files import MAX_CSV_ROWS, MEASUREMENTS_FOLDER, RowMaker, list_files
from discreet.tabulation.intervals import CountNoise
from discreet.tabulation.margins import Contrast, Margin, Measured
from discreet.tabulation.measuring import describe_measured, noise_to_json
from discreet.tabulation.priced_plan import PricedPlan
from discreet.tabulation.tables import TabulatedTable, explain_display
from discreet.text import escape_markdown, format_markdown_code, is_escaped_markdown
from discreet.units import Neighbours, describe_conditional
from discreet.workload.guarantee import (
    CHARGED,
    Subject,
    describe_account,
    describe_guarantee,
    describe_limits,
    describe_meaning,
    published_point,
    states_guarantee,
)

BOUNDING = "## Contribution bounding"
FLAT, LEVELS = "for all tables", "for all levels and tables"
CONDITIONAL = re.compile(r"\bconditional\b", re.IGNORECASE)
LOOKALIKES = str.maketrans("∊ɛℇΕΔΡΜ", "εεεεδρμ")
SUMMED = re.compile(r"(?:SELECT|,) SUM\((.*?)\) AS (?:\w+|\"(?:[^\"]|\"\")+\") FROM ")


class Tabulated(Protocol):
    """Tables that were measured with one debit."""

    @property
    def plan(self) -> PricedPlan:
        """The plan."""
        ...

    @property
    def cost(self) -> Cost:
        """What it cost."""
        ...

    @property
    def reference(self) -> LedgerReference:
        """The entry of the ledger."""
        ...

    @property
    def tainted(self) -> bool:
        """Whether its noise came from seeded bits."""
        ...


@dataclass(frozen=True, slots=True)
class Statement:
    """What a page says beside its tables: known of a tabulation, and stated by a certificate."""

    about: Subject
    cost: Cost
    certified_delta: Fraction
    weight: str | None  # what is added up, as SQL; None: rows are counted
    bounding: tuple[str, ...]  # of a certificate: what the first note may begin with
    certificate: Mapping[str, Any] | None = None
    tainted: bool = False

    @classmethod
    def of(cls, tabulation: Tabulated, bounded: BoundedCells, certificate: Mapping[str, Any] | None) -> "Statement":
        """Return that of a tabulation."""
        plan = tabulation.plan
        notes = (explain_cells(bounded), *plan.session.list_notes(grouped=bool(bounded.query.groups)))
        return cls(
            Subject.of(plan.session), tabulation.cost, plan.terms.certified_delta, bounded.weight, notes, certificate,
            tabulation.tainted,
        )  # fmt: skip

    @classmethod
    def of_certificate(cls, certificate: Mapping[str, Any], step: Fraction) -> "Statement":
        """Return that of a certificate, of tables on a grid of this step."""
        stated, about, cost = certificate["measurement"], Subject.of_certificate(certificate), certified_cost(certificate)
        _, debit, _ = read_entries(read_certificate(certificate))
        summed = SUMMED.search(stated["question"])
        weight = summed.group(1) if summed else None
        change = explain_change(about.unit, about.neighbours, _find_max_change(cost.event_or_bounds, about), weight, step)
        groups, rows = stated["max_groups"], stated["max_rows"]
        limits = [explain_cell_limits(about.unit, groups, rows, unique=unique) for unique in (False, True)]
        may_begin = tuple(f"{change} {each}" for each in limits[: 2 if groups == rows == 1 else 1])
        return cls(about, cost, debit.certified_delta, weight, may_begin, certificate)


def _find_max_change(event: Any, about: Subject) -> int:
    """Return the most that one unit changes a table, in steps of the grid: k of `query/cells.py`, from the l1 sensitivity of
    each table. That is k, or 2k for a replaced unit in a table of more than one cell."""
    if not isinstance(event, Composition):
        raise BadEventEncoding("its event is not that of tables", "give the certificate of a tabulation")
    found = set()
    for each, _ in event.parts:
        if not isinstance(each, GaussianEvent | DiscreteGaussianEvent) or each.sensitivity.l1 is None:
            raise BadEventEncoding("its noise is not that of tables", "give the certificate of a tabulation")
        halves = 2 if about.neighbours is Neighbours.REPLACE and each.sensitivity.l0 != 1 else 1
        found.add(each.sensitivity.l1 / halves)
    return int(max(found))


# -- the pages --------------------------------------------------------------------------------------------------------------


def format_table_page(
    title: str,
    stated: Statement,
    tables: Mapping[str, TabulatedTable],
    columns: Sequence[str],
    keys: Sequence[Sequence[Key]],
    noises: Mapping[Measured, CountNoise],
    step: Fraction,
) -> str:
    """Write the guarantee page of a tabulation."""
    first = next(iter(tables.values()))
    sections = [
        "## How to read the tables\n\n"
        "`estimate` is the least-squares estimate from all measured tables: it is unbiased, may be negative, and the "
        f"estimates of all tables add up. {_explain_intervals(stated, first.confidence)}\n\n"
        + _explain_values(stated, first.display is not None, step),
        _describe_tables(tables),
        _describe_measured(columns, keys, noises),
        _describe_provenance(stated, sum_over="its tables", drawn="as integers"),
    ]
    return _format_page(title, stated, len(tables), FLAT, sections)


def format_hierarchy_page(title: str, stated: Statement, model: HierarchyModel, root: str) -> str:
    """Write the guarantee page of a hierarchy, whose measurements have this Merkle root."""
    spine = model.spine
    levels = ", ".join(
        f"{size:,} of {format_markdown_code(level)}" for level, size in zip(spine.levels, spine.sizes, strict=True)
    )
    sections = [
        "## How to read the tables\n\n"
        f"Nodes, from the top down: {levels}. Their list is public; rows that lie in none of them are not counted. "
        "`estimate` is the least-squares estimate from all measured tables of all levels: it is unbiased, may be negative, "
        f"and estimates add up over tables and levels. {_explain_intervals(stated, model.confidence)}\n\n"
        + _explain_values(stated, bool(model.display_columns), model.step),
        _describe_levels(model),
        _describe_measured_levels(model, root),
        _describe_provenance(stated, sum_over="levels and tables", drawn="as integers, once"),
    ]
    return _format_page(title, stated, count_level_tables(model), LEVELS, sections)


def count_level_tables(model: HierarchyModel) -> int:
    """Return how many tables are published on all levels together."""
    return sum(len(levels) for _, levels in model.tables.values())


def _format_page(title: str, stated: Statement, tables: int, once: str, sections: Sequence[str]) -> str:
    point, notes = published_point(stated.cost), "\n".join(f"- {escape_markdown(note)}" for note in stated.bounding)
    parts = [
        f"# {escape_markdown(title or 'A tabulation')}: privacy guarantee",
        describe_guarantee(stated.about, point, tables),
        describe_meaning(stated.about, point),
        f"{BOUNDING}\n\nBefore anything was added up, and once {once}:\n\n{notes}",
        describe_limits(stated.about, point),
        *sections,
    ]
    return "\n\n".join(parts) + "\n"


def _explain_intervals(stated: Statement, confidence: float) -> str:
    covered, percent = escape_markdown(describe_total(stated.weight)), format_up(100 * read_decimal(confidence), 4)
    return (
        "`sd` is the standard deviation of its noise. The interval from `lower` to `upper` contains "
        f"{covered} with probability ≥ {percent}%;"
        " that is proven for the noise that was drawn, and holds for each cell by itself. `reliable` is true if the "
        "half-width is at most a tenth of the estimate."
    )


def _explain_values(stated: Statement, is_displayed: bool, step: Fraction) -> str:
    return "\n\n".join([*map(escape_markdown, explain_weight(stated.weight, step)), explain_display(is_displayed, step)])


def _describe_tables(tables: Mapping[str, TabulatedTable]) -> str:
    lines = ["## The tables\n", "| table | by | cells | reliable | sd | half-width |", "|---|---|---:|---:|---:|---:|"]
    for name, table in tables.items():
        by, reliable = _format_columns(table.columns), int(table.reliable.sum())
        lines.append(
            f"| [{name}]({name}.csv) | {by} | {len(table):,} | {reliable:,} | {table.sd:.4g} | {table.half_width:.4g} |"
        )
    return "\n".join(lines)


def _describe_levels(model: HierarchyModel) -> str:
    lines = ["## The tables\n", "| table | level | by | half-width |", "|---|---|---|---:|"]
    rows = RowMaker(model)
    for name, level in list_files(model):
        margin = model.tables[name][0]
        widths = model.list_half_widths(level, margin) * float(model.step)
        shown = f"{widths.min():.4g}" if widths.min() == widths.max() else f"{widths.min():.4g} to {widths.max():.4g}"
        ending = "csv" if rows.count_rows(name, level) <= MAX_CSV_ROWS else "parquet"
        place, by = format_markdown_code(rows.level_name(level)), _format_columns([model.columns[i] for i in margin])
        lines.append(f"| [{name}]({rows.file_name(name, level)}.{ending}) | {place} | {by} | {shown} |")
    if model.region_names:
        lines.append(f"\nRegions, which are sums of nodes: {', '.join(map(format_markdown_code, model.region_names))}.")
    return "\n".join(lines)


def _describe_measured(columns: Sequence[str], keys: Sequence[Sequence[Key]], noises: Mapping[Measured, CountNoise]) -> str:
    lines = [
        "## What was measured\n",
        f"`{MEASUREMENTS_FILE}` holds the noisy tables that were paid for, and `{DESCRIPTION_FILE}` says what they are. "
        "`discreet reproduce FOLDER` estimates all tables again from these two files alone.\n",
    ]
    if any(isinstance(each, Contrast) for each in noises):
        lines.append(
            "A difference between two keys is measured in place of both: of each cell, the rows with the first key minus "
            "those with the second. Together with the coarser tables it says what both are, at less noise.\n"
        )
    lines += ["| measured by | noise | σ |", "|---|---|---:|"]
    return "\n".join([*lines, *_list_measured(columns, keys, noises)])


def _describe_measured_levels(model: HierarchyModel, root: str) -> str:
    lines = [
        "## What was measured\n",
        f"`{MEASUREMENTS_FOLDER}/` holds the noisy tables that were paid for; their Merkle root is `{root}`. "
        "`discreet reproduce FOLDER` estimates all tables again from them alone.\n",
        "| level | measured by | noise | σ |",
        "|---|---|---|---:|",
    ]
    for level, noises in zip(model.spine.levels, model.noises, strict=True):
        lines += [f"| {format_markdown_code(level)} {row}" for row in _list_measured(model.columns, (), noises)]
    return "\n".join(lines)


def _list_measured(
    columns: Sequence[str],
    keys: Sequence[Sequence[Key]],
    noises: Mapping[Measured, CountNoise] | Mapping[Margin, CountNoise],
) -> Iterator[str]:
    """Yield what was measured, the law and σ of each measured table, as a row. A hierarchy has no contrasts, and needs no
    keys."""
    for measured, noise in noises.items():
        words, sigma = describe_measured(measured, columns, keys, format_markdown_code), float(Fraction(noise.sigma))
        yield f"| {words} | {noise_to_json(noise)['law']} | {sigma:.6g} |"


def _format_columns(columns: Sequence[str]) -> str:
    return ", ".join(map(format_markdown_code, columns)) or "everybody"


def _describe_provenance(stated: Statement, *, sum_over: str, drawn: str) -> str:
    """Write how the tables were made, charged and recorded."""
    certified, certificate = stated.certified_delta, stated.certificate
    curve = f"by the certified privacy curve of the whole plan at δ = {format_up(certified, 3)}"
    lines = [
        "## How it was made\n",
        f"All noise was fixed before the first row was read, {CHARGED}"
        f"{curve if certified else f'by the sum over {sum_over}'}: {stated.cost.describe_charge()}. It is drawn exactly, "
        f"{drawn}.",
    ]
    if certificate is None:
        lines.append("No ledger records the cost: only the publisher can say how often the data was published.")
    else:
        lines.append(
            "`release.json` is the certificate of the measurements, signed by the ledger; `discreet verify` checks it."
        )
        lines.append(describe_account(dict(certificate), stated.cost, stated.about))
    if stated.tainted:
        lines.append("\n**Made with seeded bits: for tests, never for publication.**")
    return "\n".join(lines)


# -- compared ---------------------------------------------------------------------------------------------------------------


def is_same_page(found: str, expected: str, stated: Statement) -> bool:
    """Return whether a page says what was written again from a certificate, but for what is not signed: its title, and the
    notes on the source. These hold no markup, which could hide what follows; the notes state no ε, δ, ρ or μ, and no other
    condition than the certificate."""
    one, other = _split_page(found), _split_page(expected)
    if one is None or other is None or one[0] != other[0] or one[2] != other[2]:
        return False
    begins = [f"- {escape_markdown(each)}" for each in stated.bounding]
    conditional = f"- {escape_markdown(describe_conditional(stated.about.invariants))}" if stated.about.invariants else None
    first, *others = one[1]
    return (
        any(first == each or first.startswith(f"{each} ") for each in begins)
        and all(line.startswith("- ") for line in others)
        and all(is_escaped_markdown(line[2:]) for line in (found.partition("\n")[0], *one[1]))
        and all(line == conditional for line in others if CONDITIONAL.search(line))
        and not any(states_guarantee(_spell_symbols(line)) for line in one[1])
    )


def _spell_symbols(line: str) -> str:
    """Return a line with the symbols of a guarantee in one spelling: "Epsilon=1" and "ϵ = 1" say what "ε = 1" does."""
    plain = normalize("NFKC", line).translate(LOOKALIKES)
    for word, symbol in (("epsilon", "ε"), ("delta", "δ"), ("rho", "ρ"), ("mu", "μ")):
        plain = re.sub(rf"\b{word}\b", symbol, plain, flags=re.IGNORECASE)
    return re.sub(r"([εδρμ])\s*(=|is\b)", r"\1 \2", plain)


def _split_page(page: str) -> tuple[list[str], list[str], list[str]] | None:
    """Return the lines before the notes on contribution bounding, but for the title, these notes, and the lines behind them;
    None if it has no such parts."""
    title, *lines = page.split("\n")
    if not title.startswith("# ") or lines.count(BOUNDING) != 1:
        return None
    start = lines.index(BOUNDING) + 4  # an empty line, a sentence, an empty line
    notes = list[str]()
    while start + len(notes) < len(lines) and lines[start + len(notes)]:
        notes.append(lines[start + len(notes)])
    return (lines[:start], notes, lines[start + len(notes) :]) if notes else None
