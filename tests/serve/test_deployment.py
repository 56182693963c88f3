"""The deployment files: they can be read, say the same thing, and keep the web process from data, ledger and key."""

import re
from pathlib import Path

from discreet.serve.config import read_config

FOLDER = Path("deploy")


def read_unit(name: str) -> dict[str, list[str]]:
    """Return the settings of a unit. A setting may stand several times."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_the_configuration_is_sound() -> None:
    config = read_config(FOLDER / "serve.toml")
    assert list(config.tables) == ["people"]
    assert config.behind_proxy


def test_commented_parts_of_the_configuration_are_sound_too(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^# (\[|\w+ = )", r"\1", (FOLDER / "serve.toml").read_text())
    (tmp_path / "serve.toml").write_text(text)
    config = read_config(tmp_path / "serve.toml")
    assert config.oidc is not None
    assert config.alerts is not None


def test_units_are_hardened_and_the_web_process_reaches_nothing_of_the_worker() -> None:
    web, worker = read_unit("discreet-web.service"), read_unit("discreet-worker.service")
    for unit in (web, worker):
        assert unit["NoNewPrivileges"] == ["yes"]
        assert unit["ProtectSystem"] == ["strict"]
        assert unit["CapabilityBoundingSet"] == [""]
    assert web["User"] != worker["User"]
    assert web["ExecStart"][0].endswith("--web --no-browser")
    assert worker["ExecStart"][0].endswith("--worker --no-browser")
    assert worker["IPAddressDeny"] == ["any"]
    hidden = web["InaccessiblePaths"][0]
    config = read_config(FOLDER / "serve.toml")
    assert str(config.key.parent) in hidden
    assert str(Path(config.tables["people"].source).parent) in hidden


def test_containers_share_no_secret() -> None:
    import yaml  # of mkdocs

    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"db", "worker", "web", "caddy"}
    web, worker = services["web"], services["worker"]
    assert web["read_only"] is worker["read_only"] is True
    assert [each["source"] for each in web["secrets"]] == ["web.pgpass"]
    assert not any("/srv/data" in each or "discreet-worker" in each for each in web["volumes"])
    assert "ports" not in worker
    assert worker["networks"] == ["databases"]
    assert compose["networks"]["databases"]["internal"] is True
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert "USER discreet" in dockerfile
