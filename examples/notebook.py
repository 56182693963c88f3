"""The course of docs/guide as a notebook beside this file: python examples/notebook.py

One cell per piece of text and per block of code. It says what the pages say, and a test holds it to that. What a page shows
as text or picture, the notebook computes: outputs are left out, and each picture is a cell that draws the figure.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GUIDE = HERE.parent / "docs" / "guide"
NOTEBOOK = HERE / "course.ipynb"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"^```text\n.*?^```\n", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"^!\[[^\]]*\]\(\.\./pictures/([\w-]+)\.png\)\n", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
ROOT = """import os

from discreet.lab import FIGURES

if os.path.exists("course.ipynb"):
    os.chdir("..")  # the pages name files from the root of the repository"""


def cells() -> Iterator[tuple[str, str]]:
    """(kind, text) of every cell, in the order of the course."""
    yield "markdown", _here((GUIDE / "index.md").read_text(encoding="utf-8"))
    yield "code", ROOT
    for page in sorted(GUIDE.glob("[0-9]-*.md")):
        for i, piece in enumerate(BLOCK.split(OUTPUT.sub("", page.read_text(encoding="utf-8")))):
            yield from [("code", piece.strip())] if i % 2 else _draw_pictures(piece)


def _draw_pictures(text: str) -> Iterator[tuple[str, str]]:
    """Text, with each picture as a cell that draws it."""
    for i, piece in enumerate(PICTURE.split(text)):
        if piece.strip():
            yield ("code", f'FIGURES["{piece}"]') if i % 2 else ("markdown", _here(piece.strip()))


def notebook() -> dict[str, Any]:
    """The notebook, without any output."""
    made = []
    for i, (kind, text) in enumerate(cells()):
        own = {"execution_count": None, "outputs": []} if kind == "code" else {}
        made.append({"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": text.splitlines(keepends=True), **own})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _here(text: str) -> str:
    """Links of a page, as seen from this folder."""
    return LINK.sub(lambda link: f"]({_from_here(link[1])})", text)


def _from_here(target: str) -> str:
    return f"../docs/{target[3:]}" if target.startswith("../") else f"../docs/guide/{target}"


if __name__ == "__main__":
    NOTEBOOK.write_text(json.dumps(notebook(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{NOTEBOOK.name}: {len(notebook()['cells'])} cells")
