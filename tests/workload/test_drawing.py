"""Drawing in processes of its own: the same bytes as here, no chart that depends on a process, and no process left over."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from discreet.vega import Chart
from discreet.workload import drawing
from discreet.workload.drawing import CHARTS_PER_PROCESS, start_drawing
from tests.support.charted_answers import ANSWERS

CHARTS = [answer.plot() for answer in ANSWERS.values()]
MANY = 2 * CHARTS_PER_PROCESS
BROKEN = Chart({"mark": "no such mark", "data": {"values": []}})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[bytes]]":
    """The processes that are started, on a machine with two processors."""
    found, start = [], subprocess.Popen

    def spy(*arguments: Any, **options: Any) -> Any:
        found.append(start(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(drawing, "count_processors", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", spy)
    return found


def test_processes_draw_the_same_bytes_and_end(
    started: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [chart.to_svg() for chart in CHARTS]

    def not_here(self: Chart) -> str:
        raise AssertionError("it is drawn in this process")

    monkeypatch.setattr(Chart, "to_svg", not_here)
    with start_drawing(MANY) as draw:
        assert len(started) == 2
        assert [drawn.result() for drawn in [draw(chart) for chart in CHARTS]] == here
    assert all(process.poll() is not None for process in started)


@pytest.mark.parametrize("program", ["no/such/program", "", "/bin/false"])
def test_without_processes_charts_are_drawn_here(
    started: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with start_drawing(MANY) as draw:
        assert [draw(chart).result() for chart in CHARTS[:3]] == [chart.to_svg() for chart in CHARTS[:3]]
    assert all(process.poll() is not None for process in started)


def test_a_process_that_ends_while_it_draws_loses_no_chart(started: "list[subprocess.Popen[bytes]]") -> None:
    with start_drawing(MANY) as draw:
        first = [draw(chart) for chart in CHARTS]
        started[0].kill()
        assert [drawn.result() for drawn in first] == [chart.to_svg() for chart in CHARTS]


def test_a_chart_that_cannot_be_drawn_raises_and_the_others_are_drawn(started: "list[subprocess.Popen[bytes]]") -> None:
    with start_drawing(MANY) as draw:
        broken, good = [draw(BROKEN) for _ in range(3)], [draw(chart) for chart in CHARTS[:3]]
        for drawn in broken:
            with pytest.raises(ValueError, match="conversion failed"):
                drawn.result()
        assert [drawn.result() for drawn in good] == [chart.to_svg() for chart in CHARTS[:3]]


def test_few_charts_or_one_processor_start_no_process(
    started: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_drawing(CHARTS_PER_PROCESS - 1) as draw:
        assert draw(CHARTS[0]).result() == CHARTS[0].to_svg()
    monkeypatch.setattr(drawing, "count_processors", lambda: 1)
    with start_drawing(MANY) as draw:
        assert draw(CHARTS[0]).result() == CHARTS[0].to_svg()
    assert not started


def test_a_process_runs_nothing_from_the_current_folder(
    started: "list[subprocess.Popen[bytes]]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    for name in ("json", "vl_convert", "discreet"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with start_drawing(MANY) as draw:
        draw(CHARTS[0]).result()
    assert started
    assert not marker.exists()
