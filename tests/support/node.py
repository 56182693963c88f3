"""Node, which runs the JavaScript client in tests. It is required: a client that is not run is not tested."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CLIENT = ROOT / "client" / "discreet-local.js"
MIN_VERSION = 20


def find_node() -> str:
    """Return the path of Node; fail the test if there is none, or an old one."""
    node = shutil.which("node")
    if node is None:
        pytest.fail("node is not on the PATH, and the JavaScript client cannot be tested: install Node 20 or later")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < MIN_VERSION:
        pytest.fail(f"node is {version}, and the JavaScript client needs Node 20 or later")
    return node


def run_node(*arguments: str | Path, lines: str = "") -> str:
    """Run Node on a script and return what it printed."""
    done = subprocess.run(
        [find_node(), *map(str, arguments)], input=lines, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
