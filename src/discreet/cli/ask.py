"""`discreet ask`: pay, look, answer."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from discreet.cli.ledger import resolve_key_path
from discreet.cli.output import print_data
from discreet.cli.question import QueryArguments, show_progress
from discreet.errors import BadParameter
from discreet.ledger import open_ledger
from discreet.ledger.keys import SigningKey, check_signing_key, load_key
from discreet.query.answer import Answer
from discreet.query.postprocess import check_additive


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """How the answer is to be tidied and printed."""

    simultaneous: bool
    consistent: bool
    non_negative: bool
    integers: bool
    as_json: bool
    as_csv: bool
    spreadsheet: bool

    def postprocess(self, answer: Answer) -> Answer:
        """Post-processing, in the one order in which no step undoes another."""
        answer = answer.consistent() if self.consistent else answer
        answer = answer.non_negative() if self.non_negative else answer
        return answer.integers() if self.integers else answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """What is kept of the answer besides the entry in the account."""

    id: str | None
    fresh: bool
    release: str | None
    key: str | None

    def open_certificate(self, ledger: str | None) -> tuple[IO[str], SigningKey] | None:
        """The file for the certificate and the key that signs it, before anything is paid."""
        if self.release is None:
            return None
        if ledger is None:
            raise BadParameter("--release", self.release, "only a ledger signs answers", "give --ledger too")
        key = load_key(resolve_key_path(ledger, self.key))
        check_signing_key(open_ledger(ledger).store, key)
        try:
            return Path(self.release).open("x", encoding="utf-8"), key
        except FileExistsError:
            raise BadParameter("--release", self.release, "there is such a file already", "name another") from None
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            raise BadParameter("--release", self.release, reason, "name another place") from None


def run(question: QueryArguments, confidence: float, form: AnswerOptions, kept: RecordOptions) -> None:
    """Print the answer."""
    if form.as_json and form.as_csv:
        raise BadParameter("--csv", "given", "so is --json", "take one of the two")
    if form.spreadsheet and not form.as_csv:
        raise BadParameter("--spreadsheet", "given", "only CSV is written for spreadsheets", "give --csv too")
    session, price = question.open_session(confidence)
    if form.consistent:
        outline = session.outline(question.sql)
        check_additive(outline.query.groups, [column.is_additive for column in outline.columns])
    place = kept.open_certificate(question.ledger)
    try:
        with show_progress("asking …") as told:
            raw = session.ask(
                question.sql, confidence=confidence, simultaneous=form.simultaneous, progress=told, id=kept.id,
                fresh=kept.fresh, **price,
            )  # fmt: skip
        if place is not None:
            file, key = place
            with file:
                file.write(json.dumps(session.certify(raw, key), ensure_ascii=False, indent=1) + "\n")
    except BaseException:  # no half a file; whatever was answered is recorded, and free when it is asked again
        if place is not None:
            place[0].close()
            Path(place[0].name).unlink()
        raise
    answer = form.postprocess(raw)
    if form.as_json:
        print(answer.to_json())
    elif form.as_csv:
        print_data(answer.to_csv(spreadsheet=form.spreadsheet))
    else:
        from rich.console import Console

        Console().print(answer)
