"""plan.toml: a workload as a steward writes it. Decimals are read exactly; every mistake is told by its key."""

import re
import tomllib
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any

from discreet.errors import BadParameter, SourceRefused
from discreet.paths import read_text
from discreet.publisher.workload import Workload, WorkloadQuery

TOP_LEVEL_KEYS = {
    "title", "label", "source", "unit", "policy", "table", "path", "max_groups", "max_rows", "unique", "neighbours",
    "confidence",
}  # fmt: skip
TABLE_KEYS = {"bounds", "keys", "public", "budget", "questions"}
BUDGET_KEYS = {"epsilon", "delta", "currency", "ledger", "account", "id"}
QUERY_KEYS = {"sql", "error", "size", "weight"}
TEXT_KEYS = {
    "title", "label", "source", "unit", "policy", "table", "path", "neighbours", "currency", "ledger", "account", "id",
    "sql",
}  # fmt: skip
PATH_KEYS = {"source", "policy", "path", "ledger"}


def read_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> Workload:
    """The workload in a plan.toml. Its paths are relative to the file, or to the folder `beside`.

    >>> [asked.name for asked in read_workload("examples/publish.toml").questions]
    ['headcount', 'pay', 'ages', 'spread']
    """
    text = read_text(path, lambda reason: SourceRefused(f"the plan {str(path)!r}: {reason}", "check the path"))
    return parse_workload(text, Path(path).parent if beside is None else Path(beside))


def parse_workload(text: str, beside: Path) -> Workload:
    """The workload, its paths being relative to the folder `beside`.

    >>> parse_workload('source = "people.csv"\\n[budget]\\nepsilon = 1\\n[questions.all]\\nsquel = "SELECT 1"', Path())
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.all.squel is given: there is no such key; take error, size, sql or weight
    """
    try:
        plan = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError) as mistake:
        raise BadParameter("plan", "this text", f"not TOML ({mistake})", "see docs/publishing.md") from None
    top = _parse_table(plan, "", TOP_LEVEL_KEYS | TABLE_KEYS, beside)
    top["public"] = {name: _resolve_path(place, f"public.{name}", beside) for name, place in top.get("public", {}).items()}
    budget = _parse_table(top.pop("budget", {}), "budget", BUDGET_KEYS, beside)
    questions = top.pop("questions", {})
    for key, found in (("source", top), ("budget.epsilon", budget)):
        if key.removeprefix("budget.") not in found:
            raise BadParameter(key, "missing", "a plan needs it", "see docs/publishing.md")
    asked = tuple(_parse_query(name, fields, beside) for name, fields in questions.items())
    return Workload(questions=asked, text=text, **top, **budget)


def _parse_query(name: str, fields: Any, beside: Path) -> WorkloadQuery:
    found = _parse_table(fields, f"questions.{name}", QUERY_KEYS, beside)
    if "sql" not in found:
        raise BadParameter(f"questions.{name}.sql", "missing", "a question has a text", 'write sql = "SELECT …"')
    return WorkloadQuery(name=name, **found)


def _parse_table(found: Any, where: str, allowed: set[str], beside: Path) -> dict[str, Any]:
    """The fields of a table of the plan, each known, texts where texts belong, paths from where they start."""
    if not isinstance(found, dict):
        raise BadParameter(where, repr(found), "not a table of keys", "see docs/publishing.md")
    for name, value in found.items():
        key = f"{where}.{name}" if where else name
        if name not in allowed:
            *others, last = sorted(allowed)
            raise BadParameter(key, "given", "there is no such key", f"take {', '.join(others)} or {last}")
        if name in TEXT_KEYS and not (isinstance(value, str) and value):
            raise BadParameter(key, repr(value), "a text is needed here", f'write {name} = "…"')
        if name in TABLE_KEYS and not isinstance(value, dict):
            raise BadParameter(key, repr(value), "a table is needed here", f"write [{name}]")
    return {
        name: _resolve_path(value, f"{where}.{name}".strip("."), beside) if name in PATH_KEYS else value
        for name, value in found.items()
    }


def _resolve_path(place: Any, key: str, beside: Path) -> str:
    """A path as it is from here; an address as it is."""
    if not isinstance(place, str) or not place:
        raise BadParameter(key, repr(place), "not the path of anything", "write it as a text")
    if _ADDRESS.match(place):
        return place
    try:
        return str(beside / Path(place).expanduser())
    except RuntimeError as error:  # an unknown user's home
        raise BadParameter(key, repr(place), f"it leads nowhere ({error})", "write the whole path") from None


_ADDRESS = re.compile(r"(postgres(ql)?|spark|s3|gs|hdfs|https?)://|spark:", re.IGNORECASE)
