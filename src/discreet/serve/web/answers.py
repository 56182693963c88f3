"""Answers in the formats that people ask for, by `?format=` or `Accept`.

An answer never changes, so the browser of the person who asked may keep it (`private, immutable`). CSV is faithful; the
variant for spreadsheets marks cells that a spreadsheet would run as formulas. Files are sent as downloads, and no browser
guesses their type.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any

import msgspec
from fastapi import Response

from discreet.formats import to_json_value
from discreet.query.answer import Answer
from discreet.remote.wire import answer_from_wire
from discreet.serve.control.model import Ask
from discreet.serve.web.problems import Refusal

IMMUTABLE = "private, immutable, max-age=31536000"


def _write_ndjson(answer: Answer) -> bytes:
    return write_objects(answer.header, answer.records)


def write_objects(header: Sequence[str], records: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as lines of JSON, one object each."""
    lines = (dict(zip(header, map(to_json_value, record), strict=True)) for record in records)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def write_arrow(table: Any) -> bytes:
    """Return an Arrow table as a stream."""
    import pyarrow as pa

    out = BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def write_parquet(table: Any) -> bytes:
    """Return an Arrow table as Parquet."""
    import pyarrow.parquet as pq

    out = BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _draw(write: Callable[[Any], bytes]) -> Callable[[Answer], bytes]:
    return lambda answer: write(answer.plot())


@dataclass(frozen=True, slots=True)
class Format:
    """How an answer is written."""

    media: str
    suffix: str
    write: Callable[[Answer], bytes]
    is_download: bool = True
    is_drawn: bool = False  # a chart takes a core for a while: it is drawn in `Web.drawings`


FORMATS: dict[str, Format] = {
    "json": Format("application/json", "json", lambda answer: b"", False),  # what the wire holds, as it is
    "ndjson": Format("application/x-ndjson", "ndjson", _write_ndjson),
    "csv": Format("text/csv; charset=utf-8", "csv", lambda answer: answer.to_csv().encode()),
    "spreadsheet": Format("text/csv; charset=utf-8", "csv", lambda answer: answer.to_csv(spreadsheet=True).encode()),
    "arrow": Format("application/vnd.apache.arrow.stream", "arrows", lambda answer: write_arrow(answer.to_arrow())),
    "parquet": Format("application/vnd.apache.parquet", "parquet", lambda answer: write_parquet(answer.to_arrow())),
    "svg": Format("image/svg+xml", "svg", _draw(lambda chart: chart.to_svg().encode()), False, True),
    "png": Format("image/png", "png", _draw(lambda chart: chart.to_png()), False, True),
    "vega": Format(
        "application/vnd.vegalite.v6+json", "vl.json", _draw(lambda chart: chart.to_json().encode()), False, True
    ),
}
MEDIA = {each.media.partition(";")[0]: name for name, each in reversed(FORMATS.items())}


def choose_format(asked: str | None, accept: str | None) -> str:
    """Return the format that a request asks for; JSON if it does not say.

    >>> choose_format("csv", None), choose_format(None, "text/csv;q=0.5, image/svg+xml"), choose_format(None, "*/*")
    ('csv', 'svg', 'json')
    """
    if asked is not None:
        if asked not in FORMATS:
            raise Refusal(406, f"There is no such format. Take one of {', '.join(FORMATS)}.")
        return asked
    wanted: list[tuple[float, str]] = []
    for part in (accept or "*/*").split(",")[:50]:
        media, *parameters = (each.strip() for each in part.split(";"))
        quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        try:
            weight = float(quality)
        except ValueError:
            weight = 0.0
        if media in ("*/*", "application/*"):
            wanted.append((weight, "json"))
        elif media in MEDIA:
            wanted.append((weight, MEDIA[media]))
    if not wanted:
        raise Refusal(406, f"There is no such format. Accept one of {', '.join(MEDIA)}.")
    return max(wanted, key=lambda each: each[0])[1]


def write_answer(ask: Ask, name: str, given_tag: str | None = None) -> Response:
    """Return the answer of an ask in a format; 304 if the reader has it."""
    assert ask.answer is not None
    kind = FORMATS[name]
    tag = f'"{sha256(f"{ask.id}:{ask.measurement}:{ask.answered_at}:{name}".encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": IMMUTABLE, "Vary": "Accept, Authorization"}
    if given_tag is not None and tag in [each.strip().removeprefix("W/") for each in given_tag.split(",")]:
        return Response(status_code=304, headers=headers)
    if kind.is_download:
        headers["Content-Disposition"] = f'attachment; filename="answer-{ask.id[:8]}.{kind.suffix}"'
    body = msgspec.json.encode(ask.answer) if name == "json" else kind.write(answer_from_wire(ask.answer))
    return Response(body, 200, headers, kind.media)
