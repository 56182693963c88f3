"""`discreet policy init`, run as a user runs it. `discreet policy check` is tested with `session/policy_check.py`."""

import json
from pathlib import Path

from discreet.query.policy import read_policy
from discreet.query.schema import DEFAULT_SALT
from tests.support.console import run


def test_a_policy_is_written_filled_in_and_used(source: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    assert run("policy", "init", source, "--unit", "id", "--out", str(policy)).returncode == 0
    text = policy.read_text()
    assert 'columns."pay"' in text
    for value in ("'a'", "149", "999"):
        assert value not in text
    policy.write_text(text.replace("unique = false", "unique = true").replace('# keys = ["a", "b"] ', 'keys = ["a", "b"] '))
    out = run(
        "ask",
        source,
        "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
        "--policy",
        str(policy),
        "--epsilon",
        "9",
        "--json",
    )
    assert [row["dept"] for row in json.loads(out.stdout)["rows"]] == ["a", "b"]
    assert run("policy", "init", source, "--unit", "id", "--out", str(policy)).returncode == 2


def test_every_policy_gets_a_long_salt_of_its_own(source: str) -> None:
    """The template says to keep it secret, so it must be one that others cannot guess."""
    texts = [run("policy", "init", source, "--unit", "id", "--out", "-").stdout for _ in range(2)]
    salts = {read_policy(text).salt for text in texts}
    assert len(salts) == 2
    assert all(len(salt) >= 43 for salt in salts), "256 bits"
    assert DEFAULT_SALT not in salts
