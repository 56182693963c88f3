"""What publications of tables that add up have in common, with a hierarchy or without: plan.toml, certificate, page."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeVar

from discreet._numbers import Number, format_up, read_decimal
from discreet.accounting.basic import Point
from discreet.accounting.cost import Cost
from discreet.errors import BadParameter, Problems
from discreet.ledger.certificate import make_certificate
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.keys import load_key, resolve_key_path
from discreet.query.record import LedgerReference
from discreet.session.session import Session
from discreet.tabulation.priced_plan import PricedPlan
from discreet.text import escape_markdown, format_markdown_code
from discreet.workload.guarantee import (
    CHARGED,
    describe_account,
    describe_guarantee,
    describe_limits,
    describe_meaning,
)
from discreet.workload.spec import NAME_PATTERN, PlanOptions, load_toml, read_plan_file

ASSUMED_DELTA = Decimal("1e-6")
"""The δ of an account that is proposed for a plan without one."""
GUARANTEE_FILE, CERTIFICATE_FILE, PLAN_FILE = "guarantee.md", "release.json", "plan.toml"


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


class TabulationOptions(PlanOptions):
    """A plan whose noise is Gaussian: its account needs a δ."""

    __slots__ = ()

    @property
    def assumed_delta(self) -> Number:
        """That of the plan, or a usual one."""
        return self.delta if read_decimal(self.delta) else ASSUMED_DELTA

    def certified_delta(self, session: Session) -> Number | None:
        """The δ of the certified point that the plan is charged at; None where the account decides it."""
        is_given = session.account.budget.currency.counts_epsilon and (read_decimal(self.delta) or self.ledger is None)
        return self.delta if is_given else None


# -- plan.toml --------------------------------------------------------------------------------------------------------------

Workload = TypeVar("Workload", bound=PlanOptions)


def read_workload(
    path: "str | PathLike[str]",
    beside: "str | PathLike[str] | None",
    parse: Callable[[dict[str, Any], str, Path, Problems], Workload | None],
) -> Workload:
    """Read a plan.toml with `parse`, which collects problems; all of them are refused at once."""
    text, problems = read_plan_file(path), Problems()
    plan = load_toml(text, str(path), problems)
    workload = None
    if plan is not None:
        workload = parse(plan, text, Path(path).parent if beside is None else Path(beside), problems)
    problems.raise_all()
    assert workload is not None
    return workload


def has_section(path: "str | PathLike[str]", name: str) -> bool:
    """Whether a plan.toml has a section. What is wrong with it is said when it is read."""
    plan = load_toml(read_plan_file(path), str(path), Problems())
    return plan is not None and name in plan


def check_table_names(names: Iterable[str]) -> None:
    """Refuse a plan without tables, and names that no file should have."""
    listed = list(names)
    if not listed:
        raise BadParameter("tables", "empty", "no table is wanted", 'write [tables.NAME] and by = ["column"]')
    wrong = [name for name in listed if not NAME_PATTERN.fullmatch(name)]
    if wrong:
        raise BadParameter(
            f"tables.{wrong[0]}", "given", "a table's name is also that of its files",
            "take up to 60 letters, digits, - and _, beginning with a letter or digit",
        )  # fmt: skip


def require_table(value: Any, key: str, problems: Problems) -> dict[str, Any]:
    """Return a table of the plan; collect a problem if it is something else."""
    if isinstance(value, dict):
        return value
    with problems.collect():
        raise BadParameter(key, repr(value), "not a table", f"write [{key}]")
    return {}


def read_columns(by: Any) -> tuple[str, ...]:
    """Return the columns of a table: a list, or the name of one."""
    if isinstance(by, str):
        return (by,)
    if not isinstance(by, list) or not all(isinstance(name, str) for name in by):
        raise BadParameter("by", repr(by), "not a list of columns", 'write by = ["sex", "age"], or by = [] for the total')
    return tuple(by)


def read_computed(own: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Return the computed columns. Collect a problem for each that is no text, and likewise for `where` and `weight`."""
    computed = require_table(own.get("computed", {}), "computed", problems)
    texts = {f"computed.{name}": each for name, each in computed.items()}
    texts |= {name: own[name] for name in ("where", "weight") if name in own}
    for key, value in texts.items():
        if not isinstance(value, str) or not value:
            with problems.collect():
                raise BadParameter(key, repr(value), "not a text", f'write {key.rpartition(".")[2]} = "…"')
    return computed


# -- publishing -------------------------------------------------------------------------------------------------------------


def check_fresh(workload: PlanOptions, fresh: bool) -> None:
    """Refuse new noise for a plan whose retry would draw it again."""
    if fresh and (workload.ledger is None or workload.id is None):
        reason = "without an id a retry cannot be distinguished from a new publication"
        raise BadParameter("fresh", "given", reason, "give budget.id too")


def load_signing_key(workload: PlanOptions, fresh: bool, key: "str | PathLike[str] | None") -> Any:
    """Return the key of the plan's ledger, None without one. Refuse `fresh` where a retry would be charged again."""
    check_fresh(workload, fresh)
    return None if workload.ledger is None else load_key(resolve_key_path(workload.ledger, key))


def certify(tabulation: Tabulated, signing_key: Any) -> dict[str, Any]:
    """Return the certificate of the measurements (release.json)."""
    account, reference = tabulation.plan.session.account, tabulation.reference
    if not isinstance(account, LedgerAccount):
        raise BadParameter("tabulation", "not recorded", "only a ledger's answers have a certificate", "use a ledger")
    return make_certificate(
        account, reference.entry, measurement=reference.measurement, answer=reference.record,
        software=f"discreet {version('discreet')}", key=signing_key, tainted=tabulation.tainted,
    )  # fmt: skip


def write_papers(folder: Path, text: str, guarantee: str, certificate: dict[str, Any] | None) -> None:
    """Write the certificate, the plan and the guarantee page, which is last: a folder that has one is complete."""
    if certificate is not None:
        _write_text(folder / CERTIFICATE_FILE, json.dumps(certificate, ensure_ascii=False, indent=1) + "\n")
    if text:
        _write_text(folder / PLAN_FILE, text)
    _write_text(folder / GUARANTEE_FILE, guarantee)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


# -- the guarantee page -----------------------------------------------------------------------------------------------------


def format_page(title: str, session: Session, point: Point, tables: int, bounding: str, sections: Sequence[str]) -> str:
    """Write a guarantee page: what is guaranteed for so many tables, how contributions are bounded, and what follows."""
    parts = [
        f"# {escape_markdown(title or 'A tabulation')}: privacy guarantee",
        describe_guarantee(session, point, tables),
        describe_meaning(session, point),
        f"## Contribution bounding\n\n{bounding}",
        describe_limits(session, point),
        *sections,
    ]
    return "\n\n".join(parts) + "\n"


def format_measured(each: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Write the columns, the law and σ of a measured table, as cells of a row."""
    by = ", ".join(format_markdown_code(columns[i]) for i in each["margin"]) or "everybody"
    return f"{by} | {each['law']} | {float(Fraction(each['sigma'])):.6g} |"


def describe_provenance(tabulation: Tabulated, certificate: dict[str, Any] | None, *, sum_over: str, drawn: str) -> str:
    """Write how the tables were made, charged and recorded."""
    cost, certified = tabulation.cost, tabulation.plan.terms.certified_delta
    curve = f"by the certified privacy curve of the whole plan at δ = {format_up(certified, 3)}"
    lines = [
        "## How it was made\n",
        f"All noise was fixed before the first row was read, {CHARGED}"
        f"{curve if certified else f'by the sum over {sum_over}'}: {cost.describe_charge()}. It is drawn exactly, {drawn}.",
    ]
    if certificate is None:
        lines.append("No ledger records the cost: only the publisher can say how often the data was published.")
    else:
        lines.append(
            "`release.json` is the certificate of the measurements, signed by the ledger; `discreet verify` checks it."
        )
        lines.append(describe_account(certificate, cost, tabulation.plan.session))
    if tabulation.tainted:
        lines.append("\n**Made with seeded bits: for tests, never for publication.**")
    return "\n".join(lines)
