"""`discreet serve` as a user runs it: the first answer, what needs a token, its end, and the owner's commands."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import httpx
import pytest

from discreet.errors import BadParameter
from discreet.remote.client import open_remote
from discreet.serve.checking import invite_person
from discreet.serve.config import read_folder
from discreet.serve.control.model import Role
from discreet.serve.control.store import open_control
from tests.support import console
from tests.support.hand_clock import PATIENCE

COMMAND = (sys.executable, "-m", "discreet", "serve")
SQL = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "examples").mkdir()
    for name in ("people.csv", "people.policy.toml", "census.csv"):
        shutil.copy(Path("examples") / name, tmp_path / "examples" / name)
    return tmp_path / "examples"


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Serve a folder on a free port; yield what it printed."""
    process = subprocess.Popen(
        [*COMMAND, str(folder), "--port", "0", "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    printed = ""
    try:
        while "Ctrl+C" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        yield printed, process
    finally:
        process.terminate()
        rest = process.communicate(timeout=PATIENCE)[0]
        assert "Traceback" not in rest, rest


def status(address: str, **headers: str) -> int:
    try:
        with urlopen(Request(address, headers=headers), timeout=30) as response:
            return int(response.status)
    except HTTPError as error:
        error.close()
        return error.code


def find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


def test_the_first_remote_answer(folder: Path) -> None:
    with serve(folder) as (printed, process):
        token, address = find(r'token="(dsc_[\w-]+)"', printed), find(r'connect\("(http://127.0.0.1:\d+)/people"', printed)
        assert "census.csv has no policy" in printed
        assert re.search(rf"{address}/in\?once=[\w-]+", printed)
        with httpx.Client(verify=False) as http:
            answer = open_remote(f"{address}/people", token, http).ask(SQL, epsilon=0.1)
        assert [row[0] for row in answer.records] == ["sales", "research", "legal"]
        assert status(f"{address}/api/v1/tables") in (401, 403)
        good = f"Bearer {token}"
        assert status(f"{address}/api/v1/tables", Authorization=good) == 200
        assert status(f"{address}/api/v1/tables", Authorization=good, Host="evil.example") in (400, 403, 421)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
    with serve(folder) as (printed, _):  # the budget and the answers are kept
        place, token = find(r'connect\("([^"]+)"', printed), find(r'token="(dsc_[\w-]+)"', printed)
        with httpx.Client(verify=False) as http:
            again = open_remote(place, token, http).ask(SQL, epsilon=0.1)
        assert again.records == answer.records
        release = folder / "release.json"
        for command in (["ask", place, SQL, "--epsilon", "0.1", "--release", release], ["verify", release]):
            typed = [sys.executable, "-m", "discreet", *map(str, command)]
            done = subprocess.run(
                typed, env=os.environ | {"DISCREET_TOKEN": token}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        assert "VALID" in done.stdout.upper()
        assert not again.charged


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return console.run("serve", *arguments)


def test_two_services_share_neither_port_nor_state_and_one_ends_while_it_runs_an_ask(folder: Path) -> None:
    with serve(folder) as (printed, process):
        token, address = find(r'token="(dsc_[\w-]+)"', printed), find(r'connect\("(http://127.0.0.1:\d+)/people"', printed)
        port = address.rpartition(":")[2]
        assert port != "0"
        taken = run(str(folder), "--port", port, "--no-browser")
        assert (taken.returncode, "--port" in taken.stderr) == (2, True), taken.stderr
        second = run(str(folder), "--port", "0", "--no-browser")
        assert (second.returncode, "another process serves this folder" in second.stderr) == (2, True), second.stderr
        body = {"table": "people", "query": SQL, "epsilon": "0.1"}  # the token that the first one printed still works
        asked = httpx.post(f"{address}/api/v1/asks", verify=False, json=body, headers={"Authorization": f"Bearer {token}"})
        assert (asked.status_code, asked.json()["state"]) == (202, "waiting"), asked.text
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_check_lists_what_is_wrong(folder: Path) -> None:
    fine = run("check", str(folder), "--json")
    assert fine.returncode == 0, fine.stderr
    assert all(each["holds"] for each in json.loads(fine.stdout)["checks"])
    assert not read_folder(folder).state.exists()  # nothing is made
    policy = folder / "people.policy.toml"
    policy.write_text(policy.read_text().replace("[columns.pay]", "[columns.wage]"))
    wrong = run("check", str(folder))
    assert wrong.returncode == 1
    assert "WRONG  source of people" in wrong.stdout
    assert run("check", str(folder / "missing.toml")).returncode in (2, 4)


def test_schedules_are_proposed_from_invented_rows(folder: Path) -> None:
    proposed = run("check", str(folder), "--propose")
    assert proposed.returncode == 0, proposed.stderr
    assert '[tables.people] schedule = ["' in proposed.stdout


def test_a_proposed_policy_comes_into_force_on_the_command_line_alone(folder: Path) -> None:
    policy, public = folder / "people.policy.toml", '[public]\n"cities" = "public/cities.csv"\n'
    (folder / "public").mkdir()
    (folder / "public" / "cities.csv").write_text("dept,city\nsales,Rome\nlegal,Oslo\n")
    policy.write_text(f"{policy.read_text()}\n{public}")
    with serve(folder) as (printed, _):
        address = find(r'connect\("(http://127.0.0.1:\d+)/people"', printed)
    config = read_folder(folder)
    with open_control(config.control, create=False) as control:
        entry = control.find_table("people")
        assert entry is not None
        wider = control.add_proposal("people", entry.policy.replace("upper = 200", "upper = 300"), "owner")
        salted = control.add_proposal("people", 'salt = "known to the web tier"\n' + entry.policy, "owner")
    assert "upper = 200" in policy.read_text()
    refused = run("policy-accept", str(folder), "people", str(salted.version))
    assert refused.returncode == 2
    assert "upper = 200" in policy.read_text()
    accepted = run("policy-accept", str(folder), "people", str(wider.version))
    assert accepted.returncode == 0, accepted.stderr
    assert "upper = 300" in policy.read_text()
    assert "salt" not in policy.read_text()
    assert policy.read_text().endswith(f"\n{public}")  # paths are no part of a proposal, and stay
    with open_control(config.control, create=False) as control:
        after = control.find_table("people")
        assert after is not None
        assert (after.policy_version, "upper = 300" in after.policy) == (2, True)
        assert [each["name"] for each in after.public] == ["cities"]
        assert after.policy_hash != entry.policy_hash
    assert run("policy-accept", str(folder), "people", str(wider.version)).returncode == 2
    link = run("invite", str(folder), "eve", "--role", "reader")
    assert link.stdout.startswith(f"{address}/in?once=")  # where the service ran, and not the port of the default
    with open_control(config.control, create=False) as control:
        for role, expected in (("analyst", Role.READER), ("steward", Role.STEWARD)):  # the owner alone makes stewards
            if role == "analyst":  # a link alone would hide that nothing was changed
                with pytest.raises(BadParameter, match="eve is known, and has the role reader"):
                    invite_person(config, "eve", role)
            else:
                assert "/in?once=" in invite_person(config, "eve", role).link
            found = control.find_person("eve")
            assert found is not None
            assert found.role is expected


def test_an_invitation_says_what_it_is_and_refuses_names_that_are_none(folder: Path) -> None:
    with serve(folder):
        fine = run("invite", str(folder), "ada")
        assert fine.returncode == 0, fine.stderr
        assert "once, within 10 minutes. ada is new, and an analyst." in fine.stdout
        assert "not running" not in fine.stderr
        with open_control(read_folder(folder).control, create=False) as control:
            before = control.list_people()
            for name in ("Bob Smith", "../x", "", "x" * 300, "ada\n", "-a"):
                with pytest.raises(BadParameter, match="small letters, digits and hyphens"):
                    invite_person(read_folder(folder), name)
            assert control.list_people() == before
    again = run("invite", str(folder), "ada")  # the service has ended, and its port is dead
    assert "ada is known, and an analyst." in again.stdout
    assert f"The service is not running, so the link opens nothing. Start it within that time: discreet serve {folder}" in (
        again.stderr
    )
    refused = run("invite", str(folder), "ada", "--role", "reader")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--role" in refused.stderr


def test_the_state_is_for_the_owner_alone(folder: Path) -> None:
    with serve(folder):
        state = read_folder(folder).state
        for path in (state, *state.rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path
    assert os.path.exists(state / "serve.ledger.key")
