"""The console script, run as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

DISCREET = str(Path(sys.executable).with_name("discreet"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DISCREET, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_demo_shows_answers_error_bars_and_price() -> None:
    out = run("demo")
    assert out.returncode == 0
    for word in ("north", "islands", "±", "ε = 1", "δ = 1e-06", "Laplace(scale=1)", "Gaussian(sigma="):
        assert word in out.stdout


def test_demo_json_is_json_only_and_near_the_truth() -> None:
    from discreet.cli.sample import people

    out = run("demo", "--json", "--epsilon", "2")
    shown = json.loads(out.stdout)
    truth = people().histogram()
    for release in shown["releases"]:
        assert abs(release["released"] - truth).max() < 60  # Laplace at ε = 2 exceeds 60 with probability below 1e-50
        assert release["epsilon"] <= 2
    assert out.stderr == ""


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith("discreet 0.")
    assert "demo" in run("--help").stdout
    assert "Example" in run("demo", "--help").stdout


def test_mistakes_get_one_line_and_exit_code_2() -> None:
    for wrong in (("demo", "--epsilon", "0"), ("demo", "--epsilon", "lots"), ("demo", "--delta", "2"), ("nonsense",)):
        out = run(*wrong)
        assert out.returncode == 2
        assert "Traceback" not in out.stderr
        assert out.stdout == ""
