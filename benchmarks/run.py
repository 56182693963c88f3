"""`make bench`: runs every comparison and writes benchmarks/RESULTS.md. Only ratios within one run mean something.

python benchmarks/run.py [noise|accounting|asking|ledger|engines|auditing …]      prints those, leaves RESULTS.md alone
"""

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import accounting, asking, auditing, engines, ledger, noise  # noqa: E402

SUBJECTS = {
    "noise": noise.SECTIONS,
    "accounting": accounting.SECTIONS,
    "asking": asking.SECTIONS,
    "ledger": ledger.SECTIONS,
    "engines": engines.SECTIONS,
    "auditing": auditing.SECTIONS,
}


def header() -> str:
    """Which code, on what."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    parts = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "cryptography", "duckdb"))
    return (
        "# Benchmarks\n\nWritten by `make bench`; do not edit. Only ratios within one run mean something.\n\n"
        f"discreet {version('discreet')} at commit {commit.stdout.strip() or 'unknown'}, "
        f"Python {platform.python_version()}, {parts}, {platform.machine()}.\n"
    )


def main(*named: str) -> None:
    """Print each table as it is ready; write them all at the end, unless only some were asked for."""
    text = [header()]
    for make in [make for subject in named or SUBJECTS for make in SUBJECTS[subject]]:
        text.append(make().markdown())
        print(text[-1], flush=True)
    if not named:
        (ROOT / "benchmarks" / "RESULTS.md").write_text("\n".join(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
