"""`discreet ledger`: JSON alone on stdout, and the documented exit codes."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.accounting.currencies import Zcdp
from discreet.ledger import open_ledger
from discreet.query.quote import explain_currency
from tests.support import ledger_locations
from tests.support.console import run
from tests.support.small_ledger import debit_and_record, make_small_ledger

database, folder, server = ledger_locations.database, ledger_locations.folder, ledger_locations.server  # fixtures


def test_open_budget_check_and_head(folder: Path) -> None:
    file = folder / "Bücher für alle.ledger"
    first = run("ledger", "open", file, "--account", "all", "--epsilon", 4, "--delta", "1e-9")
    assert first.returncode == 0
    assert first.stdout.splitlines() == [
        'Opened account "all": ε = 4 at δ = 1e-9 (ρ = 0.199, zCDP). The budget cannot be changed.',
        "δ = 5e-10 is reserved for partition selection and claims.",
        *explain_currency(Zcdp(), Fraction(4), Fraction(1, 10**9)),
    ]
    opened = run("ledger", "open", file, "--account", "hr", "--epsilon", 2, "--delta", "1e-9", "--currency", "zcdp",
                 "--parent", "all", "--json")  # fmt: skip
    assert json.loads(opened.stdout)["currency"] == "zcdp"
    budget = json.loads(run("budget", file, "--account", "hr", "--json").stdout)["accounts"][0]
    assert budget["cost"] == {"epsilon": {"lower": 0.0, "upper": 0.0}, "delta": 1e-9, "currency": "zcdp", "amount": 0.0,
                               "remaining": budget["limit"]}  # fmt: skip
    head = run("ledger", "head", file)
    (folder / "head.json").write_text(head.stdout)
    checked = run("ledger", "check", file, "--head", folder / "head.json")
    assert checked.returncode == 0
    assert "continues the signed head" in checked.stdout
    again = run("ledger", "open", file, "--account", "hr", "--epsilon", 9)
    assert again.returncode == 2
    assert "Its budget cannot be changed" in again.stderr


def test_exit_codes(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    assert run("budget", folder / "nothing").returncode == 4
    assert run("budget", folder / "l", "--account", "unknown").returncode == 2
    assert run("ledger", "open", folder / "l", "--account", "x", "--epsilon", 1, "--currency", "gold").returncode == 2
    assert run("ledger", "open", folder / "l", "--account", "x", "--epsilon", 1, "--currency", "zcdp").returncode == 2
    (folder / "text").write_text("no ledger\n" * 1000)
    assert run("budget", folder / "text").returncode == 4, "a wrong name, and no ledger whose checks fail"
    assert run("ledger", "check", folder / "text").returncode == 4
    device = run("ledger", "check", "/dev/null")
    assert device.returncode == 4
    assert "ledger /dev/null: this is a device, not a regular file. Name the file of a ledger." in device.stderr
    damaged = bytearray((folder / "l").read_bytes())
    damaged[16:100] = bytes(84)  # what follows SQLite's signature
    (folder / "damaged").write_bytes(damaged)
    assert run("budget", folder / "damaged").returncode == 1, "it says that it is a ledger, and cannot be read"
    ledger = open_ledger(folder / "l")
    with ledger.store.write_transaction() as transaction:
        transaction.run("UPDATE discreet_accounts SET spent = '0'", ())
    ledger.close()
    broken = run("ledger", "check", folder / "l", "--json")
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["holds"] is False


def test_a_key_without_a_head_is_a_mistake(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    refused = run("ledger", "check", folder / "l", "--key", "abc")
    assert refused.returncode == 2
    assert "there is no head to verify with it" in refused.stderr


def test_a_ledger_in_postgres(database: str, folder: Path) -> None:
    assert run("ledger", "open", database, "--account", "hr", "--epsilon", 2).returncode == 0
    assert "ε = 2 of 2 remaining" in run("budget", database).stdout
    assert run("ledger", "head", database).returncode == 2
    head = run("ledger", "head", database, "--key", folder / "key")
    (folder / "head.json").write_text(head.stdout)
    assert run("ledger", "check", database, "--head", folder / "head.json").returncode == 0


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ("--epsilon 1", ""),
        ("--epsilon 20 --delta 1e-4", ""),
        ("--epsilon 1e9", "ε = 1e9 promises next to nothing"),
        ("--epsilon 1000", "ε = 1,000 promises next to nothing"),
        ("--epsilon 1 --delta 0.5", "δ = 0.5 promises next to nothing"),
    ],
)
def test_a_budget_that_promises_next_to_nothing_is_opened_with_a_warning(tmp_path: Path, flags: str, warned: str) -> None:
    for more in ((), ("--json",)):
        opened = run("ledger", "open", tmp_path / f"{len(more)}.ledger", "--account", "hr", *flags.split(), *more)
        assert opened.returncode == 0
        assert "next to nothing" not in opened.stdout
        assert opened.stderr.startswith(warned)
        assert bool(opened.stderr) == bool(warned)


def test_a_large_budget_is_written_with_commas(tmp_path: Path) -> None:
    opened = run("ledger", "open", tmp_path / "hr.ledger", "--account", "hr", "--epsilon", "1000")
    assert 'Opened account "hr": ε = 1,000.' in opened.stdout
    assert "ε = 1,000 of 1,000 remaining" in run("budget", tmp_path / "hr.ledger").stdout


def test_a_budget_that_no_query_fits_is_opened_with_a_warning(tmp_path: Path) -> None:
    opened = run("ledger", "open", tmp_path / "hr.ledger", "--account", "hr", "--epsilon", "1e-30")
    assert opened.returncode == 0
    assert "No query fits this budget: each costs at least ε = 0.0001" in opened.stderr
    assert run("ledger", "open", tmp_path / "hr.ledger", "--account", "b", "--epsilon", "1e-4").stderr == ""


def test_a_budget_beyond_its_parents_is_opened_with_a_note(tmp_path: Path) -> None:
    place = tmp_path / "hr.ledger"
    assert run("ledger", "open", place, "--account", "hr", "--epsilon", "10").returncode == 0
    larger = run("ledger", "open", place, "--account", "a", "--epsilon", "20", "--parent", "hr")
    assert 'The parent account "hr" caps it: all of its accounts together can spend at most ε = 10.' in larger.stdout
    assert "caps it" not in run("ledger", "open", place, "--account", "b", "--epsilon", "10", "--parent", "hr").stdout


def test_a_second_check_reads_what_was_written_since(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    command = ("ledger", "check", str(folder / "l"), "--since", str(folder / "checked.json"))
    assert f"Wrote {folder / 'checked.json'}: the next check reads from entry 11." in " ".join(run(*command).stdout.split())
    (folder / "checked.json").unlink()
    first = json.loads(run(*command, "--json").stdout)
    assert (first["holds"], first["entries"], first["read_from"]) == (True, 10, 1)
    debit_and_record(open_ledger(folder / "l"), 7)
    assert "Entries up to 10 were checked before and not read again." in run(*command).stdout
    assert json.loads(run(*command, "--json").stdout)["read_from"] == 13
    (folder / "checked.json").write_text("{}")
    refused = run(*command)
    assert refused.returncode == 2
    assert "--since" in refused.stderr
    assert "checked.json" in refused.stderr


def test_a_check_counts_one_entry_in_the_singular(folder: Path) -> None:
    command = ("ledger", "open", folder / "l", "--account", "hr", "--epsilon", "1", "--delta", "1e-6")
    assert run(*command).returncode == 0
    shown = run("ledger", "check", folder / "l").stdout
    assert shown.startswith("1 entry is consistent; accounts: hr")


def test_a_result_that_cannot_be_written_is_printed(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    command = ("ledger", "check", folder / "l", "--since", folder / "missing" / "checked.json")
    failed = run(*command)
    assert failed.stdout.startswith("10 entries are consistent; accounts: ")
    assert "Wrote" not in failed.stdout
    assert "cannot be written (No such file or directory)" in " ".join(failed.stderr.split())
    as_json = run(*command, "--json")
    assert json.loads(as_json.stdout)["holds"]
    assert (failed.returncode, as_json.returncode) == (2, 2)


def test_a_check_since_that_of_another_ledger_is_a_mistake_and_a_rollback_is_not(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    make_small_ledger(folder / "other").close()
    since = folder / "checked.json"
    assert run("ledger", "check", folder / "l", "--since", since).returncode == 0
    mistaken = run("ledger", "check", folder / "other", "--since", since)
    assert mistaken.returncode == 2
    assert "--since is the result of a check of another ledger" in " ".join(mistaken.stderr.split())
    checked = json.loads(since.read_text())
    since.write_text(json.dumps(checked | {"number": checked["number"] + 1}))
    broken = run("ledger", "check", folder / "l", "--since", since, "--json")
    assert broken.returncode == 1
    shown = json.loads(broken.stdout)
    assert (shown["holds"], shown["entries"], shown["hash"], shown["read_from"]) == (False, None, None, None)


def test_a_check_writes_through_a_link(folder: Path) -> None:
    make_small_ledger(folder / "l").close()
    (folder / "kept").mkdir()
    target, link = folder / "kept" / "checked.json", folder / "link.json"
    link.symlink_to("kept/checked.json")
    for _ in range(2):
        assert run("ledger", "check", folder / "l", "--since", link).returncode == 0
        assert link.is_symlink()
        assert [each.name for each in target.parent.iterdir()] == ["checked.json"]
        assert json.loads(target.read_text())["number"] == 10
    refused = run("ledger", "check", folder / "l", "--since", "")
    assert refused.returncode == 2
    assert "--since is empty: no file is named" in refused.stderr
