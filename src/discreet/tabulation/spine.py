"""The spine of a tabulation: a public tree of regions (nation > state > county > …), level by level.

**Theory of operation.** A spine is built from a public list of its nodes: prefixes of one code (`Spine.from_codes`), one
column per level (`Spine.from_columns`), or nodes with their parents (`Spine.from_parents`). Regions in which no people live
are listed too: they get noise as all others do, because their absence would be a fact about people. Nodes of a level are
kept in the order of their parents, so that the children of a node, and all nodes below it, are contiguous: sums over
children are `np.add.reduceat`, and one subtree can be read, estimated and written by itself.

Every node has a parent on the level above it, and every node but those of the last level has a child. Everything that is
wrong with a list is reported at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter, DiscreetError, PlanRefused
from discreet.tabulation.shapes import Indexes, Paths, Shapes, group_by_path, group_by_shape

Labels: TypeAlias = NDArray[Any]
MAX_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Spine:
    """Levels of nodes from the top down.

    `nodes[l]` are the labels of level l. `parents[l]` are the places of their parents in level l - 1, never falling (empty
    on the top level, which may have several nodes). `starts[l][v]` is the place in level l + 1 of the first child of node v;
    one more entry than nodes.

    >>> spine = Spine.from_codes(["0101", "0102", "0201"], [0, 2, 4])
    >>> spine.levels, spine.sizes, spine.parents[2].tolist()
    (('first 0', 'first 2', 'first 4'), (1, 2, 3), [0, 0, 1])
    """

    levels: tuple[str, ...]
    nodes: tuple[Labels, ...]
    parents: tuple[Indexes, ...]
    starts: tuple[Indexes, ...]

    @staticmethod
    def from_codes(codes: Sequence[str], lengths: Sequence[int], levels: Sequence[str] | None = None) -> "Spine":
        """Build the spine of one code, whose first `lengths[l]` characters name the node of level l.

        `codes` are those of the last level, or those of all nodes of all levels.

        >>> Spine.from_codes(["0101", "01", "0101", "020"], [2, 4])
        Traceback (most recent call last):
        discreet.errors.PlanRefused: The spine has 2 problems:
          codes is '020': not 2 or 4 characters long. Write codes with leading zeros, as text, or correct lengths.
          codes is '0101': listed twice. List each node once.
        """
        problems = check_lengths(lengths, levels)
        names = tuple(levels) if levels is not None else tuple(f"first {length}" for length in lengths)
        listed = _read_labels(codes, problems, "codes")
        if listed is not None and listed.dtype.kind != "U":
            hint = "give text: a number has lost its leading zeros"
            problems.append(BadParameter("codes", "a list of numbers", "not text", hint))
        _raise_all(problems)
        assert listed is not None
        full = _check_codes(listed, lengths, problems)
        _raise_all(problems)
        columns = [full.astype(f"U{length}") if length else np.full(len(full), "") for length in lengths]
        return _build(names, columns, problems, np.argsort(full, kind="stable"))

    @staticmethod
    def from_columns(columns: Mapping[str, Sequence[Any]]) -> "Spine":
        """Build the spine of a table with one row per node of the last level, and one column per level, top first.

        A label names one node of its level: a county 001 of two states must be written as 01001 and 02001.

        >>> Spine.from_columns({"state": ["01", "02"], "county": ["001", "001"]})
        Traceback (most recent call last):
        discreet.errors.BadParameter: nodes of `county` are '001': in more than one node of `state`. Write labels that \
differ, such as codes that begin with that of the parent.
        """
        problems: list[DiscreetError] = []
        if not columns:
            raise BadParameter("levels", "empty", "a spine has at least one level", "name a column for each level")
        read = [_read_labels(values, problems, level=name) for name, values in columns.items()]
        lengths = {len(each) for each in read if each is not None}
        if len(lengths) > 1:
            counts = ", ".join(
                f"{len(each)} of `{name}`" for name, each in zip(columns, read, strict=True) if each is not None
            )
            problems.append(BadParameter("levels", counts, "columns of different lengths", "give one value per row in each"))
        _raise_all(problems)
        labels = [each for each in read if each is not None]
        return _build(tuple(columns), labels, problems, np.lexsort(labels[::-1]))

    @staticmethod
    def from_parents(nodes: Sequence[str], parents: Sequence[str | None], levels: Sequence[str]) -> "Spine":
        """Build the spine of a list of all nodes, each with the label of its parent; None for nodes of the top level.

        >>> Spine.from_parents(["a", "b", "c"], [None, "c", "b"], ["nation", "state"])
        Traceback (most recent call last):
        discreet.errors.PlanRefused: The spine has 2 problems:
          nodes is 'b', 'c': below themselves. Correct the parents: they lead in a circle.
          nodes is 'a': without children on level 1 of 2. List nodes below it down to `state`, or leave it out.
        """
        problems = _check_names(levels)
        labels = _read_labels(nodes, problems)
        if labels is not None and len(parents) != len(nodes):
            wrong = f"{len(parents)} for {len(nodes)} nodes"
            problems.append(BadParameter("parents", wrong, "not one per node", "give None for nodes of the top level"))
        _raise_all(problems)
        assert labels is not None
        columns = _list_paths(labels, parents, tuple(levels), problems)
        _raise_all(problems)
        return _build(tuple(levels), columns, problems, np.lexsort(columns[::-1]))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many nodes each level has."""
        return tuple(len(each) for each in self.nodes)

    def level(self, name: str | int) -> int:
        """Return the number of a level, 0 at the top."""
        if isinstance(name, str) and name in self.levels:
            return self.levels.index(name)
        if isinstance(name, int) and 0 <= name < len(self.levels):
            return name
        raise BadParameter("level", repr(name), "no level of this spine", f"take one of: {', '.join(self.levels)}")

    def find(self, level: str | int, labels: Sequence[Any] | Labels) -> Indexes:
        """Return the places of labels in their level.

        >>> Spine.from_codes(["0101", "0102", "0201"], [0, 2, 4]).find("first 4", ["0201", "0101"]).tolist()
        [2, 0]
        """
        number = self.level(level)
        known, order = self.nodes[number], self._orders[number]
        wanted = np.asarray(labels)
        if not len(wanted):
            return np.zeros(0, np.int64)
        found = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
        missing = known[found] != wanted
        if np.any(missing):
            raise BadParameter(
                "nodes", _list_some(wanted[missing]), "not in the public list", "add them to it", column=self.levels[number]
            )
        return found.astype(np.int64)

    def slice_subtree(self, level: int, first: int, end: int | None = None) -> tuple[slice, ...]:
        """Return where the nodes below one node (or below the nodes from `first` to before `end`) are, from `level` down."""
        slices = [slice(first, first + 1 if end is None else end)]
        for starts in self.starts[level:]:
            slices.append(slice(int(starts[slices[-1].start]), int(starts[slices[-1].stop])))
        return tuple(slices)

    @cached_property
    def shapes(self) -> Shapes:
        """The nodes grouped by the shape of the subtree below them."""
        return group_by_shape(self.starts, self.sizes[-1])

    @cached_property
    def paths(self) -> Paths:
        """The nodes grouped by the shapes on the way from the top."""
        return group_by_path(self.parents, self.shapes)

    @cached_property
    def _orders(self) -> tuple[Indexes, ...]:
        return tuple(np.argsort(each, kind="stable").astype(np.int64) for each in self.nodes)


# -- building and checking -------------------------------------------------------------------------------------------------


def _read_labels(
    values: Sequence[Any], problems: list[DiscreetError], name: str = "nodes", level: str | None = None
) -> Labels | None:
    given = np.asarray(values)
    if given.dtype.kind == "O":
        values = given.tolist()
        given = np.asarray(values) if all(isinstance(each, str) for each in values) else given
    if given.ndim == 1 and not len(given):
        hint = "give the public list of nodes"
        problems.append(BadParameter(name, "empty", "a spine has at least one node", hint, column=level))
    elif given.ndim != 1 or given.dtype.kind not in "Uiu":
        wrong, hint = "not all text or all integers", "give one label per node, and none that is missing"
        problems.append(BadParameter(name, wrong, "not labels", hint, column=level))
    else:
        return given
    return None


def _build(levels: tuple[str, ...], columns: Sequence[Labels], problems: list[DiscreetError], order: Indexes) -> Spine:
    """Build the levels from one column of labels each, one row per node of the last level. `order` sorts by all columns."""
    rows = len(order)
    changes = np.zeros(rows, bool)
    changes[0] = True
    above = np.zeros(rows, np.int64)
    nodes: list[Labels] = []
    parents: list[Indexes] = []
    for number, column in enumerate(columns):
        labels = column[order]
        changes[1:] |= labels[1:] != labels[:-1]
        first = np.flatnonzero(changes)
        nodes.append(labels[first])
        parents.append(above[first] if number else np.zeros(0, np.int64))
        above = np.cumsum(changes) - 1
        _check_one_parent(levels, number, nodes[-1], problems)
    if len(nodes[-1]) < rows:
        twice = columns[-1][order][~changes]
        problems.append(BadParameter("nodes", _list_some(twice), "listed twice", "list each node once", column=levels[-1]))
    _raise_all(problems)
    pairs = zip(parents[1:], nodes[:-1], strict=True)
    starts = tuple(np.searchsorted(parent, np.arange(len(each) + 1)).astype(np.int64) for parent, each in pairs)
    return Spine(levels, tuple(nodes), tuple(parents), starts)


def _check_one_parent(levels: tuple[str, ...], number: int, labels: Labels, problems: list[DiscreetError]) -> None:
    known, times = np.unique(labels, return_counts=True)
    if len(known) < len(labels):
        wrong = f"in more than one node of `{levels[number - 1]}`" if number else "listed twice"
        hint = "write labels that differ, such as codes that begin with that of the parent"
        problems.append(BadParameter("nodes", _list_some(known[times > 1]), wrong, hint, column=levels[number]))


def _check_names(levels: Sequence[str]) -> list[DiscreetError]:
    problems: list[DiscreetError] = []
    if not levels:
        problems.append(BadParameter("levels", "empty", "a spine has at least one level", "name the levels, top first"))
    if len(set(levels)) < len(levels):
        twice = sorted({each for each in levels if list(levels).count(each) > 1})
        problems.append(BadParameter("levels", _list_some(twice), "named twice", "give each level a name of its own"))
    return problems


def check_lengths(lengths: Sequence[int], levels: Sequence[str] | None = None) -> list[DiscreetError]:
    """Return what is wrong with the lengths of a code, and with the names of the levels if they are given."""
    problems: list[DiscreetError] = [] if levels is None else _check_names(levels)
    hint = "give the numbers of characters, growing, such as 0, 2, 5, 11, 15"
    if not len(lengths):
        problems.append(BadParameter("lengths", "empty", "a spine has at least one level", hint))
    elif not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in lengths):
        problems.append(BadParameter("lengths", list(lengths), "not all whole numbers from 0 up", hint))
    elif any(b <= a for a, b in pairwise(lengths)):
        problems.append(BadParameter("lengths", list(lengths), "levels overlap", hint))
    elif lengths[-1] == 0:
        problems.append(BadParameter("lengths", list(lengths), "the last level has no code", hint))
    if levels is not None and len(levels) != len(lengths):
        wrong = f"{len(levels)} for {len(lengths)} lengths"
        problems.append(BadParameter("levels", wrong, "not one per length", "name each level once, top first"))
    return problems


def _check_codes(codes: Labels, lengths: Sequence[int], problems: list[DiscreetError]) -> Labels:
    """Check the lengths of codes, and that all parents are listed if any is. Return the codes of the last level."""
    sizes = np.strings.str_len(codes)
    wrong = ~np.isin(sizes, lengths)
    if np.any(wrong):
        text = f"not {', '.join(map(str, lengths[:-1]))}{' or ' if len(lengths) > 1 else ''}{lengths[-1]} characters long"
        hint = "write codes with leading zeros, as text, or correct lengths"
        problems.append(BadParameter("codes", _list_some(codes[wrong]), text, hint))
    known, times = np.unique(codes[~wrong], return_counts=True)
    if np.any(times > 1):
        problems.append(BadParameter("codes", _list_some(known[times > 1]), "listed twice", "list each node once"))
    sizes = np.strings.str_len(known)
    full: Labels = known[sizes == lengths[-1]]
    listed = [length for length in lengths[:-1] if length and np.any(sizes == length)]
    for length in listed:
        given = known[sizes == length].astype(f"U{length}")
        needed = np.unique(known[sizes > length].astype(f"U{length}"))
        if len(missing := np.setdiff1d(needed, given)):
            hint = "list it, or list the codes of the last level alone"
            problems.append(BadParameter("codes", _list_some(missing), "a parent that is not listed", hint))
        if len(childless := np.setdiff1d(given, np.unique(full.astype(f"U{length}")))):
            hint = f"list codes of {lengths[-1]} characters below it, or leave it out"
            problems.append(BadParameter("codes", _list_some(childless), "without nodes on the last level", hint))
    if not len(full) and not listed and not problems:
        hint = f"list the codes of {lengths[-1]} characters"
        problems.append(BadParameter("codes", _list_some(codes), "none of the last level", hint))
    return full


def _list_paths(
    labels: Labels, parents: Sequence[str | None], levels: tuple[str, ...], problems: list[DiscreetError]
) -> list[Labels]:
    """Return the labels on the way to each node of the last level, one column per level."""
    tops = np.fromiter((each is None for each in parents), bool, len(parents))
    above = np.asarray(["" if each is None else each for each in parents]).astype(labels.dtype.kind)
    known, first, place = np.unique(labels, return_index=True, return_inverse=True)
    _check_duplicates(known, place, np.where(tops, -1, np.unique(above, return_inverse=True)[1]), problems)
    found = np.minimum(np.searchsorted(known, above), len(known) - 1)
    lost = ~tops & (known[found] != above)
    if np.any(lost):
        problems.append(BadParameter("parents", _list_some(np.unique(above[lost])), "not in the list of nodes", "list them"))
    up = np.where(tops | lost, -1, found)[first]  # by place in `known`
    depth = _find_depths(known, up, problems)
    has_child = np.zeros(len(known), bool)
    has_child[found[~tops & ~lost]] = True
    for number in sorted(set(depth[depth >= len(levels)].tolist())):
        hint = "name that level too, or correct the parents"
        wrong = f"on level {number + 1} of {len(levels)}"
        problems.append(BadParameter("nodes", _list_some(known[depth == number]), wrong, hint))
    for number in range(len(levels) - 1):
        if np.any(short := (depth == number) & ~has_child & ~np.isin(np.arange(len(known)), place[lost])):
            hint = f"list nodes below it down to `{levels[-1]}`, or leave it out"
            wrong = f"without children on level {number + 1} of {len(levels)}"
            problems.append(BadParameter("nodes", _list_some(known[short]), wrong, hint))
    _raise_all(problems)
    walk = np.flatnonzero(depth == len(levels) - 1)
    columns = [known[walk]]
    for _ in levels[1:]:
        walk = up[walk]
        columns.insert(0, known[walk])
    return columns


def _check_duplicates(known: Labels, place: Indexes, above: Indexes, problems: list[DiscreetError]) -> None:
    pairs, times = np.unique(np.stack([place, above]), axis=1, return_counts=True)
    if np.any(times > 1):
        twice = _list_some(known[np.unique(pairs[0][times > 1])])
        problems.append(BadParameter("nodes", twice, "listed twice", "list each node once"))
    several = np.bincount(pairs[0]) > 1
    if np.any(several):
        hint = "correct the parents: a node has one"
        problems.append(BadParameter("nodes", _list_some(known[several]), "listed with two parents", hint))


def _find_depths(known: Labels, up: Indexes, problems: list[DiscreetError]) -> Indexes:
    """The number of steps to the top; -1 for nodes that never get there. Steps are doubled, so a long circle is quick."""
    jump, steps = up.copy(), (up >= 0).astype(np.int64)
    for _ in range(len(known).bit_length()):
        going = jump >= 0
        steps[going] += steps[jump[going]]
        jump[going] = jump[jump[going]]
    circling = jump >= 0
    if np.any(circling):
        hint = "correct the parents: they lead in a circle"
        problems.append(BadParameter("nodes", _list_some(known[circling]), "below themselves", hint))
    return np.where(circling, -1, steps)


def _list_some(labels: Sequence[Any] | Labels) -> str:
    shown = ", ".join(repr(each.item() if hasattr(each, "item") else each) for each in labels[:MAX_SHOWN])
    return shown if len(labels) <= MAX_SHOWN else f"{shown} and {len(labels) - MAX_SHOWN} more"


def _raise_all(problems: list[DiscreetError]) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise PlanRefused(problems, "The spine")
