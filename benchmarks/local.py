"""Local privacy: reports, counts and shuffling, beside pure-ldp and multi-freq-ldpy.

python benchmarks/local.py [SECTION …]                  prints the tables
python benchmarks/local.py --small [SECTION …]          with a hundredth of the people: to see that it runs
python benchmarks/local.py count ORACLE FILE            counts a file of reports, in a process of its own, as JSON
python benchmarks/local.py --reports 1000000000 engine  as many reports in DuckDB (a file of a gigabyte, kept in .data)
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.peers import ask
from benchmarks.process_memory import peak_megabytes
from benchmarks.table import Section
from discreet.accounting import shuffled_epsilon
from discreet.accounting.shuffle_pairs import list_outcomes
from discreet.accounting.shuffling import pair_epsilon
from discreet.events import Event, RandomizedResponseEvent, SetResponseEvent, Shuffled
from discreet.local.bulk import encode_many
from discreet.local.counting import count_reports
from discreet.local.decoding import decode
from discreet.local.odds import odds_for_epsilon
from discreet.local.oracles import Direct, Hadamard, Hashed, Projective, SetOracle, Unary
from discreet.local.simulating import simulate_counts, simulate_population

GOAL_MS, GOAL_WIDTH = 100, 1e-6
USERS = [10**power for power in range(4, 10)]
KNOWN: dict[str, Event] = {
    "2-RR, odds 3": RandomizedResponseEvent(Fraction(3, 4), 2),
    "128-RR, odds 20": RandomizedResponseEvent(Fraction(20, 147), 128),
    "unary, odds 3": SetResponseEvent(Fraction(3), Fraction(1, 4), Fraction(1, 16)),
    "Hadamard, odds 3": SetResponseEvent(Fraction(3), Fraction(1, 2), Fraction(1, 4)),
}


def shuffling() -> Section:
    """ε at δ = 10⁻⁶ of shuffled reports: how long, and how wide the interval is."""
    about = (
        "ε at δ = 10⁻⁶ of the pair that dominates n shuffled reports: the clones for any randomiser, the privacy blanket "
        "for known ones. Milliseconds of processor time, best of five after import; relative width of the interval."
    )
    goal = f"≤ {GOAL_MS} ms, ≤ {GOAL_WIDTH:.0e}"
    section = Section("Local: shuffling", about, ["randomiser", *(f"n = 10^{len(str(n)) - 1}" for n in USERS), "goal"])
    for epsilon0 in (1, 4):
        cells = [measure(lambda n=n, e=epsilon0: shuffled_epsilon(n, e, 1e-6)) for n in USERS]
        section.add(f"any, ε0 = {epsilon0}", *cells, goal)
    for name, event in KNOWN.items():
        section.add(name, *(measure(lambda n=n, e=event: pair_epsilon(Shuffled(e, n), 1e-6)) for n in USERS), goal)
    return section


def measure(work: Callable[[], object]) -> str:
    """ε, milliseconds, relative width."""
    best, found = inf, None
    for _ in range(5):
        list_outcomes.cache_clear()
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return f"{found.upper:.5g} · {1e3 * best:.3g} ms · {found.width / found.upper:.0e}"  # type: ignore[attr-defined]


# -- reports and counts ------------------------------------------------------------------------------------------------

PURE_LDP = ["pure-ldp==1.2.0", "scikit-learn", "statsmodels", "xxhash<4", "numpy<2.4"]
"""What pure-ldp needs and does not declare stands beside it: its hashes fail with xxhash 4, its sketches with NumPy 2.4."""
MULTI_FREQ = ["multi-freq-ldpy==0.2.5", "xxhash<4"]
ODDS = odds_for_epsilon(1)
SIZES = (128, 16_384)
DATA = Path(__file__).parent / ".data"

users, reports = 1_000_000, 10_000_000
"""People per measurement in memory, and reports in DuckDB; the shell changes them."""


@cache
def peers() -> tuple[dict[str, Any], dict[str, Any]]:
    """Nanoseconds per user of both libraries, by oracle and number of values."""
    return ask("pure-ldp", PURE_LDP, "peer_pure_ldp.py"), ask("multi-freq-ldpy", MULTI_FREQ, "peer_multi_freq.py")


def oracles(d: int) -> dict[str, SetOracle]:
    """Every oracle at ε = 1, by the name of the peers' closest one."""
    found: dict[str, SetOracle] = {
        "k-RR": Direct(d, ODDS), "Hadamard": Hadamard(d, ODDS), "projective": Projective.optimised(d, ODDS),
        "OLH": Hashed.optimised(d, ODDS),
    }  # fmt: skip
    return found | ({"OUE": Unary.optimised(d, ODDS)} if d == SIZES[0] else {})


CLOSEST = {"projective": "Hadamard response"}
"""What is compared where a library lacks an oracle."""


def processor_time(work: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of processor time, best of several rounds."""
    best = inf
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def draw_values(d: int, n: int) -> Any:
    """Values of n people, with shares that fall as 1/rank."""
    weights = 1 / np.arange(1, d + 1)
    return np.random.default_rng(1).choice(d, n, p=weights / weights.sum())


def encoding() -> Section:
    """Reports of many people, drawn exactly."""
    pure, multi = peers()
    section = Section(
        f"Local: encoding, {users:,} people",
        "ε = 1. Nanoseconds of processor time a person, best of five; ours with exact coins from a cryptographic keystream, "
        f"theirs with floats: pure-ldp {pure['version']} (for projective its Hadamard response), multi-freq-ldpy "
        f"{multi['version']}, a few thousand people each.",
        ["oracle", "values", "ns", "goal", "pure-ldp ns", "times faster", "goal", "multi-freq-ldpy ns"],
    )
    for d in SIZES:
        for name, oracle in oracles(d).items():
            held = draw_values(d, users if name != "OUE" else users // 4)
            encode_many(oracle, held[:10])  # tables are built once
            ours = processor_time(lambda oracle=oracle, held=held: encode_many(oracle, held)) / len(held) * 1e9
            key = f"{CLOSEST.get(name, name)} {d}"
            theirs, other = pure.get(key, {}).get("encode"), multi.get(key, {}).get("encode")
            section.add(
                name, f"{d:,}", f"{ours:.1f}", "≤ 100" if name in ("k-RR", "Hadamard", "projective") else "",
                _show(theirs), f"{theirs / ours:.0f}" if theirs else "", "≥ 10" if theirs and name != "OLH" else "",
                _show(other),
            )  # fmt: skip
    return section


def _show(nanoseconds: float | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds:,.0f}"


def decoding() -> Section:
    """Counts and estimates in memory."""
    pure, multi = peers()
    section = Section(
        f"Local: decoding in memory, {users:,} reports",
        "ε = 1. Nanoseconds of processor time a report, best of five: checked, counted, supports of all values and "
        "unbiased estimates; the last column adds certified intervals, each value's and all at once. The peers: pure-ldp "
        f"{pure['version']}, multi-freq-ldpy {multi['version']} (a few thousand reports; 20 of OLH over 16,384 values).",
        ["oracle", "values", "ns", "times np.bincount", "goal", "pure-ldp ns", "times faster", "goal", "multi-freq-ldpy ns",
         "ns with intervals"],
    )  # fmt: skip
    for d in SIZES:
        for name, oracle in oracles(d).items():
            rows = encode_many(oracle, draw_values(d, users))
            ours = processor_time(lambda oracle=oracle, rows=rows: estimate_all(oracle, rows)) / users * 1e9
            whole = processor_time(lambda oracle=oracle, rows=rows: decode(count_reports(oracle, rows)), 1) / users * 1e9
            key = f"{CLOSEST.get(name, name)} {d}"
            theirs, other = pure.get(key, {}).get("decode"), multi.get(key, {}).get("decode")
            ratio = ""
            if name == "k-RR":
                bare = processor_time(lambda rows=rows, d=d: np.bincount(rows["y"], minlength=d)) / users * 1e9
                ratio = f"{ours / bare:.2f}"
            section.add(
                name, f"{d:,}", f"{ours:.2f}", ratio, "≤ 2" if ratio else "", _show(theirs),
                f"{theirs / ours:,.0f}" if theirs else "", "≥ 100" if name == "OLH" else "", _show(other), f"{whole:.1f}",
            )  # fmt: skip
    return section


def estimate_all(oracle: SetOracle, rows: Any) -> Any:
    """The unbiased estimate of every value, as a double."""
    counts = count_reports(oracle, rows)
    p, q = oracle.truth_support, oracle.other_support
    return (counts.supports - counts.n * float(q)) / float(p - q)


# -- in DuckDB ---------------------------------------------------------------------------------------------------------

ENGINE_ORACLES: dict[str, SetOracle] = {
    "k-RR 128": Direct(128, ODDS), "k-RR 16384": Direct(16_384, ODDS), "Hadamard 128": Hadamard(128, ODDS),
    "projective 16384": Projective.optimised(16_384, ODDS),
}  # fmt: skip
SECONDS, MEMORY = 120, 1000
"""Goals for 10⁹ reports: seconds and megabytes."""


def write_reports(oracle: SetOracle, n: int) -> Path:
    """A Parquet file of n uniform reports: what is counted does not depend on their distribution."""
    DATA.mkdir(exist_ok=True)
    path = DATA / f"local-{type(oracle).__name__}-{oracle.values}-{n}.parquet"
    if not path.exists():
        columns = ", ".join(
            f"(hash(i + {place}) % {each.below})::{'USMALLINT' if each.below <= 1 << 16 else 'UINTEGER'} AS {each.name}"
            for place, each in enumerate(oracle.fields)
        )
        part = path.with_suffix(".part")
        with duckdb.connect() as database:
            database.execute("SET memory_limit = '1GB'; SET preserve_insertion_order = false")
            database.execute(f"COPY (SELECT {columns} FROM range({n}) t(i)) TO '{part}' (FORMAT parquet)")
        part.rename(path)
    return path


def count_file(name: str, path: str) -> dict[str, Any]:
    """Seconds and megabytes to count a file, by a bare GROUP BY and with every report checked."""
    oracle = ENGINE_ORACLES[name]
    names = ", ".join(each.name for each in oracle.fields)

    def run_bare() -> int:
        with duckdb.connect() as database:
            found = database.execute(f"SELECT {names}, COUNT(*) FROM read_parquet('{path}') GROUP BY {names}").fetchall()
        return sum(row[-1] for row in found)

    def run_ours() -> int:
        counts = count_reports(oracle, path)
        return int(counts.supports.sum() > 0) and counts.n

    seconds: dict[str, float] = {"bare": inf, "ours": inf}
    rounds = 5 if Path(path).stat().st_size < 1 << 27 else 1
    n = 0
    for _ in range(rounds):
        for kind, run in (("ours", run_ours), ("bare", run_bare)):
            start = time.perf_counter()
            n = run()
            seconds[kind] = min(seconds[kind], time.perf_counter() - start)
    return {**seconds, "n": n, "megabytes": peak_megabytes()}


def engine() -> Section:
    """Counts where the reports are."""
    section = Section(
        f"Local: counting in DuckDB, {reports:,} reports",
        "A Parquet file; every report is checked. Wall-clock seconds, best of five (large files: once), in a process of "
        "its own, whose memory is measured over both. The same integers in PostgreSQL and Spark are tested, not timed.",
        ["oracle", "seconds", "bare GROUP BY", "ratio", "goal", "reports a second", "MB", "10⁹ reports"],
    )
    for name, oracle in ENGINE_ORACLES.items():
        path = write_reports(oracle, reports)
        out = subprocess.run(
            [sys.executable, __file__, "count", name, str(path)], check=True, capture_output=True, text=True
        )
        found = json.loads(out.stdout.splitlines()[-1])
        assert found["n"] == reports
        large = reports >= 10**9
        section.add(
            name, f"{found['ours']:.3f}", f"{found['bare']:.3f}", f"{found['ours'] / found['bare']:.2f}",
            "≤ 1.2" if name.startswith("k-RR") else "", f"{reports / found['ours']:.2e}", f"{found['megabytes']:.0f}",
            f"≤ {SECONDS} s, ≤ {MEMORY} MB" if large else f"about {found['ours'] * 1e9 / reports:.0f} s",
        )  # fmt: skip
    return section


def simulating() -> Section:
    """Counts of a billion people without their reports."""
    section = Section(
        "Local: simulating 10⁹ people", "ε = 1, shares that fall as 1/rank. Seconds of processor time, best of five.",
        ["oracle", "values", "people who are given", "people who are drawn", "goal"],
    )  # fmt: skip
    for d in SIZES:
        weights = (10**9 / np.arange(1, d + 1)).astype(np.int64)
        holders = np.random.default_rng(1).multinomial(10**9, weights / weights.sum())
        for name, oracle in oracles(d).items():
            slow = d > 1000 and name != "k-RR"  # value by value: for few values
            given = None if slow else processor_time(lambda oracle=oracle, held=holders: simulate_counts(oracle, held))
            drawn = processor_time(lambda oracle=oracle, weights=weights: simulate_population(oracle, 10**9, weights))
            section.add(name, f"{d:,}", "" if given is None else f"{given:.3f}", f"{drawn:.3f}", "≤ 1")
    return section


SECTIONS = (encoding, decoding, engine, simulating, shuffling)


def main(*words: str) -> None:
    """Print the tables."""
    global users, reports
    given = list(words)
    if given[:1] == ["count"]:
        print(json.dumps(count_file(given[1], given[2])))
        return
    if "--small" in given:
        given.remove("--small")
        users, reports = users // 100, reports // 100
    if "--reports" in given:
        place = given.index("--reports")
        reports = int(given.pop(place + 1))
        given.pop(place)
    for make in SECTIONS:
        if not given or make.__name__ in given:
            print(make().markdown(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
