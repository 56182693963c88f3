"""Joins to public tables: what they answer, that they leave contributions bounded, and what is refused."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from discreet import BadParameter, QueryRefused, SourceRefused, col, connect, count, select
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.public_tables import copy_public_table
from discreet.query.ast import to_sql
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, PublicTable, Table
from discreet.query.statistics import RowCount
from discreet.session.session import Session
from discreet.units import Neighbours
from tests.support.mangled_queries import mangled
from tests.support.oracle import reference
from tests.support.random_joins import Joined, in_python, joined_query, public
from tests.support.random_tables import world
from tests.support.rounds import every_nth_by_day
from tests.support.sensitivity_property import breaches, neighbour


def differences(seeds: range, each: int, *, confused: bool = False) -> list[int]:
    """The seeds at which the engine and the join in plain Python disagree; of a join that is confused, the first."""
    found = []
    for seed in seeds:
        rng, connection = Random(seed), duckdb.connect()
        known, place = public(rng), world(rng)
        engine = Joined(connection, known)
        place = replace(place, table=replace(place.table, public={"places": known.copied(connection)[1]}))
        for _ in range(each):
            query = joined_query(rng, place, known, Neighbours.ADD_REMOVE)
            rows = in_python(place.rows, known, left=query.query.joins[0].left != confused)
            if engine.exactly(query, place) != reference(query, rows):
                found.append(seed)
                if confused:
                    return found
    return found


@pytest.mark.parametrize("seeds", every_nth_by_day([range(10), range(10, 20)], 2), ids=str)
def test_joined_totals_equal_the_oracle(seeds: range) -> None:
    assert differences(seeds, 5) == []


def test_a_left_join_in_place_of_an_inner_one_is_noticed() -> None:
    assert differences(range(8), 6, confused=True)


def broken(seeds: range, each: int) -> list[str]:
    """Statistics that moved further than the stated sensitivity."""
    found = []
    for seed in seeds:
        rng, connection = Random(seed), duckdb.connect()
        known, place, relation = public(rng), world(rng), rng.choice(list(Neighbours))
        other = neighbour(rng, place, relation)
        if other is None:
            continue
        table = replace(place.table, public={"places": known.copied(connection)[1]})
        engine = Joined(connection, known)
        for _ in range(each):
            query = joined_query(rng, replace(place, table=table), known, relation)
            found += breaches(query, engine.exactly(query, place), engine.exactly(query, other))
    return found


@pytest.mark.parametrize("seeds", every_nth_by_day([range(100, 110), range(110, 120)], 2), ids=str)
def test_contributions_are_bounded_after_a_join(seeds: range) -> None:
    assert broken(seeds, 3) == []


def test_a_public_table_with_repeated_keys_would_exceed_the_sensitivity() -> None:
    """Where a unit has one row, nothing caps what a second match would add."""
    table = Table("people", "uid", {"uid": Column(Kind.INTEGER), "city": Column(Kind.INTEGER)}, unique=True)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT 1 AS uid, 5 AS city")
    query = "SELECT COUNT(*) AS n FROM people JOIN places USING (city)"
    for rows, most in (([(5,)], 1), ([(5,), (5,)], 2)):
        place, public_table = copy_public_table(connection, "places", {"city": Kind.INTEGER}, rows)
        claimed = replace(table, public={"places": replace(public_table, unique=frozenset({"city"}))})
        bounded = bound_contributions(parse_sql(query, claimed), claimed, Neighbours.ADD_REMOVE)
        [(totals, _)] = DuckDB(connection, "people", {"places": place}).read_totals(bounded)
        assert totals == (most,)
        assert (breaches(bounded, {RowCount(): {(): totals[0]}}, {RowCount(): {}}) == []) is (most == 1)
        if most == 2:
            with pytest.raises(QueryRefused, match="occurs twice"):
                parse_sql(query, replace(table, public={"places": public_table}))


def test_no_mangled_join_reaches_the_engine_and_raises() -> None:
    answered = 0
    for seed in range(200, 206):
        rng, connection = Random(seed), duckdb.connect()
        known, place = public(rng), world(rng)
        table = replace(place.table, public={"places": known.copied(connection)[1]})
        engine = Joined(connection, known)
        for _ in range(12):
            query = joined_query(rng, replace(place, table=table), known, Neighbours.ADD_REMOVE).query
            try:
                bounded = bound_contributions(parse_sql(mangled(rng, to_sql(query)), table), table, Neighbours.ADD_REMOVE)
            except QueryRefused:
                continue
            engine.exactly(bounded, place)
            answered += 1
    assert answered > 10


# -- sessions --------------------------------------------------------------------------------------------------------------

CITIES = "city,region,size,near\nx,north,1.5,y\ny,south,2,x\nz,north,,x\n,nowhere,7,\n"
REGIONS = "region,head\nnorth,1\nsouth,2\n"


def people() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT * FROM (VALUES (1, 'x', 3), (2, 'y', 4), (3, 'q', 5), (4, NULL, 6), (5, 'z', 7)) "
        "t(id, city, age)"
    )
    return connection


def session(folder: Path, **more: Any) -> Session:
    (folder / "cities.csv").write_text(CITIES)
    (folder / "regions.csv").write_text(REGIONS)
    declared: dict[str, Any] = {
        "unit": "id", "table": "people", "bounds": {"age": (0, 10)}, "unique": True, "epsilon": 10**9,
        "public": {"cities": folder / "cities.csv", "regions": str(folder / "regions.csv")},
    }  # fmt: skip
    return connect(more.pop("source", None) or people(), **(declared | more))


def answers(place: Session, query: Any) -> dict[Any, list[float]]:
    return {keys: [round(float(cell.value), 2) for cell in row] for keys, row in place.ask(query, epsilon=10**7).rows}


def test_inner_left_and_chained_joins(tmp_path: Path) -> None:
    place = session(tmp_path)
    query = "SELECT cities.region, COUNT(*) AS n, SUM(age) AS a FROM people {} GROUP BY cities.region"
    inner = {("north",): [2, 10], ("nowhere",): [0, 0], ("south",): [1, 4]}
    for join in (
        "JOIN cities ON people.city = cities.city",
        "INNER JOIN cities ON (cities.city = (people.city))",
        "JOIN cities USING (city)",
        'JOIN "cities" ON PEOPLE.City = Cities.CITY',
    ):
        assert answers(place, query.format(join)) == inner
    assert answers(place, query.format("LEFT JOIN cities USING (city)")) == {**inner, (None,): [2, 11]}
    joins = "FROM people JOIN cities USING (city) JOIN regions USING (region)"
    heads = f"SELECT SUM(head) AS h, SUM(size) AS s {joins} WHERE size > 1"
    assert answers(place, heads) == {(): [3, 3.5]}
    built = select(h=col("regions.head").sum(), s=col("size").sum()).join("cities", on="city").join("regions", on="region")
    assert answers(place, built.where(col("size") > 1)) == {(): [3, 3.5]}


def test_what_is_public_is_read_off_the_table(tmp_path: Path) -> None:
    cities = session(tmp_path).table.public["cities"]
    assert cities.unique == {"city"}
    assert cities.columns["region"].keys == ("north", "nowhere", "south")
    assert cities.columns["near"].keys == ("x", "y", None)
    assert (cities.columns["size"].lower, cities.columns["size"].upper) == (1.5, 7)


@pytest.mark.parametrize("kind", ["parquet", "frame", "arrow", "duckdb", "connection"])
def test_a_public_table_may_be_whatever_a_source_can_be(kind: str, tmp_path: Path) -> None:
    place = session(tmp_path)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE cities AS FROM read_csv('{tmp_path}/cities.csv')")
    source: Any = connection
    match kind:
        case "parquet":
            connection.execute(f"COPY cities TO '{tmp_path}/c.parquet'")
            source = tmp_path / "c.parquet"
        case "frame":
            source = connection.sql("FROM cities").pl()
        case "arrow":
            source = connection.sql("FROM cities").to_arrow_table()
        case "duckdb":
            connection.execute(f"ATTACH '{tmp_path}/c.duckdb' AS c; CREATE TABLE c.cities AS FROM memory.cities; DETACH c")
            source = tmp_path / "c.duckdb"
    assert session(tmp_path, public={"cities": source}).table.public["cities"] == place.table.public["cities"]


def test_the_private_source_may_be_a_file_that_is_locked(tmp_path: Path) -> None:
    people().execute(f"ATTACH '{tmp_path}/p.duckdb' AS p; CREATE TABLE p.people AS FROM memory.people; DETACH p").close()
    people().execute(f"COPY people TO '{tmp_path}/people.parquet'")
    for source in (tmp_path / "p.duckdb", tmp_path / "people.parquet"):
        place = session(tmp_path, source=source)
        assert answers(place, "SELECT COUNT(*) AS n FROM people JOIN cities USING (city)") == {(): [3]}


def test_later_edits_of_a_public_table_change_nothing(tmp_path: Path) -> None:
    connection = people()
    connection.execute("CREATE TABLE cities AS SELECT 'x' AS city")
    places = [session(tmp_path, source=connection, public={"cities": connection}) for _ in range(2)]
    connection.execute("INSERT INTO cities VALUES ('x'), ('x')")
    for place in places:
        assert answers(place, "SELECT COUNT(*) AS n FROM people JOIN cities USING (city)") == {(): [1]}


def test_a_policy_names_public_tables(tmp_path: Path) -> None:
    session(tmp_path)
    columns = '[columns.id]\nkind = "integer"\n[columns.city]\nkind = "text"\n'
    policy = 'table = "people"\nunit = "id"\n' + columns + "[public]\ncities = {}\n"
    (tmp_path / "policy.toml").write_text(policy.format('"cities.csv"'))
    place = connect(people(), policy=tmp_path / "policy.toml", epsilon=10**9)
    assert answers(place, "SELECT COUNT(*) AS n FROM people JOIN cities USING (city)") == {(): [3]}
    (tmp_path / "policy.toml").write_text(policy.format("5"))
    with pytest.raises(BadParameter, match="cities"):
        connect(people(), policy=tmp_path / "policy.toml", epsilon=1)


REFUSED = [
    ("JOIN people USING (city)", "`people` is not a public table"),
    ("JOIN other USING (city)", "`other` is not a public table"),
    ("JOIN citys USING (city)", "`citys` is not a public table. Did you mean `cities`?"),
    ("JOIN cities ON city = region", "occurs twice in `cities.region`"),
    ("JOIN cities USING (city) JOIN cities USING (city)", "`cities` is joined twice"),
    ("JOIN cities USING (city, region)", "USING takes one column"),
    ("JOIN cities", "The join to `cities` needs either ON or USING"),
    (", cities", "The join to `cities` needs either ON or USING"),
    ("RIGHT JOIN cities USING (city)", "Only JOIN and LEFT JOIN are supported"),
    ("FULL OUTER JOIN cities USING (city)", "Only JOIN and LEFT JOIN are supported"),
    ("CROSS JOIN cities", "Only JOIN and LEFT JOIN are supported"),
    ("SEMI JOIN cities USING (city)", "Only JOIN and LEFT JOIN are supported"),
    ("LEFT ANTI JOIN cities USING (city)", "Only JOIN and LEFT JOIN are supported"),
    ("NATURAL JOIN cities", "such as NATURAL or ASOF is not supported"),
    ("ASOF JOIN cities USING (city)", "such as NATURAL or ASOF is not supported"),
    ("POSITIONAL JOIN cities", "such as NATURAL or ASOF is not supported"),
    ("JOIN cities ON people.city > cities.city", "ON takes one equality of two columns"),
    ("JOIN cities ON people.city = cities.city AND people.age = 1", "ON takes one equality of two columns"),
    ("JOIN cities ON people.city = cities.city OR true", "ON takes one equality of two columns"),
    ("JOIN cities ON true", "ON takes one equality of two columns"),
    ("JOIN cities ON people.city || '' = cities.city", "ON takes columns, and `||` is none"),
    ("JOIN cities ON 'x' = cities.city", "ON takes columns, and `'x'` is none"),
    ("JOIN cities ON upper(people.city) = cities.city", "ON takes columns, and `upper` is none"),
    ("JOIN cities ON people.city = people.city", "ON must compare a column of `people` with one of `cities`"),
    ("JOIN cities ON cities.city = cities.region", "ON must compare a column of `people` with one of `cities`"),
    ("JOIN cities ON people.age = cities.city", "`age` (integer) cannot be matched with `cities.city` (text)"),
    ("JOIN cities USING (city) JOIN regions ON cities.size = regions.head", "Join columns of the same kind, not real"),
    ("JOIN cities ON people.city = cities.name", "`cities` has no column `name`"),
    ("JOIN cities USING (name)", "The column `name` is not declared"),
    ("JOIN cities ON people.citi = cities.city", "The column `people.citi` is not declared. Did you mean `city`?"),
    ("JOIN cities c USING (city)", "An alias of a table is not supported"),
    ("JOIN cities AS people USING (city)", "An alias of a table is not supported"),
    ("JOIN main.cities USING (city)", "A schema before a table is not supported"),
    ("JOIN (SELECT * FROM cities) USING (city)", "JOIN takes a public table by name"),
    ("JOIN LATERAL (SELECT 1) ON true", "JOIN takes a public table by name"),
    ("JOIN read_csv('cities.csv') USING (city)", "`read_csv` is not a public table"),
    ("JOIN cities JOIN regions USING (region) USING (city)", "with JOINS is not supported"),
]


@pytest.fixture(scope="module")
def quoting(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session that is asked for quotes, which change nothing."""
    return session(tmp_path_factory.mktemp("quoting"))


@pytest.mark.parametrize(("join", "message"), REFUSED)
def test_other_joins_are_refused(join: str, message: str, quoting: Session) -> None:
    with pytest.raises(QueryRefused) as refusal:
        quoting.quote(f"SELECT COUNT(*) AS n FROM people {join}", epsilon=1)
    assert message in str(refusal.value)
    assert refusal.value.line == 1


def test_names_are_resolved_or_refused(tmp_path: Path) -> None:
    place = session(tmp_path, public={"cities": tmp_path / "cities.csv", "towns": tmp_path / "cities.csv"})
    both = "FROM people JOIN cities USING (city) JOIN towns USING (city)"
    with pytest.raises(QueryRefused, match=r"Write cities\.size or towns\.size"):
        place.quote(f"SELECT SUM(size) AS s {both}", epsilon=1)
    with pytest.raises(QueryRefused, match=r"Write cities\.size or towns\.size"):
        place.quote(select(s=col("size").sum()).join("cities", on="city").join("towns", on="city"), epsilon=1)
    assert answers(place, f"SELECT SUM(towns.size) AS s {both} WHERE city = 'x'") == {(): [1.5]}
    for text in (
        "SELECT SUM(size) AS s FROM people",
        "SELECT SUM(cities.size) AS s FROM people",
        f"SELECT SUM(x.size) AS s {both}",
    ):
        with pytest.raises(QueryRefused, match=r"not declared|not known"):
            place.quote(text, epsilon=1)
    with pytest.raises(QueryRefused, match="`people` is not a public table"):
        place.quote(select(n=count()).join("people", on="city"), epsilon=1)


def test_public_tables_that_cannot_be_opened_or_told_apart(tmp_path: Path) -> None:
    for source in (tmp_path / "none.csv", 5, "cities"):
        with pytest.raises(SourceRefused):
            session(tmp_path, public={"cities": source})
    with pytest.raises(BadParameter, match="same name"):
        session(tmp_path, public={"People": tmp_path / "cities.csv"})
    public_table = PublicTable("a", {"b": Column(Kind.TEXT)}, frozenset({"b"}))
    table = Table("people", "id", {"id": Column(Kind.TEXT), "a.b": Column(Kind.TEXT)}, public={"a": public_table})
    with pytest.raises(QueryRefused, match=r"two columns called `a\.b`"):
        parse_sql("SELECT COUNT(*) AS n FROM people JOIN a ON id = b", table)
