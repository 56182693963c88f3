"""Answers of every shape that a chart can have."""

from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction
from math import inf
from typing import Any

from discreet.events import compose
from discreet.query.answer import Answer, IntervalOptions
from discreet.query.estimates import AnswerColumn, Estimate

HOSTILE_KEYS = (
    "</script><script>alert(1)</script>",
    "datum['x']",
    "javascript:alert(1)",
    "{{constructor.constructor('x')()}}",
    "<img src=x onerror=alert(1)>",
    "${1+1}",
    "$a_b$",
    "' + alert(1) + '",
    '"]; alert(1); //',
    "a\u2028b",
    "two\nlines",
    "http://example.com/x.png",
    "\\u003c",
    "&lt;b&gt;",
    "]]>",
    "<!--",
    "signal",
    "\x1b[2J",
    "\u202egnp",
)
"""Texts that are expressions, markup or addresses where they are not kept apart from them."""

COUNT = AnswerColumn("n", Fraction(0), is_count=True, is_additive=True)


def make_answer(
    groups: Sequence[str], schema: Sequence[AnswerColumn], rows: Sequence[tuple[Any, ...]], **more: Any
) -> Answer:
    """Make an answer of (keys, estimates)."""
    options = {"event": compose(), "explanation": "", "tainted": False} | more
    return Answer(tuple(groups), tuple(schema), tuple(rows), IntervalOptions(), **options)


def estimate(value: float, error: float) -> Estimate:
    return Estimate(value, value - error, value + error, error * 10 <= abs(value))


def histogram(name: str, edges: Sequence[float]) -> list[AnswerColumn]:
    ends = [*("[" for _ in edges[2:]), "]"]
    names = (
        f"{name}[{low:g},{high:g}{')' if end == '[' else ']'}"
        for low, high, end in zip(edges[:-1], edges[1:], ends, strict=True)
    )
    return [AnswerColumn(each, Fraction(0), is_count=True, is_additive=True) for each in names]


def bars(keys: Sequence[Any], value: float = 900, error: float = 60) -> list[tuple[Any, ...]]:
    return [((key,), (estimate(round(value / (1 + i % 9)), round(error)),)) for i, key in enumerate(keys)]


AGES = histogram("age", [18, *range(20, 81, 2), 90])
MEAN, SUM = AnswerColumn("mean pay"), AnswerColumn("change", is_additive=True)
DEPTS = ("sales", "research", "legal", "people & culture")
MONTHS = [date(2025, 1, 1) + timedelta(days=31 * i) for i in range(14)]

ANSWERS: dict[str, Answer] = {
    "three keys": make_answer(["dept"], [COUNT], bars(DEPTS[:3])),
    "42 keys": make_answer(["department"], [COUNT], bars([f"department of {i} things" for i in range(42)])),
    "one dominating key": make_answer(
        ["country"],
        [COUNT],
        [((f"country {i}",), (estimate(29_170 if i == 0 else 12 + 14 * i, 16),)) for i in range(42)],
    ),
    "two levels": make_answer(
        ["region", "department"],
        [COUNT],
        [
            ((r, d), (estimate(100 + 37 * i * j, 35),))
            for i, r in enumerate(("north", "east", "south", "west", "islands", "abroad", "unknown", "none"))
            for j, d in enumerate(DEPTS)
        ],
    ),
    "long names": make_answer(
        ["occupation"], [COUNT], bars([f"{'very ' * i}senior officer for the choice of long names {i}" for i in range(12)])
    ),
    "dollars": make_answer(
        ["$k_$"], [AnswerColumn("$n_$<b>", is_count=True)], bars(["$a_b$", "<b>bold</b>", "a < b", "中文", "🎉"])
    ),
    "hostile": make_answer(["<k>"], [AnswerColumn("datum['n']", is_count=True)], bars(HOSTILE_KEYS)),
    "one key": make_answer(["dept"], [COUNT], bars(["sales"])),
    "no key": make_answer([], [COUNT], [((), (estimate(1234, 12),))]),
    "no key, three columns": make_answer(
        [], [COUNT, MEAN, SUM], [((), (estimate(1234, 12), estimate(99.93, 1.8), estimate(-50.5, 20.25)))]
    ),
    "empty": make_answer(["dept"], [COUNT], []),
    "negative": make_answer(
        ["dept"], [SUM], [((d,), (estimate(v, 25),)) for d, v in zip(DEPTS, (300, -280, 12, -3), strict=True)]
    ),
    "infinite ends": make_answer(
        ["dept"],
        [MEAN],
        [
            (("a",), (Estimate(10.0, -inf, 12.0, False),)),
            (("b",), (Estimate(5.0, 4.0, inf, False),)),
            (("c",), (Estimate(7.0, -inf, inf, False),)),
            (("d",), (Estimate(8.0, 7.6, 8.4, True),)),
        ],
    ),
    "several columns": make_answer(
        ["dept"],
        [COUNT, MEAN],
        [((d,), (estimate(1000 // (i + 1), 40), estimate(90.5 + i, 3.25 * (i + 1)))) for i, d in enumerate(DEPTS)],
    ),
    "42 keys, three columns": make_answer(
        ["dept"],
        [COUNT, MEAN, SUM],
        [
            ((f"department {i}",), (estimate(1000 // (i + 1), 40), estimate(50.0 + i, 4), estimate(500 - 20 * i, 40)))
            for i in range(42)
        ],
    ),
    "numbers": make_answer(["year"], [COUNT], bars(range(1990, 2026))),
    "dates": make_answer(["month"], [COUNT], bars(MONTHS)),
    "dates by key": make_answer(
        ["month", "dept"],
        [COUNT],
        [
            ((m, d), (estimate(200 + 40 * j - 5 * i, 30 if j else 18),))
            for i, m in enumerate(MONTHS)
            for j, d in enumerate(DEPTS)
        ],
    ),
    "histogram": make_answer(
        [], AGES, [((), tuple(estimate(round(900 - 1.1 * (i - 12) ** 2 * 2.9), 40) for i in range(len(AGES))))]
    ),
    "histograms by key": make_answer(
        ["dept"],
        AGES,
        [
            ((d,), tuple(estimate(round(300 - (i - 5 * j - 8) ** 2), 25) for i in range(len(AGES))))
            for j, d in enumerate(DEPTS)
        ],
    ),
    "uneven histogram": make_answer(
        [], histogram("pay", [0, 1, 10, 100, 1000, 100000]), [((), tuple(estimate(v, 30) for v in (20, 500, 900, 350, 40)))]
    ),
    "histogram and count": make_answer(
        ["dept"],
        [*histogram("age", [18, 30, 40, 50, 65]), COUNT],
        [((d,), tuple(estimate(v * (4 - j), 30) for v in (100, 200, 150, 50, 500))) for j, d in enumerate(DEPTS)],
    ),
    "nulls and booleans": make_answer(["flag"], [COUNT], bars([True, 1, None, False, 0])),
    "three levels": make_answer(
        ["region", "dept", "sex"],
        [COUNT],
        [((r, d, s), (estimate(300, 20),)) for r in ("north", "south") for d in DEPTS[:3] for s in ("f", "m", None)],
    ),
    "huge": make_answer(
        ["k"],
        [COUNT],
        [
            (("a",), (Estimate(10**400, -(10**400), 3 * 10**400, False),)),
            (("b",), (Estimate(1.7e308, -1.7e308, 1.7e308, False),)),
        ],
    ),
}
