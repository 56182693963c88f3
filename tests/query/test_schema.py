"""Declarations that make no sense are refused, and a name that is not known comes with those that are."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from discreet.errors import BadParameter
from discreet.query.schema import Column, Key, Kind, PublicTable, Table, accepts, suggest_name

COLUMNS = {"id": Column(Kind.INTEGER), "age": Column(Kind.INTEGER), "pay": Column(Kind.REAL)}
ACCEPTED: dict[Kind, tuple[Key, ...]] = {
    Kind.INTEGER: (0, -(2**63), 2**63 - 1),
    Kind.REAL: (),
    Kind.BOOLEAN: (True, False),
    Kind.TEXT: ("", "a", "日本"),
    Kind.DATE: (date(2024, 2, 29),),
    Kind.TIMESTAMP: (datetime(2024, 2, 29, 12, 30),),
}
NEVER: tuple[Any, ...] = (None, 1.5, 2**63, "\0", "\ud800", b"a", datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_accepts_its_own_constants_only(kind: Kind) -> None:
    for other, keys in ACCEPTED.items():
        assert [accepts(kind, key) for key in keys] == [other is kind] * len(keys)
    assert not any(accepts(kind, key) for key in NEVER)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: Column(Kind.INTEGER).with_bounds(3, 3),
            "3:3: the lower bound must lie below the upper one. Give the smaller bound first",
        ),
        (lambda: Column(Kind.TEXT).with_bounds(0, 1), "a text column has no bounds"),
        (lambda: Column(Kind.INTEGER).with_bounds("1", 2), "lower is 1: not a number"),
        (lambda: Column(Kind.REAL).with_bounds(date(2024, 1, 1), date(2024, 2, 1)), "lower is 2024-01-01: not a number"),
        (lambda: Column(Kind.DATE).with_bounds(0, 1), "lower is 0: not a date. Write it as 2024-12-31"),
        (lambda: Column(Kind.DATE).with_bounds("2024-01-01", "2024-02-30"), "upper is 2024-02-30: not a date"),
        (lambda: Column(Kind.DATE).with_bounds("2024-01-01T12:00", "2024-02-01"), "not a date"),
        (lambda: Column(Kind.DATE).with_bounds("2024-02-01", "2024-01-01"), "must not lie after upper = 2024-01-01"),
        (lambda: Column(Kind.TIMESTAMP).with_bounds("2024-01-01", "2024-02-01T00:00+02:00"), "in UTC and without an offset"),
        (lambda: Column(Kind.TIMESTAMP).with_bounds(datetime(2024, 1, 1, tzinfo=UTC), "2025-01-01"), "not a timestamp"),
        (lambda: Column(Kind.REAL).with_keys((1,)), "a real column has no keys. Group by bins"),
        (lambda: Column(Kind.TEXT).with_keys((1,)), "keys is 1: not of kind text"),
        (lambda: Column(Kind.TEXT).with_keys(("a", "a")), "'a' is listed twice"),
        (lambda: Column(Kind.TEXT).with_keys(()), "no key is listed"),
        (lambda: Table("t", "idd", COLUMNS), "unit is 'idd': not a column of the table. Did you mean `id`?"),
        (lambda: Table("t", "pay", COLUMNS), "unit is 'pay': a real column"),
        (lambda: Table("t", "id", COLUMNS, max_groups=0), "max_groups"),
        (lambda: Table("t", "id", COLUMNS, max_rows=0), "max_rows"),
        (lambda: Table("t", "id", COLUMNS, unique="no"), "unique is 'no': neither True nor False"),  # type: ignore[arg-type]
        (lambda: Table("t", "id", COLUMNS, least_epsilon=0), "least_epsilon"),  # type: ignore[arg-type]
        (lambda: Table("t", "id", COLUMNS, public={"T": PublicTable("T", {})}), "two tables have the same name"),
    ],
)
def test_a_wrong_declaration_is_refused(declare: Any, message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        declare()
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("AGE", "did you mean `age`?"),
        ("people.agee", "did you mean `age`?"),
        ("regin", "did you mean `cities.region`?"),
        ("zzz", "use one of `id`, `age`, `cities.region`"),
        (5, "use one of `id`, `age`, `cities.region`"),
    ],
)
def test_the_closest_names_are_suggested(name: Any, hint: str) -> None:
    assert suggest_name(name, ["id", "age", "cities.region"]) == hint


def test_a_long_list_of_names_is_cut() -> None:
    hint = suggest_name("zzz", [f"column{i}" for i in range(300)])
    assert hint.endswith("`column19` and 280 more")


def test_the_salt_is_not_shown() -> None:
    assert "secret" not in repr(Table("t", "id", COLUMNS, salt="secret"))


def test_bounds_of_dates_are_of_the_columns_own_kind() -> None:
    days, times = Column(Kind.DATE), Column(Kind.TIMESTAMP)
    first, last = date(2024, 1, 1), date(2024, 12, 31)
    assert days.with_bounds("2024-01-01", last) == days.with_bounds(first, "2024-12-31") == Column(Kind.DATE, first, last)
    assert days.with_bounds(first, first).moment_bounds == (first, first)
    whole = (datetime(2024, 1, 1), datetime(2024, 12, 31, 23, 59, 59, 999_999))
    assert times.with_bounds("2024-01-01", "2024-12-31").moment_bounds == whole
    assert times.with_bounds("2024-01-01 06:00", datetime(2024, 1, 2)).moment_bounds == (
        datetime(2024, 1, 1, 6),
        datetime(2024, 1, 2),
    )
    assert days.moment_bounds == (date.min, date.max)
    assert times.moment_bounds == (datetime.min, datetime.max)
    assert days.with_bounds(first, last).number_bounds is None
