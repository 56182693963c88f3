"""A chart as a file and in a notebook: four formats, one specification, nothing loaded, no text that acts."""

import json
import re
import sys
from pathlib import Path

import pytest

from discreet.errors import BadParameter
from discreet.vega import MIME_TYPE, SUFFIXES, Chart, check_chart_path
from tests.support.charted_answers import ANSWERS

BEGINNINGS = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!doctype html>", ".json": b'{\n "$schema"'}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_end_of_the_name_says_how_it_is_written(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"chart{suffix.upper()}"
    chart = ANSWERS["three keys"].plot(path)
    assert path.read_bytes().startswith(BEGINNINGS[suffix])
    assert isinstance(chart, Chart)


def test_json_is_the_specification(tmp_path: Path) -> None:
    chart = ANSWERS["dates"].plot(tmp_path / "chart.json")
    assert json.loads((tmp_path / "chart.json").read_text(encoding="utf-8")) == chart.spec


@pytest.mark.parametrize("name", ["chart", "chart.pdf", "chart.svg.txt", ""])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(BadParameter, match=r"\.svg, \.png, \.html, \.json"):
        ANSWERS["one key"].plot(name)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="cannot be written"):
        ANSWERS["one key"].plot(tmp_path / "no such folder" / "chart.json")


def test_without_the_extra_the_specification_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    chart = ANSWERS["one key"].plot(tmp_path / "chart.json")
    assert set(chart._repr_mimebundle_()) == {MIME_TYPE, "text/plain"}
    for suffix in (".svg", ".png", ".html"):
        with pytest.raises(BadParameter, match=r"pip install 'discreet\[plot\]'"):
            check_chart_path(f"chart{suffix}")
    words = r"^--plot is 'chart\.svg': it needs vl-convert-python, .*\. Install it: pip install 'discreet\[plot\]'$"
    with pytest.raises(BadParameter, match=words):
        check_chart_path("chart.svg", "--plot")


def test_a_notebook_gets_the_specification_and_an_svg() -> None:
    chart = ANSWERS["two levels"].plot()
    bundle = chart._repr_mimebundle_()
    assert bundle[MIME_TYPE] == chart.spec
    assert bundle["image/svg+xml"] == chart.to_svg()
    assert bundle["text/plain"] == repr(chart)
    assert "n by region and department" in repr(chart)


def test_a_chart_is_the_same_bytes_every_time() -> None:
    assert ANSWERS["two levels"].plot().to_svg() == ANSWERS["two levels"].plot().to_svg()


def test_the_page_loads_nothing_and_no_key_ends_its_script() -> None:
    page = ANSWERS["hostile"].plot().to_html()
    assert page.count("<script") == page.lower().count("</script") == 2
    assert "default-src 'none'" in page
    assert "unsafe-eval" not in page
    assert re.search(r"<(link|img|iframe)|\bsrc=|@import", page.partition("<script>")[0]) is None
    assert "alert(1)</script>" not in page
