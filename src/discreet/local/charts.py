"""Charts of local privacy: what was recovered, which oracle errs least at which ε, and what reporting every day costs.

Each is a Vega-Lite specification (`discreet.vega`), a pure function of answers and of parameters. Labels are data, never
field names or expressions.
"""

from itertools import pairwise
from math import inf, isfinite, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from discreet._numbers import Number, check_confidence, check_int, format_down, format_up
from discreet.errors import BadParameter
from discreet.local.choosing import list_oracles
from discreet.local.longitudinal import LongitudinalOracle
from discreet.query.chart import CONFIG, SCHEMA, WIDTH
from discreet.text import to_printable
from discreet.vega import Chart

if TYPE_CHECKING:
    from discreet.local.collection import Collection
    from discreet.local.recovery import Recovery

BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#222222"
COLOURS = ["#0072B2", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#009E73", "#222222"]
"""Okabe and Ito's: safe for colour-blind readers."""
DASHES = [[1, 0], [8, 3], [8, 3, 2, 3], [3, 3], [1, 3], [12, 3], [5, 1], [2, 6]]
MAX_ROWS = 60
EPSILONS = [0.25 * 2 ** (step / 8) for step in range(41)]
"""ε from 1/4 to 8."""
CENTRAL = "a trusted curator"


def draw_recovery(recovery: "Recovery", path: Any = None, *, title: str | None = None, rows: int | None = None) -> Chart:
    """Draw estimates with their intervals and the truth beside them, of the first values.

    >>> from discreet.local.recovery import simulate_recovery
    >>> draw_recovery(simulate_recovery(values=10, n=10**6, epsilon=1, seed=1))
    <Chart: Recovered by local reports. 95% intervals; 1,000,000 simulated people, ε = 1.>
    """
    shown = min(MAX_ROWS if rows is None else check_int(rows, "rows", 1), MAX_ROWS, len(recovery.truth))
    answer = recovery.answer
    data = [
        {
            "value": to_printable(str(row.label)),
            "estimate": row.value,
            "lower": row.lower,
            "upper": row.upper,
            "truth": true,
            "kind": "contains the truth" if row.lower <= true <= row.upper else "misses it",
        }
        for row, true in list(zip(answer.rows, recovery.truth, strict=True))[:shown]
    ]
    note = (
        f"{format_down(100 * answer.confidence, 6)}% intervals; {answer.n:,} simulated people, "
        f"ε = {format_up(answer.oracle.epsilon, 4)}."
    )
    notes = [note] if shown == len(recovery.truth) else [note, f"The first {shown} of {len(recovery.truth):,} values."]
    x = {
        "field": "value",
        "type": "nominal",
        "sort": None,
        "title": "value",
        "axis": {"labelOverlap": True, "labelAngle": -90},
    }
    colour = {
        "field": "kind",
        "type": "nominal",
        "title": "interval",
        "scale": {"domain": ["contains the truth", "misses it"], "range": [BLUE, ORANGE]},
    }

    def y(name: str) -> dict[str, Any]:
        return {"field": name, "type": "quantitative", "title": "people"}

    layers = [
        {"mark": {"type": "rule", "strokeWidth": 2},
         "encoding": {"x": x, "y": y("lower"), "y2": {"field": "upper"}, "color": colour}},
        {"mark": {"type": "circle", "opacity": 1, "size": 36}, "encoding": {"x": x, "y": y("estimate"), "color": colour}},
        {"mark": {"type": "tick", "thickness": 2, "color": INK}, "encoding": {"x": x, "y": y("truth")}},
    ]  # fmt: skip
    return _finish(title or "Recovered by local reports", [*notes, "A dot is the estimate, a line across the truth."],
                   data, layers, path, description=1)  # fmt: skip


def draw_errors(values: int, n: int, path: Any = None, *, confidence: Number = 0.95, title: str | None = None) -> Chart:
    """Draw the error of every oracle against ε, with the points at which direct and another one are equally good, and
    beside them the error of a trusted curator at the same ε.

    >>> draw_errors(100, 10**6)
    <Chart: Error against ε. 95% half-widths of one value among 100; 1,000,000 reports.>
    """
    level, people = check_confidence(confidence), check_int(n, "n", 1)
    z = NormalDist().inv_cdf((1 + level) / 2)
    lines: dict[str, list[float]] = {}
    for epsilon in EPSILONS:
        for name, oracle in list_oracles(values, epsilon).items():
            lines.setdefault(name, []).append(z * sqrt(oracle.variance(people)))
    lines[CENTRAL] = [-log(1 - level) * 2 / epsilon for epsilon in EPSILONS]
    data = [
        {"epsilon": epsilon, "error": error, "oracle": name}
        for name, errors in lines.items()
        for epsilon, error in zip(EPSILONS, errors, strict=True)
    ]
    crossings: list[dict[str, Any]] = [
        {"epsilon": at[0], "error": at[1], "oracle": name}
        for name in lines if name != "direct" and (at := find_crossing(lines["direct"], lines[name])) is not None
    ]  # fmt: skip
    x = {"field": "epsilon", "type": "quantitative", "scale": {"type": "log", "nice": False}, "title": "ε of a report"}
    y = {"field": "error", "type": "quantitative", "scale": {"type": "log"}, "title": "half-width (people)"}
    names = list(lines)
    colour = {"field": "oracle", "type": "nominal", "title": "oracle",
              "scale": {"domain": names, "range": COLOURS[: len(names)]}}  # fmt: skip
    dash = {"field": "oracle", "type": "nominal", "title": "oracle",
            "scale": {"domain": names, "range": DASHES[: len(names)]}}  # fmt: skip
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash}}
    ]
    notes = [f"{format_down(100 * level, 6)}% half-widths of one value among {values:,}; {people:,} reports."]
    if crossings:
        # crossings of nearly equal oracles lie on top of each other, so no label fits beside them: a note says them all
        place = {"data": {"values": crossings}, "encoding": {"x": x, "y": y}}
        layers.append(place | {"mark": {"type": "circle", "opacity": 1, "size": 40, "color": INK}})
        met = sorted((at["epsilon"], at["oracle"]) for at in crossings)
        places = ", ".join(f"{epsilon:.2g} ({name})" for epsilon, name in met)
        notes.append(f"Dots: direct errs less from ε = {places}.")
    return _finish(title or "Error against ε", notes, data, layers, path, description=1)


def find_crossing(one: list[float], other: list[float]) -> tuple[float, float] | None:
    """Return ε and the error where one line of errors first falls below another, by interpolation; None if it never does.

    >>> round(find_crossing([9.0] + [1.0] * 40, [3.0] * 41)[1], 6)
    3.0
    """
    gaps = [log(a) - log(b) for a, b in zip(one, other, strict=True)]
    for place, (before, after) in enumerate(pairwise(gaps)):
        if before > 0 >= after:
            part = before / (before - after)
            low, high = EPSILONS[place : place + 2]
            return low * (high / low) ** part, other[place] ** (1 - part) * other[place + 1] ** part
    return None


def list_days(mechanism: LongitudinalOracle, days: int, states: int = 1) -> list[dict[str, float]]:
    """Return ε after each day, of a device that reports daily and whose value takes so many states:

    - `fresh`: without memo, each report anew: the days times ε of one report;
    - `memoised`: with memo, between histories with the same pattern of changes;
    - `any`: with memo, between any two histories; ∞ where no fresh noise hides the memo.

    >>> from discreet.local.microsoft import one_bit_rrpm
    >>> last = list_days(one_bit_rrpm(24, 24, 1), days=30)[-1]
    >>> round(last["fresh"]), round(last["memoised"]), last["any"]
    (30, 1, inf)
    """
    if not isinstance(mechanism, LongitudinalOracle):
        raise BadParameter("mechanism", type(mechanism).__name__, "it memoises nothing", "take Rappor or RoundedBit")
    check_int(states, "states", 1)
    rows = []
    for day in range(1, check_int(days, "days", 1) + 1):
        life = mechanism.lifetime(min(states, day), day)
        rows.append({
            "day": day, "fresh": day * mechanism.epsilon, "memoised": float(life.epsilon), "any": float(life.unconditional),
        })  # fmt: skip
    return rows


def draw_days(
    mechanism: LongitudinalOracle, days: int, path: Any = None, *, states: int = 1, title: str | None = None
) -> Chart:
    """Draw ε over the days, with and without memoisation.

    >>> from discreet.local.microsoft import one_bit_rrpm
    >>> draw_days(one_bit_rrpm(24, 24, 1), days=30)
    <Chart: ε over days. One report a day, 1 state.>
    """
    rows = list_days(mechanism, days, states)
    note = f"One report a day, {states} state{'s' * (states != 1)}."
    unlimited = any(row["any"] == inf for row in rows)
    notes = [note, *(["Memoised, any two histories: no finite ε once the value changes."] if unlimited else [])]
    return _draw_day_lines(rows, notes, path, title)


DAY_WORDS = {
    "fresh": "fresh noise every day",
    "memoised": "memoised, same pattern of changes",
    "any": "memoised, any two histories",
    "allowed": "what the collection allows",
}
"""What each line of a chart over days shows."""


def list_spending(collection: "Collection", days: int, states: int = 1) -> list[dict[str, float]]:
    """Return ε after each day as `list_days` does; where nothing is memoised, `allowed` is what a client spends until the
    collection's budget for life ends."""
    mechanism, life = collection.mechanism, collection.lifetime
    if isinstance(mechanism, LongitudinalOracle):
        return list_days(mechanism, days, states)
    check_int(states, "states", 1)
    return [
        {"day": day, "fresh": day * mechanism.epsilon, "allowed": min(day, life.reports) * mechanism.epsilon}
        for day in range(1, check_int(days, "days", 1) + 1)
    ]


def draw_spending(
    collection: "Collection", days: int, path: Any = None, *, states: int = 1, title: str | None = None
) -> Chart:
    """Draw ε over the days of a device of a collection; write it to `path` if one is given."""
    mechanism, life = collection.mechanism, collection.lifetime
    if isinstance(mechanism, LongitudinalOracle):
        return draw_days(mechanism, days, path, states=states, title=title)
    times = "once" if life.reports == 1 else f"{life.reports:,} times"
    note = f"One report a day; the client reports {times} and then stops."
    return _draw_day_lines(list_spending(collection, days), [note], path, title)


def _draw_day_lines(rows: list[dict[str, float]], notes: list[str], path: Any, title: str | None) -> Chart:
    data = [
        {"day": row["day"], "epsilon": row[key], "kind": text}
        for key, text in DAY_WORDS.items() for row in rows if key in row and isfinite(row[key])
    ]  # fmt: skip
    kinds = [text for text in DAY_WORDS.values() if any(row["kind"] == text for row in data)]
    colour = {"field": "kind", "type": "nominal", "title": None,
              "scale": {"domain": kinds, "range": [ORANGE, BLUE, INK][: len(kinds)]}}  # fmt: skip
    dash = {"field": "kind", "type": "nominal", "title": None, "scale": {"domain": kinds, "range": DASHES[: len(kinds)]}}
    layers: list[dict[str, Any]] = [{
        "mark": {"type": "line", "strokeWidth": 2},
        "encoding": {
            "x": {"field": "day", "type": "quantitative", "title": "days"},
            "y": {"field": "epsilon", "type": "quantitative", "title": "ε so far", "scale": {"type": "log"}},
            "color": colour, "strokeDash": dash,
        },
    }]  # fmt: skip
    return _finish(title or "ε over days", notes, data, layers, path, description=1)


def _finish(
    title: str, notes: list[str], data: list[dict[str, Any]], layers: list[dict[str, Any]], path: Any, *, description: int
) -> Chart:
    """Put a chart together; write it to `path` if one is given. The first notes are part of its description."""
    head = to_printable(title)
    chart = Chart({
        "$schema": SCHEMA,
        "description": f"{head}. {' '.join(notes[:description])}",
        "title": {"text": head, "subtitle": notes},
        "data": {"values": data},
        "layer": layers,
        "width": WIDTH,
        "height": 320,
        "config": CONFIG | {"legend": {"labelLimit": 260, "labelColor": INK, "titleColor": INK}},
    })  # fmt: skip
    if path is not None:
        chart.save(path)
    return chart
