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
class Asking:
    """A query of the history: who pays, what is declared, how it is asked."""

    sql: str
    account: str = "zcdp"
    connect: dict[str, Any] = field(default_factory=dict)
    ask: dict[str, Any] = field(default_factory=lambda: {"epsilon": 1})


EVERY_STATISTIC = (
    "SELECT dept, COUNT(*) AS rows, COUNT(DISTINCT id) AS units, COUNT(pay) AS paid, SUM(pay) AS total, AVG(pay) AS mean, "
    "VARIANCE(pay) AS spread, MEDIAN(age) AS middle, HISTOGRAM(age, 18, 40, 70) AS ages FROM people GROUP BY dept"
)
HISTORY = {
    "count": Asking("SELECT COUNT(*) AS n FROM people", "pure", ask={"epsilon": Fraction(1, 2), "id": "monday"}),
    "statistics": Asking(EVERY_STATISTIC),
    "gdp": Asking("SELECT SUM(pay) AS total FROM people WHERE age BETWEEN 30 AND 50", "gdp"),
    "rdp": Asking("SELECT AVG(age) AS mean FROM people WHERE dept IN ('sales', 'legal')", "rdp", ask={"epsilon": 5}),
    "unknown_keys": Asking("SELECT age, COUNT(*) AS n FROM people GROUP BY age", "child"),
    "replace": Asking("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", "replace", {"neighbours": "replace"}),
    "found_bounds": Asking("SELECT SUM(pay) AS total FROM people", "pure", {"bounds": {"pay": "auto", "age": (18, 70)}}),
    "piloted": Asking("SELECT AVG(pay) AS mean FROM people", "pure", ask={"error": "20%", "pilot": Fraction(1, 2)}),
    "labelled": Asking("SELECT COUNT(*) AS n FROM people", "pure", {"label": "2026-11"}),
    "several_rows": Asking("SELECT COUNT(*) AS n FROM people", "zcdp", {"unique": None, "max_rows": 3, "max_groups": 2}),
}  # fmt: skip


def open_session(asking: Asking, ledger: str) -> Session:
    """The session that asks, or asked, this; its source stands for one at another path."""
    declared: dict[str, Any] = {"unit": "id", "unique": True, "bounds": {"pay": (0, 200), "age": (18, 70)}} | asking.connect
    session = connect(EXAMPLES / "people.csv", ledger=ledger, account=asking.account, keys=KEYS, **declared)
    session.engine.identity = SOURCE  # type: ignore[misc]
    return session


def open_plan(folder: Path, ledger: str) -> WorkloadPlan:
    """The plan that was published."""
    plan = (EXAMPLES / "publish.toml").read_text().replace('"people.csv"', json.dumps(str(EXAMPLES / "people.csv")))
    text = plan.replace("delta = 1e-6", f'ledger = {json.dumps(ledger)}\naccount = "child"')
    (folder / "plan.toml").write_text(text)
    solved = plan_workload(read_workload(folder / "plan.toml"))
    solved.session.engine.identity = SOURCE  # type: ignore[misc]
    return solved


def write(folder: Path) -> None:
    """Write the history, its certificates and a signed head into an empty folder."""
    place = folder / "hr.ledger"
    ledger = open_ledger(place, create=True)
    for name, budget in ACCOUNTS.items():
        ledger.open_account(name, **budget)
    for name, certificate in _certificates(folder, place, ledger):
        (folder / f"{name}.json").write_text(json.dumps(certificate, ensure_ascii=False, indent=1) + "\n")


def _certificates(folder: Path, place: Path, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    key = place.with_name("hr.ledger.key")
    for number, (name, asking) in enumerate(HISTORY.items()):
        session = open_session(asking, str(place))
        yield name, session.certify(session.ask(asking.sql, **asking.ask), load_key(key))
        if number == len(HISTORY) // 2:
            rotate_key(ledger, key)
    published = publish(open_plan(folder, str(place)), folder / "published")
    yield "published", json.loads((published.folder / "release.json").read_text())
    for source, kind in ((SOURCE, FailureKind.RESOURCE), ("/srv/data/broken.csv", FailureKind.DECODING)):
        ledger.quarantine.record_failure(source, kind)
    ledger.quarantine.lift("/srv/data/broken.csv")
    yield "head", sign_head(ledger, load_key(key))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
