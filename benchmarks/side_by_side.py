"""Runs the code of other libraries that docs/from-other-libraries.md and docs/recipes-training.md show, each in an
environment of its own.

    python benchmarks/side_by_side.py            all of it
    python benchmarks/side_by_side.py opendp     one library

A block is marked ```py title="NAME VERSION": it is run with that version of the package, from the root of the repository,
and must end without an error. The other libraries are no dependency of discreet, so no test runs this.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.peers import interpreter  # noqa: E402

PAGES = [ROOT / "docs" / name for name in ("from-other-libraries.md", "recipes-training.md")]
BLOCK = re.compile(r'^```py title="(\S+) (\S+)"\n(.*?)^```$', re.M | re.S)
PACKAGES = {
    "opendp": ["opendp[polars]=={version}"],
    "tmlt.analytics": ["tmlt.analytics=={version}", "setuptools<81"],
    "diffprivlib": ["diffprivlib=={version}", "scikit-learn<1.6", "pandas"],
    "smartnoise-sql": ["smartnoise-sql=={version}"],
    "opacus": ["torch==2.13.0", "opacus=={version}"],
}
"""What pip installs for each library, beside what the library itself asks for."""


def run_block(name: str, version: str, code: str) -> None:
    """Run one block in the environment of its library."""
    python = interpreter(f"side-by-side-{name}", [each.format(version=version) for each in PACKAGES[name]])
    ended = subprocess.run([python, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"{name} {version}: {'runs' if ended.returncode == 0 else 'FAILS'}")
    print(ended.stdout if ended.returncode == 0 else ended.stderr[-2000:])
    if ended.returncode:
        raise SystemExit(1)


def main(*wanted: str) -> None:
    """Run the blocks of the libraries that are named, or all."""
    for name, version, code in BLOCK.findall("\n".join(page.read_text(encoding="utf-8") for page in PAGES)):
        if not wanted or name in wanted:
            run_block(name, version, code)


if __name__ == "__main__":
    main(*sys.argv[1:])
