"""A spine is built from a public list, in one order whatever the order of the list; all problems of a list are reported at
once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from discreet.errors import BadParameter, DiscreetError, PlanRefused
from discreet.tabulation.spine import Spine
from tests.tabulation.random_spines import random_spine

CODES = ["0101", "0102", "0201", "0202", "0203"]


def is_well_formed(spine: Spine) -> bool:
    """Children are contiguous, in the order of their parents, and every node has one."""
    for level, starts in enumerate(spine.starts):
        parents = spine.parents[level + 1]
        if len(starts) != spine.sizes[level] + 1 or starts[0] != 0 or starts[-1] != len(parents):
            return False
        if np.any(np.diff(starts) < 1) or not np.array_equal(
            np.repeat(np.arange(len(starts) - 1), np.diff(starts)), parents
        ):
            return False
    return True


def same(one: Spine, other: Spine) -> bool:
    pairs = [*zip(one.nodes, other.nodes, strict=True), *zip(one.parents, other.parents, strict=True)]
    return all(np.array_equal(a, b) for a, b in pairs)


def test_a_code_a_table_and_a_list_of_parents_give_the_same_spine() -> None:
    states = [code[:2] for code in CODES]
    code = Spine.from_codes(CODES, [0, 2, 4], ["nation", "state", "county"])
    table = Spine.from_columns({"nation": [""] * 5, "state": states, "county": CODES})
    above = [None, "", "", *states]
    listed = Spine.from_parents(["", "01", "02", *CODES], above, ["nation", "state", "county"])
    assert same(code, table)
    assert same(code, listed)
    assert code.levels == table.levels == listed.levels
    assert all(map(is_well_formed, (code, table, listed)))


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_the_list_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 4, roots=2)
    assert is_well_formed(spine)
    walk = np.arange(spine.sizes[-1])
    columns = []
    for level in range(3, -1, -1):
        columns.insert(0, spine.nodes[level][walk])
        walk = spine.parents[level][walk] if level else walk
    shuffled = rng.permutation(spine.sizes[-1])
    again = Spine.from_columns({name: column[shuffled] for name, column in zip(spine.levels, columns, strict=True)})
    assert same(spine, again)
    nodes = [str(label) for labels in spine.nodes for label in labels]
    above: list[str | None] = [None] * spine.sizes[0]
    for level in range(1, 4):
        above += [str(spine.nodes[level - 1][v]) for v in spine.parents[level]]
    order = rng.permutation(len(nodes)).tolist()
    listed = Spine.from_parents([nodes[i] for i in order], [above[i] for i in order], spine.levels)
    assert same(spine, listed)


def test_codes_of_all_levels_are_those_of_the_last() -> None:
    alone = Spine.from_codes(CODES, [0, 2, 4])
    assert same(alone, Spine.from_codes(["01", *CODES, "02"], [0, 2, 4]))
    assert same(alone, Spine.from_codes(np.array(CODES[::-1], object), [0, 2, 4]))  # type: ignore[arg-type]


def test_labels_may_be_integers() -> None:
    spine = Spine.from_columns({"state": [10, 9, 9], "county": [3, 2, 1]})
    assert [each.tolist() for each in spine.nodes] == [[9, 10], [1, 2, 3]]
    assert spine.find("county", [3, 1]).tolist() == [2, 0]


def test_nodes_below_a_node_are_contiguous() -> None:
    spine = Spine.from_codes(CODES, [0, 2, 4])
    assert spine.slice_subtree(1, 1) == (slice(1, 2), slice(2, 5))
    assert spine.slice_subtree(0, 0, 1) == (slice(0, 1), slice(0, 2), slice(0, 5))


def test_unknown_levels_and_labels_are_refused() -> None:
    spine = Spine.from_codes(CODES, [0, 2, 4], ["nation", "state", "county"])
    with pytest.raises(BadParameter, match="level is 'town': no level of this spine"):
        spine.level("town")
    with pytest.raises(BadParameter, match="nodes of `county` are '0000', '9999': not in the public list"):
        spine.find("county", ["0101", "0000", "9999"])
    assert spine.find("county", []).tolist() == []


LEVELS = ["nation", "state"]
REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "no codes": (lambda: Spine.from_codes([], [2]), "codes is empty"),
    "no rows": (lambda: Spine.from_columns({"a": []}), "nodes of `a` are empty"),
    "no columns": (lambda: Spine.from_columns({}), "levels is empty"),
    "no lengths": (lambda: Spine.from_codes(CODES, []), "lengths is empty"),
    "no nodes": (lambda: Spine.from_parents([], [], LEVELS), "nodes is empty"),
    "levels that overlap": (lambda: Spine.from_codes(CODES, [2, 2, 4]), "levels overlap"),
    "levels that fall": (lambda: Spine.from_codes(CODES, [4, 2]), "levels overlap"),
    "lengths that are none": (lambda: Spine.from_codes(CODES, [-1, 4]), "whole numbers"),
    "a code of nothing": (lambda: Spine.from_codes(CODES, [0]), "the last level has no code"),
    "a level named twice": (lambda: Spine.from_codes(CODES, [2, 4], ["a", "a"]), "levels is 'a': named twice"),
    "a name too few": (lambda: Spine.from_codes(CODES, [0, 2, 4], LEVELS), "2 for 3 lengths"),
    "a code too long": (lambda: Spine.from_codes([*CODES, "02031"], [2, 4]), "codes is '02031': not 2 or 4 characters long"),
    "a code twice": (lambda: Spine.from_codes([*CODES, "0101"], [2, 4]), "codes is '0101': listed twice"),
    "a parent that is missing": (
        lambda: Spine.from_codes([*CODES, "01"], [2, 4]),
        "codes is '02': a parent that is not listed",
    ),
    "a code without children": (lambda: Spine.from_codes([*CODES, "01", "02", "03"], [2, 4]), "'03': without nodes"),
    "codes as numbers": (lambda: Spine.from_codes([101, 102], [2]), "Give text"),  # type: ignore[list-item]
    "a label that is missing": (lambda: Spine.from_columns({"a": ["x", None]}), "nodes of `a` are not all text"),
    "columns of two lengths": (lambda: Spine.from_columns({"a": ["x"], "b": ["x", "y"]}), "1 of `a`, 2 of `b`"),
    "a row twice": (lambda: Spine.from_columns({"a": ["x", "x"], "b": ["y", "y"]}), "nodes of `b` are 'y': listed twice"),
    "a node in two parents": (
        lambda: Spine.from_columns({"a": ["x", "y"], "b": ["z", "z"]}),
        "nodes of `b` are 'z': in more than one node of `a`",
    ),
    "a node listed with two parents": (
        lambda: Spine.from_parents(["a", "b", "c", "c"], [None, None, "a", "b"], LEVELS),
        "nodes is 'c': listed with two parents",
    ),
    "a node listed twice": (lambda: Spine.from_parents(["a", "b", "b"], [None, "a", "a"], LEVELS), "'b': listed twice"),
    "parents that are missing": (
        lambda: Spine.from_parents(["a", "b", "c"], [None, "a", "x"], LEVELS),
        "parents is 'x': not in",
    ),
    "a circle": (
        lambda: Spine.from_parents(["a", "d", "b", "c"], [None, "a", "c", "b"], LEVELS),
        "'b', 'c': below themselves",
    ),
    "a node above itself": (lambda: Spine.from_parents(["a", "d", "b"], [None, "a", "b"], LEVELS), "'b': below themselves"),
    "a level too many": (
        lambda: Spine.from_parents(["a", "b", "c"], [None, "a", "b"], LEVELS),
        "nodes is 'c': on level 3 of 2",
    ),
    "a branch too short": (
        lambda: Spine.from_parents(["a", "b", "c"], [None, None, "a"], LEVELS),
        "nodes is 'b': without children on level 1 of 2",
    ),
    "parents of another number": (lambda: Spine.from_parents(["a"], [], LEVELS), "parents is 0 for 1 nodes"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_wrong_list_is_refused_with_its_one_problem(name: str) -> None:
    build, message = REFUSALS[name]
    with pytest.raises(BadParameter) as refused:
        build()
    assert message in str(refused.value)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(PlanRefused) as refused:
        Spine.from_parents(
            ["a", "b", "b", "c", "c", "d", "e", "f", "g"], [None, "a", "a", "a", "b", "x", "f", "e", None], LEVELS
        )
    found = [str(each) for each in refused.value.problems]
    for part in (
        "'b': listed twice",
        "'c': listed with two parents",
        "'x': not in the list",
        "'e', 'f': below",
        "'g': without",
    ):
        assert any(part in each for each in found), part
    assert str(refused.value).startswith("The spine has 5 problems:")


def test_a_long_circle_is_found_quickly() -> None:
    many = 100_000
    labels = [f"{i:06}" for i in range(many)]
    with pytest.raises(DiscreetError, match="and 99997 more: below themselves"):
        Spine.from_parents(["top", "leaf", *labels], [None, "top", *labels[1:], labels[0]], LEVELS)


def test_a_deep_spine_is_no_circle() -> None:
    labels = [f"{i:02}" for i in range(40)]
    assert Spine.from_parents(labels, [None, *labels[:-1]], labels).sizes == (1,) * 40
