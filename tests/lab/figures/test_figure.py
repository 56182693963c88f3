"""Figures as PNG: reproducible bytes, 800 pixels, labelled, with lines that differ in colour and without it."""

import io
import json
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib import colors, style
from matplotlib.figure import Figure as Sheet
from PIL import Image

from discreet.errors import BadParameter
from discreet.lab import FIGURES
from discreet.lab.figures import Numbers
from discreet.lab.figures import figure as drawing
from discreet.lab.figures.figure import draw_text, read_numbers, render_png, save_png

ROOT = Path(__file__).parents[3]
COMMITTED = sorted((ROOT / "docs" / "pictures").glob("*.png"))
OKABE_ITO = {"#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"}


@cache
def numbers(name: str) -> Numbers:
    return FIGURES[name].numbers()


def read_metadata(name: str, drawn: bytes) -> dict[str, object]:
    with Image.open(io.BytesIO(drawn)) as picture:
        picture.load()
        assert picture.format == "PNG", name
        return {"size": picture.size, **picture.info}


@pytest.mark.parametrize("name", FIGURES)
def test_bytes_are_reproducible(name: str) -> None:
    figure = FIGURES[name]
    first = numbers(name)
    drawn = render_png(figure, first)
    assert drawn == render_png(figure), "numbers and PNG, computed twice"
    metadata = read_metadata(name, drawn)
    assert metadata["size"][0] >= 800  # type: ignore[index]
    assert set(metadata) == {"size", "Title", "Description", "Numbers"}, "no date, no version"
    assert metadata["Description"] == figure.caption
    inside = json.loads(str(metadata["Numbers"]))
    assert set(inside) == set(first)
    for part, values in first.items():
        if values.dtype.kind == "f":
            assert np.asarray(inside[part]) == pytest.approx(values, rel=1e-8, abs=1e-300)
        else:
            assert inside[part] == values.tolist()


def test_a_figure_is_drawn_on_given_axes() -> None:
    axes = Sheet().add_subplot()
    FIGURES["noise-l1"].draw(axes)
    assert len(axes.get_lines()) == 2


def test_other_numbers_give_another_png() -> None:
    figure, known = FIGURES["noise-l1"], numbers("noise-l1")
    assert render_png(figure, known) != render_png(figure, known | {"vectorised": known["vectorised"] * 1.1})


def test_settings_of_the_user_are_not_read() -> None:
    usual = render_png(FIGURES["noise-l1"])
    with style.context({"font.size": 30, "lines.linewidth": 9, "figure.dpi": 37, "savefig.dpi": 37}):
        assert render_png(FIGURES["noise-l1"]) == usual


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "k-anonymity"])
def test_axes_are_labelled_and_lines_differ(name: str) -> None:
    axes = Sheet().add_subplot()
    FIGURES[name].paint(axes, numbers(name))
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(words) == len(set(words)) >= 2
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_") and line.get_linestyle() != "None"]
    for line in lines:
        assert colors.to_hex(line.get_color()) in OKABE_ITO
    for one, other in combinations(lines, 2):
        assert colors.to_hex(one.get_color()) != colors.to_hex(other.get_color())
        dashes, widths = (
            (one._unscaled_dash_pattern, other._unscaled_dash_pattern),
            (one.get_linewidth(), other.get_linewidth()),
        )
        marks = (one.get_marker(), other.get_marker())
        assert dashes[0] != dashes[1] or widths[0] != widths[1] or marks[0] != marks[1], "also without colour"


def test_the_pens_are_of_the_safe_palette() -> None:
    used = {getattr(drawing, name)["color"].lower() for name in ("EXACT", "WRONG", "FIRST", "SECOND", "THIRD", "FOURTH")}
    assert used <= OKABE_ITO
    assert len(used) == 6


def test_captions_have_source_and_errata() -> None:
    for figure in FIGURES.values():
        assert "Source: [" in figure.caption
        assert figure.caption.count("Erratum") == len(figure.errata)
        assert len(figure.caption.split("\n")[0]) < 300, "captions are short"
        assert all(len(line) < 80 for line in figure.caption.split("\n")[1:])
        assert "{" not in figure.title + figure.caption
    assert "Erratum 1 [N1]" in FIGURES["composition-10000"].caption


@pytest.mark.parametrize("name", FIGURES)
def test_every_parameter_changes_the_numbers_or_is_refused(name: str) -> None:
    figure = FIGURES[name]
    for option, value in figure.options.items():
        halved = max(1, value // 2) if isinstance(value, int) else value / 2
        changed = figure.with_options(**{option: halved}).numbers()
        same = all(np.array_equal(changed[part], values) for part, values in numbers(name).items() if part in changed)
        assert not same or set(changed) != set(numbers(name)), f"{name} does not read {option}"
        for wrong in (-1, 0, "many", None, float("nan"), True):
            with pytest.raises(BadParameter, match=option):
                figure.with_options(**{option: wrong})
    with pytest.raises(BadParameter, match="not a parameter"):
        figure.with_options(speed=3)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_in_the_terminal(name: str) -> None:
    lines = draw_text(numbers(name))
    assert len(lines) > 5
    assert max(map(len, lines)) < 120
    text = "\n".join(lines)
    for part, values in numbers(name).items():
        assert part in text or values.ndim == 1, part


def test_the_terminal_shows_where_a_line_is() -> None:
    rising, falling = np.arange(10.0), np.arange(10.0)[::-1]
    drawn = draw_text({"x": np.arange(10), "up": rising, "down": falling}, width=10, height=10)
    assert [row[12:].index("a") for row in drawn[:10] if "a" in row[12:]] == list(range(9, -1, -1))
    assert [row[12:].index("b") for row in drawn[:10] if "b" in row[12:]] == list(range(10))
    wide = draw_text({"x": np.array([1, 10, 100, 1000]), "y": np.array([1.0, 10, 100, 1000])}, width=4, height=4)
    assert [row[12:].find("a") for row in wide[:4]] == [3, 2, 1, 0], "logarithmic over three decades"


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    save_png(FIGURES["noise-l1"], tmp_path / "é.png")
    assert read_numbers(tmp_path / "é.png")["k"][-1] == 10
    with pytest.raises(BadParameter, match="No such file or directory"):
        save_png(FIGURES["noise-l1"], tmp_path / "nowhere" / "x.png")


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_the_pictures_in_the_docs_have_these_numbers_and_captions(path: Path) -> None:
    """`discreet lab show NAME --save docs/pictures/NAME.png` draws them anew."""
    kept, fresh = read_numbers(path), numbers(path.stem)
    assert path.stat().st_size < 80_000
    assert read_metadata(path.stem, path.read_bytes())["Description"] == FIGURES[path.stem].caption
    assert set(kept) == set(fresh)
    for name, values in fresh.items():
        if values.dtype.kind in "fiu":
            assert np.asarray(kept[name]) == pytest.approx(values, rel=1e-6, abs=1e-12)
        else:
            assert kept[name] == values.tolist()


def test_there_are_pictures_in_the_docs() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    assert len(COMMITTED) >= 2
    assert all(any(f"pictures/{path.name}" in page for page in pages) for path in COMMITTED)
