"""`discreet verify`: its findings and exit codes."""

import json
from pathlib import Path

from discreet.ledger.verify import CheckedClaim, Verification
from tests.support import ledger_locations
from tests.support.certificates import issue_certificate
from tests.support.console import run

folder = ledger_locations.folder  # a fixture


def test_a_certificate_is_verified_and_a_changed_one_is_not(folder: Path) -> None:
    certificate, ledger, key = issue_certificate(folder)
    ledger.close()
    (folder / "release.json").write_text(json.dumps(certificate))
    good = run("verify", folder / "release.json", "--key", key.public, "--ledger", folder / "l")
    assert good.returncode == 0
    assert good.stdout.startswith("proven:")
    assert "✗" not in good.stdout
    assert good.stdout.splitlines()[-1].startswith("VALID: the publisher signed exactly this answer")
    for given, missing in (((), 2), (("--key", key.public), 1), (("--ledger", folder / "l"), 1)):
        partly = run("verify", folder / "release.json", *given).stdout.splitlines()[-1]
        assert partly.startswith("VALID SO FAR: ")
        assert partly.count("(give --") == missing
    assert "Cost: ε = " in good.stdout
    assert json.loads(run("ledger", "key", folder / "l").stdout)["public_key"] == key.public
    certificate["release"]["rows"] = []
    (folder / "release.json").write_text(json.dumps(certificate))
    bad = run("verify", folder / "release.json", "--json")
    assert bad.returncode == 1
    found, shown = json.loads(bad.stdout), run("verify", folder / "release.json").stdout
    assert found["holds"] is False
    assert "cost" not in found, "what an invalid certificate states is not repeated"
    assert "Cost: " not in shown
    assert shown.startswith("checked:")
    assert shown.splitlines()[-1] == found["verdict"]
    wrong = [each["claim"] for each in found["findings"] if not each["holds"]]
    assert found["verdict"] == (
        f"INVALID: 1 of {len(found['findings'])} claims is false, the first being that {wrong[0]}. "
        "Do not rely on this answer or on its guarantee."
    )
    (folder / "release.json").write_text("{")
    assert run("verify", folder / "release.json").returncode == 2


def test_the_first_of_several_false_claims_is_named() -> None:
    claims = CheckedClaim("a is b", True), CheckedClaim("c is d", False), CheckedClaim("e is f", False)
    assert Verification(claims, ()).conclusion.startswith("INVALID: 2 of 3 claims are false, the first being that c is d. ")


def test_a_key_that_only_the_ledger_names_does_not_say_who_published(folder: Path) -> None:
    """A program that can write the ledger can write that key, too."""
    certificate, ledger, _ = issue_certificate(folder)
    ledger.close()
    (folder / "release.json").write_text(json.dumps(certificate))
    assert run("ledger", "rotate-key", folder / "l").returncode == 0
    found = run("verify", folder / "release.json", "--ledger", folder / "l")
    assert found.returncode == 0
    assert found.stdout.splitlines()[-1].startswith("VALID SO FAR: ")
    assert found.stdout.splitlines()[-1].endswith("Not checked: who signed it (give --key).")
