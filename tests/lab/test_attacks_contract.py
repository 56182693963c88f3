"""What every attack promises: a name, a line, the same play each time, numbers that JSON can hold, refusals in words."""

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
}


@cache
def played(name: str, seed: int | None = None) -> AttackResult:
    return run(name, **SMALL[name], **({} if seed is None else {"seed": seed}))


def test_all_are_there() -> None:
    assert set(ATTACKS) == set(SMALL)
    assert all(name == attack.name and "\n" not in attack.summary for name, attack in ATTACKS.items())
    with pytest.raises(TypeError):
        ATTACKS["other"] = ATTACKS["averaging"]  # type: ignore[index]


@pytest.mark.parametrize("name", SMALL)
def test_it_plays_the_same_each_time(name: str) -> None:
    again = run(name, **SMALL[name])
    assert again == played(name)
    assert played(name, seed=99).numbers != again.numbers


@pytest.mark.parametrize("name", SMALL)
def test_numbers_are_json_and_words_tell_both_sides(name: str) -> None:
    found = played(name)
    assert json.loads(json.dumps(found.numbers)) == found.numbers
    text = str(found)
    assert text.startswith(found.title)
    assert "Without" in text
    assert "With discreet" in text
    assert all(line and "None" not in line and "Fraction" not in line for line in found.lines)


@pytest.mark.parametrize("name", SMALL)
def test_what_cannot_be_played_is_refused(name: str) -> None:
    with pytest.raises(BadParameter, match=r"none of that name\. It has .*seed"):
        run(name, speed=3)
    for option, value in ATTACKS[name].options.items():
        for wrong in ("many", float("nan"), -1, None, True):
            if option == "seed" and wrong == -1:
                continue  # a seed is a name
            with pytest.raises(BadParameter):
                run(name, **{option: wrong})
        assert isinstance(value, int | float | Fraction)


def test_an_unknown_attack_is_refused() -> None:
    with pytest.raises(BadParameter, match="Take one of averaging"):
        run("bribery")
    assert Attack("x", "y", lambda: played("averaging")).play() == played("averaging")


def test_the_house_is_real() -> None:
    """The ledger is a file, it takes no seeded noise, and nothing is left behind."""
    with open_testbed([{"id": 1, "sick": 1}]) as built:
        with built.connect_with_ledger(1) as session:
            assert isinstance(session.account, LedgerAccount)
            assert isinstance(session.account.store, SqliteStore)
            assert built.ledger.exists()
            with pytest.raises(BadParameter, match="seeded"):
                session.ask("SELECT COUNT(*) AS n FROM people", epsilon=1, bits=seeded_bits(1))
        folder = built.folder
    assert not folder.exists()
