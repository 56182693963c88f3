"""`discreet ask`, `discreet quote` and `discreet policy init`, run as a user runs them."""

import csv
import io
import json
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import BudgetExceeded, EngineFailed, QuestionRefused, SourceRefused, cli
from tests.end_to_end.test_cli import run
from tests.query.people import COUNTS, people

SQL = "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean FROM people GROUP BY dept"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("source") / "people.csv"
    people().execute(f"COPY people TO '{path}' (HEADER)")
    return str(path)


OPTIONS = ("--unit", "id", "--bounds", "pay=0:200", "--keys", "dept=a,b,c", "--unique")


def test_ask_prints_json_only_in_the_documented_form(source: str) -> None:
    out = run("ask", source, SQL, *OPTIONS, "--epsilon", "100", "--json")
    assert out.returncode == 0, out.stderr
    shown = json.loads(out.stdout)
    assert list(shown) == ["rows", "price", "explanation", "pipeline"]
    for row in shown["rows"]:
        assert list(row) == ["dept", "n", "mean"]
        assert abs(row["n"]["value"] - COUNTS[row["dept"]]) <= 5
        assert row["n"]["lower"] <= row["n"]["value"] <= row["n"]["upper"]
    assert shown["price"] == {
        "epsilon": {"lower": 100.0, "upper": 100.0}, "delta": 0.0, "currency": "pure", "amount": 100.0, "left": 0.0,
    }  # fmt: skip


def test_ask_prints_csv_or_a_table(source: str) -> None:
    rows = list(csv.DictReader(io.StringIO(run("ask", source, SQL, *OPTIONS, "--epsilon", "100", "--csv").stdout)))
    assert [row["dept"] for row in rows] == ["a", "b", "c"]
    assert {"n", "n_lower", "n_upper", "n_reliable"} <= set(rows[0])
    shown = run("ask", source, SQL, *OPTIONS, "--error", "5%", "--size", "100", "--delta", "1e-6").stdout
    for word in ("dept", "±", "Price: ε = ", "Adding or removing one id"):
        assert word in shown


def test_quote_says_the_price_and_the_error(source: str) -> None:
    quoted = json.loads(run("quote", source, SQL, *OPTIONS, "--error", "5%", "--size", "100", "--json").stdout)
    assert {column["column"] for column in quoted["columns"]} == {"n", "mean"}
    assert quoted["columns"][0]["half_width"][0]["value"] <= 5
    shown = run("quote", source, SQL, "--unit", "id", "--bounds", "pay=0:200", "--epsilon", "1", "--delta", "1e-6").stdout
    for word in ("Gaussian(sigma=", "10,000 rows", "not declared: 1 is taken", "Keys are not known"):
        assert word in " ".join(shown.split())


def test_a_policy_is_written_filled_in_and_used(source: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    assert run("policy", "init", source, "--unit", "id", "--out", str(policy)).returncode == 0
    text = policy.read_text()
    assert 'columns."pay"' in text
    for value in ("'a'", "149", "999"):
        assert value not in text
    policy.write_text(text.replace("unique = false", "unique = true").replace('# keys = ["a", "b"] ', 'keys = ["a", "b"] '))
    out = run(
        "ask",
        source,
        "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
        "--policy",
        str(policy),
        "--epsilon",
        "9",
        "--json",
    )
    assert [row["dept"] for row in json.loads(out.stdout)["rows"]] == ["a", "b"]
    assert run("policy", "init", source, "--unit", "id", "--out", str(policy)).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("SELECT pay FROM people", "--epsilon", "1"), 2, "line 1"),
        (("SELECT SUM(age) AS s FROM people", "--epsilon", "1"), 2, "bounds"),
        (("SELECT COUNT(*) AS n FROM people",), 2, "--epsilon or --error"),
        (("SELECT COUNT(*) AS n FROM people", "--error", "5%"), 2, "size"),
        (("SELECT COUNT(*) AS n FROM people", "--epsilon", "1", "--bounds", "pay"), 2, "--bounds pay=0:200"),
        (("SELECT COUNT(*) AS n FROM people", "--epsilon", "1", "--keys", "age=young"), 2, "not a integer"),
        (("SELECT COUNT(*) AS n FROM people", "--epsilon", "1", "--policy", "none.toml"), 4, "policy"),
    ],
)  # fmt: skip
def test_mistakes_get_one_line_and_their_exit_code(source: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    out = run("ask", source, *arguments, "--unit", "id")
    assert (out.returncode, out.stdout) == (code, "")
    assert said in out.stderr
    assert "Traceback" not in out.stderr


def test_a_source_that_is_not_there_is_exit_code_4() -> None:
    out = run("ask", "nowhere.csv", SQL, "--unit", "id", "--epsilon", "1", "--json")
    assert (out.returncode, out.stdout) == (4, "")


def test_20_000_rows_from_a_cold_start(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,dept\n" + "".join(f"{i},{'abc'[i % 3]}\n" for i in range(20_000)))
    question = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
    out = run("ask", str(path), question, *OPTIONS[:2], *OPTIONS[4:], "--epsilon", "1")
    assert out.returncode == 0


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (BudgetExceeded("ε", asked=Fraction(2), left=Fraction(1)), 3),
        (EngineFailed(), 4),
        (SourceRefused("no such file", "check the path"), 4),
        (QuestionRefused("not in the language", "ask otherwise"), 2),
    ],
)
def test_every_kind_of_mistake_has_its_exit_code(mistake: Exception, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise mistake

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
