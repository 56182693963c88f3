"""`discreet budget`: what was spent and what remains, for people and as JSON."""

import json
from pathlib import Path

from tests.support import ledger_locations
from tests.support.console import run
from tests.support.small_ledger import make_small_ledger

folder = ledger_locations.folder  # a fixture


def test_it_shows_what_was_spent_and_what_remains(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    shown = run("budget", folder / "l")
    for words in (
        "ε = 4 of 5 remaining, 20% spent, 3 entries",
        "capped by all: ε = 8 of 9 remaining, 12% spent",
        f"hr  {'█' * 6}{'░' * 24}",
        "report",
        "ε ≤ 1",
    ):
        assert words in shown.stdout
    found = {each["account"]: each for each in json.loads(run("budget", folder / "l", "--json").stdout)["accounts"]}
    assert found["hr"]["cost"]["epsilon"]["upper"] == found["all"]["cost"]["epsilon"]["upper"] == 1


def test_amounts_have_the_symbol_of_their_currency(folder: Path) -> None:
    for currency in ("zcdp", "gdp", "rdp(16)", "pure"):
        run("ledger", "open", folder / "l", "--account", currency, "--epsilon", 2, "--delta", "1e-6", "--currency", currency)
    shown = " ".join(run("budget", folder / "l").stdout.split())
    for words in (
        "ε = 2 of 2 remaining at δ = 1e-6, 0% spent (ρ = 0.0834 of 0.0834, zCDP), 0 entries",
        "ε = 2 of 2 remaining at δ = 1e-6, 0% spent (μ² = ",
        "ε = 2 of 2 remaining at δ = 1e-6, 0% spent (D_16 = ",
        "ε = 2 of 2 remaining at δ = 1e-6, 0% spent, 0 entries",
        "δ for partition selection and claims: 5e-7 of 5e-7 remaining",
    ):
        assert words in shown
