"""What every attack has: a name, a summary, reproducible results, numbers for JSON, options that are checked."""

import json
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from discreet import BadParameter
from discreet.lab.attacks import ATTACKS, Attack, AttackResult, run
from discreet.lab.attacks.attack import open_testbed
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.sqlite import SqliteStore
from discreet.testing import seeded_bits

SMALL: dict[str, dict[str, Any]] = {
    "averaging": {"answers": 40},
    "differencing": {"rehearsals": 500},
    "reconstruction": {"people": 40, "questions": 200, "parts": 4},
    "intersection": {"rehearsals": 500},
    "catastrophe": {"releases": 200, "delta": 0.25},
    "name-and-shame": {"releases": 200},
    "float-grid": {"answers": 2_000},
    "telemetry": {"devices": 12, "reports": 12},
}


@cache
def get_result(name: str, seed: int | None = None) -> AttackResult:
    return run(name, **SMALL[name], **({} if seed is None else {"seed": seed}))


def test_all_attacks_are_listed() -> None:
    assert set(ATTACKS) == set(SMALL)
    assert all(name == attack.name and "\n" not in attack.summary for name, attack in ATTACKS.items())
    with pytest.raises(TypeError):
        ATTACKS["other"] = ATTACKS["averaging"]  # type: ignore[index]


@pytest.mark.parametrize("name", SMALL)
def test_results_are_reproducible(name: str) -> None:
    again = run(name, **SMALL[name])
    assert again == get_result(name)
    assert get_result(name, seed=99).numbers != again.numbers


@pytest.mark.parametrize("name", SMALL)
def test_numbers_are_json_and_lines_show_both_sides(name: str) -> None:
    found = get_result(name)
    assert json.loads(json.dumps(found.numbers)) == found.numbers
    text = str(found)
    assert text.startswith(found.title)
    assert "Without" in text
    assert "With discreet" in text
    assert all(line and "None" not in line and "Fraction" not in line for line in found.lines)


@pytest.mark.parametrize("name", SMALL)
def test_wrong_options_are_refused(name: str) -> None:
    with pytest.raises(BadParameter, match=r"not an option of the attack .*\. It has .*seed"):
        run(name, speed=3)
    for option, value in ATTACKS[name].options.items():
        for wrong in ("many", float("nan"), -1, None, True):
            if option == "seed" and wrong == -1:
                continue  # any integer is a seed
            with pytest.raises(BadParameter):
                run(name, **{option: wrong})
        assert isinstance(value, int | float | Fraction)


def test_an_unknown_attack_is_refused() -> None:
    with pytest.raises(BadParameter, match="Take one of averaging"):
        run("bribery")
    assert Attack("x", "y", lambda: get_result("averaging")).run() == get_result("averaging")


def test_the_testbed_is_real() -> None:
    """The ledger is a file, it refuses seeded noise, and the folder is removed."""
    with open_testbed([{"id": 1, "sick": 1}]) as testbed:
        with testbed.connect_with_ledger(1) as session:
            assert isinstance(session.account, LedgerAccount)
            assert isinstance(session.account.store, SqliteStore)
            assert testbed.ledger.exists()
            with pytest.raises(BadParameter, match="seeded"):
                session.ask("SELECT COUNT(*) AS n FROM people", epsilon=1, bits=seeded_bits(1))
        folder = testbed.folder
    assert not folder.exists()


@pytest.mark.parametrize("name", SMALL)
def test_sizes_that_take_hours_are_refused_at_once(name: str) -> None:
    attack = ATTACKS[name]
    sizes = [option for option, default in attack.options.items() if isinstance(default, int) and option != "seed"]
    assert set(attack.limits) == set(sizes)
    for size in sizes:
        assert attack.options[size] <= attack.limits[size]
        with pytest.raises(BadParameter, match=f"{size} is 1,000,000,000: too many .* Give at most {attack.limits[size]:,}"):
            attack.run(**{size: 10**9})
