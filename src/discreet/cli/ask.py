"""`discreet ask`: reserve the cost, run the query, record the answer, print it."""

from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from discreet.cli.app import ASKING, app, print_error, spell_notes
from discreet.cli.options import (
    AccountName,
    AnswerId,
    Budget,
    CertificateFile,
    Confidence,
    Consistent,
    Csv,
    CurrencyName,
    Delta,
    Epsilon,
    Error,
    Fresh,
    Integers,
    Json,
    KeyFile,
    LedgerOption,
    NonNegative,
    Pilot,
    Plot,
    Purpose,
    QueryArguments,
    Shares,
    Simultaneous,
    Size,
    Spreadsheet,
    Sql,
    Token,
    Weight,
    takes_source,
)
from discreet.cli.output import (
    TEMPORARY_BUDGET,
    print_chart,
    print_data,
    print_line,
    print_styled,
    print_warning,
    show_progress,
)
from discreet.errors import BadParameter
from discreet.paths import is_service
from discreet.session.options import SourceOptions

if TYPE_CHECKING:
    from discreet.ledger.keys import SigningKey
    from discreet.session.asking import Asking


@app.command(
    rich_help_panel=ASKING,
    epilog='Examples:\n\n[bold]discreet ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept" --unit id '
    "--epsilon 1 --keys dept=a,b,c[/bold]\n\n"
    '[bold]discreet ask people.csv "SELECT AVG(pay) AS mean FROM people" --unit id --bounds pay=0:200 --error 5% '
    "--pilot 0.01 --budget 1[/bold]\n\n"
    '[bold]discreet ask people.csv "SELECT COUNT(*) AS n FROM people" --unit id --epsilon 0.1 --ledger hr.ledger '
    "--account hr --release release.json[/bold]\n\n"
    '[bold]discreet ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept" --unit id --epsilon 1 '
    "--keys dept=a,b,c --plot chart.svg[/bold]",
)
@takes_source()
def ask(
    options: SourceOptions,
    sql: Sql,
    epsilon: Epsilon = None,
    error: Error = None,
    size: Size = None,
    pilot: Pilot = None,
    budget: Budget = None,
    delta: Delta = "0",
    currency: CurrencyName = None,
    weight: Weight = None,
    confidence: Confidence = 0.95,
    ledger: LedgerOption = None,
    account: AccountName = None,
    token: Token = None,
    id: AnswerId = None,
    fresh: Fresh = False,
    purpose: Purpose = "",
    release: CertificateFile = None,
    key: KeyFile = None,
    simultaneous: Simultaneous = False,
    consistent: Consistent = False,
    non_negative: NonNegative = False,
    integers: Integers = False,
    shares: Shares = False,
    json: Json = False,
    csv: Csv = False,
    spreadsheet: Spreadsheet = False,
    plot: Plot = None,
) -> None:
    """Run a query on a table about people and print a differentially private answer, with error bars and its cost."""
    from json import dumps

    if json and csv:
        raise BadParameter("--csv", "given with --json", "only one format is printed", "take one of the two")
    if spreadsheet and not csv:
        raise BadParameter("--spreadsheet", "given", "only CSV is written for spreadsheets", "give --csv too")
    remote = is_service(options.source)
    if id is not None and ledger is None and not remote:
        reason = "only a ledger remembers what was charged under an id"
        raise BadParameter("--id", id, reason, "give --ledger too, or leave --id out")
    if fresh and ledger is None and not remote:
        reason = "without a ledger no answer is recorded, and every answer is fresh"
        raise BadParameter("--fresh", "given", reason, "give --ledger too, or leave --fresh out")
    if purpose and not remote:
        reason = "only the steward of a service reads it"
        raise BadParameter("--purpose", repr(purpose), reason, "leave it out, or name a service: https://…")
    if key is not None and ledger is None and not remote:
        reason = "only the certificates of a ledger are signed"
        raise BadParameter("--key", repr(key), reason, "give --ledger and --release too, or leave --key out")
    if size is not None and error is None and epsilon is not None:
        raise BadParameter("--size", size, "only an error can be relative to a size", "give --error, or leave --size out")
    if plot is not None:
        _check_plot(plot, printed_alone=json or csv)
    arguments = QueryArguments(
        sql=sql, epsilon=epsilon, error=error, size=size, weight=weight, confidence=confidence, delta=delta,
        currency=currency, ledger=ledger, account=account, budget=budget, pilot=pilot, token=token,
    )  # fmt: skip
    session, cost = arguments.open_session(options)
    for note in (*session.account_notes, *(session.budget_warnings if csv else ())):  # CSV holds no notes
        print_warning(note)
    if consistent:
        _check_additive(session, sql)
    if shares:
        _check_shares(session, sql)
    certificate = _open_remote_certificate(release, key) if remote else _open_certificate(release, ledger, key)
    try:
        with show_progress("asking …") as on_progress:
            answer = session.ask(
                sql, simultaneous=simultaneous, progress=on_progress, id=id, fresh=fresh, purpose=purpose, **cost
            )  # fmt: skip
        if certificate is not None:
            file, signing_key = certificate
            with file:
                file.write(dumps(session.certify(answer, signing_key), ensure_ascii=False, indent=1) + "\n")  # type: ignore[arg-type]
    except BaseException as failure:  # leave no half-written file; a recorded answer is free when it is asked again
        if isinstance(failure, KeyboardInterrupt) and ledger is not None:
            print_error(INTERRUPTED_FRESH if fresh and id is None else INTERRUPTED)
        if certificate is not None:
            certificate[0].close()
            Path(certificate[0].name).unlink()
        raise
    # the one order in which no step of post-processing undoes another
    answer = answer.consistent() if consistent else answer
    answer = answer.non_negative() if non_negative else answer
    answer = answer.integers() if integers else answer
    answer = answer.shares() if shares else answer
    if json:
        print(answer.to_json())
    elif csv:
        print_data(answer.to_csv(spreadsheet=spreadsheet))
    else:
        from rich.console import Console

        notes = tuple(map(spell_notes, answer.notes))
        Console().print(replace(answer, explanation=spell_notes(answer.explanation), notes=notes))
        if ledger is None and not remote:
            print_line(TEMPORARY_BUDGET)
    if plot == TERMINAL:
        print_chart(answer)
    elif plot is not None:  # after the answer, which is charged and must be shown whatever becomes of the chart
        answer.plot(plot)
        if not (json or csv):
            print_styled(f"Chart written to {plot}.")


INTERRUPTED = "Interrupted. If the query was charged, the same command answers it without a second charge."
INTERRUPTED_FRESH = "Interrupted. If the query was charged, it stays charged: discreet ledger check lists it."

TERMINAL = "-"
"""The file name that stands for the terminal."""


def _check_plot(path: str, *, printed_alone: bool) -> None:
    """Refuse a chart that cannot be drawn or written, before anything is charged."""
    from discreet.formats import refuse_unwritable
    from discreet.vega import check_chart_path

    if path == TERMINAL:
        if printed_alone:
            raise BadParameter("--plot", path, "--json and --csv print nothing else", "name a file, such as chart.svg")
        return
    check_chart_path(path, "--plot")
    with refuse_unwritable(path, "--plot"):
        existed = Path(path).exists()
        Path(path).open("ab").close()
        if not existed:
            Path(path).unlink()


def _check_additive(session: "Asking", sql: str) -> None:
    """Refuse --consistent before anything is charged where groups cannot add up."""
    from discreet.query.postprocess import WHOLE_HINT, check_additive

    outline = session.outline(sql)
    try:
        check_additive(outline.query.groups, [column.is_additive for column in outline.columns], outline.query.view)
    except BadParameter as refused:
        leave_out = "leave out HAVING and LIMIT" if refused.hint == WHOLE_HINT else refused.hint
        reason = f"the answer is {refused.value}, and {refused.reason}"
        raise BadParameter("--consistent", "given", reason, f"{leave_out}, or leave out --consistent") from None


def _check_shares(session: "Asking", sql: str) -> None:
    """Refuse --shares before anything is charged where there is no total of all keys."""
    outline = session.outline(sql)
    shown = [column for column in outline.columns if column.name not in outline.query.view.hidden]
    if not outline.query.groups:
        raise BadParameter("--shares", "given", "one row has no shares", "ask by group, with GROUP BY")
    if outline.keys is None:
        reason = "keys that are not declared are selected privately, so those that are shown do not add up to a whole"
        raise BadParameter("--shares", "given", reason, "declare the keys with --keys, or leave --shares out")
    if outline.query.view.drops_rows():
        reason = "rows that are left out are missing from the total"
        raise BadParameter("--shares", "given with LIMIT or HAVING", reason, "ask for the whole answer")
    if not any(column.is_additive and column.is_non_negative for column in shown):
        reason = "no column adds up to a total without negative parts"
        raise BadParameter("--shares", "given", reason, "ask for a count, or a sum of values that are not negative")


def _open_certificate(path: str | None, ledger: str | None, key: str | None) -> "tuple[IO[str], SigningKey] | None":
    """Open the file for the certificate and load the key that signs it, before anything is charged."""
    if path is None:
        return None
    if ledger is None:
        raise BadParameter("--release", path, "only the answers of a ledger have a certificate", "give --ledger too")
    from discreet.ledger import open_ledger
    from discreet.ledger.keys import check_signing_key, load_key, resolve_key_path

    signing_key = load_key(resolve_key_path(ledger, key, "--key"))
    check_signing_key(open_ledger(ledger).store, signing_key)
    return _open_new(path), signing_key


def _open_remote_certificate(path: str | None, key: str | None) -> "tuple[IO[str], None] | None":
    """Open the file for the certificate, which the service signs."""
    if key is not None:
        raise BadParameter("--key", key, "the service signs with its own key", "leave it out")
    return None if path is None else (_open_new(path), None)


def _open_new(path: str) -> "IO[str]":
    """Open a file that does not exist yet."""
    try:
        return Path(path).open("x", encoding="utf-8")
    except FileExistsError:
        raise BadParameter("--release", path, "the file exists already", "name another") from None
    except OSError as error:
        raise BadParameter("--release", path, f"cannot be written ({error.strerror})", "name another place") from None
