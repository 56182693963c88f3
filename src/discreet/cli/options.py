"""The options that several commands share, each with its line of help, and the texts that are typed for them.

The options of a source are declared in `session/options.py`; `takes_source` gives them to a command as flags. Texts such as
pay=0:200 are parsed here and nowhere else.
"""

import gc
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.cli.output import parse_number, read_token
from discreet.errors import BadParameter, DiscreetError
from discreet.paths import is_service
from discreet.query.schema import about_column
from discreet.session.options import AUTO, WRITTEN_OPTIONS, KeyText, OptionSpec, SourceOptions

if TYPE_CHECKING:
    from discreet.remote.client import RemoteSession
    from discreet.session.session import Session

COST_PANEL, SOURCE_PANEL, ANSWER_PANEL = "Cost or error", "Source", "Answer"
LEDGER_PANEL = "Ledger"

# What a shell completes after Tab. typer makes the scripts for bash, zsh, fish and PowerShell (`discreet
# --install-completion`), and completes commands and options. A function here lists the values of one option or argument.
# None of them raises or prints, and none reads a row. What it cannot list, the shell completes as the name of a file.

Completer = Callable[..., list[str]]

TABLE_SUFFIXES = (
    ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".parquet",
    ".arrow", ".feather", ".ipc", ".xlsx", ".duckdb", ".db",
)  # fmt: skip
SQLITE_MAGIC = b"SQLite format 3\0"


def complete_words(*words: str) -> Completer:
    """Complete one of these words.

    >>> complete_words("add-remove", "replace")("re")
    ['replace']
    """
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def complete_files(*suffixes: str) -> Completer:
    """Complete the files with one of these endings, in the folder that is typed."""

    def complete(incomplete: str) -> list[str]:
        return [path for path in _list_files(incomplete) if path.lower().endswith(suffixes)]

    return complete


def complete_ledgers(incomplete: str) -> list[str]:
    """Complete the files that are SQLite databases."""
    return [path for path in _list_files(incomplete) if _starts_with(path, SQLITE_MAGIC)]


def complete_accounts(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the accounts of the ledger that is typed before."""
    place = context.params.get("ledger") or _first_argument(context, "place")
    if not isinstance(place, str) or not _starts_with(place, SQLITE_MAGIC):
        return []
    from discreet.errors import DiscreetError
    from discreet.ledger.sqlite import SqliteStore

    with suppress(DiscreetError):
        store = SqliteStore(place)
        try:
            with store.read_transaction() as transaction:
                return [name for name in transaction.list_account_names() if name.startswith(incomplete)]
        finally:
            store.close()
    return []


def complete_columns(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the columns in the header of the CSV file that is typed before."""
    source = _first_argument(context, "source")
    if not isinstance(source, str) or not source.lower().endswith((".csv", ".tsv")):
        return []
    import csv

    with suppress(OSError, ValueError, csv.Error, StopIteration), open(source, newline="", encoding="utf-8-sig") as file:
        line = file.readline(1 << 16)
        delimiter = max(",;\t|", key=line.count)
        return [name for name in next(csv.reader([line], delimiter=delimiter)) if name and name.startswith(incomplete)]
    return []


def _first_argument(context: typer.Context, name: str) -> object:
    """The first argument, which is not parsed yet if the option before the cursor still lacks its value."""
    return context.params.get(name) or next(iter(context.args), None)


def _list_files(incomplete: str) -> list[str]:
    folder, slash, start = incomplete.rpartition("/")
    found: list[str] = []
    with suppress(OSError, ValueError):
        for path in sorted(Path(folder or slash or ".").iterdir()):
            if path.name.startswith(start) and (start or not path.name.startswith(".")) and path.is_file():
                found.append(f"{folder}{slash}{path.name}")
    return found


def _starts_with(path: str, magic: bytes) -> bool:
    with suppress(OSError, ValueError), open(path, "rb") as file:
        return file.read(len(magic)) == magic
    return False


# Options that several commands share.


def make_option(panel: str, text: str, *names: str, completer: Completer | None = None) -> Any:
    """An option, in the panel of `--help` that lists it, and what a shell completes for it."""
    return typer.Option(*names, help=text, rich_help_panel=panel, autocompletion=completer)


CURRENCIES, NEIGHBOURS = ("pure", "zcdp", "gdp", "rdp(16)"), ("add-remove", "replace")
"""What a shell completes; the library has the full lists, and says so if another word is given."""


Sql: TypeAlias = Annotated[str, typer.Argument(help='"SELECT dept, COUNT(*) AS n FROM people GROUP BY dept".')]

Epsilon: TypeAlias = Annotated[str | None, make_option(COST_PANEL, "The ε that the query may cost.")]
Error: TypeAlias = Annotated[
    str | None, make_option(COST_PANEL, "Or the largest half-width, 5% or a number: finds the least ε for it.")
]
Size: TypeAlias = Annotated[
    int | None, make_option(COST_PANEL, "What a percentage is relative to: the rows of the smallest group that matters.")
]
Pilot: TypeAlias = Annotated[
    str | None, make_option(COST_PANEL, "Or the ε of a private count that finds this size; needs --budget.")
]
Budget: TypeAlias = Annotated[
    str | None, make_option(COST_PANEL, "The ε of the whole budget; the cost of the query, unless given.")
]
Delta: TypeAlias = Annotated[
    str, make_option(COST_PANEL, "δ of the (ε, δ) guarantee; required when group keys are not declared.")
]
CurrencyName: TypeAlias = Annotated[
    str | None,
    make_option(
        COST_PANEL,
        "What the budget is kept in: pure, zcdp, gdp or rdp(16); zcdp if there is a δ.",
        "--currency",
        completer=complete_words(*CURRENCIES),
    ),
]
GaussianDelta: TypeAlias = Annotated[
    str, make_option(COST_PANEL, "δ of the (ε, δ) guarantee, such as 1e-6; the noise is Gaussian and needs one.", "--delta")
]
PlanCurrencyName: TypeAlias = Annotated[
    str | None,
    make_option(
        COST_PANEL,
        "What the budget is kept in: pure, zcdp, gdp or rdp(16); unless given, pure, or zcdp for the adaptive model.",
        "--currency",
        completer=complete_words(*CURRENCIES),
    ),
]
Weight: TypeAlias = Annotated[
    list[str] | None, make_option(COST_PANEL, "The share of the cost that a column gets: n=2. Repeatable.")
]
Confidence: TypeAlias = Annotated[float, make_option(COST_PANEL, "The probability that an interval contains its statistic.")]

LedgerOption: TypeAlias = Annotated[
    str | None,
    make_option(
        LEDGER_PANEL,
        "The ledger that pays: a file, or postgresql://user@host/database.",
        "--ledger",
        completer=complete_ledgers,
    ),
]
Token: TypeAlias = Annotated[
    str | None,
    make_option(
        LEDGER_PANEL,
        "Your token for a service; - reads it. DISCREET_TOKEN or that of discreet login, unless given.",
        "--token",
    ),
]
AccountName: TypeAlias = Annotated[
    str | None,
    make_option(
        LEDGER_PANEL, "The account of the ledger; its only one, unless given.", "--account", completer=complete_accounts
    ),
]
AnswerId: TypeAlias = Annotated[
    str | None,
    make_option(LEDGER_PANEL, "Make the call idempotent: a retry with this id is not charged again.", "--id"),
]
Fresh: TypeAlias = Annotated[
    bool, make_option(LEDGER_PANEL, "Charge again and draw new noise, even if the answer is recorded.", "--fresh")
]
Purpose: TypeAlias = Annotated[
    str, make_option(LEDGER_PANEL, "What the answer is for; a steward of a service reads it.", "--purpose")
]
CertificateFile: TypeAlias = Annotated[
    str | None, make_option(LEDGER_PANEL, "Write the signed certificate of the answer into this file.", "--release")
]
KeyFile: TypeAlias = Annotated[
    str | None, make_option(LEDGER_PANEL, "The file of the ledger's secret key; beside the ledger, unless given.", "--key")
]

Simultaneous: TypeAlias = Annotated[
    bool, make_option(ANSWER_PANEL, "All intervals hold together with the confidence.", "--simultaneous")
]
Consistent: TypeAlias = Annotated[
    bool, make_option(ANSWER_PANEL, "Make the groups add up to their noisy total.", "--consistent")
]
Shares: TypeAlias = Annotated[
    bool, make_option(ANSWER_PANEL, "Show counts and sums as percentages of their total over all keys.", "--shares")
]
NonNegative: TypeAlias = Annotated[
    bool, make_option(ANSWER_PANEL, "Raise negative estimates of what cannot be negative to 0.", "--non-negative")
]
Integers: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "Round counts to integers.", "--integers")]
Csv: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "Print CSV only.", "--csv")]
Spreadsheet: TypeAlias = Annotated[
    bool, make_option(ANSWER_PANEL, "With --csv: escape keys that a spreadsheet would run as formulas.", "--spreadsheet")
]
Plot: TypeAlias = Annotated[
    str | None,
    make_option(ANSWER_PANEL, "Draw the answer into this file: .svg, .png, .html or .json; - draws here.", "--plot"),
]
Json: TypeAlias = Annotated[bool, make_option(ANSWER_PANEL, "Print JSON only.", "--json")]

LedgerArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER",
        help="A ledger: a file, or postgresql://user@host/database.",
        autocompletion=complete_ledgers,
    ),
]
SecretKey: TypeAlias = Annotated[
    str | None, typer.Option("--key", help="The file of the ledger's secret key; beside the ledger, unless given.")
]
PublicKey: TypeAlias = Annotated[
    str | None, typer.Option("--key", help="The public key that must have signed: its text, or a file.")
]

# The options of a source, as flags.


def takes_source(*names: str, sources: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `options` of a command by the argument SOURCE and a flag for each of these source options.

    Without names, every source option becomes a flag. The command receives them as one `SourceOptions`. `sources` says which
    sources the command takes, if not all.
    """
    specs = {name: spec for name, spec in WRITTEN_OPTIONS.items() if name == "source" or not names or name in names}
    if sources is not None:
        specs["source"] = replace(specs["source"], help=sources)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            texts = {name: given.pop(name) for name in specs}
            command(options=parse_source_options(texts), **given)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            parameters += (
                [_make_parameter(*item) for item in specs.items()]
                if parameter.name == "options"
                else [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
            )
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def parse_source_options(texts: Mapping[str, Any]) -> SourceOptions:
    """The source options as typed: a value per name becomes a dict, a flag that is not given becomes None.

    >>> parse_source_options({"source": "people.csv", "bounds": ["pay=0:200", "age=auto"], "unique": False}).bounds
    {'pay': (Fraction(0, 1), Fraction(200, 1)), 'age': 'auto'}
    """
    parsed: dict[str, Any] = {}
    for name, typed in texts.items():
        if WRITTEN_OPTIONS[name].kind is dict and typed is not None:
            parse = _PARSERS.get(name) or partial(_split_pair, flag=_flag(name))
            parsed[name] = collect_pairs(map(parse, typed), _flag(name))
        elif WRITTEN_OPTIONS[name].kind is list and typed is not None:
            parsed[name] = parse_names(typed, _flag(name))
        else:
            parsed[name] = None if typed is False else typed
    return SourceOptions(**parsed)


def collect_pairs(pairs: Iterable[tuple[str, Any]], flag: str) -> dict[str, Any]:
    """Return what was declared for each column; refuse a column that was declared twice, and differently.

    >>> collect_pairs([("age", (0, 30)), ("age", (17, 90))], "--bounds")
    Traceback (most recent call last):
    discreet.errors.BadParameter: --bounds is given twice for `age`: both cannot hold. Give one of them.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise BadParameter(flag, f"given twice for `{name}`", "both cannot hold", "give one of them")
    return found


def _make_parameter(name: str, spec: OptionSpec) -> inspect.Parameter:
    """The parameter from which typer makes the argument SOURCE or a flag."""
    kind = inspect.Parameter.KEYWORD_ONLY
    if name == "source":
        argument = typer.Argument(help=spec.help, autocompletion=_COMPLETERS[name])
        return inspect.Parameter(name, kind, annotation=Annotated[str, argument])
    typed: Any = list[str] if spec.kind is dict else str if spec.kind is list else spec.kind
    default = False if spec.kind is bool else _DEFAULTS[name]
    if default is None:
        typed = typed | None
    text = f"{spec.help}{' Repeatable.' * (spec.kind is dict)}"
    option = make_option(SOURCE_PANEL, text, _flag(name), completer=_COMPLETERS.get(name))
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[typed, option])


_COMPLETERS: dict[str, Completer] = {
    "source": complete_files(*TABLE_SUFFIXES),
    "unit": complete_columns,
    "policy": complete_files(".toml"),
    "neighbours": complete_words(*NEIGHBOURS),
}
_DEFAULTS = {each.name: each.default for each in fields(SourceOptions)}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# Texts such as pay=0:200.


def split_list(text: str, flag: str, example: str) -> list[str]:
    """The texts between commas. One that holds a comma is in double quotes, as in a line of CSV; a double quote is doubled.

    >>> split_list('"Paris, TX",Rome', "--keys", "dept=a,b"), split_list("", "--keys", "dept=a,b")
    (['Paris, TX', 'Rome'], [''])
    """
    import csv

    try:
        [found] = csv.reader([text], strict=True) if text else [[""]]
    except (csv.Error, ValueError):
        reason = "not a list: a double quote is not closed, or something follows it"
        raise BadParameter(flag, repr(text), reason, f"write {flag} {example}") from None
    return found


def parse_names(text: str, flag: str) -> str | tuple[str, ...]:
    """One name, or several between commas.

    >>> parse_names("id", "--unit"), parse_names("household,person", "--unit")
    ('id', ('household', 'person'))
    """
    found = split_list(text, flag, "household,person")
    return found[0] if len(found) == 1 else tuple(found)


def _split_pair(text: str, flag: str, what: str = "a name and a value", example: str = "name=value") -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name or not value:
        raise BadParameter(flag, repr(text), f"not {what}", f"write {flag} {example}")
    return name, value


def _parse_public(text: str) -> tuple[str, str]:
    return _split_pair(text, "--public", "a name and a source", "cities=cities.csv")


def _parse_keys(text: str) -> tuple[str, tuple[KeyText, ...]]:
    name, equals, keys = text.partition("=")
    if not equals:
        raise BadParameter("--keys", repr(text), "not a column and its keys", "write --keys dept=a,b,c")
    if not keys:
        hint = f"write --keys {name}=a,b,c; the empty text is --keys '{name}=\"\"'"
        raise BadParameter("--keys", repr(text), "no keys", hint)
    return name, tuple(map(KeyText, split_list(keys, "--keys", f"'{name}=\"a, b\",c'")))


def _parse_bounds(text: str) -> tuple[str, Any]:
    name, equals, ends = text.rpartition("=")
    if "=" in name and "," in name:
        parts = " ".join(f"--bounds {part}" for part in text.split(","))
        raise BadParameter("--bounds", repr(text), "the bounds of several columns", f"repeat the flag: {parts}")
    if equals and ends == AUTO:
        return name, AUTO
    if not equals or ":" not in ends:
        raise BadParameter(
            "--bounds", repr(text), "not a column and its bounds", "write --bounds pay=0:200, or --bounds pay=auto"
        )
    moments = _split_moments(ends)
    if moments is None and ends[4:5] == "-" and ends[:4].isdigit():
        raise BadParameter("--bounds", repr(text), "not two dates", f"write --bounds {name}=2024-01-01:2024-12-31")
    with about_column(name):
        return name, moments or parse_range(ends, "--bounds")


def _split_moments(text: str) -> tuple[str, str] | None:
    """Two dates or times with a colon between them, which a time has inside too; None if they are none.

    >>> _split_moments("2024-01-01T12:00:2024-12-31")
    ('2024-01-01T12:00', '2024-12-31')
    """
    from discreet.query.schema import Kind, parse_moment

    for i, sign in enumerate(text):
        ends = text[:i], text[i + 1 :]
        if sign == ":" and all(end[4:5] == "-" and parse_moment(end, Kind.TIMESTAMP) for end in ends):
            return ends
    return None


_PARSERS: dict[str, Callable[[str], tuple[str, Any]]] = {
    "bounds": _parse_bounds, "keys": _parse_keys, "public": _parse_public,
}  # fmt: skip
"""How the text of an option with a value per name is parsed; name=value unless listed."""


def parse_range(text: str, flag: str) -> tuple[Fraction, Fraction]:
    """Two numbers with a colon between them.

    >>> parse_range("0:2.5", "--domain")
    (Fraction(0, 1), Fraction(5, 2))
    """
    lower, colon, upper = text.partition(":")
    if not colon:
        raise BadParameter(flag, repr(text), "not a range", f"write {flag} 0:100")
    if not lower.strip() or not upper.strip():
        raise BadParameter(flag, repr(text), "one end of the range is missing", f"write {flag} 0:100")
    return parse_number(lower, flag), parse_number(upper, flag)


def parse_weight(text: str) -> tuple[str, Fraction]:
    """A column and its weight.

    >>> parse_weight("n=2")
    ('n', Fraction(2, 1))
    """
    name, equals, weight = text.rpartition("=")
    if not equals:
        raise BadParameter("--weight", repr(text), "not a column and its weight", "write --weight n=2")
    return name, parse_number(weight, "--weight")


# -- a query as typed, for `ask` and `quote` -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArguments:
    """A query as typed: its SQL, its cost or error, and the account that pays."""

    sql: str
    epsilon: str | None
    error: str | None
    size: int | None
    weight: list[str] | None
    confidence: float
    delta: str
    currency: str | None
    ledger: str | None
    account: str | None
    budget: str | None = None
    pilot: str | None = None
    token: str | None = None

    def parse_cost(self) -> dict[str, Any]:
        """What `Session.ask` and `Session.quote` take: ε, or an error and what it is relative to."""
        if (self.epsilon is None) == (self.error is None):
            given = "missing" if self.epsilon is None else "given with --error"
            raise BadParameter("--epsilon", given, "a query has either a cost or an error", "give --epsilon or --error")
        cost: dict[str, Any] = {
            "size": self.size,
            "weights": collect_pairs(map(parse_weight, self.weight), "--weight") if self.weight else None,
        }
        cost["confidence"] = self.confidence
        if self.epsilon is not None:
            cost["epsilon"] = parse_number(self.epsilon, "epsilon")
        else:
            cost["error"] = self.error
        return cost if self.pilot is None else cost | {"pilot": parse_number(self.pilot, "pilot")}

    def open_session(self, options: SourceOptions) -> "tuple[Session | RemoteSession, dict[str, Any]]":
        """The session, and the cost of the query as `Session.ask` and `Session.quote` take it.

        The budget is that of the ledger's account, or --budget, or exactly the cost of the query. Where the unit or the ε is
        missing, all that is missing is listed."""
        if is_service(options.source):
            return self._open_service(options), self.parse_cost()
        if self.token is not None:
            raise BadParameter("token", "given", "only a service knows tokens", "leave it out, or name a service: https://…")
        try:
            return self._open_session(options)
        except BadParameter as refused:
            raise self._list_missing(options, refused) from None

    def _open_service(self, options: SourceOptions) -> "RemoteSession":
        """Return the session on a service; refuse the flags of what its owner declares."""
        from discreet.session.connect import connect

        own = {each.name: getattr(options, each.name) for each in fields(options) if each.name != "source"}
        given = {
            name: each for name, each in own.items() if each is not None and (name, each) != ("neighbours", "add-remove")
        }
        delta = parse_number(self.delta, "delta")
        paid = {"ledger": self.ledger, "account": self.account, "currency": self.currency, "epsilon": self.budget}
        given |= {name: each for name, each in paid.items() if each is not None} | ({"delta": delta} if delta else {})
        return connect(options.source, token=read_token(self.token, options.source), **given)

    def _list_missing(self, options: SourceOptions, refused: BadParameter) -> BadParameter:
        """Return what is missing besides the unit or the ε; what was refused, if it is neither of them."""
        if (refused.name, refused.value) not in {("unit", "missing"), ("--epsilon", "missing")}:
            return refused
        from discreet.query.schema import ROW
        from discreet.session.connect import open_account
        from discreet.session.missing import find_missing, make_error
        from discreet.session.source import find_prepared_unit, open_source

        without_unit = options.unit is None and options.policy is None and find_prepared_unit(options.source) is None
        without_cost = self.epsilon is self.error is None
        try:
            delta = parse_number(self.delta, "delta")
            if self.ledger is not None:
                delta = open_account(None, 0, None, self.ledger, self.account)[1]
            opened = open_source(replace(options, unit=ROW) if without_unit else options)
            found = find_missing(self.sql, opened.table, auto_bounds=opened.auto_bounds, discovers_keys=delta > 0)
        except DiscreetError:
            return refused
        found = replace(found, unit=without_unit, epsilon=without_cost, fixed_delta=self.ledger is not None)
        return make_error(found, refused, options)

    def _open_session(self, options: SourceOptions) -> "tuple[Session, dict[str, Any]]":
        cost, delta = self.parse_cost(), parse_number(self.delta, "delta")
        load_query_modules()
        from discreet.session.connect import open_account, open_session

        if self.ledger is not None:
            self._check_ledger_options(delta)
            return open_session(options, *open_account(None, 0, None, self.ledger, self.account)), cost
        if self.pilot is not None and self.budget is None:
            raise BadParameter(
                "--pilot", self.pilot, "the cost of the query then depends on a private answer", "fix --budget beforehand"
            )
        limit = cost.get("epsilon") if self.budget is None else parse_number(self.budget, "budget")
        account, delta = open_account(1 if limit is None else limit, delta, self.currency, None, self.account)
        session = open_session(options, account, delta)
        if limit is not None:
            return session, cost
        epsilon = session.find_epsilon(self.sql, **cost)
        return replace(session, account=open_account(epsilon, delta, self.currency, None, None)[0]), cost

    def _check_ledger_options(self, delta: Fraction) -> None:
        more = "; where an account has no δ, declare the keys (--keys dept=a,b,c), or open an account with a δ"
        given = ("--budget", self.budget, ""), ("--delta", self.delta if delta else None, more)
        for flag, text, others in (*given, ("--currency", self.currency, "")):
            if text is not None:
                reason = "the account of the ledger has its own, which cannot be changed"
                raise BadParameter(flag, text, reason, f"leave it out{others}")


def load_query_modules() -> None:
    """Import what every query needs, and exempt it from the search for garbage: the interpreter searches all objects several
    times before a process ends, which would take as long as the query itself.

    Only before DuckDB is loaded and before a source or a ledger is open: DuckDB reports what is not freed at the end, and
    ledgers close their files when they are collected.
    """
    if "duckdb" in sys.modules:
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        for name in QUERY_MODULES:
            import_module(name)
        gc.freeze()
    finally:
        if enabled:
            gc.enable()


QUERY_MODULES = ("discreet.session.connect", "discreet.session.session", "discreet.session.discovery")
"""Their imports are all that a query needs, but for its engine."""
