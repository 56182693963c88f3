"""An address reaches the engine that it is for, and its password is never shown."""

import logging
from pathlib import Path

import pytest

from discreet import BadParameter, LedgerUnavailable, SourceRefused, connect
from discreet.ledger import open_ledger
from discreet.paths import has_unescaped_password, is_postgres

SECRET = "hunter2"
MALFORMED = [
    f"postgresql://u:{SECRET}@[::1/db", f"postgresql://u:{SECRET}%zz@h/db", f"postgresql://u:{SECRET}@h:9{SECRET}/db",
    f"postgresql://u:{SECRET}\x00@h/d", f"postgresql://u:12/{SECRET}@127.0.0.1:1/db", f"postgresql://u:x@{SECRET}@h/db",
    f"postgresql://u:x/{SECRET}@h/db", f"postgresql://u:p@h/db?{SECRET}=1", f"host=db user=u password='{SECRET}",
    f"host=db password=hun.{SECRET} nothing", f"PostgreSQL://u:{SECRET}@[::1/db",
    f"postgresql://127.0.0.1:{SECRET}/db",
]  # fmt: skip
UNREACHABLE = [
    f"host=127.0.0.1 port=1 user=u password={SECRET}", f"port=1 host=127.0.0.1 password=a.{SECRET} connect_timeout=2",
    f"PostgreSQL://u:{SECRET}@127.0.0.1:1/db", f"POSTGRES://u:{SECRET}@127.0.0.1:1/db",
]  # fmt: skip
STRANGE = [
    f"mysql://u:{SECRET}@db.example",
    f"mysql://u:hun.{SECRET}",
    f"pwd=hun.{SECRET}",
    f"u@h.{SECRET}",
    f"a.b {SECRET}",
]


@pytest.mark.parametrize("address", MALFORMED + UNREACHABLE + STRANGE)
def test_a_password_is_never_shown(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(SourceRefused) as refusal:
        connect(address, table="people", unit="id", epsilon=1)
    assert SECRET not in f"{refusal.value} {caplog.text}"
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    assert is_postgres(address) == (address not in STRANGE)
    assert ("database" in str(refusal.value)) == is_postgres(address)
    assert bool(caplog.messages) == is_postgres(address)


def test_a_refusal_names_the_page_about_its_engine() -> None:
    for address, page in (
        (UNREACHABLE[0], "docs/scale.md#postgresql"),
        ("none.csv", "docs/asking.md#which-files-can-be-read"),
    ):
        with pytest.raises(SourceRefused) as refusal:
            connect(address, table="people", unit="id", epsilon=1)
        assert refusal.value.see == page


def test_the_ending_of_a_file_is_named() -> None:
    with pytest.raises(SourceRefused, match=r"^'people\.xls': \.xls is not a kind"):
        connect("people.xls", unit="id", epsilon=1)


def test_a_file_may_look_like_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user=7").mkdir()
    (tmp_path / "user=7" / "people.csv").write_text("id\n1\n")
    assert connect("user=7/people.csv", unit="id", epsilon=1).table.name == "people"


def test_good_addresses_are_not_refused() -> None:
    good = (
        "postgresql://",
        "postgresql:///db",
        "postgresql://u:p@h:5432,i:5433/db?sslmode=require",
        "postgresql://u%40x@h/d",
    )
    assert not any(map(has_unescaped_password, good))


@pytest.mark.parametrize("address", MALFORMED + UNREACHABLE)
def test_the_address_of_a_ledger_is_no_file_either(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file would have the password in its name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((LedgerUnavailable, BadParameter)) as refused:
        open_ledger(address, create=True)
    assert SECRET not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
