"""The figures of "Choosing ε" are those of the library, in its table and in the paragraph that stewards copy."""

import re
from fractions import Fraction
from math import exp
from pathlib import Path

import pytest

from discreet import posterior_range

PAGE = (Path(__file__).parent.parent / "docs" / "choosing-epsilon.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([0-9.]+) \| × (\S+) \| (\S+)% \| (\S+)% \| × (\S+) \| (\S+)% \| (\S+)% \|", PAGE, re.M)


def test_the_table_has_all_its_rows() -> None:
    assert [row[0] for row in ROWS] == ["0.1", "0.5", "1", "2", "5", "10"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_an_attribute_counts_epsilon_twice_under_add_remove(row: tuple[str, ...]) -> None:
    for steps, (factor, even, rare) in ((1, row[1:4]), (2, row[4:7])):
        epsilon = steps * Fraction(row[0])
        stated = float(factor.replace(",", ""))
        assert exp(epsilon) <= stated <= exp(epsilon) * 1.01
        for percent, prior in ((even, 0.5), (rare, 0.01)):
            assert 0 <= float(percent) - 100 * posterior_range(epsilon, prior).upper <= 0.1


def test_the_paragraph_for_management_says_which_factor_is_for_which_statement() -> None:
    paragraph = " ".join(line.removeprefix("> ") for line in PAGE.splitlines() if line.startswith("> "))
    presence, attribute = next(row for row in ROWS if row[0] == "1")[1:4], next(row for row in ROWS if row[0] == "1")[4:7]
    for about, (factor, even, rare) in (("whether a person is in the data", presence), ("what the data says", attribute)):
        part = paragraph[paragraph.index(about) :]
        assert re.search(r"factor (\S+): .*?becomes at most (\S+)%, one of 1% at most (\S+)%", part).groups() == (  # type: ignore[union-attr]
            factor, even, rare,
        )  # fmt: skip
    assert "δ" in paragraph
