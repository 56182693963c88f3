"""Web and worker processes are killed at random while eight clients ask: no free answer, no lost or double debit, and every
client has its answer by its id."""

from pathlib import Path

from tests.support.killed_services import run_campaign


def test_killed_processes_lose_nothing(tmp_path: Path) -> None:
    processes = run_campaign(tmp_path, asks=100, seed=1)
    assert min(processes.kills.values()) >= 1
    assert sum(processes.kills.values()) >= 4
