"""Who counts in a step: the file's table and lists of units, against a history that is kept in the open."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from discreet.errors import LedgerUnavailable
from discreet.streams import state as module
from discreet.streams.state import StreamState

STEPS = 40


def admit_by_history(history: dict[str, list[int]], step: int, units: list[str], at_most: int, apart: int) -> int:
    """Return how many of the units count, and write it into their histories: the definition."""
    counted = 0
    for unit in units:
        steps = history.setdefault(unit, [])
        if len(steps) < at_most and (not steps or step - steps[-1] >= apart):
            steps.append(step)
            counted += 1
    return counted


def freeze(state: StreamState, step: int, units: list[str], at_most: int, apart: int, fail: bool = False) -> int:
    """Freeze a step of one row per unit; return its count."""

    def measure(counts: list[int]) -> list[list[int]]:
        if fail:
            raise KeyboardInterrupt
        return [counts]

    contributions = [(unit, 1, 0) for unit in units]
    [[count]] = state.freeze(
        step, contributions, measure, None, counters=1, at_most=at_most, apart=apart, max_groups=1, max_rows=1
    )
    return count


def play(folder: Path, seed: int) -> None:
    """Tick random units from three processes in turn, some of which are interrupted or opened anew."""
    rng = random.Random(seed)
    at_most, apart = rng.randint(1, 4), rng.randint(1, 6)
    path = folder / f"{seed}.sqlite"
    states = [StreamState(path, "c0ffee", 1, STEPS) for _ in range(3)]
    history: dict[str, list[int]] = {}
    for step in range(1, STEPS + 1):
        units = [f"p{i}" for i in rng.sample(range(20), rng.randint(0, 12))]
        which = rng.randrange(3)
        if rng.random() < 0.3:
            with pytest.raises(KeyboardInterrupt):
                freeze(states[which], step, units[::2], at_most, apart, fail=True)
        if rng.random() < 0.2:
            states[which] = StreamState(path, "c0ffee", 1, STEPS)
        expected = admit_by_history(history, step, units, at_most, apart)
        assert freeze(states[which], step, units, at_most, apart) == expected, f"step {step}"
        assert freeze(states[which - 1], step, [], at_most, apart) == expected  # it is frozen


@pytest.mark.parametrize("merge_at", [1, 5, 25, 10**6])
@pytest.mark.parametrize("seed", range(6))
def test_units_count_as_their_histories_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merge_at: int, seed: int
) -> None:
    monkeypatch.setattr(module, "MERGE_AT", merge_at)
    play(tmp_path, seed)


# -- mutants ---------------------------------------------------------------------------------------------------------------


def ignore_lists(state: StreamState) -> dict[bytes, tuple[int, int]]:
    return {}


def keep_what_was_merged(state: StreamState) -> dict[bytes, tuple[int, int]]:
    """Not notice that another process has added lists to the table."""
    state._merged = int(state._read("merged") or 0)
    return REAL_TAKE(state)


def forget_the_table(state: StreamState, units: object, events: int, latest: int) -> list[tuple[bytes, int, int]]:
    return []


def play_all(folder: Path) -> None:
    for seed in range(6):
        play(folder, seed)


REAL_TAKE = StreamState._take_recent


@pytest.mark.parametrize(
    ("name", "mutant", "merge_at"),
    [
        ("_take_recent", ignore_lists, 10**6),
        ("_take_recent", keep_what_was_merged, 25),
        ("_find_units", forget_the_table, 5),
    ],
)
def test_mutants_of_the_lists_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mutant: Callable[..., object], merge_at: int
) -> None:
    monkeypatch.setattr(module, "MERGE_AT", merge_at)
    monkeypatch.setattr(StreamState, name, mutant)
    with pytest.raises(AssertionError, match="step"):
        play_all(tmp_path)


def test_a_file_without_lists_is_taken_over_and_refused_by_the_earlier_version(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    state = StreamState(path, "c0ffee", 1, STEPS)
    earlier = b"c0ffee 1"
    state._connection.execute("UPDATE stream SET value = ? WHERE name = 'stream'", (earlier,))
    state._connection.execute("DROP TABLE recent")
    state._connection.execute("INSERT INTO units VALUES (?, 2, 3)", (state._hash("p"),))
    state.close()
    again = StreamState(path, "c0ffee", 1, STEPS)
    assert again._read("stream") != earlier
    assert freeze(again, 4, ["p", "q"], at_most=3, apart=2) == 1  # p counted in step 3
    assert freeze(again, 5, ["p", "q"], at_most=3, apart=2) == 1  # and now for the last time
    assert freeze(again, 9, ["p"], at_most=3, apart=2) == 0
    with pytest.raises(LedgerUnavailable, match="belongs to another stream"):
        StreamState(path, "c0ffee", 2, STEPS)
