"""The site builds without a warning, and its reference holds every public name."""

import os
import subprocess
import sys
from pathlib import Path

import discreet

ROOT = Path(__file__).parent.parent


def test_the_site_builds_and_lists_every_public_name(tmp_path: Path) -> None:
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(
        mkdocs, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    reference = (tmp_path / "reference" / "index.html").read_text(encoding="utf-8")
    # a name is told by its heading, or as an alias of what has one
    missing = [name for name in discreet.__all__ if f"{name}</span>" not in reference and name != "__version__"]
    assert missing == []
    for page in (ROOT / "docs").rglob("*.md"):
        place = tmp_path / page.relative_to(ROOT / "docs").with_suffix("")
        assert (place.parent if place.name == "index" else place).joinpath("index.html").exists()
