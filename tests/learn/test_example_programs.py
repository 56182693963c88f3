"""The programs of examples/ that train models run as a reader would run them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def run_example(program: str, *arguments: str) -> str:
    command = [sys.executable, f"examples/{program}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_models_of_the_income_example_learn() -> None:
    """A model that learned nothing says `<=50K` of everyone, which is right for 76% of the invented people."""
    shown = run_example("income.py")
    accuracies = {line.split(":")[0]: float(line.split()[2]) for line in shown.splitlines() if ": accuracy" in line}
    assert set(accuracies) == {"LogisticRegression", "Additive"}
    assert min(accuracies.values()) > 0.78
    assert "Budget: ε = " in shown


def test_the_digits_example_states_its_cost_and_its_guarantee() -> None:
    shown = run_example("digits.py", "3")
    assert "ε" in shown.splitlines()[0]
    assert shown.endswith("other pictures are recognised.\n")
