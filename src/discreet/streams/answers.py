"""What a stream shows: running totals, or sums over a sliding window, each with an interval; as text, JSON and a chart."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.query.record import key_to_json
from discreet.query.schema import Key
from discreet.vega import Chart

CHART_WIDTH, CHART_HEIGHT = 560, 260


@dataclass(frozen=True, slots=True)
class StreamEstimate:
    """One counter after one step: the estimate, which is unbiased and may be negative, and the interval that contains the
    count with the confidence."""

    keys: tuple[Key, ...]
    value: float
    lower: int
    upper: int
    half_width: float


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """All counters after one step."""

    step: int
    start: str
    end: str  # of the period: no longer part of it
    estimates: tuple[StreamEstimate, ...]

    @property
    def value(self) -> float:
        """The estimate of a stream with one counter."""
        [only] = self.estimates
        return only.value

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        estimates = [
            {"keys": [*map(key_to_json, each.keys)], "value": each.value, "lower": each.lower, "upper": each.upper,
             "half_width": each.half_width}
            for each in self.estimates
        ]  # fmt: skip
        return {"step": self.step, "start": self.start, "end": self.end, "estimates": estimates}


@dataclass(frozen=True, slots=True)
class StreamSeries:
    """What a stream has shown so far: one answer per step."""

    name: str
    column: str
    groups: tuple[str, ...]
    steps: int  # of the horizon
    window: int | None  # None: running totals
    confidence: float
    answers: tuple[StreamAnswer, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "stream": self.name, "column": self.column, "groups": list(self.groups), "steps": self.steps,
            "window": self.window, "confidence": self.confidence, "answers": [each.to_dict() for each in self.answers],
        }  # fmt: skip

    @property
    def title(self) -> str:
        """What is shown, in words."""
        kind = "running total" if self.window is None else f"sum over the last {self.window} steps"
        return f"{self.name}: {kind} of {self.column}"

    def list_rows(self) -> list[dict[str, Any]]:
        """Return one row per step and counter."""
        return [
            {"step": answer.step, "start": answer.start, "key": ", ".join(map(str, each.keys)), "value": each.value,
             "lower": each.lower, "upper": each.upper}
            for answer in self.answers
            for each in answer.estimates
        ]  # fmt: skip

    def chart(self) -> Chart:
        """Return a chart: a line per counter, in a band of its intervals."""
        time = {"field": "start", "type": "temporal", "title": None}
        colour: Mapping[str, Any] = {"field": "key", "type": "nominal", "title": ", ".join(self.groups)}
        shared: dict[str, Any] = {"x": time, **({"color": colour} if self.groups else {})}
        band = {"mark": {"type": "area", "opacity": 0.25}, "encoding": {
            "y": {"field": "lower", "type": "quantitative", "title": self.column}, "y2": {"field": "upper"}}}  # fmt: skip
        line = {"mark": {"type": "line", "point": len(self.answers) <= 60},
                "encoding": {"y": {"field": "value", "type": "quantitative"}}}  # fmt: skip
        note = f"Each interval contains its count with probability ≥ {100 * self.confidence:g}%."
        return Chart(
            {
                "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
                "description": f"{self.title}. {note}",
                "title": {"text": self.title, "subtitle": note, "anchor": "start"},
                "width": CHART_WIDTH,
                "height": CHART_HEIGHT,
                "data": {"values": self.list_rows()},
                "encoding": shared,
                "layer": [band, line],
                "config": {"background": "#FFFFFF"},
            }
        )

    def plot(self, path: Any) -> None:
        """Draw the chart into a file: .svg, .png, .html or .json."""
        self.chart().save(path)
