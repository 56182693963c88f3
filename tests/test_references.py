"""Every citation key in the code and the docs resolves in docs/references.md."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
BRACKETS = re.compile(r"\[([A-Z][^\[\]\n]*\d[^\[\]\n]*)\]")
KEY = re.compile(r"(?:^|[;,] )([A-Z][A-Za-z]*\d\d|N1|N2|B2|S4)(?= |,|;|:|$)")


def find_citations(text: str) -> set[str]:
    return {key for inside in BRACKETS.findall(text) for key in KEY.findall(inside)}


def test_citations_are_found_and_indices_are_not():
    text = "as [BS16, Prop. 1.3] and [Mir17; CKS20, Cor. 13] show, x[0] and [T] do not"
    assert find_citations(text) == {"BS16", "Mir17", "CKS20"}


def test_every_citation_resolves():
    known = set(re.findall(r"^- \*\*\[(\w+)\]\*\*", (ROOT / "docs" / "references.md").read_text(), re.M))
    missing = {
        f"{key} in {path.relative_to(ROOT)}"
        for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
        for key in find_citations(path.read_text()) - known
    }
    assert not missing
