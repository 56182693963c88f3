"""The invented people of `tests.support.people` as a CSV file, with a query about them as typed on the command line."""

from pathlib import Path

from tests.support.people import people

SQL = "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean FROM people GROUP BY dept"
OPTIONS = ("--unit", "id", "--bounds", "pay=0:200", "--keys", "dept=a,b,c", "--unique")


def write_people(folder: Path) -> str:
    """Write people.csv into a folder, and return its path."""
    path = folder / "people.csv"
    people().execute(f"COPY people TO '{path}' (HEADER)")
    return str(path)
