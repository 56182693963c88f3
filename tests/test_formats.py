"""Answers as frames, text and HTML: what no frame can hold becomes a double rounded outward, so do intervals for people, and
pages are well formed whatever a key is."""

from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import formats
from discreet.formats import format_interval, make_html_notes, make_html_table, to_arrow, to_polars
from discreet.query.answer import Answer
from discreet.testing import seeded_bits
from discreet.text import to_printable
from tests.support.people import BY_DEPARTMENT, session


def test_what_no_frame_can_hold_becomes_a_double_outward() -> None:
    far, header = 10**30 + 1, ("n", "n_lower", "n_upper", "k")
    rows = [(far, far, far, 1), (1, 1, 1, 2)]
    for found in (to_arrow(header, rows).to_pydict(), to_polars(header, rows).to_dict(as_series=False)):
        assert found["n"] == [1e30, 1.0]
        assert found["k"] == [1, 2]
        assert found["n_lower"][0] < far < found["n_upper"][0]


reals = st.floats(-1e15, 1e15)


@given(st.lists(reals, min_size=3, max_size=3).map(sorted))
def test_the_ends_of_an_interval_are_rounded_outward(numbers: list[float]) -> None:
    lower, value, upper = numbers
    text = format_interval(value, lower, upper)
    first, _, ends = text.partition(" ")
    shown, low, high = (Fraction(each.replace(",", "")) for each in (first, *ends.strip("[]").split(", ")))
    assert low <= Fraction(lower)
    assert Fraction(upper) <= high
    assert low <= shown <= high
    if upper > lower:
        assert high - low <= (Fraction(upper) - Fraction(lower)) * Fraction(12, 10) + Fraction(2, 10**9)
    assert "-0 " not in text


@given(st.integers(), st.integers(0), st.integers(0))
def test_integers_stay_integers(value: int, below: int, above: int) -> None:
    text = format_interval(value, value - below, value + above)
    assert "." not in text
    assert text.startswith(f"{value:,} ")
    assert text.endswith(f"± {above:,}" if below == above else f"[{value - below:,}, {value + above:,}]")


def test_numbers_without_a_short_binary_form() -> None:
    assert format_interval(44.0, 42.0, 47.0) == "44.0 [42.0, 47.0]"  # 42 // 0.1 is 419
    assert format_interval(40.0, 40.0, 40.0) == "40 [40, 40]"
    assert format_interval(-0.04, -0.5, 0.5) == "-0.04 [-0.50, 0.50]"


def parse(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<page>{page}</page>")


def texts_of(page: str, tag: str) -> list[str]:
    return ["".join(each.itertext()) for each in parse(page).iter(tag)]


def with_key(answer: Answer, text: str) -> Answer:
    return replace(answer, groups=(text,), rows=tuple(((text,), cells) for _, cells in answer.rows), explanation=text)


HOSTILE = (
    "<script>alert(1)</script>",
    "</style><b>",
    '" onmouseover="x',
    "&lt;",
    "a&b",
    "]]>",
    "<!--",
    "\x1b[2J\n",
    "$x_$",
    "日本",
)


@pytest.fixture(scope="module")
def answer() -> Answer:
    return session(epsilon=20).ask(
        "SELECT dept, COUNT(*) AS n, MEDIAN(age) AS age, AVG(pay) AS mean FROM people GROUP BY dept",
        epsilon=4,
        bits=seeded_bits(7),
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_is_well_formed_and_shows_a_hostile_key_as_text(answer: Answer, text: str) -> None:
    page = with_key(answer, text)._repr_html_()
    assert texts_of(page, "td").count(to_printable(text)) == 3
    assert texts_of(page, "th")[0] == to_printable(text)
    assert to_printable(text) in texts_of(page, "p")
    assert {each.tag for each in parse(page).iter()} == {
        "page",
        "style",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "span",
        "p",
    }
    assert texts_of(make_html_notes([text]), "p") == [to_printable(text)]
    assert texts_of(make_html_table([text], [[(text, text)]], [text]), "td") == [2 * to_printable(text)]


def is_shown_as_text(answer: Answer, text: str) -> bool:
    try:
        test_a_page_is_well_formed_and_shows_a_hostile_key_as_text(answer, text)
    except (ElementTree.ParseError, AssertionError):
        return False
    return True


def test_a_page_without_escapes_is_noticed(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "escape", lambda text: text)
    assert not all(is_shown_as_text(answer, text) for text in HOSTILE)


def test_numbers_stand_right_and_follow_the_reader_s_theme(answer: Answer) -> None:
    page = answer._repr_html_()
    cells = [each for each in parse(page).iter() if each.tag in ("td", "th")]
    assert [each.get("style") for each in cells[:4]] == ["text-align:left", *["text-align:right"] * 3]
    assert "@media (prefers-color-scheme:dark)" in page
    assert "var(--jp-content-font-color1," in page


def test_long_answers_are_cut_where_people_look_and_nowhere_else(answer: Answer) -> None:
    many = replace(answer, rows=answer.rows * 100)
    assert repr(many).count("│\n") == formats.MAX_PRINTED_ROWS
    assert "The first 200 of 300 rows." in repr(many)
    assert len(texts_of(many._repr_html_(), "tr")) == 1 + formats.MAX_PRINTED_ROWS
    assert len(many.to_dicts()) == 300


ANSWER = """\
┏━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━┓
┃ dept ┃ n (rows) ┃            age ┃                  mean ┃
┡━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━┩
│ a    │  600 ± 3 │    46 [44, 47] │ 99.62 [98.99, 100.23] │
│ b    │  302 ± 3 │    42 [40, 48] │    99.9 [98.6, 101.1] │
│ c    │  102 ± 3 │ 47 [39, 100] ? │    98.5 [94.6, 102.2] │
└──────┴──────────┴────────────────┴───────────────────────┘
Cost: ε = 4, 20% of the budget. Budget: ε = 16 of 20 remaining, 20% spent.
3 keys shown.
Adding or removing one id can change at most 1 group by 1 row each; values are clipped to their
declared bounds: age to [0, 100], pay to [0, 200]. It is declared that each id has one row, and
taken for granted: no limit is applied. Each interval contains the clipped statistic with
probability ≥ 95%; error from clipping is not included.
? marks values that are not reliable: their interval is wider than a tenth of them either way, or
the count behind them is too small.
Made with reproducible bits: for tests, never for publication."""

SELECTED = """\
┏━━━━━━┳━━━━━━━━━━┓
┃ dept ┃ n (rows) ┃
┡━━━━━━╇━━━━━━━━━━┩
│ a    │ 602 ± 18 │
│ b    │ 298 ± 18 │
└──────┴──────────┘
Cost: ε = 0.794 at δ = 1e-6, 28% of the budget. Budget: ε = 1.68 of 2 remaining, 28% spent (ρ =
0.0605 of 0.0834, zCDP).
In zCDP, ρ adds up and ε does not.
2 keys shown; a key needs about 149 units (partition selection), and one with 170 is shown with
probability ≥ 95%.
ε = 1 was asked for; the certified cost of this query alone is ε = 0.794: the account charges ρ =
0.023 (zCDP), whose conversion to ε has a margin, and 50% of δ is reserved for partition selection
and claims.
Replacing one id can change at most 2 groups, each of which loses at most 1 row and gains at most 1
row. It is declared that each id has one row, and taken for granted: no limit is applied. Each
interval contains the count with probability ≥ 95%.
Made with reproducible bits: for tests, never for publication."""

SESSION = """\
Session on people: privacy unit id (replace one unit, the number of units being public), one row per id.
Budget: ε = 1.68 of 2 remaining at δ = 1e-6, 28% spent (ρ = 0.0605 of 0.0834, zCDP).
A single count at ε = 0.1 is ± 80 in zCDP at δ = 1e-6, and ± 30 in pure ε without δ. From about 12 counts on that share the \
budget, zCDP is the more accurate."""


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.usefixtures("wide")
def test_the_text_of_an_answer(answer: Answer) -> None:
    assert repr(answer) == str(answer) == ANSWER


@pytest.mark.usefixtures("wide")
def test_the_text_of_an_answer_with_selected_keys_and_of_its_session() -> None:
    asked, query = session(epsilon=2, delta=1e-6, keys={}, neighbours="replace"), BY_DEPARTMENT
    assert str(asked.ask(query, epsilon=1, bits=seeded_bits(7))) == SELECTED
    assert repr(asked) == str(asked) == SESSION
    assert texts_of(asked._repr_html_(), "p") == SESSION.split("\n")


def test_a_table_that_is_too_wide_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = ", ".join(str(edge) for edge in range(0, 101, 10))
    found = session().ask(f"SELECT dept, HISTOGRAM(age, {cells}) AS h FROM people GROUP BY dept", epsilon=5)
    monkeypatch.setenv("COLUMNS", "80")
    text = str(found)
    assert all(column in text for column in found.columns)
    assert text.count("│\n") == 30
    assert max(map(len, text.split("\n"))) <= 80
    monkeypatch.setenv("COLUMNS", "300")
    assert str(found).count("│\n") == 3
