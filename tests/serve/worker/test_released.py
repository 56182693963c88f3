"""Released tables: what BI tools read, in every place, under harmless names; and publications."""

from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from pyarrow import parquet

from discreet import connect
from discreet.ledger.entries import Debit
from discreet.serve.config import ReleasedConfig
from discreet.serve.control.base import new_id
from discreet.serve.control.model import Publication, PublicationState
from discreet.serve.worker import publications
from discreet.serve.worker.released import CATALOGUE_COLUMNS, ReleasedTables
from tests.support.postgres_server import Server, cluster_address, postgres
from tests.support.served_tables import Service, configure, start_service, value_of, write_table

__all__ = ["cluster_address", "postgres"]
PLAN = """[budget]
epsilon = 0.5
[questions.heads]
sql = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
"""
HOSTILE = 'SELECT dept, COUNT(*) AS "=HYPERLINK(1)", COUNT(*) AS "a""; DROP TABLE x" FROM people GROUP BY dept'


def publication(plan: str = PLAN, state: PublicationState = PublicationState.RUNNING) -> Publication:
    return Publication(id=new_id(), title="Heads", table="people", plan=plan, by="ada", state=state, created=0.0)


def read(location: str, name: str) -> list[dict[str, Any]]:
    if location.startswith("postgresql"):
        with psycopg.connect(location) as connection:
            cursor = connection.execute(f'SELECT * FROM released."{name}"')  # type: ignore[arg-type]
            names = [each.name for each in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if location.endswith(".duckdb"):
        with duckdb.connect(location, read_only=True) as opened:
            result: list[dict[str, Any]] = opened.sql(f'SELECT * FROM "{name}"').to_arrow_table().to_pylist()
            return result
    rows: list[dict[str, Any]] = parquet.read_table(Path(location) / f"{name}.parquet").to_pylist()
    return rows


@pytest.mark.parametrize("kind", ["duckdb", "parquet", "postgres"])
def test_answers_are_ordinary_tables_in_every_place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server: Server | None = request.getfixturevalue("postgres") if kind == "postgres" else None
    location = server.address if server is not None else str(tmp_path / ("r.duckdb" if kind == "duckdb" else "r"))
    write_table(tmp_path)
    people = connect(str(tmp_path / "people.csv"), policy=str(tmp_path / "people.policy.toml"), epsilon=5)
    places = ReleasedTables(ReleasedConfig(location=location))
    answers = {"heads": people.ask(HOSTILE, epsilon=1)}
    cost = answers["heads"].cost
    assert cost is not None
    heads = publication()
    for _ in range(2):  # a job may run twice
        (name,) = places.add_publication(heads, answers, cost, 7, {"heads": HOSTILE})
    (other,) = places.add_publication(publication(), answers, cost, 8, {"heads": HOSTILE})
    rows = read(location, name)
    assert list(rows[0])[:5] == ["dept", "hyperlink_1", "hyperlink_1_lower", "hyperlink_1_upper", "hyperlink_1_reliable"]
    assert [tuple(row.values()) for row in rows] == answers["heads"].records
    catalogue = read(location, "catalogue")
    assert [each["answer"] for each in catalogue] == [name, other]
    assert tuple(catalogue[0]) == CATALOGUE_COLUMNS
    assert catalogue[0]["entry"] == 7
    assert catalogue[0]["query"] == HOSTILE
    assert catalogue[0]["title"] == "Heads: heads"
    assert catalogue[0]["cost_epsilon"] >= 0.99


@pytest.fixture
def service(tmp_path: Path) -> Any:
    write_table(tmp_path / "data")
    config = replace(
        configure(tmp_path / "data", classes=()), released=ReleasedConfig(location=str(tmp_path / "released.duckdb"))
    )
    with start_service(config, "ada") as running:
        yield running


def test_a_publication_is_quoted_then_published_with_one_debit(service: Service, tmp_path: Path) -> None:
    draft = publication(state=PublicationState.DRAFT)
    service.control.add_publication(draft)
    assert service.wait_for_job("publication", draft.id, {"step": "publish"}).state == "failed"  # nobody approved it
    quoted = service.wait_for_job("publication", draft.id, {"step": "quote"})
    assert quoted.state == "done", quoted.error
    assert quoted.result["quote"]["fits"]
    assert not service.list_entries(Debit)
    service.control.change_publication(draft.id, PublicationState.DRAFT, PublicationState.RUNNING)
    done = service.wait_for_job("publication", draft.id, {"step": "publish"})
    assert done.state == "done", done.error
    published = service.control.find_publication(draft.id)
    assert published is not None
    assert published.state is PublicationState.PUBLISHED
    assert {"heads.csv", "heads.parquet", "release.json", "guarantee.md", "plan.toml"} <= set(published.files)
    assert b64decode(published.files["plan.toml"]).decode() == PLAN
    assert b64decode(published.files["guarantee.md"]).decode().startswith("# Heads: privacy guarantee")
    everything = b"".join(map(b64decode, published.files.values()))
    assert str(tmp_path).encode() not in everything  # no path of the owner
    assert (service.config.state / "salts" / "people.salt").read_bytes().strip() not in everything
    assert len(service.list_entries(Debit)) == 1
    (line,) = read(str(tmp_path / "released.duckdb"), "catalogue")  # as soon as it is published, public or not
    assert line["query"] == "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"


@pytest.mark.parametrize(
    "extra",
    ['source = "/etc/passwd.csv"', 'policy = "x.toml"', "public = {a = '/etc/shadow.csv'}", '[budget]\nledger = "x.ledger"'],
)
def test_a_plan_from_the_browser_names_no_place(service: Service, extra: str) -> None:
    text = PLAN.replace("[budget]", extra) if "[budget]" in extra else f"{extra}\n{PLAN}"
    bad = publication(text)
    service.control.add_publication(bad)
    assert service.wait_for_job("publication", bad.id, {"step": "publish"}).state == "failed"
    assert not service.list_entries(Debit)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "not TOML"),
        (f"a = {'[' * 5000}", "not TOML"),
        (PLAN.replace("COUNT(*)", "*"), "rows are private"),
        (None, "at present"),
    ],
)
def test_a_publication_that_cannot_be_quoted_ends_with_the_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch, text: str | None, words: str
) -> None:
    """Else it waits for an approval for ever. None: for a reason that nobody foresaw, whose text is not shown."""
    if text is None:
        monkeypatch.setattr(publications, "plan_for_session", lambda *_: 1 / 0)
    bad = publication(PLAN if text is None else text, state=PublicationState.APPROVAL)
    service.control.add_publication(bad)
    assert service.wait_for_job("publication", bad.id, {"step": "quote"}).state == "failed"
    ended = service.control.find_publication(bad.id)
    assert ended is not None
    assert ended.state is PublicationState.FAILED
    assert words in str(ended.problem)
    assert "zero" not in str(ended.problem)


def test_an_answer_that_a_steward_released_is_mirrored(service: Service, tmp_path: Path) -> None:
    ask = service.wait(service.ask("ada"))
    location = str(tmp_path / "released.duckdb")
    assert service.wait_for_job("release", ask.id).state == "failed"  # no steward released it
    assert not Path(location).exists()
    job = service.control.release_ask(ask.id, "sam", title="heads")
    for _ in range(2):  # a job may run twice
        done = service.wait_for_job("release", ask.id, job.payload)
        assert done.state == "done", done.error
    rows = read(location, done.result["table"])
    assert [tuple(row.values()) for row in rows] == value_of(service.find(ask))
    [line] = read(location, "catalogue")
    assert (line["title"], line["certificate"]) == ("heads", ask.id)


def test_without_a_place_nothing_is_mirrored(tmp_path: Path) -> None:
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=()), "ada") as service:
        ask = service.wait(service.ask("ada"))
        service.control.release_ask(ask.id, "sam")
        done = service.wait_for_job("release", ask.id)
        assert (done.state, done.result) == ("done", {"table": None})
        assert service.control.find_setting("released") == ""


@pytest.mark.parametrize("name", ["released.duckdb", "released"])
def test_answers_that_are_released_at_once_are_all_kept(tmp_path: Path, name: str) -> None:
    """The mutant without a lock copies what is there twice, and the second copy loses the first table."""
    location = str(tmp_path / name)
    places = ReleasedTables(ReleasedConfig(location=location))
    write_table(tmp_path / "data")
    people = connect(str(tmp_path / "data/people.csv"), policy=str(tmp_path / "data/people.policy.toml"), epsilon=5)
    answers = {"heads": people.ask(HOSTILE, epsilon=1)}
    cost = answers["heads"].cost
    assert cost is not None
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: places.add_publication(publication(), answers, cost, i, {"heads": HOSTILE}), range(8)))
    assert sorted(each["entry"] for each in read(location, "catalogue")) == list(range(8))
