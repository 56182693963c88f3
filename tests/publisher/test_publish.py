"""Publishing: pay, look, write; in this order, once, and all of it or nothing."""

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

from discreet.engines.base import OutOfResources
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed, SourceRefused
from discreet.events import compose
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AnswerRecorded, Debit
from discreet.ledger.keys import default_key_path, load_key
from discreet.ledger.verify import verify
from discreet.query.answer import Receipt
from discreet.testing import seeded_bits
from discreet.workload import Publication, WorkloadPlan, WorkloadQuery, plan_workload, publish, publishing, read_workload
from discreet.workload.execution import execute_plan
from discreet.workload.publishing import _create_folder
from tests.publisher.plans import HEADS, TOML, workload, written
from tests.support.people import session

LEDGER = 'ledger = "hr.ledger"\naccount = "hr"'


@pytest.fixture
def paid(tmp_path: Path) -> Path:
    """A plan whose budget is in a ledger."""
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, Fraction(1, 10**5), _pure())
        ledger.open_account("z", 2, Fraction(1, 10**6))
    return written(tmp_path, budget=LEDGER)


def _pure() -> Any:
    from discreet.accounting.currencies import Pure

    return Pure()


def debits(plan: Path) -> tuple[int, int]:
    """How many debits and answers there are; the ledger holds together."""
    with open_ledger(plan.parent / "hr.ledger") as ledger:
        assert check_ledger(ledger).is_valid
        entries = list(ledger.iter_entries())
    return sum(isinstance(e, Debit) for e in entries), sum(isinstance(e, AnswerRecorded) for e in entries)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_answer_is_what_asking_gives_with_the_same_noise_and_bits() -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM people WHERE age > {} GROUP BY dept"
    counts = [WorkloadQuery(name=f"q{i}", sql=sql.format(20 + i), weight=i + 1) for i in range(3)]
    plan = plan_workload(workload(*counts, epsilon=2))
    answers = execute_plan(plan, bits=seeded_bits(7)).answers
    bits, one_by_one = seeded_bits(7), session(epsilon=3)
    epsilons = [1 / each.noises[0][1].scale for each in plan.measurements]  # type: ignore[union-attr]
    asked = [one_by_one.ask(each.sql, epsilon=at, bits=bits) for each, at in zip(counts, epsilons, strict=True)]
    assert [a.rows for a in answers] == [a.rows for a in asked]
    assert [a.event for a in answers] == [a.event for a in asked]
    assert [a.pipeline for a in answers] == [a.pipeline for a in asked]
    assert [a.rows for a in execute_plan(plan_workload(workload(*counts, epsilon=2)), bits=seeded_bits(8)).answers] != [
        a.rows for a in asked
    ]


def paid_before_read(events: list[str]) -> bool:
    return events[0] == "reserve" and events.count("reserve") == 1 and events[-1] == "record"


class Spy:
    """Whatever is called is written down first."""

    def __init__(self, inside: Any, names: tuple[str, ...], events: list[str]) -> None:
        self.inside, self.names, self.events = inside, names, events

    def __getattr__(self, name: str) -> Any:
        if name in self.names:
            self.events.append(name)
        return getattr(self.inside, name)


def test_nothing_is_read_before_it_is_paid_for() -> None:
    plan, events = plan_workload(workload(delta=Fraction(1, 10**6))), list[str]()
    spied = replace(
        plan.session,
        engine=Spy(plan.session.engine, ("run", "read_totals", "read_histogram", "compile_totals", "compile_all"), events),  # type: ignore[arg-type]
        account=Spy(plan.session.account, ("reserve", "record"), events),  # type: ignore[arg-type]
    )
    execute_plan(replace(plan, session=spied), bits=seeded_bits(1))
    assert paid_before_read(events)
    assert events.count("run") == len(plan.measurements)
    assert not paid_before_read(["run", "reserve", "record"])  # the wrong twins
    assert not paid_before_read(["reserve", "run", "reserve", "run", "record"])


def test_a_folder_holds_everything(paid: Path, tmp_path: Path) -> None:
    made = publish(paid, tmp_path / "out")
    names = {f"{name}.{kind}" for name in made.answers for kind in ("csv", "parquet", "png")}
    assert set(files(made.folder)) == names | {"guarantee.md", "plan.toml", "again.py", "release.json"}
    from pyarrow import parquet

    for name, answer in made.answers.items():
        with (made.folder / f"{name}.csv").open(encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert tuple(header) == answer.header
        assert len(rows) == len(answer.records)
        table = parquet.read_table(made.folder / f"{name}.parquet")
        assert [tuple(row.values()) for row in table.to_pylist()] == answer.records
    said = (made.folder / "guarantee.md").read_text(encoding="utf-8")
    for words in ("**ε = ", "δ = 1e-06", "each **id**", "not protected", "release.json", "n_reliable", "of at least 95%"):
        assert words in said
    assert "reproducible" not in said
    assert not list(tmp_path.glob(".*"))


def test_the_certificate_verifies_and_a_lie_shows(paid: Path, tmp_path: Path) -> None:
    for account in ("hr", "z"):
        text = TOML.replace("delta = 1e-6\n", "" if account == "z" else "delta = 1e-6\n")
        plan = written(tmp_path, text, LEDGER.replace('"hr"', f'"{account}"'))
        made = publish(plan, tmp_path / f"out-{account}")
        found = json.loads((made.folder / "release.json").read_text(encoding="utf-8"))
        key = load_key(default_key_path(tmp_path / "hr.ledger"))
        with open_ledger(tmp_path / "hr.ledger") as ledger:
            assert verify(found, public=key.public, ledger=ledger).is_valid
            lie = {**found, "release": {"answers": found["release"]["answers"][1:]}}
            assert not verify(lie, public=key.public, ledger=ledger).is_valid
        assert [each["rows"] for each in found["release"]["answers"]] == [_rows(made, name) for name in made.answers]


def _rows(made: Publication, name: str) -> list[Any]:
    return [[list(keys), [[c.value, c.lower, c.upper, c.reliable] for c in row]] for keys, row in made.answers[name].rows]


class Dies:
    """An engine that fails after the debit, at the second question."""

    def __init__(self, engine: Any) -> None:
        self.inside, self.asked = engine, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def run(self, bounded: Any) -> Any:
        self.asked += 1
        if self.asked > 1:
            raise OutOfResources
        return self.inside.run(bounded)


def paid_once(plan: Path, retry: Mapping[str, Any]) -> bool:
    """Whether publishing again with these options, after whatever happened, leaves one debit and one answer."""
    publish(plan, plan.parent / "again", **retry)
    return debits(plan) == (1, 1)


def test_a_crash_while_reading_is_continued(paid: Path, tmp_path: Path) -> None:
    plan = plan_workload(read_workload(paid))
    broken = replace(plan, session=replace(plan.session, engine=Dies(plan.session.engine)))  # type: ignore[arg-type]
    with pytest.raises(EngineFailed):
        publish(broken, tmp_path / "out")
    assert debits(paid) == (1, 0)
    assert not list(tmp_path.glob("*out*"))
    assert paid_once(paid, {})
    assert publish(paid, tmp_path / "third").free


def test_a_crash_while_writing_gives_the_same_files(paid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(publishing, "format_guarantee", full)
        with pytest.raises(OSError, match="no space"):
            publish(paid, tmp_path / "out")
    assert debits(paid) == (1, 1)
    assert not list(tmp_path.glob("*out*"))
    first, second = publish(paid, tmp_path / "out"), publish(paid, tmp_path / "twin")
    assert first.free
    assert files(first.folder) == files(second.folder)
    assert debits(paid) == (1, 1)


def test_new_noise_is_paid_for(paid: Path, tmp_path: Path) -> None:
    small = TOML.replace("epsilon = 1.5", "epsilon = 0.5")
    publish(written(tmp_path, small, LEDGER), tmp_path / "out")
    with pytest.raises(BadParameter, match=r"budget\.id"):
        publish(paid, tmp_path / "more", fresh=True)
    named = written(tmp_path, small, f'{LEDGER}\nid = "second"')
    assert not paid_once(named, {"fresh": True})
    assert debits(paid) == (2, 2)
    assert publish(named, tmp_path / "again", fresh=True, force=True).free  # a retry with the same id


def test_what_is_refused_is_refused_unpaid(paid: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(BadParameter, match="exists"):
        publish(paid, tmp_path / "there")
    with pytest.raises(BadParameter, match="no publication"):
        publish(paid, tmp_path / "there", force=True)
    with pytest.raises(BadParameter, match="cannot be made"):
        publish(paid, paid / "below-a-file")
    dear = written(tmp_path, TOML.replace("error = 20", "error = 1").partition("[questions.pay]")[0], LEDGER)
    with pytest.raises(BudgetExceeded, match=r"budget\.epsilon"):
        publish(dear, tmp_path / "out")
    with pytest.raises(BudgetExceeded, match="remains"):
        publish(written(tmp_path, TOML.replace("epsilon = 1.5", "epsilon = 5"), LEDGER), tmp_path / "out")
    with pytest.raises(BadParameter, match="seeded"):
        publish(written(tmp_path, TOML, LEDGER), tmp_path / "out", bits=seeded_bits(1))
    assert debits(paid) == (0, 0)
    assert not list(tmp_path.glob("*out*"))


def test_an_earlier_publication_is_replaced_only_by_force(paid: Path, tmp_path: Path) -> None:
    made = publish(paid, tmp_path / "out")
    (made.folder / "stale.csv").write_text("old", encoding="utf-8")
    with pytest.raises(BadParameter, match="exists"):
        publish(paid, tmp_path / "out")
    publish(paid, tmp_path / "out", force=True)
    assert not (made.folder / "stale.csv").exists()
    assert {path.name for path in tmp_path.iterdir()} >= {"out"}
    assert not list(tmp_path.glob(".out*"))


def test_a_link_to_a_publication_is_followed(paid: Path, tmp_path: Path) -> None:
    made = publish(paid, tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        assert publish(paid, tmp_path / "link", force=True).folder == made.folder
    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "link") == files(made.folder)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("force", [False, True])
def test_places_that_cannot_be_are_refused_unpaid(
    paid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (".", "..", "/", tmp_path / "loop", "a\0b", "x" * 300):
        with pytest.raises(BadParameter, match="folder is"):
            publish(paid, place, force=force)
    (tmp_path / "here" / "guarantee.md").touch()
    with pytest.raises(BadParameter, match="folder is"):
        publish(paid, ".", force=force)
    assert debits(paid) == (0, 0)


def test_an_earlier_publication_outlives_a_new_one_that_fails(
    paid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(publish(paid, tmp_path / "out").folder)
    rename = Path.rename

    def fails(self: Path, to: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(28, "No space left on device")
        return rename(self, to)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", fails)
        with pytest.raises(BadParameter, match="No space left"):
            publish(paid, tmp_path / "out", force=True)
    assert files(tmp_path / "out") == before
    assert not list(tmp_path.glob(".*"))


def test_another_confidence_is_told(paid: Path, tmp_path: Path) -> None:
    plan = TOML.partition("[questions.heads]")[0] + "[questions.pay]" + TOML.partition("[questions.pay]")[2]
    publish(written(tmp_path, plan, LEDGER), tmp_path / "out")
    other = written(tmp_path, f"confidence = 0.9\n{plan}", LEDGER)
    with pytest.raises(BadParameter, match=r"0\.95"):
        publish(other, tmp_path / "more")


def test_seeded_bits_are_marked(tmp_path: Path) -> None:
    made = publish(workload(HEADS), tmp_path / "out", bits=seeded_bits(3))
    assert "never for publication" in (made.folder / "guarantee.md").read_text(encoding="utf-8")
    assert not (made.folder / "release.json").exists()
    assert made.cost.amount <= 4


def test_a_receipt_of_a_plan_is_for_its_parts_only() -> None:
    plan: WorkloadPlan = plan_workload(workload(delta=Fraction(1, 10**6)))
    losses = [each.event for each in plan.measurements]
    assert [part.event for part in Receipt(1, compose(*losses)).split(losses)] == losses
    with pytest.raises(AssertionError, match="another workload"):
        Receipt(1, compose(*losses)).split([*losses, losses[0]])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("error = 20", "eror = 20", r"questions\.heads\.eror"),
        ("error = 20", 'error = "twenty"', r"questions\.heads\.error"),
        ("epsilon = 1.5", "", r"budget\.epsilon is missing"),
        ("epsilon = 1.5", 'epsilon = "much"', r"budget\.epsilon"),
        ('source = "people.parquet"', "", "source is missing"),
        ('source = "people.parquet"', "source = 3", "source is 3"),
        ('source = "people.parquet"', 'source = "nobody.parquet"', "source"),
        ("[bounds]", "[bonds]", "bonds"),
        ("[questions.pay]\nsql", "[questions.pay]\nsquel", r"questions\.pay\.squel"),
        ('unit = "id"', 'unit = "ego"', "ego"),
        ("unique = true", "unique = 1", "unique"),
        ("weight = 0.5", "weight = -1", r"questions\.ages\.weight"),
        ("[keys]", "keys = 3\n[nokeys]", "keys"),
        ("[bounds]", "[bounds", "TOML"),
    ],
)
def test_a_mistake_in_the_file_is_told_by_its_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises((BadParameter, SourceRefused), match=said):
        plan_workload(read_workload(written(tmp_path, TOML.replace(old, new))))


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match="cannot be read"):
        read_workload(tmp_path / "plan.toml")


@pytest.mark.parametrize("force", [False, True])
def test_two_publications_into_one_folder_do_not_meet(force: bool, tmp_path: Path) -> None:
    """In every order of the steps: both begin before either is finished."""
    to = tmp_path / "out"
    with ExitStack() as outer:
        refused = nullcontext() if force else pytest.raises(BadParameter, match="another publication got this name first")
        outer.enter_context(refused)
        slow = outer.enter_context(_create_folder(to, force))
        (slow / "guarantee.md").write_text("slow")
        with _create_folder(to, force) as quick:
            assert quick != slow
            (quick / "guarantee.md").write_text("quick")
        assert (to / "guarantee.md").read_text() == "quick"
    assert (to / "guarantee.md").read_text() == ("slow" if force else "quick")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_many_publications_into_one_folder_at_once(tmp_path: Path) -> None:
    """Each replaces the one before; no file is lost or mixed, and nothing is left behind."""
    to, start = tmp_path / "out", threading.Barrier(8)

    def publish_once(i: int) -> None:
        start.wait()
        for _ in range(20):
            with _create_folder(to, force=True) as place:
                for name in ("guarantee.md", "a.csv", "b.csv"):
                    (place / name).write_text(str(i))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(publish_once, range(8)))
    assert len({path.read_text() for path in to.iterdir()}) == 1
    assert len(list(to.iterdir())) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
