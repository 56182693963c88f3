"""Answers: what their intervals cover, and the forms in which they leave."""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from math import erf, exp, sqrt
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet import connect
from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.mechanisms import Laplace
from discreet.noise import Bits
from discreet.query.answer import Answer, ExactTotals, release
from discreet.query.calibrate import Measurement
from discreet.testing import seeded_bits
from tests.support.people import BY_DEPARTMENT, EVERYTHING, session

DRAWS = 100_000


def many(
    question: str, epsilon: Any, delta: Any, bits: Bits, draws: int = DRAWS
) -> tuple[Measurement, Answer, dict[str, int]]:
    """`draws` independent releases of the same exact integers: as so many groups that all hold the same totals."""
    asked = session(epsilon=1000, delta=delta, keys={"dept": tuple(map(str, range(draws)))})
    planned = asked.calibrate(f"SELECT dept, {question} FROM people GROUP BY dept", epsilon=epsilon)
    one = session(epsilon=1000).calibrate(f"SELECT {question} FROM people", epsilon=1)
    engine = session().engine
    totals = next((totals for totals, _ in engine.read_totals(one.bounded)), ())
    cells = {
        counts: [(n, cell) for n, cell, _ in engine.read_histogram(one.bounded, counts)]
        for counts in one.bounded.cell_counts
    }
    rows = ExactTotals(
        [(totals, (str(i),)) for i in range(draws)],
        {counts: ((n, cell, (str(i),)) for i in range(draws) for n, cell in found) for counts, found in cells.items()},
    )
    truth = dict(zip(planned.bounded.scalars, totals, strict=True))
    return (
        planned,
        release(planned, rows, Receipt(1, planned.event), bits=bits),
        {"": 0} | {repr(k): v for k, v in truth.items()},
    )


def lattice_coverage(planned: Measurement) -> float:
    """P(|X| ≤ t) of the law that is drawn, at the t that the interval uses."""
    [(_, noise)] = planned.noises
    t = noise.error(0.95)
    if isinstance(noise, Laplace):
        a = exp(-1 / float(noise.scale))
        return 1 - 2 * a ** (t + 1) / (1 + a)
    return erf((t + 0.5) / (float(noise.sigma) * sqrt(2)))


def covered(answer: Answer, truth: float) -> float:
    return sum(row[0].lower <= truth <= row[0].upper for _, row in answer.rows) / len(answer)


def matches(share: float, expected: float, draws: int = DRAWS) -> bool:
    return abs(share - expected) <= 6 * sqrt(expected * (1 - expected) / draws)


@pytest.mark.parametrize(
    ("question", "truth"),
    [("COUNT(*) AS n", 1000), ("COUNT(DISTINCT id) AS n", 1000), ("SUM(age) AS n", 44_500), ("SUM(pay) AS n", 99_545.0)],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0), (0.3, 1e-6)])
def test_intervals_of_totals_cover_exactly_as_often_as_the_lattice_law_says(
    question: str, truth: float, epsilon: float, delta: float
) -> None:
    planned, answer, exact = many(question, epsilon, delta, seeded_bits(11))
    [value] = [v for k, v in exact.items() if k]
    if "pay" not in question:
        assert value == truth
    grid = 1 if "pay" not in question else float(planned.bounded.grid_range(planned.noises[0][0]).grid)  # type: ignore[arg-type]
    assert value * grid == pytest.approx(truth, abs=1)
    share, expected = covered(answer, value * grid), lattice_coverage(planned)
    assert expected >= 0.95
    assert matches(share, expected)
    if question.startswith("COUNT(*)") and delta == 0:
        assert expected == pytest.approx(0.9732, abs=1e-4)


def test_the_coverage_test_notices_an_interval_that_is_one_step_short() -> None:
    planned, answer, _ = many("COUNT(*) AS n", 1, 0, seeded_bits(12))
    short = sum(row[0].lower < 1000 < row[0].upper for _, row in answer.rows) / len(answer)
    assert not matches(short, lattice_coverage(planned))


@pytest.mark.parametrize(
    ("question", "statistic"),
    [
        ("AVG(pay) AS m", lambda s, q, n: s / n),
        ("VARIANCE(pay) AS m", lambda s, q, n: q / n - (s / n) ** 2),
        ("STDDEV(pay) AS m", lambda s, q, n: sqrt(q / n - (s / n) ** 2)),
    ],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6)])
def test_intervals_of_averages_cover_at_least_as_often_as_they_say(
    question: str, statistic: Callable[..., float], epsilon: float, delta: float
) -> None:
    _, answer, _ = many(question, epsilon, delta, seeded_bits(13))
    values = [50 + i % 101 for i in range(1000)]
    truth = statistic(sum(values), sum(v * v for v in values), 1000)
    assert covered(answer, truth) >= 0.95 - 6 * sqrt(0.05 * 0.95 / DRAWS)
    assert all(row[0].lower <= row[0].value <= row[0].upper for _, row in answer.rows)


def test_repeated_averages_centre_on_the_bounded_truth() -> None:
    _, answer, _ = many("AVG(pay) AS m", 4, 0, seeded_bits(14))
    values = [row[0].value for _, row in answer.rows]
    mean = sum(values) / len(values)
    spread = sqrt(sum((v - mean) ** 2 for v in values) / len(values))
    truth = sum(50 + i % 101 for i in range(1000)) / 1000
    assert abs(mean - truth) <= 6 * spread / sqrt(len(values)) + spread**2 / 1000


def test_simultaneous_intervals_hold_together() -> None:
    planned = session(epsilon=1000).calibrate(EVERYTHING, epsilon=3)
    rows = ExactTotals(list(session().engine.read_totals(planned.bounded)), {})
    exact = release(
        session(epsilon=10**9).calibrate(EVERYTHING, epsilon=10**8), rows, _paid(10**8), bits=seeded_bits(1)
    ).rows
    truth = {key: [cell.value for cell in row] for key, row in exact}
    bits, draws = seeded_bits(15), 300

    def all_hold(simultaneous: bool) -> float:
        held = 0
        for _ in range(draws):
            answer = release(planned, rows, Receipt(1, planned.event), simultaneous=simultaneous, bits=bits)
            held += all(
                c.lower - 1e-3 <= t <= c.upper + 1e-3 for k, row in answer.rows for c, t in zip(row, truth[k], strict=True)
            )
        return held / draws

    assert all_hold(simultaneous=True) >= 0.95 - 6 * sqrt(0.05 * 0.95 / draws)
    assert all_hold(simultaneous=False) < 0.9


def _paid(epsilon: int) -> Receipt:
    return Receipt(1, session(epsilon=10**9).calibrate(EVERYTHING, epsilon=epsilon).event)


@pytest.fixture(scope="module")
def answer() -> Answer:
    return session(delta=1e-6).ask(EVERYTHING, epsilon=2)


def test_cells_are_plain_numbers_and_counts_are_ints(answer: Answer) -> None:
    for _, row in answer.rows:
        assert [type(cell.value) for cell in row] == [int, int, int, float, float, float, float]
        for cell in row:
            assert {type(cell.lower), type(cell.upper)} <= {int, float}
            assert type(cell.reliable) is bool


def test_json_is_in_the_form_of_the_command_line(answer: Answer) -> None:
    shown = json.loads(answer.to_json())
    assert list(shown) == ["rows", "cost", "charged", "explanation", "pipeline", "notes"]
    assert [row["dept"] for row in shown["rows"]] == ["a", "b", "c"]
    assert list(shown["rows"][0]["n"]) == ["value", "lower", "upper", "reliable"]
    assert shown["rows"] == answer.to_dicts()
    assert "Adding or removing one id" in shown["explanation"]
    assert "clipped statistic" in shown["explanation"]


def test_frames_and_files_hold_the_same_rows(answer: Answer, tmp_path: Path) -> None:
    import pandas
    import polars

    values = [row[0].value for _, row in answer.rows]
    assert (
        answer.to_pandas()["n"].tolist() == answer.to_polars()["n"].to_list() == answer.to_arrow()["n"].to_pylist() == values
    )
    answer.to_parquet(tmp_path / "answer.parquet")
    answer.to_csv(tmp_path / "answer.csv")
    assert pandas.read_parquet(tmp_path / "answer.parquet")["mean_lower"].tolist() == [
        row[4].lower for _, row in answer.rows
    ]
    assert polars.read_csv(tmp_path / "answer.csv")["n"].to_list() == values
    assert next(csv.reader(io.StringIO(answer.to_csv()))) == list(answer.header)


def test_a_missing_library_is_said_so(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for library, method in (
        ("pandas", "to_pandas"),
        ("polars", "to_polars"),
        ("pyarrow", "to_arrow"),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(BadParameter, match="pip install"):
            getattr(answer, method)()


def test_pictures_and_notebooks(answer: Answer, tmp_path: Path) -> None:
    answer.plot(tmp_path / "bars.png", column="mean")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
    hostile = session(keys={"dept": ("<script>", "[red]b")}).ask(BY_DEPARTMENT, epsilon=1)
    assert "<script>" not in hostile._repr_html_()
    assert "&lt;script&gt;" in hostile._repr_html_()
    assert "[red]b" in _printed(hostile)


def _printed(shown: Any) -> str:
    from rich.console import Console

    console = Console(width=150, file=io.StringIO(), record=True)
    console.print(shown)
    return console.export_text()


def test_post_processing_makes_a_new_release_and_says_so() -> None:
    asked = session(
        epsilon=1000, keys={"dept": tuple(f"nobody {i}" for i in range(200))}, bounds={"pay": (-5, 200), "age": (0, 100)}
    )
    raw = asked.ask(EVERYTHING, epsilon=1)
    clean = raw.non_negative().integers()
    assert any(row[0].value < 0 for _, row in raw.rows)
    for (_, row), (_, before) in zip(clean.rows, raw.rows, strict=True):
        assert min(row[i].value for i in (0, 1, 2)) >= 0
        assert all(row[i].lower <= row[i].value <= row[i].upper for i in range(7))
        assert row[3] == before[3]  # a sum of values that may be negative is left alone
    assert "post-processing" in clean.explanation
    assert "post-processing" not in raw.explanation
    assert all(type(row[4].value) is int for _, row in raw.integers("mean").rows)
    with pytest.raises(BadParameter, match="negative"):
        raw.non_negative("cost")
    with pytest.raises(BadParameter, match="not in this answer"):
        raw.integers("x")


def test_an_answer_says_what_ran(answer: Answer) -> None:
    asked = session(delta=1e-6, keys={}, unique=False, max_groups=2)
    planned = asked.calibrate(BY_DEPARTMENT, epsilon=1)
    statement, *noise = asked.ask(BY_DEPARTMENT, epsilon=1).pipeline
    assert statement == asked.engine.compile_totals(planned.bounded)
    assert noise[0].startswith("total0: rows + ")
    assert "units + Laplace noise" in noise[1]
    assert len(answer.pipeline) == 1 + len(session().calibrate(EVERYTHING, epsilon=1).noises)
    assert answer.to_dict()["pipeline"] == list(answer.pipeline)


def test_spreads_of_counts_have_a_statement_of_their_own() -> None:
    asked = session()
    first, second, *noise = asked.ask(
        "SELECT dept, COUNT(*) AS n, MEDIAN(pay) AS m FROM people GROUP BY dept", epsilon=1
    ).pipeline
    assert first != second
    assert all(text.startswith("WITH kept AS") for text in (first, second))
    assert [line.partition(":")[0] for line in noise] == ["total0", "counts"]


def test_what_ran_does_not_show_the_owners_salt() -> None:
    plain = session(unique=False, max_groups=2)
    salted = replace(plain, table=replace(plain.table, salt="pepper 7"))
    statements = [each.engine.compile_totals(each.calibrate(BY_DEPARTMENT, epsilon=1).bounded) for each in (plain, salted)]
    without, secret = (set(re.findall(r"\d{6,}", statement)) for statement in statements)
    assert len(secret - without) >= 4  # the constants that the salt determines: of the unit, and of each key
    shown = salted.ask(BY_DEPARTMENT, epsilon=1).to_json()
    assert not [number for number in secret - without if number in shown]
    assert "pepper 7" not in shown


def test_what_ran_does_not_show_the_owners_salt_where_it_is_in_the_statement() -> None:
    plain = session(unique=False, max_groups=2, delta=1e-6, keys={})
    salted = replace(plain, table=replace(plain.table, salt="pepper 7"))
    assert "pepper 7" in salted.engine.compile_totals(salted.calibrate(BY_DEPARTMENT, epsilon=1).bounded)
    assert "pepper 7" not in salted.ask(BY_DEPARTMENT, epsilon=1).to_json()


def test_a_tainted_answer_stays_tainted_and_is_not_passed_off_as_a_real_one() -> None:
    asked = session(epsilon=5)
    first, again = (asked.ask(BY_DEPARTMENT, epsilon=1, bits=seeded_bits(1)) for _ in range(2))
    assert again.rows == first.rows
    assert again.tainted
    real = asked.ask(BY_DEPARTMENT, epsilon=1)
    assert not real.tainted
    assert asked.account.budget.spent == 2


def test_reproducible_bits_taint_the_release() -> None:
    assert session().ask(BY_DEPARTMENT, epsilon=1, bits=seeded_bits(1)).tainted
    assert not session().ask(BY_DEPARTMENT, epsilon=1).tainted
    assert "never for publication" in _printed(session().ask(BY_DEPARTMENT, epsilon=1, bits=seeded_bits(1)))


def test_an_average_of_nothing_is_not_reliable() -> None:
    asked = session(epsilon=1000, keys={"dept": ("nobody",)}, bounds={"pay": (190, 200)})
    assert not any(
        row[0].reliable
        for _ in range(50)
        for _, row in asked.ask("SELECT dept, AVG(pay) AS m FROM people GROUP BY dept", epsilon=1).rows
    )


@pytest.mark.parametrize(
    ("sql", "clips"),
    [
        ("SELECT COUNT(*) AS n FROM people", False),
        ("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", False),
        ("SELECT COUNT(DISTINCT id) AS n FROM people", False),
        ("SELECT SUM(pay) AS s FROM people", True),
        ("SELECT COUNT(*) AS n, AVG(pay) AS m FROM people", True),
    ],
)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_an_answer_speaks_of_clipping_only_where_values_are_clipped(sql: str, clips: bool, simultaneous: bool) -> None:
    answer = session().ask(sql, epsilon=1, simultaneous=simultaneous)
    assert ("clip" in repr(answer)) == clips
    assert "with probability ≥ 95%" in answer.explanation
    assert ("together" in answer.explanation) == simultaneous


def test_a_view_of_counts_restates_what_its_intervals_hold() -> None:
    for unique in (False, True):
        answer = session(unique=unique).ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1)
        top = answer.order_by("n", descending=True).limit(1)
        assert "All intervals together contain their counts" in top.explanation
        assert ("within the limits" in top.explanation) == (not unique)
        assert "Each interval contains" not in top.explanation


@pytest.mark.parametrize(
    ("keys", "ordered"),
    [
        ("i % 12", [*range(12), None]),
        ("i % 7 - 3", [-3, -2, -1, 0, 1, 2, 3, None]),
        ("chr(65 + (i % 3)::INTEGER)", ["A", "B", "C", None]),
        ("DATE '2023-12-30' + (i % 4)::INTEGER", ["2023-12-30", "2023-12-31", "2024-01-01", "2024-01-02", None]),
    ],
)
def test_discovered_keys_are_sorted_as_what_they_are(keys: str, ordered: list[Any]) -> None:
    """Numbers as numbers, dates as dates, texts as texts, and NULL last."""
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE t AS SELECT i AS id, CASE WHEN i >= 6000 THEN NULL ELSE {keys} END AS k FROM range(7000) t(i)"
    )
    asked = connect(connection, table="t", unit="id", unique=True, epsilon=100, delta=1e-6)
    answer = asked.ask("SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon=50)
    assert [
        row["k"] if row["k"] is None or isinstance(row["k"], int) else str(row["k"]) for row in answer.to_dicts()
    ] == ordered


def test_discovered_pairs_of_keys_are_sorted_by_the_first_then_the_second() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS id, i % 3 * 5 AS a, i % 4 * 4 AS b FROM range(12000) t(i)")
    asked = connect(connection, table="t", unit="id", unique=True, epsilon=100, delta=1e-6)
    answer = asked.ask("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b", epsilon=50)
    found = [(row["a"], row["b"]) for row in answer.to_dicts()]
    assert found == [(a, b) for a in (0, 5, 10) for b in (0, 4, 8, 12)]
