"""`make bench`: runs every comparison and writes benchmarks/RESULTS.md. Only ratios within one run mean something."""

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import accounting, ledger, noise  # noqa: E402

SECTIONS = [*noise.SECTIONS, *accounting.SECTIONS, *ledger.SECTIONS]


def header() -> str:
    """Which code, on what."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    parts = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "cryptography"))
    return (
        "# Benchmarks\n\nWritten by `make bench`; do not edit. Only ratios within one run mean something.\n\n"
        f"discreet {version('discreet')} at commit {commit.stdout.strip() or 'unknown'}, "
        f"Python {platform.python_version()}, {parts}, {platform.machine()}.\n"
    )


def main() -> None:
    """Print each table as it is ready; write them all at the end."""
    text = [header()]
    for make in SECTIONS:
        text.append(make().markdown())
        print(text[-1], flush=True)
    (ROOT / "benchmarks" / "RESULTS.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
