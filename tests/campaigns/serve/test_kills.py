"""A thousand asks of eight clients while processes are killed, with files and with PostgreSQL; and a PostgreSQL that is
stopped in between."""

from pathlib import Path

import pytest

from tests.support.killed_services import Place, run_campaign
from tests.support.postgres_server import Server, cluster_address, database, postgres

__all__ = ["cluster_address", "postgres"]


@pytest.mark.nightly
def test_a_thousand_asks_of_a_service_that_is_killed_in_files(tmp_path: Path) -> None:
    processes = run_campaign(tmp_path, asks=1_000, seed=2, every=20)
    assert min(processes.kills.values()) >= 10


@pytest.mark.nightly
def test_a_thousand_asks_of_a_service_that_is_killed_in_postgresql(tmp_path: Path, cluster_address: str) -> None:
    control, ledger = database(cluster_address)[0], database(cluster_address)[0]
    processes = run_campaign(tmp_path, asks=1_000, seed=3, place=Place(control, ledger), every=20)
    assert min(processes.kills.values()) >= 10


def test_a_service_that_is_killed_in_postgresql(tmp_path: Path, postgres: Server, cluster_address: str) -> None:
    """A short round of the above."""
    control, ledger = database(cluster_address)[0], database(cluster_address)[0]
    processes = run_campaign(tmp_path, asks=24, seed=4, place=Place(control, ledger), every=8)
    assert sum(processes.kills.values()) >= 2
