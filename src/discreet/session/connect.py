"""How a session begins: a source with what is declared of it, and a budget of its own or a ledger's."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._numbers import Number, read_decimal
from discreet.accounting.currencies import Currency, create_budget, parse_currency
from discreet.errors import BadParameter
from discreet.ledger import open_ledger
from discreet.ledger.account import Account
from discreet.ledger.memory import MemoryAccount
from discreet.query.schema import Key, Table
from discreet.session.session import Session
from discreet.session.source import ColumnBounds, open_source
from discreet.units import Neighbours


def connect(
    source: Any,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    unit: str | None = None,
    currency: Currency | str | None = None,
    ledger: str | PathLike[str] | None = None,
    account: str | None = None,
    policy: str | Path | Table | None = None,
    table: str | None = None,
    path: str | Path | None = None,
    bounds: ColumnBounds | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    label: str | None = None,
) -> Session:
    """Open a source with a budget of (ε, δ), or with an account of a ledger that has one.

    The source is a CSV or Parquet file (globs too), a folder of Parquet files, a DuckDB file or connection, an Arrow table,
    a pandas, Polars or Spark frame, "postgresql://…" with a `table`, or "spark:local[2]" and "spark://…" with a `table` or
    the `path` of its files. What is not declared here may be declared in a policy file. Without a δ the budget is kept in
    pure ε; with one in zCDP, half of δ being reserved for selecting keys, unless another currency is named: "pure", "zcdp",
    "gdp" or "rdp(16)".
    `neighbours` says whom an answer may not tell apart: "add-remove" one unit, or "replace" one. `public` names tables
    about nobody, each from whatever a source can be, that questions may be joined to. `bounds={"pay": "auto"}`, or
    `bounds="auto"` for every number, has bounds found privately by the first question that needs them, for a quarter of
    its price.

    A budget of its own lives as long as the process. `ledger` is a file or a postgresql:// address, made by
    `discreet ledger open`, and `account` one of its accounts: that budget outlives everything. `label` names the state of
    the source ("2026-11"): an answer that was recorded under another label, or under none, is not reused.
    """
    relation = neighbours if isinstance(neighbours, Neighbours) else Neighbours.parse(neighbours)
    purse, failing = open_account(epsilon, delta, currency, ledger, account)
    declared = open_source(
        source, unit=unit, policy=policy, table=table, path=path, bounds=bounds, keys=keys, max_groups=max_groups,
        max_rows=max_rows, unique=unique, public=public,
    )  # fmt: skip
    return Session.of(declared, purse, failing, relation, label)


def open_account(
    epsilon: Number | None,
    delta: Number,
    currency: Currency | str | None,
    ledger: str | PathLike[str] | None,
    account: str | None,
) -> tuple[Account, Fraction]:
    """Whatever pays, and the δ at which its budget promises an ε."""
    if ledger is None:
        if account is not None:
            raise BadParameter("account", repr(account), "no ledger is named", "give ledger= too (--ledger FILE)")
        if epsilon is None:
            raise BadParameter(
                "budget", "missing", "a session has a budget", "give epsilon=1 (and a delta), or ledger= and account="
            )
        kept = currency if currency is None or isinstance(currency, Currency) else parse_currency(currency)
        return MemoryAccount(create_budget(epsilon, delta, kept)), read_decimal(delta, "delta")
    if epsilon is not None or delta != 0 or currency is not None:
        raise BadParameter(
            "epsilon", "given", "the ledger's account has its budget for life", "leave epsilon, delta and currency out"
        )
    found = open_ledger(ledger).get_account(account)
    return found, found.initial_state.delta
