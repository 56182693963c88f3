"""Charts: every estimate is drawn, what is not reliable looks so, and no text of an answer is evaluated."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import pytest
import vl_convert

from discreet.errors import BadParameter
from discreet.query import chart
from discreet.query.answer import Answer
from discreet.query.chart import MAX_BARS, MAX_NUMBERS, MAX_PANELS, MAX_PARTS, make_spec
from discreet.query.estimates import AnswerColumn
from discreet.text import to_printable
from discreet.vega import VERSION
from tests.support.charted_answers import ANSWERS, COUNT, HOSTILE_KEYS, bars, estimate, make_answer

MARKER = "qXz"
"""A word that is in no specification of its own accord."""
EXPRESSIONS = {"signal", "test", "expr", "update", "events", "init", "on", "filter", "calculate", "labelExpr"}
NAMES = {"field", "as", "fields", "groupby", "key", "name", "scale"}
ADDRESSES = {"url", "href", "src", "loader"}


def find_data(spec: Any) -> Iterator[dict[str, Any]]:
    """Yield the data of every panel."""
    if isinstance(spec, dict):
        if "data" in spec:
            yield from spec["data"]["values"]
        for part in spec.values():
            yield from find_data(part)
    elif isinstance(spec, list):
        for part in spec:
            yield from find_data(part)


def find_marks(spec: Any) -> set[str]:
    """Return the kinds of marks in a specification."""
    if isinstance(spec, list):
        return set().union(*map(find_marks, spec))
    if not isinstance(spec, dict):
        return set()
    mark = spec.get("mark")
    own = {mark} if isinstance(mark, str) else {mark["type"]} if isinstance(mark, dict) and "type" in mark else set()
    return own.union(*(find_marks(part) for name, part in spec.items() if name != "config"))


def evaluated_texts(vega: Any, key: str = "", inside: bool = False) -> Iterator[str]:
    """Yield the texts of a compiled specification that Vega parses: expressions, names of fields, addresses."""
    inside = inside or key in EXPRESSIONS | ADDRESSES
    if isinstance(vega, dict):
        for name, part in vega.items():
            if name != "values":  # of the data, or of an axis
                yield from evaluated_texts(part, name, inside)
    elif isinstance(vega, list):
        for part in vega:
            yield from evaluated_texts(part, key, inside)
    elif isinstance(vega, str) and (inside or key in NAMES):
        yield vega


def compile_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Compile Vega-Lite to Vega."""
    return vl_convert.vegalite_to_vega(spec, vl_version=VERSION)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ANSWERS)
def test_every_estimate_is_in_the_chart_once(name: str) -> None:
    answer = ANSWERS[name]
    data = [each for each in find_data(make_spec(answer)) if each]
    estimates = [each for _, row in answer.rows for each in row]
    assert len(data) == len(estimates)
    assert sorted(each["reliable"] for each in data) == sorted(each.reliable for each in estimates)
    assert all(isfinite(each[part]) for each in data for part in ("value", "lower", "upper"))
    json.dumps(make_spec(answer), allow_nan=False)
    ends = [(each.lower, each.upper) for each in estimates]
    assert sum(each["no_lower_end"] + each["no_upper_end"] for each in data) == sum(
        abs(end) == float("inf") for pair in ends for end in pair if not isinstance(end, int)
    )


@pytest.mark.parametrize("name", ANSWERS)
def test_every_chart_is_drawn_and_shows_its_keys(name: str) -> None:
    answer = ANSWERS[name]
    drawn = answer.plot()
    assert drawn.to_svg().startswith("<svg")
    shown = {each[part] for each in find_data(drawn.spec) if each for part in ("inner", "outer")}
    texts = {text for keys, _ in answer.rows for text in map(str, keys) if isinstance(keys[0], str) and len(text) < 40}
    assert all(any(to_printable(text) in each for each in shown) for text in texts if keys_are_labels(answer))


def keys_are_labels(answer: Answer) -> bool:
    """Whether the keys are words, and not places on an axis."""
    return all(isinstance(key, str) for keys, _ in answer.rows for key in keys)


KINDS = {
    "bar": (
        "three keys",
        "42 keys",
        "two levels",
        "one key",
        "no key",
        "nulls and booleans",
        "uneven histogram",
        "histogram",
    ),
    "line": ("numbers", "dates", "dates by key"),
    "text": ("empty",),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_ordered_keys_are_a_line_and_others_are_bars(kind: str, name: str) -> None:
    found = find_marks(make_spec(ANSWERS[name]))
    assert kind in found
    assert not ({"bar", "line"} - {kind}) & found


def test_cells_of_a_histogram_stand_on_the_axis_of_its_values() -> None:
    data = [*find_data(make_spec(ANSWERS["histogram"]))]
    assert [(each["from"], each["to"]) for each in data[:2]] == [(18, 20), (20, 22)]
    assert len(data) == 32


@pytest.mark.parametrize("name", ANSWERS)
def test_labels_of_one_part_differ(name: str) -> None:
    """Two keys with one label would be one bar."""
    panels = make_spec(ANSWERS[name])
    for panel in panels.get("concat", [panels]):
        data = [each for each in find_data(panel) if each]
        places = [(each["outer"], each["inner"], each.get("from")) for each in data]
        assert len(set(places)) == len(places)


def test_keys_that_look_the_same_keep_their_bars() -> None:
    answer = make_answer(["k"], [COUNT], bars(["a\n", "a\t", "a□", "x" * 99, "x" * 98, "", "all", '""']))
    assert len({each["inner"] for each in find_data(make_spec(answer))}) == 8


def test_long_keys_are_cut_so_that_the_part_in_which_they_differ_stays() -> None:
    names = [f"{'Department of ' * 5}{part} {'and its offices ' * 5}" for part in ("surgery", "dentistry", "surgeons")]
    labels = [each["inner"] for each in find_data(make_spec(make_answer(["k"], [COUNT], bars(names))))]
    assert all(part in label for part, label in zip(("surgery", "dentistry", "surgeons"), labels, strict=True))
    assert all(len(label) <= chart.MAX_LABEL for label in labels)
    assert not any("same label" in label for label in labels)
    same = [each["inner"] for each in find_data(make_spec(make_answer(["k"], [COUNT], bars(["a\n", "a\t"]))))]
    assert same[1] == f"{same[0]} [same label, no. 2]", "a number that cannot be read as a part of the name"


@pytest.mark.parametrize("name", ["three keys", "two levels", "dates by key", "histograms by key", "histogram and count"])
def test_no_text_of_an_answer_is_an_expression_a_name_or_an_address(name: str) -> None:
    answer = mark_texts(ANSWERS[name])
    compiled = compile_spec(make_spec(answer, f"{MARKER} title"))
    assert MARKER in json.dumps(compiled)
    assert [text for text in evaluated_texts(compiled) if MARKER in text] == []


def mark_texts(answer: Answer) -> Answer:
    """Put the marker into every name and every key that is a text."""
    rows = tuple((tuple(MARKER + key if isinstance(key, str) else key for key in keys), row) for keys, row in answer.rows)
    schema = tuple(replace(column, name=MARKER + column.name) for column in answer.schema)
    return replace(answer, groups=tuple(MARKER + name for name in answer.groups), schema=schema, rows=rows)


@pytest.mark.parametrize("mutant", ["descriptions", "sorted by keys", "labels by expression"])
def test_a_chart_with_texts_in_expressions_is_noticed(mutant: str) -> None:
    spec = make_spec(mark_texts(ANSWERS["three keys"]))
    bar = spec["layer"][0]
    if mutant == "descriptions":  # what Vega-Lite does of itself
        spec = spec | {"config": {name: part for name, part in chart.CONFIG.items() if name != "mark"}}
    elif mutant == "sorted by keys":
        bar["encoding"]["y"]["sort"] = [each["inner"] for each in find_data(spec)]
    else:
        bar["encoding"]["y"]["axis"]["labelExpr"] = f"'{MARKER}'"
    assert [text for text in evaluated_texts(compile_spec(spec)) if MARKER in text]


def test_hostile_keys_are_text_in_svg() -> None:
    svg = ANSWERS["hostile"].plot().to_svg()
    for forbidden in ("<script", "<img", "<b>", "href", "\x1b", "\u202e", "\u2028"):
        assert forbidden not in svg
    assert "&lt;/script&gt;" in svg
    assert len(HOSTILE_KEYS) == len([*find_data(make_spec(ANSWERS["hostile"]))])


def test_what_is_not_reliable_is_pale_dashed_and_labelled() -> None:
    svg = ANSWERS["three keys"].plot().to_svg()
    assert svg.count(", not reliable<") == 2
    assert svg.count('fill-opacity="0.18"') == svg.count('stroke-dasharray="4,3"') == 2
    assert "Pale with a dashed outline: not reliable." in svg
    fine = make_answer(["k"], [COUNT], [(("a",), (estimate(100, 1),))]).plot().to_svg()
    assert "reliable" not in fine
    assert "4,3" not in fine
    for name in ("histogram", "numbers"):
        pale = sum(not each.reliable for _, row in ANSWERS[name].rows for each in row)
        svg = ANSWERS[name].plot().to_svg()
        assert svg.count(">?<") == svg.count('stroke-dasharray="4,3"') == pale


def test_a_line_is_dashed_and_pale_where_it_joins_points_that_are_not_reliable() -> None:
    def draw(errors: Sequence[float]) -> Any:
        rows = [((number,), (estimate(100, error),)) for number, error in enumerate(errors)]
        return make_spec(make_answer(["k"], [COUNT], rows))

    def find_line(spec: Any) -> Any:
        return next(layer for layer in spec["layer"] if find_marks(layer) == {"line"})

    assert not [layer for layer in draw([1, 1, 1])["layer"] if layer.get("encoding", {}).get("x2")]
    spec = draw([1, 1, 90, 1, 1])
    [doubtful] = [layer for layer in spec["layer"] if layer["encoding"].get("x2")]
    assert doubtful["mark"]["strokeDash"]
    assert doubtful["mark"]["opacity"] < 1
    values = spec["data"]["values"]
    assert [each.get("joins_reliable") for each in values] == [True, False, False, True, None]
    assert [each.get("next") for each in values] == [1, 2, 3, 4, None]
    assert [each["run"] for each in values] == [0, 0, 1, 2, 2], "a line is drawn through the reliable points of each run"
    assert "detail" not in find_line(draw([1, 1, 1]))["encoding"]
    assert find_line(spec)["encoding"]["detail"] == {"field": "run", "type": "nominal"}
    assert vl_convert.vegalite_to_svg(spec, vl_version=VERSION).count('stroke-dasharray="2,3"') == 2


def test_every_bar_has_its_number_beside_it() -> None:
    """One dominating key makes the other bars alike: their numbers tell them apart."""
    answer = ANSWERS["one dominating key"]
    svg = answer.plot().to_svg()
    for _, (each,) in answer.rows:
        assert f">{each.value:,}{'' if each.reliable else ', not reliable'}<" in svg
    means = ANSWERS["several columns"].plot(column="mean pay")
    assert [each["number"] for each in find_data(means.spec)][:2] == ["90.5", "91.5"]


def test_points_and_cells_have_numbers_where_there_is_room() -> None:
    rows = [((2000 + i,), (estimate(700 + i, 9 + 90 * (i % 2)),)) for i in range(MAX_NUMBERS)]
    few = make_answer(["year"], [COUNT], rows).plot().to_svg()
    assert ">700<" in few
    assert ">701 ?<" in few
    many = make_answer(["year"], [COUNT], [*rows, ((2099,), (estimate(999, 9),))]).plot().to_svg()
    assert ">700<" not in many
    assert many.count(">?<") == MAX_NUMBERS // 2
    long = make_answer(["year"], [COUNT], [(keys, (estimate(10**9, 10**7),)) for keys, _ in rows])
    assert {each["number"] for each in find_data(make_spec(long))} == {""}


def test_counts_are_not_called_clipped() -> None:
    assert (
        make_spec(ANSWERS["no key"])["title"]["subtitle"][0] == "95% intervals of the counts within the contribution bounds."
    )
    sums = make_answer([], [AnswerColumn("pay", is_additive=True)], [((), (estimate(5, 1),))])
    assert make_spec(sums)["title"]["subtitle"][0] == "95% intervals of the clipped statistics."


def test_titles_are_words() -> None:
    spec = make_spec(ANSWERS["several columns"])
    assert spec["title"]["text"] == "n and mean pay by dept"
    assert spec["title"]["subtitle"][0] == "95% intervals of the clipped statistics."
    assert make_spec(ANSWERS["no key"])["title"]["text"] == "n"
    assert make_spec(ANSWERS["no key"], "heads")["title"]["text"] == "heads"
    together = replace(ANSWERS["no key"], intervals=replace(ANSWERS["no key"].intervals, simultaneous=True))
    assert "together" in make_spec(together)["title"]["subtitle"][0]
    noted = make_spec(replace(ANSWERS["no key"], view_note="The intervals of selected rows are conditional."))
    assert noted["title"]["subtitle"][1] == "The intervals of selected rows are conditional."
    tainted = make_spec(replace(ANSWERS["no key"], tainted=True))
    assert "never for publication" in " ".join(tainted["title"]["subtitle"])


def test_what_is_left_out_is_said() -> None:
    long = make_spec(make_answer(["k"], [COUNT], bars([f"k{i}" for i in range(MAX_BARS + 5)])))
    assert f"The first {MAX_BARS} of {MAX_BARS + 5} keys." in long["title"]["subtitle"]
    wide = [AnswerColumn(f"c{i}") for i in range(MAX_PANELS + 1)]
    spec = make_spec(make_answer([], wide, [((), (estimate(5, 1),) * len(wide))]))
    assert f"The first {MAX_PANELS} of {MAX_PANELS + 1} columns." in spec["title"]["subtitle"]
    rows = [((i, f"d{j}"), (estimate(5, 1),)) for i in range(3) for j in range(MAX_PARTS + 1)]
    many = make_spec(make_answer(["year", "dept"], [COUNT], rows))
    assert len({each["outer"] for each in find_data(many)}) == MAX_PARTS


def test_one_column_can_be_chosen() -> None:
    answer = ANSWERS["histogram and count"]
    assert len([*find_data(answer.plot(column="age").spec)]) == 16
    assert len([*find_data(answer.plot(column="n").spec)]) == 4
    with pytest.raises(BadParameter, match="Take one of age, n"):
        answer.plot(column="pay")


def test_the_chart_of_a_recorded_answer_is_the_same() -> None:
    from discreet.query.record import from_record, to_record

    for name in ("histogram and count", "dates by key"):
        answer = ANSWERS[name]
        assert make_spec(from_record(json.loads(json.dumps(to_record(answer))), answer.event)) == make_spec(answer)
