"""Open a session: a source with its declarations, and the account that pays for its queries.

`connect`, the command line and `publish` each make a `SourceOptions` and an account, and call `open_session`.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from discreet._numbers import Number, read_decimal
from discreet.accounting.currencies import Currency, create_budget, parse_currency
from discreet.errors import BadParameter
from discreet.ledger import open_ledger
from discreet.ledger.account import Account
from discreet.ledger.memory import MemoryAccount
from discreet.paths import is_service
from discreet.query.schema import Key, Table
from discreet.session.asking import Asking
from discreet.session.missing import Missing, make_error
from discreet.session.options import SOURCE_OPTIONS, ColumnBounds, SourceOptions
from discreet.units import Neighbours, read_invariants

if TYPE_CHECKING:
    from discreet.remote.client import RemoteSession
    from discreet.session.session import Session


@overload
def connect(
    source: Any,
    *,
    epsilon: Number,
    delta: Number = 0,
    unit: str | Sequence[str] | None = None,
    currency: Currency | str | None = None,
    policy: str | Path | Table | None = None,
    name: str | None = None,
    table: str | None = None,
    path: str | Path | None = None,
    bounds: ColumnBounds | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    invariants: Mapping[str, str] | None = None,
    label: str | None = None,
) -> "Session": ...
@overload
def connect(
    source: Any,
    *,
    ledger: str | PathLike[str],
    account: str | None = None,
    unit: str | Sequence[str] | None = None,
    policy: str | Path | Table | None = None,
    name: str | None = None,
    table: str | None = None,
    path: str | Path | None = None,
    bounds: ColumnBounds | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    invariants: Mapping[str, str] | None = None,
    label: str | None = None,
) -> "Session": ...
@overload
def connect(source: str, *, token: str | None = None) -> "RemoteSession": ...
def connect(
    source: Any,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    unit: str | Sequence[str] | None = None,
    currency: Currency | str | None = None,
    ledger: str | PathLike[str] | None = None,
    account: str | None = None,
    policy: str | Path | Table | None = None,
    name: str | None = None,
    table: str | None = None,
    path: str | Path | None = None,
    bounds: ColumnBounds | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    invariants: Mapping[str, str] | None = None,
    label: str | None = None,
    token: str | None = None,
) -> Asking:
    """Open a source with a budget of (ε, δ), or with an account of a ledger, which has its own budget.

    >>> people = connect("examples/people.csv", unit="id", unique=True, epsilon=1)
    >>> people.quote("SELECT COUNT(*) AS n FROM people", epsilon=0.5).columns[0].half_widths
    ((None, 6.0),)

    Args:
        source: A CSV file (also .csv.gz and .csv.zst), a Parquet, JSON lines, Excel ("people.xlsx#Sheet1") or Arrow file
            (globs too), a folder of Parquet files, a DuckDB file or connection, an Arrow table, a pandas, Polars or Spark
            frame, "postgresql://…" with a `table`, or "spark:local[2]" or "spark://…" with a `table` or the `path` of its
            files; or "https://…/people", a table of a service, which has its own policy and budget. What is returned then
            is a `RemoteSession` (`discreet.remote.client`), which is asked like a local one.
        epsilon: The ε of a budget that lives as long as the process.
        delta: Its δ.
        unit: The column that identifies the privacy unit, such as a person; the columns, if it takes several: ("household",
            "person"); or "row", if each row is one person.
        currency: What the budget is kept in: "pure", "zcdp", "gdp" or "rdp(16)". Unless given, pure ε without a δ; with one
            zCDP, and half of δ is reserved for partition selection.
        ledger: A file or a postgresql:// address made by `discreet ledger open`; its budget is durable.
        account: The account of the ledger; its only one, unless given.
        policy: A policy file, which declares the table.
        name: Your name for a frame, which queries call it by. It is your word that a frame of this name is the same data
            each time: a ledger then finds the answers that were recorded for it, and every answer says so.
        table: The name of the table; the name of the file, unless given.
        path: The Parquet files that Spark reads.
        bounds: The ranges that values are clipped to: {"pay": (0, 200)}. {"pay": "auto"}, or "auto" for all numeric columns,
            discovers them privately: the first query that needs them spends a quarter of its cost on it.
        keys: The group keys that answers show: {"dept": ["a", "b"]}.
        max_groups: The number of groups that a unit counts in; 1 unless given.
        max_rows: The number of rows that a unit counts with in each group; 1 unless given.
        unique: Whether every unit has at most one row.
        public: Public tables, by name, that queries may join to: {"cities": "cities.csv"}.
        neighbours: The neighbouring relation: "add-remove" one unit, or "replace" one.
        invariants: Exact counts that are public, with the reason: {"state": "the law demands exact counts of each state"}.
            They are neither read nor published here. They make every guarantee conditional, for the whole account: it holds
            only among data sets with the same number of rows of each state.
        label: The state of the source, such as "2026-11". Answers recorded under another label, or none, are not reused.
        token: Your token for a service; DISCREET_TOKEN or what `discreet login` stored, unless given.

    Raises:
        BadParameter: a parameter is impossible, or one that is needed is missing.
        SourceRefused: the source cannot be opened, or has cells that cannot be read.
        LedgerUnavailable: the ledger cannot be opened.
    """
    arguments = locals()  # read first, so that it holds the parameters and nothing else
    if is_service(source):
        _refuse_for_service(arguments)
        opened: RemoteSession = import_module("discreet.remote.client").open_remote(source, token)  # a layer above this one
        return opened
    if token is not None:
        raise BadParameter("token", "given", "only a service knows tokens", "leave it out, or name a service: https://…")
    options = SourceOptions(**{name: arguments[name] for name in SOURCE_OPTIONS})
    if epsilon is None and ledger is None and unit is None and policy is None:
        from discreet.session.source import find_prepared_unit

        if find_prepared_unit(source) is None:
            raise make_error(Missing(unit=True, epsilon=True), Exception(), options)
    return open_session(options, *open_account(epsilon, delta, currency, ledger, account))


def _refuse_for_service(arguments: Mapping[str, Any]) -> None:
    """Refuse what the owner of a service declares, and not the analyst."""
    defaults = {name: each.default for name, each in signature(connect).parameters.items()}
    for name, given in arguments.items():
        if name not in ("source", "token") and given is not defaults[name] and given != defaults[name]:
            reason = "a service has its own policy and budget"
            raise BadParameter(name, "given", reason, "leave it out; a steward of the service can change the policy")


def open_session(options: SourceOptions, account: Account, delta: Fraction, *, identity: str | None = None) -> "Session":
    """Open a source for an account whose budget guarantees an ε at δ.

    `identity` is what measurements call the source, such as "serve:people", instead of where it is: recorded answers are
    then found wherever the owner moves the data.

    Raises:
        SourceRefused: the source cannot be opened, is quarantined, or has cells that cannot be read.
    """
    from discreet.session.session import Session  # what reads SQL takes longer to load than all else here
    from discreet.session.source import open_source

    relation = options.neighbours
    if not isinstance(relation, Neighbours):
        relation = Neighbours.parse(relation)
    source = open_source(options)
    table = source.table
    invariants = read_invariants(options.invariants, relation, table.columns, table.unit_columns)
    return Session.of(source, account, delta, relation, options.label, identity, invariants)


def open_account(
    epsilon: Number | None,
    delta: Number,
    currency: Currency | str | None,
    ledger: str | PathLike[str] | None,
    account: str | None,
) -> tuple[Account, Fraction]:
    """The account that pays, and the δ at which its budget guarantees an ε."""
    if ledger is None:
        if account is not None:
            raise BadParameter("account", repr(account), "accounts are kept in a ledger", 'name it: ledger="hr.ledger"')
        if epsilon is None:
            raise BadParameter(
                "epsilon", "missing", "a session needs a budget", 'give epsilon=1, or ledger="hr.ledger" with an account'
            )
        parsed = currency if currency is None or isinstance(currency, Currency) else parse_currency(currency)
        return MemoryAccount(create_budget(epsilon, delta, parsed)), read_decimal(delta, "delta")
    if epsilon is not None or delta != 0 or currency is not None:
        raise BadParameter(
            "epsilon" if epsilon is not None else "delta" if delta != 0 else "currency",
            "given",
            "the account of the ledger has its own budget, which cannot be changed",
            "leave epsilon=, delta= and currency= out",
        )
    opened = open_ledger(ledger).get_account(account)
    return opened, opened.initial_state.delta
