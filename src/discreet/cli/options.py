"""The options of the commands, each with its one line of help."""

from typing import Annotated, Any, TypeAlias

import typer

COST_PANEL, SOURCE_PANEL, ANSWER_PANEL = "The price or the error", "What is declared about the table", "The answer"
LEDGER_PANEL = "A budget that survives"


def make_option(heading: str, text: str, *names: str) -> Any:
    """An option, under the heading where `--help` lists it."""
    return typer.Option(*names, help=text, rich_help_panel=heading)


Source: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="A CSV or Parquet file (globs too), a folder of Parquet files, a DuckDB file, postgresql://…, "
        "spark:local[2], spark://…."
    ),
]
Sql: TypeAlias = Annotated[str, typer.Argument(help='"SELECT dept, COUNT(*) AS n FROM people GROUP BY dept".')]

Epsilon: TypeAlias = Annotated[str | None, make_option(COST_PANEL, "The price of the whole question.")]
Error: TypeAlias = Annotated[str | None, make_option(COST_PANEL, "The error it may have, 5% or a number; finds the price.")]
Size: TypeAlias = Annotated[
    int | None, make_option(COST_PANEL, "What a percentage is relative to: the smallest group that matters.")
]
Pilot: TypeAlias = Annotated[
    str | None, make_option(COST_PANEL, "Or the ε that a private count of it may cost; needs --budget.")
]
Budget: TypeAlias = Annotated[
    str | None, make_option(COST_PANEL, "The whole budget in ε; what the question costs, unless given.")
]
Delta: TypeAlias = Annotated[str, make_option(COST_PANEL, "The chance of failure; unknown keys need one.")]
CurrencyName: TypeAlias = Annotated[
    str | None,
    make_option(COST_PANEL, "What the account counts: pure, zcdp, gdp or rdp(16); zcdp if there is a δ.", "--currency"),
]
Weight: TypeAlias = Annotated[list[str] | None, make_option(COST_PANEL, "A column's share of the price: n=2. Repeatable.")]
Confidence: TypeAlias = Annotated[float, make_option(COST_PANEL, "How often an interval covers.")]

Unit: TypeAlias = Annotated[str | None, make_option(SOURCE_PANEL, "The column that says whose row it is.")]
PolicyFile: TypeAlias = Annotated[
    str | None, make_option(SOURCE_PANEL, "A policy.toml with what is declared about the table.")
]
Keys: TypeAlias = Annotated[list[str] | None, make_option(SOURCE_PANEL, "Keys that may be shown: dept=a,b,c. Repeatable.")]
MaxGroups: TypeAlias = Annotated[
    int | None, make_option(SOURCE_PANEL, "In how many groups one unit may count; 1 unless given.")
]
MaxRows: TypeAlias = Annotated[int | None, make_option(SOURCE_PANEL, "With how many rows in each; 1 unless given.")]
Unique: TypeAlias = Annotated[bool, make_option(SOURCE_PANEL, "No unit has two rows.", "--unique")]
BoundsOption: TypeAlias = Annotated[
    list[str] | None,
    make_option(SOURCE_PANEL, "Values are clamped: pay=0:200; pay=auto finds bounds privately. Repeatable.", "--bounds"),
]
Public: TypeAlias = Annotated[
    list[str] | None, make_option(SOURCE_PANEL, "A public table to join: cities=cities.csv. Repeatable.")
]
FilePath: TypeAlias = Annotated[str | None, make_option(SOURCE_PANEL, "The Parquet files that Spark shall read.", "--path")]
TableName: TypeAlias = Annotated[str | None, make_option(SOURCE_PANEL, "The table's name, if not the file's.", "--table")]
Relation: TypeAlias = Annotated[
    str, make_option(SOURCE_PANEL, "Whom an answer may not tell apart: add-remove one unit, or replace one.", "--neighbours")
]

Label: TypeAlias = Annotated[
    str | None,
    make_option(
        SOURCE_PANEL, "Which state of the source this is: 2026-11. Answers under another label are not reused.", "--label"
    ),
]

LedgerOption: TypeAlias = Annotated[
    str | None, make_option(LEDGER_PANEL, "Pay from a ledger: a file, or postgresql://user@host/database.", "--ledger")
]
AccountName: TypeAlias = Annotated[
    str | None, make_option(LEDGER_PANEL, "Which account of it; the only one, unless given.", "--account")
]
AnswerId: TypeAlias = Annotated[
    str | None, make_option(LEDGER_PANEL, "Asked again with the same id, nothing is paid twice.", "--id")
]
Fresh: TypeAlias = Annotated[
    bool, make_option(LEDGER_PANEL, "Pay for new noise, also if this was answered before.", "--fresh")
]
Certificate: TypeAlias = Annotated[
    str | None, make_option(LEDGER_PANEL, "Write the signed answer: release.json.", "--release")
]
KeyFile: TypeAlias = Annotated[
    str | None, make_option(LEDGER_PANEL, "The file of the ledger's key, if not beside it.", "--key")
]

Simultaneous: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "All intervals hold together.", "--simultaneous")]
Consistent: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "Groups add up to their noisy total.", "--consistent")]
NonNegative: TypeAlias = Annotated[
    bool, make_option(ANSWER_PANEL, "What cannot be negative is at least 0.", "--non-negative")
]
Integers: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "Counts are whole numbers.", "--integers")]
Csv: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "Print CSV only.", "--csv")]
Spreadsheet: TypeAlias = Annotated[
    bool, make_option(ANSWER_PANEL, "With --csv: no key is taken for a formula.", "--spreadsheet")
]
Json: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "Print JSON only.", "--json")]

LedgerArgument: TypeAlias = Annotated[str, typer.Argument(help="A ledger: a file, or postgresql://user@host/database.")]
SecretKey: TypeAlias = Annotated[str | None, typer.Option("--key", help="The file of the ledger's key, if not beside it.")]
PublicKey: TypeAlias = Annotated[
    str | None, typer.Option("--key", help="The public key that must have signed: text or file.")
]
