"""No text of others does anything where it is shown: terminals, error messages, tables, HTML, Markdown, pictures, logs."""

import ast
import csv
import inspect
import io
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unicodedata import category

import pandas
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from discreet import DiscreetError, Workload, WorkloadQuery, connect, errors, formats, publish, select
from discreet.engines.base import PrintableFormatter
from discreet.errors import QueryRefused, SourceRefused
from discreet.query.answer import Answer
from discreet.query.builder import col, count
from discreet.query.estimates import AnswerColumn
from discreet.query.quote import Quote
from discreet.query.series import draw_text_chart
from discreet.text import BOX, escape_formula, escape_markdown, format_markdown_code, to_printable, to_printable_lines
from tests.support.console import run
from tests.support.people import BY_DEPARTMENT, session

ROOT = Path(__file__).parents[1]
HOSTILE = (
    "\x1b[2J\x1b[1;1Hgone", "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07", "\x1b]0;title\x07", "\x9b31mred", "a\rb",
    "a\nb", "a\x0bb\x0c\x85\u2028\u2029", "\u202egnp.exe", "\u2066\u2067\u2068\u2069", "\u200b\u200d\ufeff", "\udc80",
    "\x00\x07\x08\x7f", "\U000e0041", "\ue000", "[red]red[/red]", "[link=http://evil.example]x[/link]", "$x_$",
    "<script>alert(1)</script>", "a|b`c`*d*_e_", "](http://evil.example)", r"$\frac{$", "=cmd|' /C calc'!A0", "+1", "-1",
    "@SUM(A1)", "\t=1", '"; =1', " =1", "ordinary", "straße", "日本　語", "\u05e2\u05d1\u05e8\u05d9\u05ea",
)  # fmt: skip
texts = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=20))


def harmless(text: str) -> bool:
    """Whether a terminal only shows it: no control, no formatting, no half of a pair; lines end with our own line ends."""
    return all(each == "\n" or (category(each)[0] != "C" and category(each) not in ("Zl", "Zp")) for each in text)


def in_terminal(shown: Any) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(shown)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.fixture(scope="module")
def ordinary() -> Answer:
    return session().ask(BY_DEPARTMENT, epsilon=1)


def spoilt(answer: Answer, text: str) -> Answer:
    """The same answer with this text wherever a name or a key can be."""
    rows = tuple(((text,), cells) for _, cells in answer.rows)
    return replace(answer, groups=(text,), schema=(AnswerColumn(f"{text}n"),), rows=rows, explanation=f"One {text}.")


@given(texts)
def test_what_is_shown_is_one_harmless_line(text: str) -> None:
    shown = to_printable(text)
    assert harmless(shown)
    assert "\n" not in shown
    assert len(shown) == len(text)
    assert all(a in (b, BOX) for a, b in zip(shown, text, strict=True))
    assert to_printable(shown) == shown
    assert to_printable_lines(text).count("\n") == text.count("\n")


def test_writing_of_all_peoples_is_left_as_it_is() -> None:
    for text in ("straße", "日本　語", "עברית", "العربية", "e\u0301", "1 000", "👍🏽"):
        assert to_printable(text) == text


def every_error() -> list[type[DiscreetError]]:
    found, queue = [], [DiscreetError]
    while queue:
        found.append(queue.pop())
        queue += found[-1].__subclasses__()
    return [kind for kind in found if kind.__module__ == errors.__name__ and kind is not DiscreetError]


LISTS: dict[type[DiscreetError], Callable[[str], DiscreetError]] = {
    errors.PlanRefused: lambda text: errors.PlanRefused([SourceRefused(text, text), SourceRefused(text, text)]),
    errors.MissingDeclarations: lambda text: errors.MissingDeclarations(text, (text,), text, (text,)),
}
"""Errors of several lines: the first line, and two more."""


@pytest.mark.parametrize("kind", every_error())
@pytest.mark.parametrize("text", HOSTILE)
def test_no_error_says_more_than_words(kind: type[DiscreetError], text: str) -> None:
    if kind in LISTS:
        refused = str(LISTS[kind](text))
        assert harmless(refused)
        assert refused.count("\n") == 2
        return
    given = {name: text if parameter.annotation in (str, "str", object, "object", str | None) else 1
             for name, parameter in inspect.signature(kind).parameters.items()
             if parameter.kind is not parameter.VAR_POSITIONAL and name != "parameter"}  # of our own functions  # fmt: skip
    message = str(kind(**given))
    assert harmless(message)
    assert message.count("\n") == (2 if kind is errors.BadExpression else 0)
    for_owner = str(SourceRefused("reason", "way out", text, text))
    assert harmless(for_owner)
    assert for_owner.count("\n") == 2


def quote_column(text: str) -> Quote | None:
    """The quote of a column with this name; None if the name cannot be shown, and is refused in harmless words."""
    try:
        return session().quote(select(**{f"{text}n": count()}), epsilon=1)
    except QueryRefused as refused:
        message = str(refused)
    assert not f"{text}n".isprintable()
    assert harmless(message)
    return None


@pytest.mark.parametrize("text", HOSTILE)
def test_tables_in_a_terminal(ordinary: Answer, text: str) -> None:
    same = spoilt(ordinary, "x" * len(text))
    assert harmless(in_terminal(spoilt(ordinary, text)))
    assert in_terminal(spoilt(ordinary, text)).count("\n") == in_terminal(same).count("\n")
    assert "[red]" not in text or "[red]" in in_terminal(spoilt(ordinary, text))
    assert harmless(in_terminal(quote_column(text)))
    assert harmless(in_terminal(formats.make_rich_table(text, [text], [[text]])))


@pytest.mark.parametrize("text", HOSTILE)
def test_tables_in_a_notebook(ordinary: Answer, text: str) -> None:
    quoted = quote_column(text)
    for page in (spoilt(ordinary, text)._repr_html_(), "" if quoted is None else quoted._repr_html_()):
        assert harmless(page)
        assert "<script" not in page
        page.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_pictures_are_drawn_whatever_a_key_is(ordinary: Answer, text: str) -> None:
    svg = spoilt(ordinary, text).plot(title=text).to_svg()
    assert harmless(svg)
    assert "<script" not in svg
    assert harmless("".join(draw_text_chart(spoilt(ordinary, text))))


@given(texts)
def test_markdown_says_just_the_text(text: str) -> None:
    assert harmless(escape_markdown(text))
    assert not {"<", "|", "`", "[", "*"} & set(_unescaped(escape_markdown(text)))
    code = format_markdown_code(text)
    ticks = len(code) - len(code.lstrip("`"))
    assert code.endswith("`" * ticks)
    assert "`" * ticks not in code.strip("`")


def _unescaped(text: str) -> Iterator[str]:
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            next(letters)
        else:
            yield letter


@pytest.mark.parametrize("text", ["a|b`c`<script>", "\u202ex\x1b[2J", "*bold*_x_"])
def test_the_guarantee_card(text: str, tmp_path: Path) -> None:
    frame = pandas.DataFrame({text: range(50), f"{text}pay": range(50)})
    asked = WorkloadQuery(name="heads", sql=select(n=col(f"{text}pay").sum()), error=20)
    plan = Workload(
        source=frame, table="people", unit=text, bounds={f"{text}pay": (0, 9)}, epsilon=9, questions=(asked,), title=text
    )
    made = publish(plan, tmp_path / "out")
    card = (made.folder / "guarantee.md").read_text(encoding="utf-8")
    assert harmless(card)
    outside = re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", card)  # in code it only says so
    assert "<script>" not in "".join(_unescaped(outside))
    assert f"# {escape_markdown(text)}: privacy guarantee" in card


FORMULAS = ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1+1", "\n=1")


@given(texts)
def test_csv_is_faithful_and_for_spreadsheets_holds_no_formula(text: str) -> None:
    plain = list(csv.reader(io.StringIO(formats.to_csv([f"{text}n"], [(text, -5, 2.5)]), newline="")))
    assert [plain[0][0], plain[1][0]] == [f"{text}n", text]
    safe = formats.to_csv([f"{text}n"], [(text, -5, 2.5)], spreadsheet=True)
    assert "-5,2.5" in safe  # numbers stay numbers
    assert safe.startswith('"')  # a text with another country's separator in it is one field too
    for field in (escape_formula(text), escape_formula(f"{text}n")):
        assert field.lstrip(" \u00a0\u3000\ufeff")[:1] not in tuple("=+-@＝＋－＠\t\r\n")


def test_formulas_in_keys_are_disarmed_for_spreadsheets_only(ordinary: Answer, tmp_path: Path) -> None:
    for text in FORMULAS:
        answer = spoilt(ordinary, text)
        assert f"'{text}" in answer.to_csv(spreadsheet=True).replace('""', '"')
        assert f"'{text}" not in answer.to_csv().replace('""', '"')
    assert answer.to_csv(tmp_path / "a.csv", spreadsheet=True) == (tmp_path / "a.csv").read_bytes().decode()
    rows = list(csv.reader(io.StringIO(ordinary.to_csv(spreadsheet=True))))
    assert rows == list(csv.reader(io.StringIO(ordinary.to_csv())))


@pytest.fixture
def hostile_file(tmp_path: Path) -> Path:
    place = tmp_path / "people.csv"
    with place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "dept", "\x1b[31mpay\u202e"])
        writer.writerows([[i, "=1+1" if i % 2 else "\x1b[2Jgone\x9b", i % 7] for i in range(4000)])
    return place


QUESTION = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"


def test_the_command_line(hostile_file: Path) -> None:
    asked = ("ask", hostile_file, QUESTION, "--unit", "id", "--unique", "--epsilon", "9", "--delta", "1e-6")
    shown = run(*asked)
    assert shown.returncode == 0
    assert harmless(shown.stdout + shown.stderr)
    assert "□[2Jgone□" in shown.stdout
    assert run(*asked, "--json").stdout.isascii()
    assert "\x1b[2Jgone\x9b" in run(*asked, "--csv").stdout  # for a program, as it is
    assert '"\'=1+1"' in run(*asked, "--csv", "--spreadsheet").stdout
    refused = run(*asked, "--spreadsheet")
    assert refused.returncode == 2
    assert "Give --csv too" in refused.stderr


def test_csv_in_a_terminal_is_for_a_person(hostile_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("tests.support.console.io", SimpleNamespace(StringIO=Terminal))
    done = run("ask", hostile_file, QUESTION, "--unit", "id", "--unique", "--epsilon", "9", "--delta", "1e-6", "--csv")
    assert "□[2Jgone□" in done.stdout
    assert harmless(done.stdout)
    shown = run("policy", "init", hostile_file, "--unit", "id", "--out", "-").stdout
    assert "pay" in shown
    assert harmless(shown)


@pytest.mark.parametrize(
    "arguments",
    [("--unit", "\x1b[2J"), ("--unit", "id", "--bounds", "\x1b[2J=0:1"), ("--unit", "id", "--keys", "dept\x1b[2J=a"),
     ("--unit", "id", "--table", "\x1b[2J"), ("--unit", "id", "--weight", "\u202e=2"),
     ("--unit", "id", "--public", "\x1b=a.csv")],
)  # fmt: skip
def test_refusals_on_the_command_line(arguments: tuple[str, ...], hostile_file: Path) -> None:
    done = run("ask", hostile_file, QUESTION, "--epsilon", "1", *arguments)
    assert done.returncode != 0
    assert harmless(done.stdout + done.stderr)


def test_refusals_that_name_the_columns_of_a_file(hostile_file: Path) -> None:
    """A header is the file's, not the analyst's."""
    with pytest.raises(DiscreetError, match="Take one of id, dept, □") as refused:
        connect(hostile_file, unit="nobody", epsilon=1)
    assert harmless(str(refused.value))


def test_what_a_certificate_says_of_itself(tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text('{"\\u001b[2J": "\\u202e"}')
    done = run("verify", tmp_path / "release.json")
    assert done.returncode != 0
    assert harmless(done.stdout + done.stderr)


def test_the_owners_log_shows_no_escape_and_keeps_its_lines() -> None:
    record = logging.makeLogRecord({"msg": "line 1\nvalue \x1b[2J"})
    assert PrintableFormatter().format(record).partition(" ")[2] == "no source: line 1\n  value □[2J"
    record = logging.makeLogRecord({"msg": "a", "source": "/data/\n\x1b[2J.csv"})
    assert PrintableFormatter().format(record).partition(" ")[2] == "/data/□□[2J.csv: a"


PRINTERS = {"cli/output.py"}
"""The home of printing; elsewhere only JSON, which holds ASCII alone, and tables of ours are printed."""


def _bare_prints(source: str) -> list[str]:
    if "print" not in source:
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = [ast.unparse(call) for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
    return [text for text in found if ".to_json()" not in text and "printable(" not in text]


def test_commands_print_through_one_home() -> None:
    package = ROOT / "src" / "discreet"
    for path in package.rglob("*.py"):
        if path.relative_to(package).as_posix() not in PRINTERS:
            assert _bare_prints(path.read_text(encoding="utf-8")) == [], path
    assert _bare_prints("print(name)") == ["print(name)"]


@pytest.mark.parametrize("mutant", [lambda text: text, lambda text: text.replace("\x1b", BOX)])
def test_a_function_that_replaces_too_little_is_noticed(mutant: Callable[[str], str]) -> None:
    assert not all(harmless(mutant(text)) for text in HOSTILE)


@given(st.lists(st.text("'=+@ x", max_size=4), min_size=2, max_size=2, unique=True))
@example(["=x", "'=x"])
def test_two_keys_are_two_keys_in_a_spreadsheet(texts: list[str]) -> None:
    assert escape_formula(texts[0]) != escape_formula(texts[1])
