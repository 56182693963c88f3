"""Every Python block in the README and the docs is run: a document is read from top to bottom, as by a reader."""

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_runs(path: Path) -> None:
    for example in Sybil(parsers=[PythonCodeBlockParser()]).parse(path).examples():
        example.evaluate()
