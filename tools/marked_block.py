"""A block of ARCHITECTURE.md that a tool writes: everything between `<!-- name -->` and `<!-- /name -->`."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"


def read_block(name: str) -> str:
    """Return what stands between the markers now, without the blank lines around it."""
    return _find(name, PAGE.read_text(encoding="utf-8")).group("body").strip("\n")


def write_block(name: str, body: str) -> None:
    """Replace what stands between the markers."""
    text = PAGE.read_text(encoding="utf-8")
    start, end = _find(name, text).span("body")
    PAGE.write_text(f"{text[:start]}\n{body}\n{text[end:]}", encoding="utf-8", newline="\n")


def _find(name: str, text: str) -> re.Match[str]:
    found = re.search(rf"<!-- {name} -->(?P<body>.*?)<!-- /{name} -->", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{PAGE.name} has no block <!-- {name} --> … <!-- /{name} -->. Add both markers.")
    return found
