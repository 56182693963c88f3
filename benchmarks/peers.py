"""Other people's libraries, each in an environment of its own under benchmarks/.peers: never a dependency of discreet."""

import fcntl
import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent / ".peers"
DIFFPRIVLIB = ["diffprivlib==0.6.6", "scikit-learn==1.7.2", "numpy<2.3"]


def interpreter(name: str, packages: list[str]) -> Path:
    """The Python of the environment `name` that holds `packages`, made on first use.

    Tests in several processes ask for the same one: the first makes it, and the others wait.
    """
    python = HOME / name / "bin" / "python"
    ready = HOME / name / ".ready"
    wanted = "\n".join(packages)
    HOME.mkdir(exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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
