"""`publish`: execute a plan and write its tables, charts, guarantee page and certificate into one new folder.

Theory of operation
-------------------
read → plan → execute → write. Everything that can be refused is refused first. Then `execute_plan` debits the account once,
runs all queries and records all answers together. Then all files are written into a hidden folder, which gets its name when
it is complete: a folder of that name is a whole publication or does not exist. A publication that was interrupted can be
repeated: with a ledger it is not charged again, and recorded answers are written byte for byte as before.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._numbers import check_confidence, floor_digits
from discreet.accounting.cost import SHOWN_DIGITS, Cost
from discreet.accounting.currencies import amount_or_zero, largest_epsilon
from discreet.engines.base import about, owner_log
from discreet.errors import DELTA_CURRENCY, BadParameter, BudgetExceeded, DiscreetError
from discreet.folders import create_folder, resolve_folder
from discreet.formats import missing_library_error, to_csv, write_parquet
from discreet.ledger import open_ledger
from discreet.ledger.account import state_in_epsilon
from discreet.ledger.certificate import make_certificate, read_entries
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.entries import Debit
from discreet.ledger.keys import SigningKey, is_accepted_signer, load_key, resolve_key_path
from discreet.noise import Bits
from discreet.paths import exists, read_text
from discreet.query.answer import Answer, IntervalOptions
from discreet.query.record import LedgerReference
from discreet.query.series import has_histogram, to_long_table
from discreet.session.executor import RunOptions
from discreet.text import to_printable
from discreet.workload.drawing import Draw, start_drawing
from discreet.workload.guarantee import format_guarantee
from discreet.workload.planning import WorkloadPlan, find_noise, plan_workload, price_targets, read_plan
from discreet.workload.spec import Workload, read_workload

GUARANTEE_FILE, CERTIFICATE_FILE = "guarantee.md", "release.json"
REPRODUCE_SCRIPT = '''"""Reproduces this publication in the folder `again`: python again.py FOLDER [KEY]

The paths in plan.toml are relative to FOLDER; KEY is the file of the ledger's key, if it is not beside the ledger. With the
same ledger the answers are the same, and nothing is charged. Without a ledger new noise is drawn: that is a second
publication with its own cost.
"""

import sys
from pathlib import Path

from discreet.workload.publishing import reproduce

reproduce(Path(__file__).parent, sys.argv[1:])
'''


@dataclass(frozen=True, slots=True)
class WorkloadAnswers:
    """One answer per query, and where the account keeps all of them."""

    answers: tuple[Answer, ...]
    reference: LedgerReference
    free: bool  # they were recorded before, and nothing was paid now
    cost: Cost  # of the debit that they belong to, which may have been made under another δ
    certified_delta: Fraction  # the δ of the certified point that was charged; 0 where a sum was


def execute_plan(
    plan: WorkloadPlan,
    *,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> WorkloadAnswers:
    """Charge the account once for the composition of all measurements, then answer them."""
    options, intervals = (
        RunOptions(bits, progress, plan.workload.id, fresh),
        IntervalOptions(check_confidence(plan.workload.confidence)),
    )
    execution = plan.session.executor.run_workload(plan.measurements, options, intervals, plan.terms.certified_delta)
    cost, certified_delta = _read_cost(plan, execution.reference.entry)
    return WorkloadAnswers(execution.answers, execution.reference, execution.receipt is None, cost, certified_delta)


def _read_cost(plan: WorkloadPlan, entry: int) -> tuple[Cost, Fraction]:
    """Return what the debit with this number cost, and at which point. An account in memory knows no other debit."""
    account, terms, cost = plan.session.account, plan.terms, plan.cost
    if not isinstance(account, LedgerAccount):
        return cost, terms.certified_delta
    with account.store.read_transaction() as transaction:
        debit = transaction.find_entry(entry)
    assert isinstance(debit, Debit)
    delta = debit.certified_delta if terms.currency.counts_epsilon else terms.delta
    return Cost(plan.event, delta, terms.currency, debit.cost, cost.remaining, cost.limit), debit.certified_delta


@dataclass(frozen=True, slots=True)
class Publication:
    """The folder of a publication, its answers and its cost."""

    folder: Path
    answers: Mapping[str, Answer]
    cost: Cost
    entry: int
    free: bool  # the ledger had recorded the answers, and nothing was charged now
    missing_charts: tuple[str, ...] = ()  # the queries whose chart could not be drawn


def publish(
    plan: "Workload | WorkloadPlan | str | os.PathLike[str]",
    to: "str | os.PathLike[str]",
    *,
    force: bool = False,
    fresh: bool = False,
    key: "str | os.PathLike[str] | None" = None,
    spreadsheet: bool = False,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> Publication:
    """Execute a plan with one debit and write its tables, charts, guarantee page and certificate into a new folder.

    `plan` is the path of a plan.toml, a `Workload` or a `WorkloadPlan`; `plan_workload` computes its cost beforehand. With a
    ledger a repeated publication is not charged again, and recorded answers are written as they are. `fresh` charges again
    and draws new noise. `force` replaces an earlier publication. `key` is the file of the ledger's key, if it is not beside
    the ledger. `spreadsheet` escapes keys in the CSV files that a spreadsheet would run as formulas.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     published = publish("examples/publish.toml", f"{name}/people")
    ...     sorted(path.name for path in published.folder.glob("headcount.*"))
    ['headcount.csv', 'headcount.parquet', 'headcount.svg']
    """
    if not isinstance(plan, WorkloadPlan):
        plan = plan_workload(plan) if isinstance(plan, Workload) else find_noise(read_plan(plan))
    if plan.assumed:
        raise BadParameter("plan", "for an assumed account", "its account is not open yet", "open it, and plan again")
    if not plan.fits:
        terms = plan.terms
        refused = BudgetExceeded(terms.currency.symbol, cost=plan.charge, remaining=terms.limit)
        raise _state_for_plan(refused, plan, terms.limit, "raise budget.epsilon, or allow larger errors")
    workload = plan.workload
    if fresh and (workload.ledger is None or workload.id is None):
        reason = "without an id a retry cannot be distinguished from a new publication"
        raise BadParameter("fresh", "given", reason, "give budget.id too")
    for library, extra in (("pyarrow", "discreet[arrow]"), ("vl_convert", "discreet[plot]")):
        _require_library(library, extra)
    signing_key = None if workload.ledger is None else load_key(resolve_key_path(workload.ledger, key))
    folder = resolve_folder(Path(to))
    with create_folder(folder, GUARANTEE_FILE, force=force) as place, start_drawing(len(workload.questions)) as draw:
        try:
            answers = execute_plan(plan, fresh=fresh, bits=bits, progress=progress)
        except BudgetExceeded as over:
            raise _suggest_budget(over, plan) from None
        with about(plan.session.engine.identity):
            missing_charts = _write_files(place, plan, answers, signing_key, draw, spreadsheet=spreadsheet)
    by_name = {query.name: answer for query, answer in zip(workload.questions, answers.answers, strict=True)}
    return Publication(folder, by_name, answers.cost, answers.reference.entry, answers.free, missing_charts)


def _suggest_budget(refused: BudgetExceeded, plan: WorkloadPlan) -> BudgetExceeded:
    """Return a refusal of the account that names the budget.epsilon that would fit; if none does, what the errors cost."""
    if refused.currency == DELTA_CURRENCY:
        return refused
    currency, delta = plan.terms.currency, plan.session.delta
    fitting = floor_digits(refused.fitting_epsilon or Fraction(0), SHOWN_DIGITS)
    targets, has_free = price_targets(plan), any(column.target is None for column in plan.columns)
    if fitting < plan.session.table.least_epsilon:
        hint = "too little remains in the account for any publication: name another budget.account"
    elif not has_free or (targets and targets[-1].charge >= amount_or_zero(currency, fitting, delta)):
        hint = "the allowed errors cost more than remains: allow larger errors, or name another budget.account"
    else:
        hint = f"budget.epsilon = {float(fitting):.12g} would fit"
    return _state_for_plan(refused, plan, refused.remaining, hint)


def _state_for_plan(refused: BudgetExceeded, plan: WorkloadPlan, remaining: Fraction, hint: str) -> BudgetExceeded:
    """Return the refusal in ε, with this hint and the page about plans."""
    terms = plan.terms
    fitting = largest_epsilon(terms.currency, remaining, plan.session.delta)
    error = state_in_epsilon(refused, terms.currency, plan.session.delta, fitting, hint)
    error.see = "docs/publishing.md#the-dry-run"
    return error


def _write_files(
    place: Path,
    plan: WorkloadPlan,
    answers: WorkloadAnswers,
    signing_key: SigningKey | None,
    draw: Draw,
    *,
    spreadsheet: bool,
) -> tuple[str, ...]:
    """Write all files; charts after the tables, and the guarantee page last, because it names the missing charts."""
    by_name = [(query.name, answer) for query, answer in zip(plan.workload.questions, answers.answers, strict=True)]
    charts = [(name, _draw_chart(answer, name, draw)) for name, answer in by_name]
    for name, answer in by_name:
        header, records = make_table(answer)
        to_csv(header, records, place / f"{name}.csv", spreadsheet=spreadsheet)
        write_parquet(header, records, place / f"{name}.parquet")
    certificate = None if signing_key is None else _make_certificate(plan, answers, signing_key)
    if certificate is not None:
        _write_text(place / CERTIFICATE_FILE, json.dumps(certificate, ensure_ascii=False, indent=1) + "\n")
    if plan.workload.text:
        _write_text(place / "plan.toml", plan.workload.text)
        _write_text(place / "again.py", REPRODUCE_SCRIPT)
    missing_charts = tuple(name for name, drawn in charts if not _write_chart(drawn, name, place / f"{name}.svg"))
    _write_text(place / GUARANTEE_FILE, format_guarantee(plan, answers, certificate, missing_charts))
    return missing_charts


def make_table(answer: Answer) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the header and the records of a published table: one row per group; with a histogram, one per estimate."""
    if has_histogram(answer.schema):
        return to_long_table(answer.groups, answer.schema, answer.rows)
    return answer.header, answer.records


def _draw_chart(answer: Answer, name: str, draw: Draw) -> "Future[str] | None":
    """Let an answer be drawn; None if it has no chart."""
    with _survive_chart(name):
        return draw(answer.plot(title=name))
    return None


def _write_chart(drawn: "Future[str] | None", name: str, path: Path) -> bool:
    """Write a chart into a file.

    Returns False, and leaves no file, if that fails: the answers are charged by now, and a chart must not prevent them from
    being written.
    """
    if drawn is None:
        return False
    with _survive_chart(name):
        _write_text(path, drawn.result())
        return True
    path.unlink(missing_ok=True)
    return False


@contextmanager
def _survive_chart(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as failed:
        owner_log.warning("no chart of %s: %s", name, failed)


def _make_certificate(plan: WorkloadPlan, answers: WorkloadAnswers, signing_key: SigningKey) -> dict[str, Any]:
    account, reference = plan.session.account, answers.reference
    assert isinstance(account, LedgerAccount)
    return make_certificate(
        account,
        reference.entry,
        measurement=reference.measurement,
        answer=reference.record,
        software=f"discreet {version('discreet')}",
        key=signing_key,
    )


def _require_library(library: str, extra: str) -> None:
    try:
        import_module(library)
    except ImportError:
        raise missing_library_error(library, extra) from None


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


# -- again.py: reproduce a publication, signed with the same key or with one that replaced it -------------------------------


USAGE = (
    "usage: python again.py FOLDER [KEY]\n"
    "The paths in plan.toml are relative to FOLDER; KEY is the file of the ledger's key, if it is not beside the ledger."
)


def reproduce(published: Path, arguments: Sequence[str]) -> None:
    """Publish the plan of this folder into a new one, `again`; print an error as one line."""
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        sys.exit(USAGE)
    try:
        workload = read_workload(published / "plan.toml", beside=arguments[0])
        key = None
        if workload.ledger is not None:
            given = arguments[1] if len(arguments) > 1 else None
            key = _require_known_key(published, resolve_key_path(workload.ledger, given, "KEY"), workload.ledger)
        publication = publish(workload, "again", key=key)
    except DiscreetError as refused:
        sys.exit(f"{refused}\n{USAGE}")
    print(to_printable(str(publication.folder)))


def _require_known_key(published: Path, path: Path, ledger: "str | PathLike[str]") -> Path:
    """Return the path of the key if it exists, and is the certificate's key or one that replaced it.

    A certificate that is signed with another key looks like a forgery.
    """

    def refuse(reason: str) -> BadParameter:
        return BadParameter("KEY", str(path), reason, "name the file of the ledger's key")

    if not exists(path, refuse):
        raise refuse("there is no key, and none is created here")
    certificate = published / CERTIFICATE_FILE

    def refuse_certificate(reason: str) -> BadParameter:
        return BadParameter("release.json", str(certificate), reason, "allow reading it")

    if exists(certificate, refuse_certificate):
        stated = json.loads(read_text(certificate, refuse_certificate))
        if not is_accepted_signer(
            open_ledger(ledger), load_key(path).public, stated["public_key"], read_entries(stated)[1].number
        ):
            raise BadParameter("KEY", str(path), "release.json was signed with another key", "name the file of that key")
    return path
