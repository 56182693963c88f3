"""`discreet verify`: its findings and exit codes."""

import json
from pathlib import Path

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
    assert json.loads(bad.stdout)["holds"] is False
    verdict = run("verify", folder / "release.json").stdout.splitlines()[-1]
    assert verdict == json.loads(bad.stdout)["verdict"]
    assert verdict.startswith("INVALID: ")
    assert "Do not rely on this answer" in verdict
    (folder / "release.json").write_text("{")
    assert run("verify", folder / "release.json").returncode == 2
