"""`make bench`: runs every comparison and writes benchmarks/RESULTS.md. Only ratios within one section mean something.

python benchmarks/run.py [SUBJECT …]   measures those
"""

import argparse
import os
import platform
import subprocess
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import (  # noqa: E402
    accounting,
    asking,
    auditing,
    census_scale,
    engines,
    learn,
    ledger,
    local,
    noise,
    preparing,
    publishing,
    serve,
    starting,
    streams,
    synthesis,
    tabulation,
    training,
)

SUBJECTS = {
    "noise": noise.SECTIONS,
    "accounting": accounting.SECTIONS,
    "asking": asking.SECTIONS,
    "starting": starting.SECTIONS,
    "ledger": ledger.SECTIONS,
    "engines": engines.SECTIONS,
    "preparing": preparing.SECTIONS,
    "auditing": auditing.SECTIONS,
    "publishing": publishing.SECTIONS,
    "serve": serve.SECTIONS,
    "local": local.SECTIONS,
    "streams": streams.SECTIONS,
    "synthesis": synthesis.SECTIONS,
    "tabulation": tabulation.SECTIONS,
    "hierarchies": census_scale.SECTIONS,
    "learning": learn.SECTIONS,
    "training": training.SECTIONS,
}


RESULTS = ROOT / "benchmarks" / "RESULTS.md"
TOP = "# Benchmarks\n\nWritten by `make bench`; do not edit. Only ratios within one section mean something.\n"


def measured_on() -> str:
    """Which code, on what."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    parts = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "cryptography", "duckdb"))
    return (
        f"discreet {version('discreet')} at commit {commit.stdout.strip() or 'unknown'}, "
        f"Python {platform.python_version()}, {parts}, {platform.machine()}."
    )


def sections(text: str) -> dict[str, str]:
    """The sections of a file of results, by their titles."""
    return {part.partition("\n")[0]: part.rstrip() + "\n" for part in text.split("\n## ")[1:]}


def main(*named: str) -> None:
    """Print each table as it is ready, and put it in the place of the one before. Name sections that failed at the end."""
    found = sections(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() and named else {}
    code, failed = measured_on(), []  # before this file's own results change the working tree
    for make in [make for subject in named or SUBJECTS for make in SUBJECTS[subject]]:
        load, start = os.getloadavg()[0], time.perf_counter()
        try:
            table = make().markdown().rstrip()
        except Exception:
            traceback.print_exc()
            failed.append(f"{make.__module__}.{make.__name__}")
            continue
        took = time.perf_counter() - start
        text = f"{table}\n\n{code} Taken in {took:.0f} s; load of the machine before: {load:.1f}.\n"
        print(text, flush=True)
        found |= sections(f"\n{text}")
        RESULTS.write_text("\n".join([TOP, *(f"## {section}" for section in found.values())]), encoding="utf-8")
    if failed:
        sys.exit(f"These sections failed: {', '.join(failed)}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run benchmarks, and write their tables into benchmarks/RESULTS.md.")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"all, unless given; of {', '.join(SUBJECTS)}")
    asked = parser.parse_args().subjects
    if unknown := sorted({*asked} - {*SUBJECTS}):
        parser.error(f"no such subject: {', '.join(unknown)}. Take of: {', '.join(SUBJECTS)}.")
    main(*asked)
