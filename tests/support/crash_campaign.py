"""Runs tests/support/crash_harness.py in a process of its own, which has one thread and may fork."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def run_campaign(*words: str) -> dict[str, Any]:
    """Run a campaign of kills or faults; return its outcome."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.crash_harness", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))
