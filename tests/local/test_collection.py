"""A collection is what its hash says: any change is another one, and nothing but canonical fields is read."""

import json
from fractions import Fraction
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.accounting.pure import pure
from discreet.errors import BadParameter, BadValues
from discreet.local.collection import MECHANISMS, Collection, Lifetime, least_cost
from discreet.local.domains import Domain, Integers, Listed, Texts
from discreet.local.oracles import Direct
from discreet.local.vectors import choose_collection, list_mechanisms
from tests.support.local_memo import MemoBit

DIRECT = Direct(3, Fraction(3))
COLOURS = Collection("colours", 1, DIRECT, Listed(("red", "green")), Lifetime.of(DIRECT, 10))
ALL = [mechanism for mechanisms in list_mechanisms().values() for mechanism in mechanisms]


@pytest.mark.parametrize("mechanism", ALL, ids=lambda each: f"{type(each).__name__}-{each.values}")
def test_what_is_written_is_read_back(mechanism: Any) -> None:
    collection = choose_collection(mechanism, "once")
    assert Collection.read(collection.to_json(), collection.id) == collection
    assert collection.id == sha256(collection.to_json()).hexdigest()
    pretty = json.dumps(json.loads(collection.to_json()), indent=2)
    assert Collection.read(pretty, collection.id) == collection


def list_changes() -> list[Collection]:
    other = Direct(3, Fraction(7, 2))
    return [
        Collection("colours2", 1, DIRECT, COLOURS.domain, COLOURS.lifetime),
        Collection("colours", 2, DIRECT, COLOURS.domain, COLOURS.lifetime),
        Collection("colours", 1, DIRECT, COLOURS.domain, COLOURS.lifetime, "person"),
        Collection("colours", 1, DIRECT, Listed(("green", "red")), COLOURS.lifetime),
        Collection("colours", 1, DIRECT, Listed(("red", "green"), other="others"), COLOURS.lifetime),
        Collection("colours", 1, DIRECT, Listed(("red", "green"), other=None, missing="other"), COLOURS.lifetime),
        Collection("colours", 1, DIRECT, COLOURS.domain, Lifetime.of(DIRECT, 11)),
        Collection("colours", 1, DIRECT, COLOURS.domain, Lifetime.of(DIRECT, 10, "once")),
        Collection("colours", 1, other, COLOURS.domain, Lifetime.of(other, 10)),
    ]


def test_every_change_is_another_collection() -> None:
    ids = {COLOURS.id, *(each.id for each in list_changes())}
    assert len(ids) == 1 + len(list_changes())


@pytest.mark.parametrize("changed", list_changes(), ids=lambda each: each.id[:6])
def test_a_pinned_client_refuses_every_other_collection(changed: Collection) -> None:
    with pytest.raises(BadParameter, match="not the one that this client is pinned to"):
        Collection.read(changed.to_json(), COLOURS.id)


def edit(**changes: Any) -> str:
    return json.dumps(json.loads(COLOURS.to_json()) | changes)


PLAIN = json.loads(COLOURS.to_json())
WRONG_TEXTS = {
    "no JSON": "{",
    "no object": "[]",
    "more fields": edit(more=1),
    "more fields inside": edit(domain=PLAIN["domain"] | {"more": 1}),
    "a field missing": json.dumps({key: value for key, value in PLAIN.items() if key != "unit"}),
    "a field twice": COLOURS.to_json().decode().replace('"version":1', '"version":2,"version":1'),
    "another format": edit(format=2),
    "a truth for a number": edit(version=True),
    "a point": COLOURS.to_json().decode().replace('"version":1', '"version":1.0'),
    "not a number": COLOURS.to_json().decode().replace('"version":1', '"version":NaN'),
    "version 0": edit(version=0),
    "no name": edit(name=""),
    "an unknown mechanism": edit(mechanism={"type": "trust me", "values": 3}),
    "odds not in lowest terms": edit(mechanism=PLAIN["mechanism"] | {"odds": "6/2"}),
    "no odds": edit(mechanism=PLAIN["mechanism"] | {"odds": "1/2"}),
    "another size": edit(mechanism=PLAIN["mechanism"] | {"values": 4}),
    "a value twice": edit(domain=PLAIN["domain"] | {"values": ["red", "other"]}),
    "a lone surrogate": edit(domain=PLAIN["domain"] | {"values": ["red", "\ud800"]}),
    "a cost below the true one": edit(lifetime=PLAIN["lifetime"] | {"cost": 1098612288}),
    "a cost above the budget": edit(lifetime=PLAIN["lifetime"] | {"limit": 1}),
    "states without memo": edit(lifetime=PLAIN["lifetime"] | {"per": "state"}),
    "an unknown count": edit(lifetime=PLAIN["lifetime"] | {"per": "day"}),
}


@pytest.mark.parametrize("name", WRONG_TEXTS)
def test_what_is_no_collection_is_refused(name: str) -> None:
    with pytest.raises(BadParameter, match="collection"):
        Collection.read(WRONG_TEXTS[name])


def test_the_right_text_is_not_refused() -> None:
    assert Collection.read(edit()) == COLOURS


@pytest.mark.parametrize("mechanism", ALL, ids=lambda each: f"{type(each).__name__}-{each.values}")
def test_a_report_costs_its_pure_epsilon_rounded_up_to_billionths(mechanism: Any) -> None:
    exact = Fraction(pure(mechanism.event()))
    assert 0 <= Fraction(least_cost(mechanism, "once"), 10**9) - exact < Fraction(1, 10**9)


def test_memo_costs_what_each_promise_needs() -> None:
    memo = MemoBit(4, 3, Fraction(3), Fraction(1, 5))
    costs = [least_cost(memo, per) for per in ("once", "state", "report")]
    assert costs == [619039209, 1098612289, 1386294362]  # ln 13/7, ln 3, ln 4
    with pytest.raises(BadParameter, match="no ε when values change"):
        least_cost(MemoBit(4, 3, Fraction(3)), "report")


def test_a_lifetime_says_between_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, "memo bit", MemoBit)
    memo = MemoBit(3, 3, Fraction(3))
    collection = Collection("memo", 1, memo, COLOURS.domain, Lifetime.of(memo, 5, "state"))
    assert Collection.read(collection.to_json(), collection.id) == collection
    assert "same pattern" in collection.lifetime.condition
    assert "any two histories" in COLOURS.lifetime.condition
    assert (collection.lifetime.reports, collection.lifetime.epsilon) == (4, Fraction(5))


def test_a_mechanism_that_no_client_knows_is_refused() -> None:
    memo = MemoBit(3, 3, Fraction(3))
    with pytest.raises(BadParameter, match="mechanism is MemoBit"):
        Collection("memo", 1, memo, COLOURS.domain, Lifetime.of(memo, 5, "state"))


# -- domains ---------------------------------------------------------------------------------------------------------------


@given(st.text() | st.integers() | st.none(), st.sets(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_a_list_with_other_has_a_number_for_everything(value: str | int | None, listed: set[str]) -> None:
    domain = Listed(tuple(sorted(listed - {"other", "missing"})), missing="missing")
    place = domain.index(value)
    expected = "missing" if value is None else value if value in domain.labels else "other"
    assert domain.labels[place] == expected


@pytest.mark.parametrize("value", [1.0, -0.0, 23.0, 1e300, -1e300, 5])
def test_an_integer_that_json_writes_with_a_point_is_that_integer(value: float) -> None:
    domain = Integers(0, 23)
    assert domain.index(value) == domain.index(int(value))


@pytest.mark.parametrize("value", [2.5, float("nan"), float("inf"), True])
def test_what_is_no_integer_is_none(value: float) -> None:
    with pytest.raises(BadValues):
        Integers(0, 23).index(value)


class CountingText(str):
    """A text that counts how often it is compared."""

    compared = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        CountingText.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_value_is_looked_up_and_not_searched_for() -> None:
    domain = Listed(tuple(f"v{place}" for place in range(1000)))
    for value in ("v0", "v999", "elsewhere"):
        CountingText.compared = 0
        domain.index(CountingText(value))
        assert CountingText.compared <= 3


def test_a_collection_says_where_silence_would_show_a_value() -> None:
    def warn(domain: Any) -> tuple[str, ...]:
        mechanism = Direct(domain.size, Fraction(3))
        return Collection("a", 1, mechanism, domain, Lifetime.of(mechanism, 2)).warnings

    assert "missing" in warn(Integers(0, 9))[0]
    assert len(warn(Listed(("a", "b"), other=None))) == 2
    assert warn(Integers(0, 9, missing="none")) == warn(Listed(("a", "b"))) == ()


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\\b", "a\nb", "..", ".a", "-a", "a b", "é", "a" * 101, None, 5, "a\0", "a:b"], ids=ascii
)
def test_a_name_that_could_be_a_path_or_a_line_is_refused(name: Any) -> None:
    with pytest.raises(BadParameter, match=r"^name is"):
        Collection(name, 1, DIRECT, COLOURS.domain, COLOURS.lifetime)
    for good in ("a", "colours-2026.v2_b", "0", "a" * 100):
        assert Collection(good, 1, DIRECT, COLOURS.domain, COLOURS.lifetime).name == good


def test_missing_is_a_value_of_its_own() -> None:
    domain = Listed(("yes", "no"), missing="none")
    assert len({domain.index(value) for value in ("yes", "no", "perhaps", None)}) == 4
    assert Listed(("yes", "no")).index(None) == 2  # without a name for it, missing is other
    assert Integers(0, 9, missing="none").index(None) == 10


@given(st.integers(-50, 50), st.integers(1, 50), st.integers(1, 7), st.integers(-200, 200))
def test_integers_are_clipped_and_every_bucket_is_reached(low: int, width: int, step: int, value: int) -> None:
    domain = Integers(low, low + width, step)
    assert 0 <= domain.index(value) < domain.size == len(domain.labels)
    assert {domain.index(each) for each in range(low, low + width + 1)} == set(range(domain.size))
    assert domain.index(low - 1) == 0
    assert domain.index(low + width + 1) == domain.size - 1


@pytest.mark.parametrize(
    ("domain", "value"),
    [
        (Listed(("yes", "no"), other=None), "perhaps"),
        (Listed(("yes", "no"), other=None), None),
        (Integers(0, 9), None),
        (Integers(0, 9), True),
        (Integers(0, 9), "3"),
        (Texts(), 3),
        (Texts(), "\ud800"),
    ],
)
def test_a_value_without_a_number_is_refused_and_never_shown(domain: Domain, value: Any) -> None:
    with pytest.raises(BadValues) as caught:
        domain.index(value)
    assert repr(value) not in str(caught.value) or value is None


def test_no_text_is_missing() -> None:
    missing = Texts().index(None)
    with pytest.raises(UnicodeDecodeError):
        missing.decode()


@pytest.mark.parametrize(("field", "wrong"), [("domain", ("a", "b")), ("domain", None), ("lifetime", 3), ("lifetime", None)])
def test_a_field_of_another_type_is_refused_by_name(field: str, wrong: Any) -> None:
    oracle = Direct(3, Fraction(3))
    fields = {"domain": Listed(("a", "b")), "lifetime": Lifetime.of(oracle, 2)} | {field: wrong}
    with pytest.raises(BadParameter, match=f"^{field} is of type"):
        Collection("colours", 1, oracle, **fields)
