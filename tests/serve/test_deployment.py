"""The deployment files: they can be read, say the same thing, and keep the web process from data, ledger and key."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

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


def test_systemd_reads_the_units() -> None:
    """`systemd-analyze verify` knows every setting; what this machine lacks, such as the program itself, is no fault."""
    units = [FOLDER / "discreet-web.service", FOLDER / "discreet-worker.service"]
    for unit in units:
        sections = re.findall(r"(?m)^\[(\w+)\]$", unit.read_text())
        assert sections == ["Unit", "Service", "Install"]
        for line in unit.read_text().splitlines():
            assert re.fullmatch(r"(#.*|\[\w+\]|[A-Z]\w*=.*|)", line), line
    if shutil.which("systemd-analyze") is None:  # then the form of the lines is all that is checked
        return
    found = subprocess.run(["systemd-analyze", "verify", *map(str, units)], capture_output=True, text=True, timeout=60)
    own = [line for line in found.stderr.splitlines() if "discreet-" in line and "is not executable" not in line]
    assert own == []


INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT"}


def test_the_dockerfile_is_made_of_instructions() -> None:
    text = re.sub(r"(?m)^#.*\n", "", (FOLDER / "Dockerfile").read_text()).replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    assert {word for word, _ in lines} == INSTRUCTIONS
    assert lines[0][0] == "FROM"
    stages = [each.split(" AS ") for word, each in lines if word == "FROM"]
    assert stages[0][1] == "build"
    copied = [each for word, each in lines if word == "COPY" and "--from" in each]
    assert all("--from=build " in each for each in copied)
    [entrypoint] = [each for word, each in lines if word == "ENTRYPOINT"]
    assert json.loads(entrypoint)[:2] == ["discreet", "serve"]


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_the_blocks_of_the_proxies_are_closed(name: str) -> None:
    depth = 0
    for line in (FOLDER / name).read_text().splitlines():
        code = line.partition("#")[0].strip()
        depth += code.count("{") - code.count("}")
        assert depth >= 0
        if name == "nginx.conf" and code:
            assert code.endswith((";", "{", "}")), line
    assert depth == 0


def test_compose_names_what_it_defines() -> None:
    import yaml

    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert set(service.get("networks", [])) <= set(compose["networks"])
        assert {each if isinstance(each, str) else each["source"] for each in service.get("secrets", [])} <= set(
            compose["secrets"]
        )
        named = [each.split(":")[0] for each in service.get("volumes", [])]
        assert {each for each in named if not each.startswith(".")} <= set(compose["volumes"])
        assert set(service.get("depends_on", {})) <= set(compose["services"])
