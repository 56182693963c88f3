"""The store in PostgreSQL: a server that cannot be reached, a database without a ledger."""

from pathlib import Path

import pytest

from discreet.errors import BadParameter, LedgerUnavailable
from discreet.ledger import open_ledger


def test_a_server_that_cannot_be_reached(folder: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="nothing is shown") as failed:
        open_ledger(f"postgresql://me:secret@/nothing?host={folder}")
    assert "secret" not in str(failed.value)
    with pytest.raises(BadParameter, match="not an address"):
        open_ledger("postgresql://host/db?nonsense=1")


def test_a_database_without_a_ledger(database: str) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(database)
