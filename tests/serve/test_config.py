"""What a service serves: all problems at once, each with its key, and no secret in the file."""

import os
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from discreet.errors import BadParameter, PlanRefused, SourceRefused
from discreet.serve.checking import check_service
from discreet.serve.config import DEFAULT_CLASSES, parse_config, read_config, read_folder
from discreet.serve.control.model import Role
from discreet.serve.embedded import make_web_settings
from discreet.serve.web.oidc import Provider
from tests.support.served_tables import configure, start_service, write_table

TEAM = """
[service]
name = "Statistics"
address = "https://dp.example.org"
listen = "unix:/run/discreet/web.sock"
control = "postgresql://web@db/control"
ledger = "postgresql://worker@db/ledger"
key = "/etc/discreet/ledger.key"

[sign_in.oidc]
issuer = "https://login.example.org"
client = "discreet"
secret_file = "/run/credentials/oidc"
stewards = "group:dp-stewards"

[populations.employees]
epsilon = 3
delta = 1e-9
currency = "zcdp"

[tables.people]
source = "postgresql://reader@warehouse/hr"
table = "people"
policy = "policies/people.toml"
population = "employees"
rows_at_most = 100_000
schedule = ["1s", "5s", "60s"]
least_epsilon = 0.001

[tables.people.rules]
epsilon_per_ask = 0.05
epsilon_per_day = 0.2
two_stewards_above = 0.5
declared_keys_only = true

[alerts]
webhook = "https://hooks.example.org/dp"
when = ["root 80%", "overrun"]

[released]
location = "postgresql://worker@db/released"
"""


def parse(text: str) -> object:
    return parse_config(text, Path("/srv"))


def test_a_serve_toml_for_a_team() -> None:
    config = parse_config(TEAM, Path("/srv"))
    people = config.tables["people"]
    assert config.listen == Path("/run/discreet/web.sock")
    assert people.classes == (1.0, 5.0, 60.0)
    assert people.policy == Path("/srv/policies/people.toml")
    assert people.rules.epsilon_per_ask == "1/20"
    assert people.rules.two_stewards_above == "1/2"
    assert people.least_epsilon == Fraction(1, 1000)
    assert config.populations["employees"].delta == Fraction(1, 10**9)
    assert config.alerts is not None
    assert config.alerts.when == ("root 80%", "overrun")
    assert not config.embedded


def test_all_problems_are_listed_at_once_each_with_its_key() -> None:
    text = (
        TEAM.replace('"1s", "5s"', '"5s", "1s"')
        .replace("epsilon = 3", "epsilon = -1")
        .replace('population = "employees"', 'population = "employes"')
        .replace('"overrun"]', '"overun"]')
        .replace("rows_at_most = 100_000", "rows_at_most = 0\ncolour = 3")
        .replace('key = "/etc/discreet/ledger.key"', "")
    )
    with pytest.raises(PlanRefused) as refused:
        parse(text)
    message = str(refused.value)
    assert message.startswith("serve.toml has 7 problems:")
    for key in (
        "tables.people.schedule", "populations.employees.epsilon", "tables.people.population", "alerts.when",
        "tables.people.rows_at_most", "tables.people.colour", "service.key",
    ):  # fmt: skip
        assert key in message


@pytest.mark.parametrize(("location", "is_fine"), [("r.xlsx", False), ("r.csv", False), ("r.duckdb", True), ("r", True)])
def test_released_tables_have_a_place_that_is_one(location: str, is_fine: bool) -> None:
    text = f'{TEAM.partition("[released]")[0]}\n[released]\nlocation = "{location}"\n'
    if is_fine:
        assert parse(text).released is not None
        return
    with pytest.raises(BadParameter, match="released tables are not written as"):
        parse(text)


def test_a_text_that_is_no_toml_is_refused_with_the_name_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[service\n")
    with pytest.raises(BadParameter, match=r"^team\.toml is no TOML"):
        read_config(tmp_path / "team.toml")


def test_a_folder_serves_prepared_files_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "people.prepared.duckdb").touch()
    made = "discreet policy init {0}.duckdb --out {0}.policy.toml".format(tmp_path / "people.prepared")
    with pytest.raises(BadParameter, match=made):
        read_config(tmp_path)
    (tmp_path / "people.prepared.policy.toml").touch()
    (tmp_path / "people.csv").touch()
    config = read_config(tmp_path)
    assert {name: Path(each.source).name for name, each in config.tables.items()} == {"people": "people.prepared.duckdb"}
    (tmp_path / "people.policy.toml").touch()
    with pytest.raises(BadParameter, match=r"people\.policy\.toml and people\.prepared\.policy\.toml both declare it"):
        read_config(tmp_path)


def test_a_folder_says_how_a_prepared_file_is_to_be_called(tmp_path: Path) -> None:
    (tmp_path / "peoplep.duckdb").touch()
    (tmp_path / "peoplep.policy.toml").touch()
    with pytest.raises(BadParameter, match=r"peoplep\.duckdb is not named as one") as refused:
        read_config(tmp_path)
    assert "Serve it as peoplep.prepared.duckdb with the policy peoplep.prepared.policy.toml" in str(refused.value)
    (tmp_path / "peoplep.duckdb").rename(tmp_path / "peoplep.prepared.duckdb")
    with pytest.raises(BadParameter, match=r"peoplep\.prepared\.duckdb has its own policy"):
        read_config(tmp_path)


def test_a_check_warns_of_a_policy_that_nobody_edited(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,pay\n1,2\n")
    policy = 'table = "t"\nunit = "id"\n[columns.id]\nkind = "integer"\n[columns.pay]\nkind = "real"\n'
    for text, is_warned in ((policy, True), (f"{policy}lower = 0\nupper = 9\n", False)):
        (tmp_path / "t.policy.toml").write_text(text)
        first = check_service(read_config(tmp_path))[0]
        assert (first.problem, first.warning is not None) == (None, is_warned)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("postgresql://worker@db/ledger", "postgresql://worker:hunter2@db/ledger", "PGPASSFILE"),
        ("postgresql://reader@warehouse/hr", "host=db password=hunter2", "PGPASSFILE"),
        ("unix:/run/discreet/web.sock", "0.0.0.0:80", "unencrypted"),
        ("https://hooks.example.org/dp", "file:///etc/passwd", "not a web address"),
        ("https://dp.example.org", "https://u:hunter2@dp.example.org", "not a web address"),
        ('schedule = ["1s", "5s", "60s"]', "", None),
        ('rows_at_most = 100_000\nschedule = ["1s", "5s", "60s"]', "", "moments"),
        ("[tables.people]", '[tables."../x"]', "not a name"),
    ],
)
def test_what_is_refused(before: str, after: str, words: str | None) -> None:
    text = TEAM.replace("[tables.people.rules]", "[x.rules]").partition("[x.rules]")[0] if "../" in after else TEAM
    text += "" if "[alerts]" in text else "[alerts]\nwebhook = 'https://hooks.example.org/dp'\n"
    changed = text.replace(before, after)
    assert changed != text
    if words is None:
        parse(changed)  # proposed from invented rows
        return
    with pytest.raises((BadParameter, PlanRefused), match=words) as refused:
        parse(changed)
    assert "hunter2" not in str(refused.value)


def test_a_proxy_or_a_certificate_allows_other_networks() -> None:
    text = TEAM.replace("unix:/run/discreet/web.sock", "0.0.0.0:80")
    parse(text.replace("[service]", "[service]\nbehind_proxy = true"))
    parse(text.replace("[service]", '[service]\ncertificate = "c.pem"\ncertificate_key = "k.pem"'))


def test_who_listens_on_a_network_says_what_people_type() -> None:
    text = TEAM.replace("unix:/run/discreet/web.sock", "0.0.0.0:80").replace("[service]", "[service]\nbehind_proxy = true")
    with pytest.raises(BadParameter, match=r"service\.address is missing"):
        parse(text.replace('address = "https://dp.example.org"', ""))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"port": 65536}, "port is 65536: not a port"),
        ({"port": -1}, "port is -1: not a port"),
        ({"host": "0.0.0.0"}, "host is '0.0.0.0': tokens would cross the network unencrypted.* behind_proxy="),
    ],
)
def test_where_a_folder_cannot_be_served(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    write_table(tmp_path / "data")
    with pytest.raises(BadParameter, match=words):
        read_config(tmp_path / "data", **given)


def test_where_a_service_listens(tmp_path: Path) -> None:
    write_table(tmp_path / "data")
    behind = read_config(tmp_path / "data", host="0.0.0.0", port=80, behind_proxy=True)
    assert (behind.listen, behind.address) == (("0.0.0.0", 80), "http://127.0.0.1:80")
    free = read_config(tmp_path / "data", port=0).at_port(4321)
    assert (free.listen, free.address) == (("127.0.0.1", 4321), "http://127.0.0.1:4321")
    team = TEAM.replace("unix:/run/discreet/web.sock", "127.0.0.1:80")
    for text, address in (
        (team, "https://dp.example.org"),
        (team.replace('address = "https://dp.example.org"', ""), "http://127.0.0.1:4321"),
    ):
        named = parse_config(text, tmp_path, port=0).at_port(4321)
        assert (named.listen, named.address) == (("127.0.0.1", 4321), address)
    assert parse_config(TEAM, tmp_path, port=81).listen == ("127.0.0.1", 81)  # another web process beside the first


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('unit = "id"\n', "", "people.policy.toml, unit: missing"),
        ("[columns.pay]", "[columns.pay", "policy people.policy.toml: not TOML"),
    ],
)
def test_a_check_names_the_policy_that_is_wrong(tmp_path: Path, before: str, after: str, words: str) -> None:
    write_table(tmp_path / "data")
    policy = tmp_path / "data" / "people.policy.toml"
    policy.write_text(policy.read_text().replace(before, after))
    found = check_service(read_config(tmp_path / "data"))
    assert [each.what for each in found if each.problem is not None] == ["policy of people"]
    assert words in str(found[0].problem)
    with pytest.raises(BadParameter, match=words), start_service(configure(tmp_path / "data")):
        raise AssertionError("it started")


def test_a_check_names_a_state_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "data")
    config = read_config(tmp_path / "data")
    assert all(each.problem is None for each in check_service(config))
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: not mode & os.W_OK and access(path, mode, **more))
    assert "it may not be written" in str(check_service(config)[-1].problem)


def test_a_folder(tmp_path: Path) -> None:
    write_table(tmp_path / "my data")
    (tmp_path / "my data" / "other.csv").write_text("a\n1\n")
    config = read_config(tmp_path / "my data", port=1234, epsilon=Fraction(1, 2))
    assert list(config.tables) == ["people"]
    assert config.tables["people"].classes == DEFAULT_CLASSES
    assert config.populations["my-data"].epsilon == Fraction(1, 2)
    assert config.address == "http://127.0.0.1:1234"
    assert config.embedded
    ((path, command),) = config.skipped
    assert path.name == "other.csv"
    folder = tmp_path / "my data"
    expected = [
        "discreet",
        "policy",
        "init",
        f"{folder}/other.csv",
        "--unit",
        "COLUMN",
        "--out",
        f"{folder}/other.policy.toml",
    ]
    assert shlex.split(command) == expected  # where the service looks for it; a shell reads it as written
    with pytest.raises(SourceRefused, match=r"people\.csv': a file with rows; its folder is served.*Name a folder"):
        read_config(folder / "people.csv")


def test_folders_of_the_same_name_share_no_state(tmp_path: Path) -> None:
    for parent in ("one", "two"):
        (tmp_path / parent).mkdir()
        write_table(tmp_path / parent / "data")
    assert read_folder(tmp_path / "one/data").state != read_folder(tmp_path / "two/data").state


def test_a_folder_without_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadParameter, match=r"no file in it that can be served. Put people\.csv.* --out .*people\.policy\.toml"
    ):
        read_folder(tmp_path)
    (tmp_path / "other.csv").write_text("a\n1\n")
    with pytest.raises(
        BadParameter, match=r"no file in it has a policy.*other\.csv --unit COLUMN --out .*other\.policy\.toml"
    ):
        read_folder(tmp_path)
    write_table(tmp_path)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(BadParameter, match="one file must be beside"):
        read_folder(tmp_path)


def test_groups_of_the_provider_and_a_default_are_roles(tmp_path: Path) -> None:
    """The mutant knows a group of stewards alone: then no analyst can sign in by the provider."""
    (tmp_path / "secret").write_text("s3cret\n")
    text = TEAM.replace("/run/credentials/oidc", str(tmp_path / "secret"))
    stated = 'analysts = "dp-analysts"\nreaders = "dp-readers"\ndefault_role = "reader"\n[populations.employees]'
    config = parse_config(text.replace("[populations.employees]", stated), tmp_path)
    oidc = make_web_settings(config).oidc
    assert oidc is not None
    provider = Provider(oidc, "https://dp.example.org/in/callback", httpx.Client(verify=False))
    roles = {
        group: provider._choose_role({"groups": [group]}) for group in ("dp-stewards", "dp-analysts", "dp-readers", "x")
    }
    assert roles == {
        "dp-stewards": Role.STEWARD, "dp-analysts": Role.ANALYST, "dp-readers": Role.READER, "x": Role.READER,
    }  # fmt: skip
    with pytest.raises(BadParameter, match="not a role of everybody"):
        parse_config(text.replace("[populations.employees]", stated.replace('"reader"', '"steward"')), tmp_path)
