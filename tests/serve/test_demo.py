"""`make demo-serve`: a service, an answer from another process, the budget; nothing is left behind."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_demonstration_shows_an_answer_and_the_budget(tmp_path: Path) -> None:
    command = [sys.executable, "tools/demo_serve.py"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "COLUMNS": "120"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"token=\"dsc_[\w-]", ended.stdout)
    assert "│ sales" in ended.stdout
    assert "Budget: ε = 2." in ended.stdout
    assert "First remote answer after" in ended.stdout
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
    assert "make demo-serve" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("demo-serve:")[0]
