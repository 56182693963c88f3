"""Publishing: reserve, run, record, write; in this order, charged once, and a complete folder or none."""

import csv
import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.accounting.currencies import Receipt
from discreet.engines.base import OutOfResources
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed
from discreet.events import compose
from discreet.folders import create_folder
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AnswerRecorded, Debit
from discreet.ledger.keys import default_key_path, load_key
from discreet.ledger.verify import verify
from discreet.query.answer import Answer
from discreet.testing import seeded_bits
from discreet.vega import Chart
from discreet.workload import Publication, WorkloadPlan, WorkloadQuery, plan_workload, publish, publishing, read_workload
from discreet.workload.publishing import GUARANTEE_FILE, execute_plan, make_table
from tests.support.people import session
from tests.support.workloads import HEADS, TOML, make_workload, write_plan

LEDGER = 'ledger = "hr.ledger"\naccount = "hr"'


@pytest.fixture
def ledger_plan(tmp_path: Path) -> Path:
    """A plan whose budget is in a ledger."""
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, Fraction(1, 10**5), _pure())
        ledger.open_account("z", 2, Fraction(1, 10**6))
    return write_plan(tmp_path, budget=LEDGER)


def _pure() -> Any:
    from discreet.accounting.currencies import Pure

    return Pure()


def count_debits(plan: Path) -> tuple[int, int]:
    """Return the number of debits and of answers, and check the ledger."""
    with open_ledger(plan.parent / "hr.ledger") as ledger:
        assert check_ledger(ledger).is_valid
        entries = list(ledger.iter_entries())
    return sum(isinstance(e, Debit) for e in entries), sum(isinstance(e, AnswerRecorded) for e in entries)


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_has_all_files(ledger_plan: Path, tmp_path: Path) -> None:
    made = publish(ledger_plan, tmp_path / "out")
    names = {f"{name}.{kind}" for name in made.answers for kind in ("csv", "parquet", "svg")}
    assert set(read_files(made.folder)) == names | {"guarantee.md", "plan.toml", "again.py", "release.json"}
    from pyarrow import parquet

    for name, answer in made.answers.items():
        with (made.folder / f"{name}.csv").open(encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        expected, records = make_table(answer)
        assert tuple(header) == expected
        assert len(rows) == len(records) == (len(answer.records) if name != "ages" else 4)
        table = parquet.read_table(made.folder / f"{name}.parquet")
        assert [tuple(row.values()) for row in table.to_pylist()] == records
        assert (made.folder / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")
    page = (made.folder / "guarantee.md").read_text(encoding="utf-8")
    for words in ("**ε = ", "δ = 1e-6", "each **id**", "not protected", "release.json", "n_reliable"):
        assert words in page
    sentence = "Each interval contains the clipped statistic with probability ≥ 95%; error from clipping is not included."
    assert sentence in page
    assert "seeded" not in page
    assert not list(tmp_path.glob(".*"))


def test_the_certificate_verifies_and_a_forgery_does_not(ledger_plan: Path, tmp_path: Path) -> None:
    for account in ("hr", "z"):
        text = TOML.replace("delta = 1e-6\n", "" if account == "z" else "delta = 1e-6\n")
        plan = write_plan(tmp_path, text, LEDGER.replace('"hr"', f'"{account}"'))
        made = publish(plan, tmp_path / f"out-{account}")
        found = json.loads((made.folder / "release.json").read_text(encoding="utf-8"))
        key = load_key(default_key_path(tmp_path / "hr.ledger"))
        with open_ledger(tmp_path / "hr.ledger") as ledger:
            assert verify(found, public=key.public, ledger=ledger).is_valid
            forged = {**found, "release": {"answers": found["release"]["answers"][1:]}}
            assert not verify(forged, public=key.public, ledger=ledger).is_valid
        assert [each["rows"] for each in found["release"]["answers"]] == [_rows(made, name) for name in made.answers]


def _rows(made: Publication, name: str) -> list[Any]:
    return [[list(keys), [[c.value, c.lower, c.upper, c.reliable] for c in row]] for keys, row in made.answers[name].rows]


class FailsAtSecondQuery:
    """An engine that fails after the debit, at the second query."""

    def __init__(self, engine: Any) -> None:
        self.inside, self.runs = engine, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def run(self, bounded: Any) -> Any:
        self.runs += 1
        if self.runs > 1:
            raise OutOfResources
        return self.inside.run(bounded)


def is_charged_once(plan: Path, retry: Mapping[str, Any]) -> bool:
    """Publish again with these options, and return whether there is one debit and one answer."""
    publish(plan, plan.parent / "again", **retry)
    return count_debits(plan) == (1, 1)


def test_a_failure_while_running_is_not_charged_again(ledger_plan: Path, tmp_path: Path) -> None:
    plan = plan_workload(read_workload(ledger_plan))
    broken = replace(plan, session=replace(plan.session, engine=FailsAtSecondQuery(plan.session.engine)))  # type: ignore[arg-type]
    with pytest.raises(EngineFailed):
        publish(broken, tmp_path / "out")
    assert count_debits(ledger_plan) == (1, 0)
    assert not list(tmp_path.glob("*out*"))
    assert is_charged_once(ledger_plan, {})
    assert publish(ledger_plan, tmp_path / "third").free


def test_a_failure_while_writing_gives_the_same_files(
    ledger_plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(publishing, "format_guarantee", full)
        with pytest.raises(OSError, match="no space"):
            publish(ledger_plan, tmp_path / "out")
    assert count_debits(ledger_plan) == (1, 1)
    assert not list(tmp_path.glob("*out*"))
    first, second = publish(ledger_plan, tmp_path / "out"), publish(ledger_plan, tmp_path / "copy")
    assert first.free
    assert read_files(first.folder) == read_files(second.folder)
    assert count_debits(ledger_plan) == (1, 1)


def test_new_noise_is_charged(ledger_plan: Path, tmp_path: Path) -> None:
    small = TOML.replace("epsilon = 1.5", "epsilon = 0.5")
    publish(write_plan(tmp_path, small, LEDGER), tmp_path / "out")
    with pytest.raises(BadParameter, match=r"budget\.id"):
        publish(ledger_plan, tmp_path / "more", fresh=True)
    named = write_plan(tmp_path, small, f'{LEDGER}\nid = "second"')
    assert not is_charged_once(named, {"fresh": True})
    assert count_debits(ledger_plan) == (2, 2)
    assert publish(named, tmp_path / "again", fresh=True, force=True).free  # a retry with the same id


def test_refusals_are_not_charged(ledger_plan: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(BadParameter, match="exists"):
        publish(ledger_plan, tmp_path / "there")
    with pytest.raises(BadParameter, match="not a publication"):
        publish(ledger_plan, tmp_path / "there", force=True)
    with pytest.raises(BadParameter, match="cannot be created"):
        publish(ledger_plan, ledger_plan / "below-a-file")
    costly = write_plan(tmp_path, TOML.replace("error = 20", "error = 1").partition("[questions.pay]")[0], LEDGER)
    with pytest.raises(BudgetExceeded, match=r"budget\.epsilon"):
        publish(costly, tmp_path / "out")
    with pytest.raises(BudgetExceeded, match="remains"):
        publish(write_plan(tmp_path, TOML.replace("epsilon = 1.5", "epsilon = 5"), LEDGER), tmp_path / "out")
    with pytest.raises(BadParameter, match="seeded"):
        publish(write_plan(tmp_path, TOML, LEDGER), tmp_path / "out", bits=seeded_bits(1))
    assert count_debits(ledger_plan) == (0, 0)
    assert not list(tmp_path.glob("*out*"))


def test_an_earlier_publication_is_replaced_only_by_force(ledger_plan: Path, tmp_path: Path) -> None:
    made = publish(ledger_plan, tmp_path / "out")
    (made.folder / "stale.csv").write_text("old", encoding="utf-8")
    with pytest.raises(BadParameter, match="exists"):
        publish(ledger_plan, tmp_path / "out")
    publish(ledger_plan, tmp_path / "out", force=True)
    assert not (made.folder / "stale.csv").exists()
    assert {path.name for path in tmp_path.iterdir()} >= {"out"}
    assert not list(tmp_path.glob(".out*"))


def test_a_link_to_a_publication_is_followed(ledger_plan: Path, tmp_path: Path) -> None:
    made = publish(ledger_plan, tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        assert publish(ledger_plan, tmp_path / "link", force=True).folder == made.folder
    assert (tmp_path / "link").is_symlink()
    assert read_files(tmp_path / "link") == read_files(made.folder)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("force", [False, True])
def test_impossible_folders_are_refused_and_not_charged(
    ledger_plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (".", "..", "/", tmp_path / "loop", "a\0b", "x" * 300):
        with pytest.raises(BadParameter, match="folder is"):
            publish(ledger_plan, place, force=force)
    (tmp_path / "here" / "guarantee.md").touch()
    with pytest.raises(BadParameter, match="folder is"):
        publish(ledger_plan, ".", force=force)
    assert count_debits(ledger_plan) == (0, 0)


def test_an_earlier_publication_remains_if_a_new_one_fails(
    ledger_plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_files(publish(ledger_plan, tmp_path / "out").folder)
    rename = Path.rename

    def fails(self: Path, to: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(28, "No space left on device")
        return rename(self, to)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", fails)
        with pytest.raises(BadParameter, match="No space left"):
            publish(ledger_plan, tmp_path / "out", force=True)
    assert read_files(tmp_path / "out") == before
    assert not list(tmp_path.glob(".*"))


def test_another_confidence_is_refused(ledger_plan: Path, tmp_path: Path) -> None:
    plan = TOML.partition("[questions.heads]")[0] + "[questions.pay]" + TOML.partition("[questions.pay]")[2]
    publish(write_plan(tmp_path, plan, LEDGER), tmp_path / "out")
    other = write_plan(tmp_path, f"confidence = 0.9\n{plan}", LEDGER)
    with pytest.raises(BadParameter, match=r"0\.95"):
        publish(other, tmp_path / "more")


def test_seeded_bits_are_marked(tmp_path: Path) -> None:
    made = publish(make_workload(HEADS), tmp_path / "out", bits=seeded_bits(3))
    assert "never for publication" in (made.folder / "guarantee.md").read_text(encoding="utf-8")
    assert not (made.folder / "release.json").exists()
    assert made.cost.amount <= 4


@pytest.mark.parametrize("force", [False, True])
def test_two_publications_into_one_folder_do_not_mix(force: bool, tmp_path: Path) -> None:
    """Both start before either is finished."""
    to = tmp_path / "out"
    with ExitStack() as outer:
        refused = nullcontext() if force else pytest.raises(BadParameter, match="another publication got this name first")
        outer.enter_context(refused)
        slow = outer.enter_context(create_folder(to, GUARANTEE_FILE, force=force))
        (slow / "guarantee.md").write_text("slow")
        with create_folder(to, GUARANTEE_FILE, force=force) as quick:
            assert quick != slow
            (quick / "guarantee.md").write_text("quick")
        assert (to / "guarantee.md").read_text() == "quick"
    assert (to / "guarantee.md").read_text() == ("slow" if force else "quick")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_many_publications_into_one_folder_at_once(tmp_path: Path) -> None:
    """Each replaces the one before; no file is lost or mixed, and no other folder remains."""
    to, start = tmp_path / "out", threading.Barrier(8)

    def publish_once(i: int) -> None:
        start.wait()
        for _ in range(20):
            with create_folder(to, GUARANTEE_FILE, force=True) as place:
                for name in ("guarantee.md", "a.csv", "b.csv"):
                    (place / name).write_text(str(i))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(publish_once, range(8)))
    assert len({path.read_text() for path in to.iterdir()}) == 1
    assert len(list(to.iterdir())) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_table_of_a_histogram_has_a_row_per_cell(ledger_plan: Path, tmp_path: Path) -> None:
    made = publish(ledger_plan, tmp_path / "out")
    with (made.folder / "ages.csv").open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["column", "lower_edge", "upper_edge", "value", "lower", "upper", "reliable"]
    assert [row[:3] for row in rows] == [["h", "20.0", "40.0"], ["h", "40.0", "60.0"], ["h", "60.0", "80.0"], ["d", "", ""]]
    page = (made.folder / "guarantee.md").read_text(encoding="utf-8")
    assert "A table with a histogram has one row per cell" in page
    assert "python again.py FOLDER" in page
    assert "those that the ledger recorded, and nothing is charged" in page
    plain = publish(make_workload(HEADS), tmp_path / "plain")
    assert "one row per cell" not in (plain.folder / "guarantee.md").read_text(encoding="utf-8")


def test_keys_can_be_written_for_spreadsheets(tmp_path: Path) -> None:
    workload = make_workload(HEADS, keys={"dept": ("a", "=1+1", "c")})
    for spreadsheet in (False, True):
        made = publish(workload, tmp_path / f"out-{spreadsheet}", spreadsheet=spreadsheet)
        assert ("'=1+1" in (made.folder / "heads.csv").read_text(encoding="utf-8")) is spreadsheet


@pytest.mark.parametrize("fault", ["no chart", "not drawn", "not written"])
def test_a_chart_that_fails_prevents_nothing_else(
    ledger_plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    plot: Any = Answer.plot
    draw: Any = Chart.to_svg
    write: Any = publishing._write_text

    def fails_to_plot(self: Answer, path: Any = None, *, title: str | None = None) -> Any:
        if title == "pay" and fault == "no chart":
            raise ValueError("no such glyph")
        return plot(self, path, title=title)

    def fails_to_draw(self: Chart) -> str:
        if self.spec["title"]["text"] == "pay" and fault == "not drawn":
            raise ValueError("no such glyph")
        return str(draw(self))

    def fails_to_write(path: Path, text: str) -> None:
        if path.name == "pay.svg" and fault == "not written":
            path.write_text("half a ch")
            raise OSError("no space left")
        write(path, text)

    monkeypatch.setattr(Answer, "plot", fails_to_plot)
    monkeypatch.setattr(Chart, "to_svg", fails_to_draw)
    monkeypatch.setattr(publishing, "_write_text", fails_to_write)
    made = publish(ledger_plan, tmp_path / "out")
    assert made.missing_charts == ("pay",)
    assert "pay.svg" not in read_files(made.folder)
    assert {"pay.csv", "pay.parquet", "heads.svg", "ages.svg", "guarantee.md"} <= set(read_files(made.folder))
    page = (made.folder / "guarantee.md").read_text(encoding="utf-8")
    assert "[pay](pay.csv) (its chart could not be drawn)" in page
    assert "pay.svg" not in page
    assert "[heads](heads.csv) ([chart](heads.svg))" in page


# -- one debit before any row is read, and the answers of `ask` with the same noise ----------------------------------------


def test_each_answer_is_that_of_ask_with_the_same_noise_and_bits() -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM people WHERE age > {} GROUP BY dept"
    counts = [WorkloadQuery(name=f"q{i}", sql=sql.format(20 + i), weight=i + 1) for i in range(3)]
    plan = plan_workload(make_workload(*counts, epsilon=2))
    answers = execute_plan(plan, bits=seeded_bits(7)).answers
    bits, one_by_one = seeded_bits(7), session(epsilon=3)
    epsilons = [1 / each.noises[0][1].scale for each in plan.measurements]  # type: ignore[union-attr]
    expected = [one_by_one.ask(each.sql, epsilon=at, bits=bits) for each, at in zip(counts, epsilons, strict=True)]
    assert [a.rows for a in answers] == [a.rows for a in expected]
    assert [a.event for a in answers] == [a.event for a in expected]
    assert [a.pipeline for a in answers] == [a.pipeline for a in expected]
    assert [a.rows for a in execute_plan(plan_workload(make_workload(*counts, epsilon=2)), bits=seeded_bits(8)).answers] != [
        a.rows for a in expected
    ]


def is_charged_before_run(events: list[str]) -> bool:
    return events[0] == "reserve" and events.count("reserve") == 1 and events[-1] == "record"


class Spy:
    """Records the calls of some methods."""

    def __init__(self, inside: Any, names: tuple[str, ...], events: list[str]) -> None:
        self.inside, self.names, self.events = inside, names, events

    def __getattr__(self, name: str) -> Any:
        if name in self.names:
            self.events.append(name)
        return getattr(self.inside, name)


def test_nothing_is_read_before_it_is_charged() -> None:
    plan, events = plan_workload(make_workload(delta=Fraction(1, 10**6))), list[str]()
    spied = replace(
        plan.session,
        engine=Spy(plan.session.engine, ("run", "read_totals", "read_histogram", "compile_totals", "compile_all"), events),  # type: ignore[arg-type]
        account=Spy(plan.session.account, ("reserve", "record"), events),  # type: ignore[arg-type]
    )
    execute_plan(replace(plan, session=spied), bits=seeded_bits(1))
    assert is_charged_before_run(events)
    assert events.count("run") == len(plan.measurements)
    assert not is_charged_before_run(["run", "reserve", "record"])  # the mutants
    assert not is_charged_before_run(["reserve", "run", "reserve", "run", "record"])


def test_a_receipt_of_a_plan_covers_its_queries_only() -> None:
    plan: WorkloadPlan = plan_workload(make_workload(delta=Fraction(1, 10**6)))
    events = [each.event for each in plan.measurements]
    assert [part.event for part in Receipt(1, compose(*events)).split(events)] == events
    with pytest.raises(BadParameter, match="another measurement"):
        Receipt(1, compose(*events)).split([*events, events[0]])


def test_a_progress_callback_that_raises_is_not_called_again_and_loses_nothing() -> None:
    shares = []

    def fail(share: float) -> None:
        shares.append(share)
        raise ValueError("a fault of the caller's")

    plan = plan_workload(make_workload(delta=Fraction(1, 10**6)))
    answers = execute_plan(plan, progress=fail).answers
    assert len(answers) == len(plan.measurements) > 1
    assert shares == [1 / len(answers)]
