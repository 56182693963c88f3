"""The options of the commands, each with its one line of help."""

from typing import Annotated, Any, TypeAlias

import typer

PRICE, DATA, SHAPE = "The price or the error", "What is declared about the table", "The answer"
LEDGER = "A budget that survives"


def panel(heading: str, text: str, *names: str) -> Any:
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

Epsilon: TypeAlias = Annotated[str | None, panel(PRICE, "The price of the whole question.")]
Error: TypeAlias = Annotated[str | None, panel(PRICE, "The error it may have, 5% or a number; finds the price.")]
Size: TypeAlias = Annotated[int | None, panel(PRICE, "What a percentage is relative to: the smallest group that matters.")]
Pilot: TypeAlias = Annotated[str | None, panel(PRICE, "Or the ε that a private count of it may cost; needs --budget.")]
Budget: TypeAlias = Annotated[str | None, panel(PRICE, "The whole budget in ε; what the question costs, unless given.")]
Delta: TypeAlias = Annotated[str, panel(PRICE, "The chance of failure; unknown keys need one.")]
CurrencyName: TypeAlias = Annotated[
    str | None, panel(PRICE, "What the account counts: pure, zcdp, gdp or rdp(16); zcdp if there is a δ.", "--currency")
]
Weight: TypeAlias = Annotated[list[str] | None, panel(PRICE, "A column's share of the price: n=2. Repeatable.")]
Confidence: TypeAlias = Annotated[float, panel(PRICE, "How often an interval covers.")]

Unit: TypeAlias = Annotated[str | None, panel(DATA, "The column that says whose row it is.")]
PolicyFile: TypeAlias = Annotated[str | None, panel(DATA, "A policy.toml with what is declared about the table.")]
Keys: TypeAlias = Annotated[list[str] | None, panel(DATA, "Keys that may be shown: dept=a,b,c. Repeatable.")]
MaxGroups: TypeAlias = Annotated[int | None, panel(DATA, "In how many groups one unit may count; 1 unless given.")]
MaxRows: TypeAlias = Annotated[int | None, panel(DATA, "With how many rows in each; 1 unless given.")]
Unique: TypeAlias = Annotated[bool, panel(DATA, "No unit has two rows.", "--unique")]
Limits: TypeAlias = Annotated[
    list[str] | None, panel(DATA, "Values are clamped: pay=0:200; pay=auto finds bounds privately. Repeatable.", "--bounds")
]
Public: TypeAlias = Annotated[list[str] | None, panel(DATA, "A public table to join: cities=cities.csv. Repeatable.")]
FilePath: TypeAlias = Annotated[str | None, panel(DATA, "The Parquet files that Spark shall read.", "--path")]
TableName: TypeAlias = Annotated[str | None, panel(DATA, "The table's name, if not the file's.", "--table")]
Relation: TypeAlias = Annotated[
    str, panel(DATA, "Whom an answer may not tell apart: add-remove one unit, or replace one.", "--neighbours")
]

Label: TypeAlias = Annotated[
    str | None,
    panel(DATA, "Which state of the source this is: 2026-11. Answers under another label are not reused.", "--label"),
]

LedgerPlace: TypeAlias = Annotated[
    str | None, panel(LEDGER, "Pay from a ledger: a file, or postgresql://user@host/database.", "--ledger")
]
AccountName: TypeAlias = Annotated[
    str | None, panel(LEDGER, "Which account of it; the only one, unless given.", "--account")
]
AnswerId: TypeAlias = Annotated[str | None, panel(LEDGER, "Asked again with the same id, nothing is paid twice.", "--id")]
Fresh: TypeAlias = Annotated[bool, panel(LEDGER, "Pay for new noise, also if this was answered before.", "--fresh")]
Certificate: TypeAlias = Annotated[str | None, panel(LEDGER, "Write the signed answer: release.json.", "--release")]
KeyFile: TypeAlias = Annotated[str | None, panel(LEDGER, "The file of the ledger's key, if not beside it.", "--key")]

Simultaneous: TypeAlias = Annotated[bool, panel(SHAPE, "All intervals hold together.", "--simultaneous")]
Consistent: TypeAlias = Annotated[bool, panel(SHAPE, "Groups add up to their noisy total.", "--consistent")]
NonNegative: TypeAlias = Annotated[bool, panel(SHAPE, "What cannot be negative is at least 0.", "--non-negative")]
Integers: TypeAlias = Annotated[bool, panel(SHAPE, "Counts are whole numbers.", "--integers")]
Csv: TypeAlias = Annotated[bool, panel(SHAPE, "Print CSV only.", "--csv")]
Spreadsheet: TypeAlias = Annotated[bool, panel(SHAPE, "With --csv: no key is taken for a formula.", "--spreadsheet")]
Json: TypeAlias = Annotated[bool, panel(SHAPE, "Print JSON only.", "--json")]

Place: TypeAlias = Annotated[str, typer.Argument(help="A ledger: a file, or postgresql://user@host/database.")]
SecretKey: TypeAlias = Annotated[str | None, typer.Option("--key", help="The file of the ledger's key, if not beside it.")]
PublicKey: TypeAlias = Annotated[
    str | None, typer.Option("--key", help="The public key that must have signed: text or file.")
]
