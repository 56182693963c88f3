"""What a service serves: a folder with policies, or a serve.toml. All problems are listed at once, each with its key.

*A folder.* Each `people.policy.toml` beside `people.csv` (or .parquet, .jsonl …) is a table, and so is each
`people.prepared.policy.toml` beside `people.prepared.duckdb`, which has the name people too. A file without a policy is not
served; it is listed with the command that makes one. Ledger, key, control database and salts are in a folder of the owner's
state, `$XDG_STATE_HOME/discreet/serve/<name>-<hash of the path>`, which only the owner can read. All tables of a folder are
one population, whose root account holds ε = 3 at δ = 1e-9 unless `--epsilon` says otherwise when it is first served.

*A serve.toml* is for a team: where the control database, the ledger and the key are, and the populations, tables, rules,
sign-in, alerts and released tables. Paths are relative to the file. It holds no secret: an address with a password is
refused (PGPASSFILE names a file with one), and `secret_file` names the file of an OIDC client's secret.

A service that listens on anything but loopback or a unix socket must have a certificate, or say that it is behind a proxy
which has one: tokens travel in every request.
"""

import ipaddress
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from discreet._numbers import check_int, format_up, read_decimal, read_positive
from discreet.accounting.cost import SHOWN_DIGITS, format_at
from discreet.accounting.currencies import create_budget, parse_currency
from discreet.errors import BadParameter, Problems, SourceRefused
from discreet.ledger.account import validate_name
from discreet.ledger.owner_state import default_state_folder
from discreet.paths import is_postgres, read_text
from discreet.query.schema import suggest_name
from discreet.serve.control.model import Rules
from discreet.serve.schedule import OFF, read_classes
from discreet.units import Neighbours

DEFAULT_EPSILON, DEFAULT_DELTA, DEFAULT_CURRENCY = Fraction(3), Fraction(1, 10**9), "zcdp"
DEFAULT_ROLES = ("analyst", "reader")
"""What everybody at a provider may be."""
DEFAULT_CLASSES = (1.0, 5.0, 30.0)
LOOPBACK, DEFAULT_PORT = "127.0.0.1", 8765
POLICY_SUFFIX = ".policy.toml"
DATA_SUFFIXES = (
    ".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet", ".jsonl", ".ndjson", ".jsonl.gz", ".xlsx", ".arrow", ".feather",
)  # fmt: skip
PREPARED, DATABASE = ".prepared", ".duckdb"
"""How the name of a prepared file ends, which has its own policy beside it: people.prepared.duckdb."""
ALERTS = ("root 80%", "root 95%", "engine failed", "overrun", "ledger check", "request")
"""What the owner can be alerted of."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@|(^|[?&\s])\w*password\s*=", re.IGNORECASE)
Listen: TypeAlias = tuple[str, int] | Path
"""An address and a port, or the path of a unix socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationConfig:
    """A population and the budget of its root account."""

    name: str
    epsilon: Fraction = DEFAULT_EPSILON
    delta: Fraction = DEFAULT_DELTA
    currency: str = DEFAULT_CURRENCY
    is_stated: bool = True  # False: a folder's, which holds only until its account is opened

    def describe(self) -> str:
        """The budget in words, rounded up: it is a promise.

        >>> PopulationConfig(name="employees").describe()
        'ε = 3 at δ = 1e-9'
        """
        return f"ε = {format_up(self.epsilon, SHOWN_DIGITS)}{format_at(self.delta)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """A table: where its rows are, its policy, its population, its schedule and its rules."""

    name: str
    source: str
    policy: Path
    population: str
    table: str | None = None  # its name in a database, if that is another
    rows_at_most: int | None = None
    classes: tuple[float, ...] | None = None  # None: proposed from invented rows
    least_epsilon: Fraction | None = None  # None: the policy's
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    label: str | None = None
    title: str = ""
    description: str = ""
    rules: Rules | None = None  # None: it states none, and stewards set them in the browser
    invented: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """A provider that signs people in. Its groups have roles; who is in none of them has `default_role`, or is refused."""

    issuer: str
    client: str
    secret_file: Path
    stewards: str | None = None
    analysts: str | None = None
    readers: str | None = None
    default_role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertConfig:
    """Where alerts are sent, and which."""

    webhook: str
    when: tuple[str, ...] = ALERTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedConfig:
    """Where released answers are mirrored: a DuckDB file, a folder for Parquet, or a schema in PostgreSQL."""

    location: str
    schema: str = "released"

    @property
    def name(self) -> str:
        """What the pages call it: a schema, or the name of the file or folder without its path."""
        return f"the schema {self.schema}" if is_postgres(self.location) else Path(self.location).name


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """A service."""

    name: str
    address: str  # what links and the Host check use
    listen: Listen
    control: str
    ledger: str
    key: Path
    state: Path  # of this service: salts, publications
    populations: Mapping[str, PopulationConfig]
    tables: Mapping[str, TableConfig]
    slots: int = 2
    metrics: tuple[str, int] | None = None
    behind_proxy: bool = False
    certificate: Path | None = None
    certificate_key: Path | None = None
    oidc: OidcConfig | None = None
    alerts: AlertConfig | None = None
    released: ReleasedConfig | None = None
    embedded: bool = False  # a folder: ledger, key and control database are made at the first start
    skipped: tuple[tuple[Path, str], ...] = field(default=())  # files without a policy, and the command that makes one
    target: str = "serve.toml"  # what commands name: the folder, or the file
    has_address: bool = False  # whether serve.toml states the address; else it follows from where the service listens

    def at_port(self, port: int) -> "ServiceConfig":
        """Return the same service at the port that the system chose for port 0."""
        assert isinstance(self.listen, tuple)
        parts = urlsplit(self.address)
        own = parts._replace(netloc=f"{parts.netloc.removesuffix(':0')}:{port}") if parts.port == 0 else parts
        return replace(self, listen=(self.listen[0], port), address=own.geturl())


def read_config(
    target: str | Path, *, port: int | None = None, host: str | None = None, epsilon: Any = None, behind_proxy: bool = False
) -> ServiceConfig:
    """Read a folder or a serve.toml. `port` and `host` are where it listens, whatever a serve.toml says.

    Raises:
        BadParameter: something is wrong.
        PlanRefused: several things are; all are listed.
        SourceRefused: there is no such folder or file.
    """
    place = Path(target)
    if port is not None and not 0 <= port < 65536:
        raise BadParameter("port", port, "not a port", "take one from 1 to 65535, or 0 for a free one")
    if place.is_dir():
        return read_folder(place, port=port, host=host, epsilon=epsilon, behind_proxy=behind_proxy)
    if epsilon is not None:
        hint = "write epsilon = into its [populations]"
        raise BadParameter("epsilon", epsilon, "a serve.toml states the budgets itself", hint)

    def refuse(reason: str) -> SourceRefused:
        return SourceRefused(f"{str(target)!r}: {reason}", "name a folder with policies, or a serve.toml")

    if place.name.lower().endswith((*DATA_SUFFIXES, DATABASE)):
        raise refuse("a file with rows; its folder is served, if a policy is beside the file")
    text = read_text(place, refuse)
    config = parse_config(text, place.resolve().parent, port=port, host=host, behind_proxy=behind_proxy, file=place.name)
    return replace(config, target=str(target))


# -- a folder -------------------------------------------------------------------------------------------------------------


def read_folder(
    folder: Path, *, port: int | None = None, host: str | None = None, epsilon: Any = None, behind_proxy: bool = False
) -> ServiceConfig:
    """Return the service of a folder. No source, ledger or database is opened.

    >>> config = read_folder(Path("examples"))
    >>> [*config.tables], [command for _, command in config.skipped][:1]
    (['people'], ['discreet policy init examples/census.csv --unit COLUMN --out examples/census.policy.toml'])
    """
    problems = Problems()
    name = _to_name(folder.resolve().name)
    tables: dict[str, TableConfig] = {}
    policies = {each.name.removesuffix(POLICY_SUFFIX): each for each in sorted(folder.glob(f"*{POLICY_SUFFIX}"))}
    files = _list_files(folder)
    for stem, policy in policies.items():
        with problems.collect():
            table = stem.removesuffix(PREPARED)
            if table in tables:
                reason = f"{table}{POLICY_SUFFIX} and {policy.name} both declare it"
                raise BadParameter(f"tables.{table}", "there twice", reason, "remove one of the two policies")
            tables[table] = _describe_file(table, policy, files.get(stem, []), name)
    budget = PopulationConfig(name=name, is_stated=False)
    if epsilon is not None:
        with problems.collect():
            budget = PopulationConfig(name=name, epsilon=read_positive(epsilon, "epsilon"))
    skipped = tuple(
        (path, _name_policy_command(path, stem))
        for stem, paths in files.items()
        for path in paths
        if stem not in policies and stem.removesuffix(PREPARED) not in tables
    )
    if not tables and not problems.found:
        with problems.collect():
            command = skipped[0][1] if skipped else _name_policy_command(folder / "people.csv", "people")
            reason = "no file in it has a policy beside it" if skipped else "there is no file in it that can be served"
            hint = f"write one with: {command}" if skipped else f"put people.csv into it, then: {command}"
            raise BadParameter("folder", repr(str(folder)), reason, hint)
    taken = LOOPBACK if host is None else host, DEFAULT_PORT if port is None else port
    with problems.collect():
        check_listen(taken, "host", has_tls=False, behind_proxy=behind_proxy)
    problems.raise_all(f"The folder {str(folder)!r}")
    digest = sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    state = default_state_folder() / "serve" / f"{name}-{digest}"
    return ServiceConfig(
        name=name, address=f"http://{LOOPBACK}:{taken[1]}", listen=taken,
        control=str(state / "control.sqlite"), ledger=str(state / "serve.ledger"), key=state / "serve.ledger.key",
        state=state, populations={name: budget}, tables=tables, embedded=True, skipped=skipped, behind_proxy=behind_proxy,
        target=str(folder),
    )  # fmt: skip


def _name_policy_command(path: Path, stem: str) -> str:
    """The command that makes a first policy where the service looks for it."""
    beside = path.with_name(stem + POLICY_SUFFIX)
    unit = "" if stem.endswith(PREPARED) else " --unit COLUMN"  # a prepared file has its unit
    return f"discreet policy init {shlex.quote(str(path))}{unit} --out {shlex.quote(str(beside))}"


def _describe_file(table: str, policy: Path, files: list[Path], population: str) -> TableConfig:
    _check_name(table, f"tables.{table}")
    if len(files) != 1:
        found = ", ".join(path.name for path in files) or "none"
        reason = f"one file must be beside {policy.name}, and there is: {found}"
        stem = policy.name.removesuffix(POLICY_SUFFIX)
        hint = f"put {stem}{DATABASE if stem.endswith(PREPARED) else '.csv or another file'} beside it"
        databases = [
            each for each in (f"{stem}{DATABASE}", f"{stem}{PREPARED}{DATABASE}") if (policy.parent / each).exists()
        ]
        if databases and not files and not stem.endswith(PREPARED):
            reason = f"of databases, a folder serves those alone that were prepared, and {databases[0]} is not named as one"
            if databases[0] == f"{stem}{PREPARED}{DATABASE}":
                reason = f"{databases[0]} has its own policy"
            named = f"{stem}{PREPARED}{DATABASE} with the policy {stem}{PREPARED}{POLICY_SUFFIX}"
            hint = f"serve it as {named}; a serve.toml can serve any database"
        raise BadParameter(f"tables.{table}", "without its file", reason, hint)
    return TableConfig(
        name=table, source=str(files[0].resolve()), policy=policy.resolve(), population=population, classes=DEFAULT_CLASSES
    )


def _list_files(folder: Path) -> dict[str, list[Path]]:
    """The files that can be served, by the name that their table would have."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.lower()
        suffix = next((end for end in DATA_SUFFIXES if name.endswith(end)), None)
        suffix = DATABASE if name.endswith(PREPARED + DATABASE) else suffix
        if suffix is not None and path.is_file():
            found.setdefault(path.name[: -len(suffix)], []).append(path)
    return found


def _to_name(text: str) -> str:
    """The name of a folder as that of a population.

    >>> _to_name("my data (2026)"), _to_name("2026")
    ('my-data-2026', 'data-2026')
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:50]
    return name if name[:1].isalpha() else f"data-{name}".strip("-")


# -- a serve.toml ---------------------------------------------------------------------------------------------------------


class _Section:
    """A table of the file. Reads its keys, and collects what is wrong with each under its whole name."""

    def __init__(self, name: str, values: Any, problems: Problems, beside: Path) -> None:
        self.name, self.problems, self.beside = name, problems, beside
        self.values: dict[str, Any] = values if isinstance(values, dict) else {}
        self.read_keys: set[str] = set()
        if not isinstance(values, dict):
            with problems.collect():
                raise BadParameter(name, repr(values), "not a table", f"write [{name}] and its keys below it")

    def read(self, key: str, parse: Callable[[Any, str], Any], default: Any = None, *, needed: bool = False) -> Any:
        """Return a value, or the default if the key is missing or wrong."""
        self.read_keys.add(key)
        full = f"{self.name}.{key}"
        with self.problems.collect():
            if key not in self.values:
                if needed:
                    raise BadParameter(full, "missing", "it is needed", f"write {key} = … under [{self.name}]")
                return default
            return parse(self.values[key], full)
        return default

    def sections(self, key: str) -> "dict[str, _Section]":
        """Return the tables under a key."""
        self.read_keys.add(key)
        tables = self.values.get(key, {})
        if not isinstance(tables, dict):
            with self.problems.collect():
                raise BadParameter(f"{self.name}.{key}".strip("."), repr(tables), "not a table", "write it as a table")
            return {}
        prefix = f"{self.name}.{key}".strip(".")
        return {name: _Section(f"{prefix}.{name}", value, self.problems, self.beside) for name, value in tables.items()}

    def section(self, key: str) -> "_Section | None":
        """Return the table under a key; None if there is none."""
        self.read_keys.add(key)
        if key not in self.values:
            return None
        return _Section(f"{self.name}.{key}".strip("."), self.values[key], self.problems, self.beside)

    def refuse_others(self) -> None:
        """Refuse every key that was not read."""
        for key in self.values.keys() - self.read_keys:
            with self.problems.collect():
                full = f"{self.name}.{key}".strip(".")
                raise BadParameter(full, "given", "there is no such key", suggest_name(key, sorted(self.read_keys)))


def parse_config(
    text: str, beside: Path, *, port: int | None = None, host: str | None = None, behind_proxy: bool = False,
    file: str = "serve.toml",
) -> ServiceConfig:  # fmt: skip
    """Return the service that the text of a serve.toml describes. Its paths are relative to the folder `beside`; `file` is
    its name in refusals."""
    problems = Problems()
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise BadParameter(file, "no TOML", str(error), "correct the text") from None
    root = _Section("", values, problems, beside)
    service = root.section("service") or _Section("service", {}, problems, beside)

    def path(value: Any, key: str) -> Path:
        return beside / _text(value, key)

    name = service.read("name", _text, "discreet")
    state = service.read("state", path, beside / "state")
    listen = service.read("listen", _read_listen, (LOOPBACK, DEFAULT_PORT))
    if port is not None or host is not None:
        own = (LOOPBACK, DEFAULT_PORT) if isinstance(listen, Path) else listen
        listen = (own[0] if host is None else host, own[1] if port is None else port)
    address = service.read("address", _read_address, _name_address(listen), needed=not _is_own(listen))
    control = service.read("control", _place(beside), str(state / "control.sqlite"))
    ledger = service.read("ledger", _place(beside), str(state / "serve.ledger"))
    key = service.read("key", path, None if is_postgres(ledger) else Path(f"{ledger}.key"), needed=is_postgres(ledger))
    slots = service.read("slots", lambda value, key: check_int(value, key, 1), 2)
    metrics = service.read("metrics", _read_listen, None)
    certificate, certificate_key = service.read("certificate", path), service.read("certificate_key", path)
    behind_proxy = service.read("behind_proxy", _bool, False) or behind_proxy
    service.refuse_others()
    with problems.collect():
        name_of_listen = "service.listen" if host is None else "host"
        check_listen(listen, name_of_listen, has_tls=certificate is not None, behind_proxy=behind_proxy)
    if isinstance(metrics, Path) or (metrics is not None and not is_loopback(metrics[0])):
        with problems.collect():
            raise BadParameter("service.metrics", metrics, "metrics are for this machine", 'write "127.0.0.1:9765"')
    populations = {each: _read_population(each, table) for each, table in root.sections("populations").items()}
    tables = {each: _read_table(each, table, populations) for each, table in root.sections("tables").items()}
    if not tables:
        with problems.collect():
            raise BadParameter("tables", "missing", "no table is served", "write [tables.people] and its source below it")
    sign_in = root.section("sign_in")
    oidc = None
    if sign_in is not None:
        oidc = _read_oidc(sign_in.section("oidc"), path)
        sign_in.refuse_others()
    config = ServiceConfig(
        name=name, address=address, listen=listen, control=control, ledger=ledger, key=key or Path(), state=state,
        populations=populations, tables=tables, slots=slots, metrics=metrics, behind_proxy=behind_proxy,
        certificate=certificate, certificate_key=certificate_key, oidc=oidc, alerts=_read_alerts(root.section("alerts")),
        released=_read_released(root.section("released"), _place(beside)), has_address="address" in service.values,
    )  # fmt: skip
    root.refuse_others()
    problems.raise_all(file)
    return config


def _read_population(name: str, section: _Section) -> PopulationConfig:
    with section.problems.collect():
        _check_name(name, section.name)
    epsilon = section.read("epsilon", read_positive, DEFAULT_EPSILON, needed=True)
    delta = section.read("delta", lambda value, key: read_decimal(value, key), DEFAULT_DELTA)
    currency = section.read("currency", _text, DEFAULT_CURRENCY)
    section.refuse_others()
    with section.problems.collect():
        create_budget(epsilon, delta, parse_currency(currency))
    return PopulationConfig(name=name, epsilon=epsilon, delta=delta, currency=currency)


def _read_table(name: str, section: _Section, populations: Mapping[str, PopulationConfig]) -> TableConfig:
    def population(value: Any, key: str) -> str:
        if _text(value, key) not in populations:
            raise BadParameter(key, repr(value), "there is no such population", suggest_name(value, sorted(populations)))
        return str(value)

    with section.problems.collect():
        _check_name(name, section.name)
    rows = section.read("rows_at_most", lambda value, key: check_int(value, key, 1), None)
    classes = section.read("schedule", read_classes, None)
    if rows is None and "schedule" not in section.values:
        with section.problems.collect():
            hint = f'write schedule = ["1s", "5s"] ("{OFF}" for none), or rows_at_most, from which it is proposed'
            raise BadParameter(f"{section.name}.schedule", "missing", "answers need moments to leave at", hint)
    rules = section.section("rules")
    config = TableConfig(
        name=name,
        source=section.read("source", _place(section.beside), "", needed=True),
        policy=section.read("policy", lambda value, key: section.beside / _text(value, key), Path(), needed=True),
        population=section.read("population", population, "", needed=True),
        table=section.read("table", _text),
        rows_at_most=rows,
        classes=classes,
        least_epsilon=section.read("least_epsilon", read_positive),
        neighbours=section.read("neighbours", lambda value, key: Neighbours.parse(_text(value, key)), Neighbours.ADD_REMOVE),
        label=section.read("label", _text),
        title=section.read("title", _text, ""),
        description=section.read("description", _text, ""),
        rules=None if rules is None else _read_rules(rules),
        invented=section.read("invented", _bool, False),
    )
    section.refuse_others()
    return config


def _read_rules(section: _Section) -> Rules:
    def templates(value: Any, key: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise BadParameter(key, repr(value), "not a list of queries", 'write templates = ["SELECT …"]')
        return tuple(_text(each, key) for each in value)

    def amount(value: Any, key: str) -> str:
        return str(read_positive(value, key))

    rules = Rules(
        epsilon_per_ask=section.read("epsilon_per_ask", amount),
        epsilon_per_day=section.read("epsilon_per_day", amount),
        declared_keys_only=section.read("declared_keys_only", _bool, False),
        templates=section.read("templates", templates, ()),
        fresh=section.read("fresh", _bool, False),
        two_stewards_above=section.read("two_stewards_above", amount),
    )
    section.refuse_others()
    return rules


def _read_oidc(section: _Section | None, path: Callable[[Any, str], Path]) -> OidcConfig | None:
    def default_role(value: Any, key: str) -> str:
        if value not in DEFAULT_ROLES:
            raise BadParameter(key, repr(value), "not a role of everybody", f"take one of: {', '.join(DEFAULT_ROLES)}")
        return str(value)

    if section is None:
        return None
    config = OidcConfig(
        issuer=section.read("issuer", _read_address, "", needed=True),
        client=section.read("client", _text, "", needed=True),
        secret_file=section.read("secret_file", path, Path(), needed=True),
        stewards=section.read("stewards", _text),
        analysts=section.read("analysts", _text),
        readers=section.read("readers", _text),
        default_role=section.read("default_role", default_role),
    )
    section.refuse_others()
    return config


def _read_alerts(section: _Section | None) -> AlertConfig | None:
    def when(value: Any, key: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise BadParameter(key, repr(value), "not a list of alerts", f"take some of: {', '.join(ALERTS)}")
        for each in value:
            if each not in ALERTS:
                raise BadParameter(key, repr(each), "there is no such alert", suggest_name(each, ALERTS))
        return tuple(value)

    if section is None:
        return None
    config = AlertConfig(
        webhook=section.read("webhook", _read_address, "", needed=True), when=section.read("when", when, ALERTS)
    )
    section.refuse_others()
    return config


def _read_released(section: _Section | None, place: Callable[[Any, str], str]) -> ReleasedConfig | None:
    def schema(value: Any, key: str) -> str:
        _check_name(_text(value, key), key)
        return str(value)

    def location(value: Any, key: str) -> str:
        found = place(value, key)
        suffix = "" if is_postgres(found) else Path(found).suffix
        if suffix and suffix not in (".duckdb", ".db") and not Path(found).is_dir():
            hint = "name a file that ends in .duckdb, a folder for Parquet, or a postgresql:// address"
            raise BadParameter(key, repr(value), f"released tables are not written as {suffix}", hint)
        return found

    if section is None:
        return None
    config = ReleasedConfig(
        location=section.read("location", location, "", needed=True), schema=section.read("schema", schema, "released")
    )
    section.refuse_others()
    return config


# -- values ---------------------------------------------------------------------------------------------------------------


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadParameter(key, repr(value), "not a text", "write it in quotes")
    return value


def _bool(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise BadParameter(key, repr(value), "neither true nor false", "write true or false")
    return value


def _check_name(name: str, key: str) -> None:
    """Names are parts of addresses and of account names."""
    if _NAME.fullmatch(name) is None:
        raise BadParameter(key, repr(name), "not a name", "take a letter, then letters, digits, _ and -")
    validate_name(name, key)


def _place(beside: Path) -> Callable[[Any, str], str]:
    """Reads a path, relative to the file, or an address without a password."""

    def read(value: Any, key: str) -> str:
        text = _text(value, key)
        if _PASSWORD.search(text):
            hint = "put it into a file that PGPASSFILE names"
            raise BadParameter(key, "an address with a password", "this file holds no secret", hint)
        is_address = is_postgres(text) or "://" in text or text.startswith("spark:")
        return text if is_address else str(beside / text)

    return read


def _read_address(value: Any, key: str) -> str:
    """Read an http or https address without a password."""
    parts = urlsplit(_text(value, key))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        shown = "an address with a name or password" if "@" in str(value) else repr(value)
        raise BadParameter(key, shown, "not a web address", 'write "https://dp.example.org"')
    return str(value).rstrip("/")


def _read_listen(value: Any, key: str) -> Listen:
    """Read "127.0.0.1:8765" or "unix:/run/discreet/web.sock"."""
    text = _text(value, key)
    if text.startswith("unix:"):
        return Path(text.removeprefix("unix:"))
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise BadParameter(key, repr(value), "not an address to listen on", 'write "127.0.0.1:8765" or "unix:/run/web.sock"')
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_own(listen: Listen) -> bool:
    """Whether only this machine reaches a place."""
    return isinstance(listen, Path) or is_loopback(listen[0])


def _name_address(listen: Listen) -> str:
    """The address that this machine reaches a place by."""
    return "http://localhost" if isinstance(listen, Path) else f"http://{listen[0]}:{listen[1]}"


def check_listen(listen: Listen, name: str, *, has_tls: bool, behind_proxy: bool) -> None:
    """Refuse to listen on other machines' networks in the clear. `name` is the parameter that says where."""
    if isinstance(listen, Path) or has_tls or behind_proxy or is_loopback(listen[0]):
        return
    raise BadParameter(
        name, repr(listen[0]), "tokens would cross the network unencrypted",
        "name service.certificate and service.certificate_key in a serve.toml, or give behind_proxy= if a proxy has them",
    )  # fmt: skip
