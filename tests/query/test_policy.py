"""Policies: what is written can be read again, and nothing but what is declared can be queried."""

from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter, QueryRefused, SourceRefused
from discreet.query.policy import read_policy, write_policy
from discreet.query.schema import Column, Kind, Table, parse_unit
from discreet.session.connect import connect
from tests.support.people import BY_DEPARTMENT, people

POLICY = """
table = "people"
unit = "id"
max_groups = 2

[columns.id]
kind = "integer"
[columns.dept]
kind = "text"
keys = ["a", "b"]
null_key = true
[columns.pay]
kind = "real"
lower = 0.1
upper = 200
"""


def test_a_policy_declares_and_only_what_it_declares_can_be_queried(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    session = connect(people(), policy=path, epsilon=1)
    assert session.table.columns["pay"].lower == Fraction(1, 10)
    assert session.table.max_groups == 2
    assert [keys for keys, _ in session.ask(BY_DEPARTMENT, epsilon=1).rows] == [("a",), ("b",), (None,)]
    assert not session.notes
    with pytest.raises(QueryRefused, match="not declared"):
        session.quote("SELECT COUNT(age) AS n FROM people", epsilon=1)


def test_what_is_given_goes_before_the_policy() -> None:
    declared = read_policy(POLICY)
    session = connect(people(), policy=declared, epsilon=1, max_groups=5, bounds={"pay": (0, 10)}, keys={"dept": ("z",)})
    assert session.table.max_groups == 5
    assert session.table.columns["pay"].upper == 10
    assert session.table.columns["dept"].keys == ("z",)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
columns = st.one_of(
    st.builds(
        lambda low, width: Column(Kind.REAL, low, low + width),
        st.decimals(-1000, 1000, places=3).map(Fraction),
        st.decimals("0.001", 1000, places=3).map(Fraction),
    ),
    st.builds(lambda keys: Column(Kind.TEXT, keys=tuple(keys)), st.lists(names, min_size=1, max_size=4, unique=True)),
    st.builds(
        lambda keys: Column(Kind.INTEGER, keys=(*keys, None)),
        st.lists(st.integers(-(2**62), 2**62), min_size=1, unique=True),
    ),
    st.just(Column(Kind.DATE, keys=(date(2024, 2, 29),))),
    st.builds(lambda ends: Column(Kind.DATE).with_bounds(*sorted(ends)), st.tuples(st.dates(), st.dates())),
    st.builds(lambda ends: Column(Kind.TIMESTAMP).with_bounds(*sorted(ends)), st.tuples(st.datetimes(), st.datetimes())),
    st.just(Column(Kind.TIMESTAMP, keys=(datetime(2024, 2, 29, 12, 30),))),
    st.sampled_from([Column(Kind.BOOLEAN), Column(Kind.INTEGER), Column(Kind.TEXT)]),
)


@given(st.dictionaries(names, columns, min_size=1, max_size=5), names, st.booleans(), st.integers(1, 50), st.booleans())
@settings(max_examples=100, deadline=None)
def test_written_policies_read_back_as_they_were(
    found: dict[str, Column], name: str, unique: bool, limit: int, template: bool
) -> None:
    table = Table(name, "whose", {"whose": Column(Kind.INTEGER)} | found, limit, limit + 1, unique, salt=name)
    assume("whose" not in found)
    assert read_policy(write_policy(table, template=template)) == table


def test_bounds_of_dates_are_dates_or_texts() -> None:
    for lower, upper in (("2024-01-01", "2024-12-31"), ('"2024-01-01"', '"2024-12-31"')):
        declared = read_policy(f"{POLICY}[columns.day]\nkind = 'date'\nlower = {lower}\nupper = {upper}\n")
        assert declared.columns["day"] == Column(Kind.DATE, date(2024, 1, 1), date(2024, 12, 31))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lower = 0.1", "lower = 2024-01-01", "lower = 2024-01-01: not a number"),
        ('unit = "id"', "", "unit"),
        ('unit = "id"', 'unit = "person"', "not a column"),
        ("max_groups", "max_group", "max_group: no such field. Did you mean `max_groups`"),
        ("max_groups = 2", "max_groups = 0", "at least 1"),
        ("max_groups = 2", "max_groups = 1.5", "max_groups: 1.5 is not a whole number"),
        ('kind = "text"', 'kind = "words"', "'words' is not a kind. Use one of `integer`"),
        ('kind = "text"', 'kind = "txt"', "'txt' is not a kind. Did you mean `text`"),
        ('kind = "text"', "", "columns.dept: no kind is declared"),
        ("lower = 0.1", "", "one bound"),
        ("lower = 0.1", "lower = 300", "columns.pay: bounds = 300:"),
        ("lower = 0.1", 'lower = "a"', "not a number"),
        ("lower = 0.1", "lower = nan", "finite"),
        ('["a", "b"]', "[1, 2]", "not of kind text"),
        ('["a", "b"]', '["a", "a"]', "columns.dept: keys = 'a', 'a', None: 'a' is listed twice"),
        ("table", "[[", "not TOML"),
        ("table", f"a = {'[' * 5000}", "not TOML"),
    ],
)
def test_wrong_policies_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        read_policy(POLICY.replace(old, new, 1))


def test_a_policy_must_fit_its_source(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="holds text there"):
        connect(
            people(),
            policy=read_policy(POLICY.replace('"text"\nkeys = ["a", "b"]\nnull_key = true', '"integer"')),
            epsilon=1,
        )
    with pytest.raises(BadParameter, match="no such column"):
        connect(people(), policy=read_policy(POLICY.replace("columns.pay", "columns.salary")), epsilon=1)
    with pytest.raises(SourceRefused):
        connect(people(), policy=tmp_path / "none.toml", epsilon=1)


@pytest.mark.parametrize("unit", ["id", "row", "(household, person)", '"row"', '("a, b", person)'])
def test_a_unit_is_read_back_as_it_was_written(unit: str) -> None:
    names = [*parse_unit(unit), "v"]
    table = Table("people", unit, {name: Column(Kind.INTEGER) for name in names})
    assert read_policy(write_policy(table)) == table
    assert read_policy(write_policy(table, template=True)).unit_columns == parse_unit(unit)


@pytest.mark.parametrize("unit", ["5", "[]", "[1]", '["id", ""]', '""', "true"])
def test_another_unit_is_refused(unit: str) -> None:
    with pytest.raises(BadParameter, match="unit"):
        read_policy(f'table = "people"\nunit = {unit}\n[columns.id]\nkind = "integer"')
