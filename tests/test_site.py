"""The site builds without a warning, its reference has every public name, and no page loads anything from elsewhere.

Formulas are marked for KaTeX, which is part of the site.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import discreet
from typeset_powers import typeset_powers

ROOT = Path(__file__).parent.parent
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?([^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preload|preconnect|modulepreload))[^>]*?\bhref=["']?([^"'\s>]+)"""
)
"""What a browser fetches by itself when it shows a page; a link is followed only if the reader wants it."""
STYLED = re.compile(r"""(?:url\(|@import\s+)["']?([^"')\s]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        mkdocs, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    return folder


def list_loaded(html: str) -> list[str]:
    return [one or other for one, other in LOADED.findall(html)]


def is_external(address: str) -> bool:
    return re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", address) is not None


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for address in list_loaded(page.read_text(encoding="utf-8")):
            assert not is_external(address), f"{page.relative_to(site)} loads {address}"
            place = (site / address[1:]) if address.startswith("/") else page.parent / address
            assert address.startswith("data:") or place.resolve().exists(), f"{page.relative_to(site)}: {address}"
    for sheet in site.rglob("*.css"):
        for address in STYLED.findall(sheet.read_text(encoding="utf-8")):
            assert not is_external(address), f"{sheet.relative_to(site)} loads {address}"
            if "katex" in sheet.name:
                assert (sheet.parent / address).exists(), address


def test_what_is_loaded_from_elsewhere_would_be_found() -> None:
    html = '<script src="https://cdn.example/a.js"></script><link rel="stylesheet" href=//cdn.example/b.css><a href="https://c">'
    assert list_loaded(html) == ["https://cdn.example/a.js", "//cdn.example/b.css"]
    assert all(map(is_external, list_loaded(html)))
    assert not is_external("../assets/katex/katex.min.js")


def test_formulas_are_marked_and_the_program_that_renders_them_is_loaded(site: Path) -> None:
    page = (site / "choosing-epsilon" / "index.html").read_text(encoding="utf-8")
    assert r"\frac{p}{p + (1 - p)\,e^{-x}}" in page
    assert page.count('class="arithmatex"') >= 2
    loaded = [address.rpartition("/")[2] for address in list_loaded(page)]
    assert {"katex.min.js", "auto-render.min.js", "maths.js", "katex.min.css"} <= set(loaded)
    assert loaded.index("katex.min.js") < loaded.index("auto-render.min.js") < loaded.index("maths.js")
    assert "MIT License" in (site / "assets" / "katex" / "LICENSE").read_text(encoding="utf-8")


def test_powers_in_running_text_are_typeset_and_code_is_not(site: Path) -> None:
    reference = (site / "reference" / "index.html").read_text(encoding="utf-8")
    assert "e<sup>-|k|/scale</sup>" in reference
    left = re.sub(r"<(pre|code|script)\b.*?</\1>", "", reference, flags=re.S)
    assert "^{" not in re.sub(r"<[^>]*arithmatex[^>]*>.*?</\w+>", "", left, flags=re.S)
    formula = '<span class="arithmatex">\\(e^{x}\\)</span>'
    assert typeset_powers(formula) == formula


CODE_WIDTH = 100


def list_wide_lines(text: str) -> list[int]:
    """The numbers of the lines of code that are wider than a page shows without scrolling; ```text is printed output."""
    inside, code, wide = False, False, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside, code = not inside, not line.strip().startswith("```text")
        elif inside and code and len(line) > CODE_WIDTH:
            wide.append(number)
    return wide


def test_code_fits_the_page() -> None:
    assert list_wide_lines("```\n" + "x" * 101 + "\n```\n" + "y" * 200) == [2]
    wide = {
        page.name: found for page in (ROOT / "docs").rglob("*.md") if (found := list_wide_lines(page.read_text("utf-8")))
    }
    assert wide == {}


def test_the_reference_lists_every_public_name_and_every_page_is_built(site: Path) -> None:
    reference = (site / "reference" / "index.html").read_text(encoding="utf-8")
    # a name has a heading of its own, or stands as an alias below the heading of another
    missing = [name for name in discreet.__all__ if f"{name}</span>" not in reference and name != "__version__"]
    assert missing == []
    for page in (ROOT / "docs").rglob("*.md"):
        place = site / page.relative_to(ROOT / "docs").with_suffix("")
        assert (place.parent if place.name == "index" else place).joinpath("index.html").exists()


def list_pages(nav: Any) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in list_pages(part)]


def test_every_page_has_one_place_in_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(list_pages(nav)) == sorted(pages)


def test_the_start_page_has_a_way_for_every_role() -> None:
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").partition("## Where to go next")[2]
    for role in ("analyst", "steward", "data owner", "engineer", "student", "mechanism author", "reader"):
        assert f"**{role}**" in start
