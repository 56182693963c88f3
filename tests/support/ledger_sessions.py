"""Sessions about the invented people of `tests.support.people` that charge accounts of a ledger."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.ledger import open_ledger
from discreet.session.connect import connect
from discreet.session.session import Session
from tests.support.people import COUNTS, people


@pytest.fixture
def charged_folder(tmp_path: Path) -> Path:
    """A folder with people.parquet and hr.ledger, which has the accounts hr (zCDP) and pure."""
    people().execute(f"COPY people TO '{tmp_path}/people.parquet'")
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6)
        ledger.open_account("pure", 2)
    return tmp_path


def open_session(folder: Path, account: str = "hr", **more: Any) -> Session:
    """Open a session on people.parquet that charges an account of hr.ledger."""
    declared: dict[str, Any] = {
        "unit": "id", "bounds": {"pay": (0, 200), "age": (0, 100)}, "keys": {"dept": tuple(COUNTS)}, "unique": True,
    }  # fmt: skip
    return connect(folder / "people.parquet", ledger=folder / "hr.ledger", account=account, **(declared | more))


def read_spent(folder: Path, account: str = "hr") -> Fraction:
    """Return what an account of hr.ledger has spent."""
    with open_ledger(folder / "hr.ledger") as ledger:
        return ledger.get_account(account).budget.spent
