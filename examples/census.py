"""The invented census table of the course beside this file: python examples/census.py

No person in it exists; `discreet.lab.census` says how the values are drawn. A test compares the file with it.
"""

from pathlib import Path

from discreet.lab.census import write_census

CENSUS = Path(__file__).parent / "census.csv"

if __name__ == "__main__":
    write_census(CENSUS)
    print(f"{CENSUS.name}: written")
