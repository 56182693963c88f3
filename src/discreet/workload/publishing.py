"""`publish`: everything that can be refused first, then payment, then the data, then one folder, all of it or none."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EEXIST, ENOTEMPTY
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

from discreet.accounting.cost import Cost
from discreet.addresses import is_postgres
from discreet.engines.base import about
from discreet.errors import BadParameter, BudgetExceeded, DiscreetError
from discreet.formats import missing_library_error
from discreet.ledger import open_ledger
from discreet.ledger.certificate import make_certificate, read_entries
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.keys import SigningKey, default_key_path, is_accepted_signer, load_key
from discreet.noise import Bits
from discreet.paths import exists, read_text, resolve
from discreet.query.answer import Answer
from discreet.text import to_printable
from discreet.workload.charts import write_chart
from discreet.workload.execution import WorkloadAnswers, execute_plan
from discreet.workload.guarantee import format_guarantee
from discreet.workload.planning import WorkloadPlan, plan_workload
from discreet.workload.spec import Workload, read_workload

GUARANTEE_FILE = "guarantee.md"
REPRODUCE_SCRIPT = '''"""Makes this publication again, into the folder `again`: python again.py FOLDER [KEY]

FOLDER is where the paths in plan.toml start from; KEY is the file of the ledger's key, if it is not beside the ledger.
From the same ledger come the same answers, and nothing is paid. Without one, new noise is drawn: that is a second
publication, and costs as much as the first.
"""

import sys
from pathlib import Path

from discreet.workload.publishing import reproduce

reproduce(Path(__file__).parent, sys.argv[1:])
'''


@dataclass(frozen=True, slots=True)
class Publication:
    """What was written where, and what it cost."""

    folder: Path
    answers: Mapping[str, Answer]
    cost: Cost
    entry: int
    free: bool  # the ledger had the answers, and nothing was paid now
    missing_charts: tuple[str, ...] = ()  # the questions whose picture could not be drawn


def publish(
    plan: "Workload | WorkloadPlan | str | os.PathLike[str]",
    to: "str | os.PathLike[str]",
    *,
    force: bool = False,
    fresh: bool = False,
    key: "str | os.PathLike[str] | None" = None,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> Publication:
    """Pay for a plan as one, and write its answers, the guarantee, the pictures and the certificate into a new folder.

    `plan` is a plan.toml or a `Workload`; `solve` shows beforehand what it costs. With a ledger, whoever was interrupted
    publishes again: what was paid is not paid twice, and answers that were recorded are written as they were. `fresh` pays
    for new noise. `force` replaces an earlier publication. `key` is the ledger's, if it is not beside it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     published = publish("examples/publish.toml", f"{name}/people")
    ...     sorted(path.name for path in published.folder.glob("headcount.*"))
    ['headcount.csv', 'headcount.parquet', 'headcount.png']
    """
    solved = (
        plan
        if isinstance(plan, WorkloadPlan)
        else plan_workload(plan if isinstance(plan, Workload) else read_workload(plan))
    )
    if not solved.fits:
        raise BudgetExceeded(
            solved.terms.currency.symbol,
            cost=solved.charge,
            remaining=solved.terms.limit,
            hint="raise budget.epsilon, or allow larger errors",
        )
    workload = solved.workload
    if fresh and (workload.ledger is None or workload.id is None):
        raise BadParameter("fresh", "given", "a retry could not be told from a new publication", "give budget.id too")
    for library, extra in (("pyarrow", "discreet[arrow]"), ("matplotlib", "discreet[plot]")):
        _require_library(library, extra)
    secret = None if workload.ledger is None else load_key(resolve_key_path(workload.ledger, key))
    folder = _resolve_folder(Path(to))
    with _create_folder(folder, force) as place:
        answers = execute_plan(solved, fresh=fresh, bits=bits, progress=progress)
        with about(solved.session.engine.identity):
            undrawn = _write_files(place, solved, answers, secret)
    named = {asked.name: answer for asked, answer in zip(workload.questions, answers.answers, strict=True)}
    return Publication(folder, named, answers.cost, answers.reference.entry, answers.free, undrawn)


def _write_files(place: Path, solved: WorkloadPlan, answers: WorkloadAnswers, secret: SigningKey | None) -> tuple[str, ...]:
    """Everything; the pictures last, but for the card, which says which of them are missing."""
    named = [(asked.name, answer) for asked, answer in zip(solved.workload.questions, answers.answers, strict=True)]
    for name, answer in named:
        answer.to_csv(place / f"{name}.csv")
        answer.to_parquet(place / f"{name}.parquet")
    signed = None if secret is None else _make_certificate(solved, answers, secret)
    if signed is not None:
        _write_text(place / "release.json", json.dumps(signed, ensure_ascii=False, indent=1) + "\n")
    if solved.workload.text:
        _write_text(place / "plan.toml", solved.workload.text)
        _write_text(place / "again.py", REPRODUCE_SCRIPT)
    undrawn = tuple(name for name, answer in named if not write_chart(answer, name, place / f"{name}.png"))
    _write_text(place / GUARANTEE_FILE, format_guarantee(solved, answers, signed, undrawn))
    return undrawn


def _make_certificate(solved: WorkloadPlan, answers: WorkloadAnswers, secret: SigningKey) -> dict[str, Any]:
    session, paper = solved.session, answers.reference
    assert isinstance(session.account, LedgerAccount)
    return make_certificate(
        session.account, paper.entry, measurement=paper.measurement, answer=paper.record,
        software=f"discreet {version('discreet')}", key=secret,
    )  # fmt: skip


def _resolve_folder(to: Path) -> Path:
    """The folder itself, wherever a link to it stands."""
    return resolve(to, lambda reason: BadParameter("folder", repr(str(to)), reason, "name another place"))


@contextmanager
def _create_folder(to: Path, force: bool) -> Iterator[Path]:
    """A folder to fill, which gets its name once it is full. Nothing half written is ever seen under that name, and what had
    the name before is gone only when this has it."""
    if os.path.exists(to) and not force:
        raise BadParameter("folder", str(to), "it exists", "name another, or replace it with --force (force=True)")
    if os.path.exists(to) and Path.cwd().is_relative_to(to):
        raise BadParameter("folder", str(to), "you are in it, so it is not replaced", "name another, or go elsewhere")
    if _holds_no_publication(to):
        raise BadParameter(
            "folder", str(to), f"no publication (it has no {GUARANTEE_FILE}), so it is not replaced", "name another"
        )
    mark = uuid4().hex[:12]  # two that publish to one place at once do not write into one folder
    part, old = (to.with_name(f".{to.name}.{mark}.{what}") for what in ("part", "old"))
    try:
        part.mkdir(parents=True)
    except OSError as error:
        raise BadParameter("folder", str(to), f"cannot be made ({error.strerror})", "name another place") from None
    try:
        yield part
        _rename_into_place(part, to, old, force)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _holds_no_publication(to: Path) -> bool:
    """Whether there is something other than a publication; looked at again if a publication is replaced meanwhile. What
    cannot be looked into is not known to be one."""
    try:
        while True:
            seen = to.stat().st_ino
            if (to / GUARANTEE_FILE).is_file():
                return False
            if to.stat().st_ino == seen:
                return True
    except PermissionError as error:
        reason = f"it cannot be looked into ({error.strerror}), so it is not replaced"
        raise BadParameter("folder", str(to), reason, "name another") from None
    except OSError:  # nothing there, or a place where nothing can be, of which mkdir tells
        return False


def _rename_into_place(part: Path, to: Path, old: Path, force: bool) -> None:
    """Give the full folder its name. Of several that come at once with `force`, each replaces the one before."""
    try:
        while True:
            try:
                part.rename(to)
                break
            except OSError as error:
                if not force or error.errno not in (ENOTEMPTY, EEXIST):
                    raise
            with suppress(FileNotFoundError):  # another has moved it away, and its own comes next
                shutil.rmtree(old, ignore_errors=True)
                to.rename(old)
    except OSError as error:
        if os.path.exists(old):
            with suppress(OSError):
                old.rename(to)
        taken = error.errno in (ENOTEMPTY, EEXIST)
        reason = "another publication got this name first" if taken else f"cannot get its name ({error.strerror})"
        raise BadParameter(
            "folder", str(to), reason, "publish to another place; what a ledger has recorded is not paid for again"
        ) from None
    shutil.rmtree(old, ignore_errors=True)


def resolve_key_path(ledger: "str | os.PathLike[str]", key: "str | os.PathLike[str] | None" = None) -> Path:
    """The file of the ledger's key: the one that is named, or the one beside the ledger."""
    if key is not None:
        return Path(key)
    if is_postgres(str(ledger)):
        raise BadParameter("key", "missing", "a database keeps no key file beside it", "name a file for the ledger's key")
    return default_key_path(ledger)


def _require_library(library: str, extra: str) -> None:
    try:
        import_module(library)
    except ImportError:
        raise missing_library_error(library, extra) from None


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


# What again.py does: the publication beside it once more, signed with the key that signed it or with one that
# replaced it, and with no other.


USAGE = (
    "usage: python again.py FOLDER [KEY]\n"
    "FOLDER is where the paths in plan.toml start from; KEY is the file of the ledger's key, if it is not beside the ledger."
)


def reproduce(published: Path, arguments: Sequence[str]) -> None:
    """Publish the plan in this folder into a new one, `again`; a mistake is one line."""
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        sys.exit(USAGE)
    try:
        workload = read_workload(published / "plan.toml", beside=arguments[0])
        key = (
            None
            if workload.ledger is None
            else _require_known_key(published, resolve_key_path(workload.ledger, *arguments[1:]), workload.ledger)
        )
        made = publish(workload, "again", key=key)
    except DiscreetError as refused:
        sys.exit(f"{refused}\n{USAGE}")
    print(to_printable(str(made.folder)))


def _require_known_key(published: Path, path: Path, ledger: "str | PathLike[str]") -> Path:
    """The key, which is there and is the one of the certificate or replaced it: what another signs looks like a forgery."""

    def refuse(reason: str) -> BadParameter:
        return BadParameter("KEY", str(path), reason, "name the file of the ledger's key")

    if not exists(path, refuse):
        raise refuse("there is no key, and none is made here")
    certificate = published / "release.json"

    def unread(reason: str) -> BadParameter:
        return BadParameter("release.json", str(certificate), reason, "allow reading it")

    if exists(certificate, unread):
        stated = json.loads(read_text(certificate, unread))
        if not is_accepted_signer(
            open_ledger(ledger), load_key(path).public, stated["public_key"], read_entries(stated)[1].number
        ):
            raise BadParameter("KEY", str(path), "release.json was signed with another", "name the file of that key")
    return path
