"""Two k-anonymous tables, and what an attacker learns from both [S4, figs. 1 and 2]."""

from typing import Any

from discreet.lab.anonymity import (
    ALICE,
    FOUR_ANONYMOUS,
    QUASI_IDENTIFIERS,
    SIX_ANONYMOUS,
    candidates,
    covers,
    find_leaks,
    k_anonymity,
)
from discreet.lab.figures.figure import BLACK, BLUE, GREEN, VERMILLION, Axes, Figure, Numbers


def _numbers() -> dict[str, Any]:
    leaks = find_leaks(FOUR_ANONYMOUS)
    first, second = (candidates(table, ALICE) for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS))
    return {
        "first": [[row[name] for name in (*QUASI_IDENTIFIERS, "condition")] for row in FOUR_ANONYMOUS],
        "second": [[row[name] for name in (*QUASI_IDENTIFIERS, "condition")] for row in SIX_ANONYMOUS],
        "k of the first": k_anonymity(FOUR_ANONYMOUS, QUASI_IDENTIFIERS),
        "k of the second": k_anonymity(SIX_ANONYMOUS, QUASI_IDENTIFIERS),
        "groups with one condition": [f"{age}: {condition}" for (_, age, _), condition in leaks.same_in_group.items()],
        "absent from the first": list(leaks.absent),
        "possible by the first": sorted(first),
        "possible by the second": sorted(second),
        "possible by both": sorted(first & second),
    }


def _paint(axes: Axes, n: Numbers) -> None:
    axes.set(xlim=(-1, 100), ylim=(0, 100))
    axes.axis("off")
    for left, table, colour in ((0, "first", BLUE), (53, "second", GREEN)):
        axes.text(
            left, 96, f"{table} hospital: {n[f'k of the {table}']}-anonymous", fontweight="bold", color=colour, va="center"
        )
        for x, heading in zip((0, 9, 18, 30), ("zip", "age", "nation", "condition"), strict=True):
            axes.text(left + x, 90, heading, fontsize=9, style="italic", va="center")
        axes.plot([left, left + 47], [87, 87], color="#999999", linewidth=0.8)
        for i, (place, age, nation, condition) in enumerate(n[table]):
            y, hers = 83 - 5.6 * i, covers(age, ALICE["age"])
            if hers:
                axes.fill_between([left - 1, left + 47], y - 2.8, y + 2.8, color=colour, alpha=0.16, linewidth=0)
            in_both = hers and condition in n["possible by both"]
            for x, text in zip((0, 9, 18, 30), (place, age, nation, condition), strict=True):
                axes.text(
                    left + x, y, text, fontsize=9, va="center", fontweight="bold" if in_both else "normal",
                    color=VERMILLION if in_both else BLACK,
                )  # fmt: skip
    words = [", ".join(n[f"possible by the {table}"]) for table in ("first", "second")]
    alone = (
        f"The first table alone: everyone aged {'; '.join(n['groups with one condition']).replace(': ', ' has ').lower()}"
    )
    axes.text(0, 16, f"{alone}; no one has: {', '.join(n['absent from the first'])}.", va="center", fontsize=9)
    axes.text(0, 11, "A 28-year-old in zip 13012 is in a shaded group of both tables.", va="center", fontweight="bold")
    axes.text(0, 5.5, f"first: {words[0]}; second: {words[1]}", va="center", fontsize=9)
    axes.text(0, 0, f"in both: {', '.join(n['possible by both'])}", va="center", color=VERMILLION, fontweight="bold")


K_ANONYMITY = Figure(
    "k-anonymity",
    "Two k-anonymous tables, one identified person",
    "Every combination of zip, age and nationality occurs at least 4 times in one table and 6 times in the other; yet one "
    "table reveals the thirties, and both together one person.",
    "[S4, figs. 1 and 2]",
    _numbers, _paint,
)  # fmt: skip
