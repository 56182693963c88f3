"""Other people's libraries, each in an environment of its own under benchmarks/.peers: never a dependency of discreet."""

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent / ".peers"
DIFFPRIVLIB = ["diffprivlib==0.6.6", "scikit-learn==1.7.2", "numpy<2.3"]


def interpreter(name: str, packages: list[str]) -> Path:
    """The Python of the environment `name` that holds `packages`, made on first use."""
    python = HOME / name / "bin" / "python"
    ready = HOME / name / ".ready"
    wanted = "\n".join(packages)
    if not ready.exists() or ready.read_text() != wanted:
        print(f"installing {', '.join(packages)} for comparison …", file=sys.stderr)
        venv.create(HOME / name, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
        ready.write_text(wanted)
    return python


def ask(name: str, packages: list[str], script: str) -> Any:
    """What `script` (a file beside this one) prints as JSON, run in the environment `name` that holds `packages`."""
    python = interpreter(name, packages)
    out = subprocess.run([python, Path(__file__).parent / script], check=True, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1])
