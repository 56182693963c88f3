"""`discreet synthesize`: synthetic rows of a source, or of a published tabulation, in a file with its warning."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.app import ASKING, app, spell_notes
from discreet.cli.options import (
    AccountName,
    AnswerId,
    Budget,
    Confidence,
    Epsilon,
    Fresh,
    GaussianDelta,
    Json,
    LedgerOption,
    PlanCurrencyName,
    QueryArguments,
    collect_pairs,
    complete_columns,
    complete_words,
    make_option,
    parse_names,
    takes_source,
)
from discreet.cli.output import TEMPORARY_BUDGET, parse_number, print_json, print_line, print_warning, show_progress
from discreet.cli.tabulate import choose_currency, parse_computed
from discreet.errors import BadParameter
from discreet.session.options import SourceOptions

if TYPE_CHECKING:
    from discreet.synthesis.files import SyntheticTable
    from discreet.synthesis.synthesis import SynthesisPlan

ROWS_PANEL = "Rows"
SUFFIXES = ".csv", ".parquet"


@app.command(
    rich_help_panel=ASKING,
    epilog="Examples:\n\n[bold]discreet synthesize people.csv --columns dept,decade --computed 'decade=age // 10' --unit id "
    "--unique --keys dept=a,b,c --bounds age=18:70 --epsilon 1 --delta 1e-6 --to rows.csv[/bold]\n\n"
    "[bold]discreet synthesize published --to rows.parquet --rows 1000[/bold]",
)
@takes_source()
def synthesize(
    options: SourceOptions,
    to: Annotated[str | None, make_option(ROWS_PANEL, "The file for the rows: rows.csv or rows.parquet.", "--to")] = None,
    columns: Annotated[
        str | None,
        make_option(
            ROWS_PANEL, "Columns with declared keys, with commas: dept,age.", "--columns", completer=complete_columns
        ),
    ] = None,
    computed: Annotated[
        list[str] | None,
        make_option(ROWS_PANEL, "A column that is computed, in SQL: 'decade=age // 10'. Repeat it.", "--computed"),
    ] = None,
    where: Annotated[str | None, make_option(ROWS_PANEL, "Which rows count, in SQL: 'age >= 18'.", "--where")] = None,
    rows: Annotated[
        str, make_option(ROWS_PANEL, "How many rows are drawn; auto: as many as the noisy tables say.", "--rows")
    ] = "auto",
    model: Annotated[
        str | None,
        make_option(
            ROWS_PANEL,
            "tree (the default), or adaptive: in rounds, for an account in zcdp.",
            "--model",
            completer=complete_words("tree", "adaptive"),
        ),
    ] = None,
    seed: Annotated[int, make_option(ROWS_PANEL, "Draw other rows from the same tables, for free.", "--seed")] = 0,
    epsilon: Epsilon = None,
    budget: Budget = None,
    delta: GaussianDelta = "0",
    currency: PlanCurrencyName = None,
    confidence: Confidence = 0.95,
    ledger: LedgerOption = None,
    account: AccountName = None,
    id: AnswerId = None,
    fresh: Fresh = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cost and the noise. Nothing is charged.")] = False,
    json: Json = False,
) -> None:
    """Write synthetic rows: drawn from noisy tables, with proven bounds on their distance from the data and a warning.

    SOURCE is a table, which costs ε, or the folder of a published tabulation:
    its noisy tables were paid for, so its rows are free and need no data.
    Publications of a hierarchy are not supported.
    """  # fmt: skip
    from discreet.synthesis.synthesis import Drawing

    drawing = Drawing("auto" if rows == "auto" else _parse_rows(rows), seed, confidence)
    if not dry_run:
        _check_file(to, options.source)
    if _is_publication(options.source):
        given = {
            "--columns": columns, "--computed": computed, "--where": where, "--model": model, "--epsilon": epsilon,
            "--budget": budget, "--currency": currency, "--ledger": ledger, "--account": account, "--id": id,
            "--delta": None if delta == "0" else delta, "--fresh": fresh or None, "--dry-run": dry_run or None,
        }  # fmt: skip
        _refuse_flags(given, options)
        from discreet.synthesis.publication import synthesize_publication

        with show_progress("drawing …"):
            found = synthesize_publication(options.source, rows=drawing.rows, confidence=confidence, seed=seed)
    else:
        plan = _plan(
            options, columns, computed, where, model or "tree",
            QueryArguments(
                sql="", epsilon=epsilon, error=None, size=None, weight=None, confidence=confidence, delta=delta,
                currency=currency if model == "adaptive" else choose_currency(currency, delta, ledger), ledger=ledger,
                account=account, budget=budget,
            ),
            id,
        )  # fmt: skip
        if dry_run:
            _show_plan(plan, json=json)
            return
        from discreet.session.executor import RunOptions
        from discreet.synthesis.synthesis import execute_synthesis

        with show_progress("synthesizing …") as on_progress:
            found = execute_synthesis(plan, RunOptions(None, on_progress, id, fresh), drawing)
    assert to is not None
    found.to_parquet(to) if to.endswith(".parquet") else found.to_csv(to)
    if json:
        print_json(_summarise(found, to))
        return
    print_line(f"Wrote {len(found):,} rows to {to}.")
    for note in found.list_notes():
        print_line(spell_notes(note))
    if ledger is None and not _is_publication(options.source):
        print_line(TEMPORARY_BUDGET)


def _is_publication(source: str) -> bool:
    """Whether the source is the folder of published tables, with a hierarchy or without."""
    from discreet.tabulation.hierarchy_files import is_hierarchy_folder

    return (Path(source) / "measurements.json").is_file() or is_hierarchy_folder(source)


def _plan(
    options: SourceOptions, columns: str | None, computed: list[str] | None, where: str | None, model: str,
    arguments: QueryArguments, id: str | None,
) -> "SynthesisPlan":  # fmt: skip
    from discreet.synthesis.synthesis import plan_synthesis

    if columns is None:
        raise BadParameter("--columns", "missing", "no column is named", "give --columns dept,age")
    if arguments.epsilon is None:
        raise BadParameter("--epsilon", "missing", "the noisy tables have a cost", "give --epsilon 1")
    if id is not None and arguments.ledger is None:
        reason = "only a ledger remembers what was charged under an id"
        raise BadParameter("--id", id, reason, "give --ledger too, or leave --id out")
    session: Any = arguments.open_session(options)[0]
    for note in session.account_notes:
        print_warning(note)
    with show_progress("planning …"):
        return plan_synthesis(
            session, parse_names(columns, "--columns"), epsilon=parse_number(arguments.epsilon, "epsilon"), model=model,
            computed=collect_pairs(map(parse_computed, computed or ()), "--computed") or None, where=where,
        )  # fmt: skip


def _parse_rows(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadParameter("--rows", repr(text), "no number of rows", "give a number, or auto") from None


def _check_file(path: str | None, source: str) -> None:
    """Refuse a file that cannot be written, or that is the source, before anything is charged."""
    from discreet.formats import refuse_unwritable

    if path is None:
        raise BadParameter("--to", "missing", "the rows have no file", "give --to rows.csv or --to rows.parquet")
    if not path.endswith(SUFFIXES):
        raise BadParameter("--to", repr(path), "its ending names no format", "give --to rows.csv or --to rows.parquet")
    place = Path(path)
    with refuse_unwritable(path, "--to"):
        existed = place.exists()
        if existed and Path(source).exists() and place.samefile(source):
            raise BadParameter("--to", repr(path), "it is the source itself", "name another file")
        place.open("ab").close()
        if not existed:
            place.unlink()
    if path.endswith(".parquet"):
        from discreet.formats import to_arrow

        to_arrow((), [])


def _refuse_flags(given: dict[str, Any], options: SourceOptions) -> None:
    """Refuse flags about data and budgets where rows are made of a publication."""
    source_flags = {
        f"--{each.name.replace('_', '-')}": getattr(options, each.name) for each in fields(options) if each.name != "source"
    }
    for flag, value in (given | source_flags).items():
        if value is not None and (flag, value) != ("--neighbours", "add-remove"):
            raise BadParameter(
                flag, "given", "the rows of a publication are made of its noisy tables alone, and are free",
                "leave it out, or name the source of the data",
            )  # fmt: skip


def _show_plan(plan: "SynthesisPlan", *, json: bool) -> None:
    if json:
        found = {"model": plan.model, "cost": plan.cost.to_dict(), "noise": plan.describe()["synthesis"]}
        print_json(found | {"notes": [*map(spell_notes, plan.list_notes())]})
        return
    synthesis = plan.synthesis
    print_line(
        f"{plan.model.capitalize()} model of {len(plan.columns)} columns; one-way tables have σ = "
        f"{float(synthesis.column_noise.sigma):.4g}. {plan.cost}"
    )
    for note in plan.list_notes():
        print_line(spell_notes(note))


def _summarise(found: "SyntheticTable", path: str) -> dict[str, Any]:
    """What was written, as plain values."""
    assert found.bounds is not None
    names = found.names
    return {
        "file": path,
        "rows": len(found),
        "columns": list(names),
        "cost": None if found.cost is None else found.cost.to_dict(),
        "charged": found.charged,
        "measured": [[names[i] for i in table.margin] for table in found.tables],
        "distance": {
            "confidence": found.bounds.confidence,
            "tables": [
                {"ways": each.ways, "mean": each.mean, "largest": each.largest, "unbounded": each.unbounded,
                 "bounds": [{"by": [names[i] for i in margin], "bound": bound} for margin, bound in each.bounds.items()]}
                for each in found.bounds.tables
            ],
        },
        "notes": found.list_notes(),
    }  # fmt: skip
