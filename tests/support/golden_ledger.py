"""The history of the golden ledger, with every kind of entry, statistic, neighbouring relation and currency.

`tests/ledger/golden/schema4` is what it wrote before the classes got their present names.

`python -m tests.support.golden_ledger FOLDER` writes such a folder again, with new noise, for a new version of the schema.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet import publish, read_workload
from discreet.accounting.currencies import Gdp, Rdp, Zcdp
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.keys import load_key, rotate_key
from discreet.ledger.quarantine import FailureKind
from discreet.ledger.verify import sign_head
from discreet.session.connect import connect
from discreet.session.session import Session
from discreet.workload.planning import WorkloadPlan, plan_workload

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SOURCE = "/srv/data/people.csv"
KEYS = {"dept": ["sales", "research", "legal"]}
ACCOUNTS: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 100},
    "zcdp": {"epsilon": 100, "delta": 1e-6, "currency": Zcdp()},
    "gdp": {"epsilon": 100, "delta": 1e-6, "currency": Gdp()},
    "rdp": {"epsilon": 100, "delta": 1e-6, "currency": Rdp(Fraction(8))},
    "child": {"epsilon": 50, "delta": 1e-6, "currency": Zcdp(), "parent": "zcdp"},
    "replace": {"epsilon": 100},
}


@dataclass(frozen=True)
class GoldenQuery:
    """A query of the history: the account that it charges, what is declared, and the options of `ask`."""

    sql: str
    account: str = "zcdp"
    declared: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=lambda: {"epsilon": 1})


EVERY_STATISTIC = (
    "SELECT dept, COUNT(*) AS rows, COUNT(DISTINCT id) AS units, COUNT(pay) AS paid, SUM(pay) AS total, AVG(pay) AS mean, "
    "VARIANCE(pay) AS spread, MEDIAN(age) AS middle, HISTOGRAM(age, 18, 40, 70) AS ages FROM people GROUP BY dept"
)
HISTORY = {
    "count": GoldenQuery("SELECT COUNT(*) AS n FROM people", "pure", options={"epsilon": Fraction(1, 2), "id": "monday"}),
    "statistics": GoldenQuery(EVERY_STATISTIC),
    "gdp": GoldenQuery("SELECT SUM(pay) AS total FROM people WHERE age BETWEEN 30 AND 50", "gdp"),
    "rdp": GoldenQuery(
        "SELECT AVG(age) AS mean FROM people WHERE dept IN ('sales', 'legal')", "rdp", options={"epsilon": 5}
    ),
    "unknown_keys": GoldenQuery("SELECT age, COUNT(*) AS n FROM people GROUP BY age", "child"),
    "replace": GoldenQuery("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", "replace", {"neighbours": "replace"}),
    "found_bounds": GoldenQuery(
        "SELECT SUM(pay) AS total FROM people", "pure", {"bounds": {"pay": "auto", "age": (18, 70)}}
    ),
    "piloted": GoldenQuery("SELECT AVG(pay) AS mean FROM people", "pure", options={"error": "20%", "pilot": Fraction(1, 2)}),
    "labelled": GoldenQuery("SELECT COUNT(*) AS n FROM people", "pure", {"label": "2026-11"}),
    "several_rows": GoldenQuery(
        "SELECT COUNT(*) AS n FROM people", "zcdp", {"unique": None, "max_rows": 3, "max_groups": 2}
    ),
}


def open_session(query: GoldenQuery, ledger: str) -> Session:
    """Open the session that asks, or asked, a query; its source stands for one at another path."""
    declared: dict[str, Any] = {"unit": "id", "unique": True, "bounds": {"pay": (0, 200), "age": (18, 70)}}
    session = connect(
        EXAMPLES / "people.csv", ledger=ledger, account=query.account, keys=KEYS, **(declared | query.declared)
    )
    session.engine.identity = SOURCE  # type: ignore[misc]
    return session


def open_plan(folder: Path, ledger: str) -> WorkloadPlan:
    """Return the plan that was published."""
    plan = (EXAMPLES / "publish.toml").read_text().replace('"people.csv"', json.dumps(str(EXAMPLES / "people.csv")))
    text = plan.replace("delta = 1e-6", f'ledger = {json.dumps(ledger)}\naccount = "child"')
    (folder / "plan.toml").write_text(text)
    planned = plan_workload(read_workload(folder / "plan.toml"))
    planned.session.engine.identity = SOURCE  # type: ignore[misc]
    return planned


def write(folder: Path) -> None:
    """Write the history, its certificates and a signed head into an empty folder."""
    file = folder / "hr.ledger"
    ledger = open_ledger(file, create=True)
    for name, budget in ACCOUNTS.items():
        ledger.open_account(name, **budget)
    for name, certificate in _issue_certificates(folder, file, ledger):
        (folder / f"{name}.json").write_text(json.dumps(certificate, ensure_ascii=False, indent=1) + "\n")


def _issue_certificates(folder: Path, file: Path, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    key = file.with_name("hr.ledger.key")
    for number, (name, query) in enumerate(HISTORY.items()):
        session = open_session(query, str(file))
        yield name, session.certify(session.ask(query.sql, **query.options), load_key(key))
        if number == len(HISTORY) // 2:
            rotate_key(ledger, key)
    published = publish(open_plan(folder, str(file)), folder / "published")
    yield "published", json.loads((published.folder / "release.json").read_text())
    for source, kind in ((SOURCE, FailureKind.RESOURCE), ("/srv/data/broken.csv", FailureKind.DECODING)):
        ledger.quarantine.record_failure(source, kind)
    ledger.quarantine.lift("/srv/data/broken.csv")
    yield "head", sign_head(ledger, load_key(key))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
