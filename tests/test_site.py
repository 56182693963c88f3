"""The site builds without a warning, and its reference has every public name."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

import discreet

ROOT = Path(__file__).parent.parent


def test_the_site_builds_and_lists_every_public_name(tmp_path: Path) -> None:
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(
        mkdocs, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    reference = (tmp_path / "reference" / "index.html").read_text(encoding="utf-8")
    # a name has a heading of its own, or stands as an alias below the heading of another
    missing = [name for name in discreet.__all__ if f"{name}</span>" not in reference and name != "__version__"]
    assert missing == []
    for page in (ROOT / "docs").rglob("*.md"):
        place = tmp_path / page.relative_to(ROOT / "docs").with_suffix("")
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
