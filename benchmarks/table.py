"""A titled table that is printed and written down."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Section:
    """One comparison: what was compared, how, and the rows."""

    title: str
    about: str
    columns: list[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """One more row."""
        assert len(cells) == len(self.columns)
        self.rows.append(cells)

    def markdown(self) -> str:
        """As it stands in RESULTS.md."""
        lines = [f"## {self.title}", "", self.about, "", _line(self.columns), _line(["---"] * len(self.columns))]
        return "\n".join([*lines, *(_line(row) for row in self.rows), ""])


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
