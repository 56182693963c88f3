"""Which ledgers a worker refuses to serve: one that was rolled back, a copy, another service's; and lost salts."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet.errors import BadParameter, LedgerCorrupted, LedgerUnavailable, SourceRefused
from discreet.ledger import open_ledger
from discreet.ledger.entries import AccountOpened
from discreet.query.policy import read_policy
from discreet.query.record import policy_hash
from discreet.serve.checking import check_service
from discreet.serve.config import PopulationConfig, ServiceConfig, parse_config
from discreet.serve.control.model import AskState
from discreet.serve.control.store import open_control
from discreet.serve.embedded import describe
from discreet.serve.worker import tables
from discreet.session.options import SourceOptions
from discreet.session.preparing import prepare
from discreet.session.source import open_source
from tests.support.served_tables import Service, configure, start_service, value_of, write_table


@pytest.fixture
def config(tmp_path: Path) -> ServiceConfig:
    write_table(tmp_path / "data")
    return configure(tmp_path / "data", classes=())


def copy_ledger(config: ServiceConfig, to: Path) -> None:
    """Copy the ledger while nothing writes it."""
    to.mkdir(exist_ok=True)
    for path in config.state.glob("serve.ledger*"):
        shutil.copy2(path, to / path.name)


def refuse(config: ServiceConfig, kind: type[Exception], words: str) -> None:
    service = Service(config)
    with pytest.raises(kind, match=words):
        service.worker.start()
    service.control.close()


def test_a_service_goes_on_with_its_own_ledger(config: ServiceConfig) -> None:
    with start_service(config, "ada") as service:
        first = service.wait(service.ask())
    with start_service(config) as service:
        again = service.wait(service.ask())
        assert value_of(again) == value_of(first)
        assert again.answer is not None
        assert again.answer["charged"] is False


def test_a_ledger_that_was_rolled_back_is_refused(config: ServiceConfig, tmp_path: Path) -> None:
    with start_service(config, "ada") as service:
        service.wait(service.ask())
    copy_ledger(config, tmp_path / "backup")
    with start_service(config) as service:
        assert service.wait(service.ask(epsilon="0.02")).state is AskState.ANSWERED
    for path in config.state.glob("serve.ledger-*"):
        path.unlink()
    shutil.copy2(tmp_path / "backup" / "serve.ledger", config.state / "serve.ledger")
    refuse(config, LedgerCorrupted, "rolled back")


def test_a_copy_of_a_ledger_is_refused_by_a_new_control_database(config: ServiceConfig, tmp_path: Path) -> None:
    with start_service(config, "ada") as service:
        service.wait(service.ask())
    copy_ledger(config, tmp_path / "copy")
    copied = replace(
        config, state=tmp_path / "copy", ledger=str(tmp_path / "copy" / "serve.ledger"),
        control=str(tmp_path / "copy" / "control.sqlite"), key=tmp_path / "copy" / "serve.ledger.key",
    )  # fmt: skip
    refuse(copied, LedgerUnavailable, "another service may spend its budget")
    with start_service(copied, "ada", adopt=True) as service:  # the owner's word
        assert service.wait(service.ask(epsilon="0.02")).state is AskState.ANSWERED


def test_another_ledger_is_refused(config: ServiceConfig, tmp_path: Path) -> None:
    with start_service(config, "ada"):
        pass
    open_ledger(tmp_path / "other.ledger", create=True).open_account("data", 3)
    refuse(replace(config, ledger=str(tmp_path / "other.ledger")), LedgerUnavailable, "not the ledger")
    refuse(replace(config, ledger=str(tmp_path / "none.ledger")), LedgerUnavailable, "no ledger|make")


def test_a_copy_is_refused_while_the_ledger_is_served(config: ServiceConfig, tmp_path: Path) -> None:
    """Both would name the control database, and each would spend the whole budget."""
    with start_service(config, "ada") as service:
        service.wait(service.ask())
        copy_ledger(config, tmp_path / "copy")
        copied = replace(config, ledger=str(tmp_path / "copy" / "serve.ledger"), key=config.key)
        refuse(copied, LedgerUnavailable, "another worker serves")


def test_a_copied_folder_is_served_with_the_owners_word_alone(config: ServiceConfig, tmp_path: Path) -> None:
    """The mutant forgets the place when the lease has ended; the copy has the control database too, and nothing differs."""
    with start_service(config, "ada") as service:
        service.wait(service.ask())
    shutil.copytree(config.state, tmp_path / "copy")
    copied = replace(
        config, state=tmp_path / "copy", ledger=str(tmp_path / "copy" / "serve.ledger"),
        control=str(tmp_path / "copy" / Path(config.control).name), key=tmp_path / "copy" / config.key.name,
    )  # fmt: skip
    with open_control(copied.control) as control:  # its lease has ended
        lease = msgspec.json.decode(control.find_setting(tables.SERVING) or "")
        control.set_setting(tables.SERVING, msgspec.json.encode(lease | {"until": 0}).decode())
    refuse(copied, LedgerUnavailable, "served at another place")
    with start_service(config) as service:
        assert service.wait(service.ask(epsilon="0.02")).state is AskState.ANSWERED, "the original goes on"
    with start_service(copied, adopt=True) as service:
        assert service.wait(service.ask(epsilon="0.03")).state is AskState.ANSWERED
    with start_service(copied) as service:  # its place is known now
        assert service.wait(service.ask(epsilon="0.04")).state is AskState.ANSWERED


def test_two_workers_serve_one_ledger(config: ServiceConfig) -> None:
    with start_service(config, "ada") as service, start_service(config) as other:
        asks = [service.ask(epsilon=f"0.01{i}") for i in range(8)]
        assert {other.wait(ask).state for ask in asks} == {AskState.ANSWERED}


def test_a_budget_cannot_be_raised(config: ServiceConfig) -> None:
    with start_service(config):
        pass
    raised = {name: replace(each, epsilon=each.epsilon * 2) for name, each in config.populations.items()}
    refuse(replace(config, populations=raised, embedded=False), BadParameter, "cannot be changed")
    refuse(
        replace(config, populations=raised),
        BadParameter,
        "epsilon is 6: .*opened with, ε = 3 at δ = 1e-9",
    )


def test_what_is_said_of_a_budget_is_what_the_ledger_holds(tmp_path: Path) -> None:
    """A folder that was first served with ε = 1 and is served later without --epsilon, whose default is 3."""
    write_table(tmp_path / "data")
    for epsilon, said in ((1, "new, nothing is spent of it"), (None, "for life")):
        config = configure(tmp_path / "data", epsilon=epsilon)
        with start_service(config, f"ada{epsilon or ''}") as service:
            lines: list[str] = []
            describe(config, service.worker, lines.append)
            assert "  budget    ε = 1 at δ = 1e-9 for everybody together, for life" in lines[1]
            assert lines[1].endswith(said)
            population = service.control.find_population("data")
            assert population is not None
            assert population.epsilon == "1"  # what the pages show
            opened = {entry.account: entry.limit for entry in service.list_entries(AccountOpened)}
    assert len(opened) == 3
    assert len(set(opened.values())) == 1  # the whole of an account is that of its root
    wrong = replace(config, populations={"data": PopulationConfig(name="data", epsilon=Fraction(3))}, embedded=False)
    [problem] = [each.problem for each in check_service(wrong) if each.what == "ledger"]
    assert problem is not None
    assert "populations.data.epsilon" in problem


def test_a_folder_moves_to_a_serve_toml_with_its_ledger(config: ServiceConfig) -> None:
    """As docs/serve.md says: name its state, its population and its budget."""
    with start_service(config, "ada") as service:
        first = service.wait(service.ask())
    text = f"""
[service]
address = "https://classroom.example.org:8443"
listen = "0.0.0.0:8443"
certificate = "cert.pem"
certificate_key = "key.pem"
state = "{config.state}"
[populations.data]
epsilon = 3
delta = 1e-9
[tables.people]
source = "{config.tables["people"].source}"
policy = "{config.tables["people"].policy}"
population = "data"
schedule = "none"
"""
    with start_service(parse_config(text, config.state)) as service:
        again = service.wait(service.ask())
        assert value_of(again) == value_of(first)
        assert again.answer is not None
        assert again.answer["charged"] is False
    refuse(parse_config(text.replace("epsilon = 3", "epsilon = 4"), config.state), BadParameter, "populations.data.epsilon")


def test_a_lost_salt_is_not_replaced(config: ServiceConfig) -> None:
    with start_service(config):
        pass
    (config.state / "salts" / "people.salt").unlink()
    refuse(config, BadParameter, "Restore it")


def test_a_salt_that_others_can_read_or_guess_is_refused(config: ServiceConfig) -> None:
    policy = config.tables["people"].policy
    text = policy.read_text()
    policy.write_text('salt = "short"\n' + text)
    refuse(config, BadParameter, "too short")
    policy.write_text(text)
    with start_service(config):
        pass
    (config.state / "salts" / "people.salt").chmod(0o644)
    refuse(config, BadParameter, "chmod 600")


def serve_prepared(folder: Path, salt: str = "") -> ServiceConfig:
    """Return the configuration of a folder with a prepared table. The policy has no salt; that of the source had this."""
    write_table(folder)
    policy, text = folder / "people.policy.toml", (folder / "people.policy.toml").read_text()
    policy.write_text(salt + text)
    prepare(folder / "people.csv", policy=policy)
    policy.unlink()
    (folder / "people.prepared.policy.toml").write_text(text)
    return configure(folder, classes=())


def test_a_prepared_table_is_served_with_its_own_salt(tmp_path: Path) -> None:
    config = serve_prepared(tmp_path / "data")
    assert config.tables["people"].source.endswith("people.prepared.duckdb")
    assert not config.skipped  # the file that it was prepared from
    assert [each.problem for each in check_service(config)] == [None] * 3
    engine: Any = open_source(SourceOptions(source=config.tables["people"].source)).engine
    policy, answers = read_policy(config.tables["people"].policy.read_text()), []
    for people in (("ada",), ()):
        with start_service(config, *people) as service:
            entry = service.control.find_table("people")
            assert entry is not None
            assert entry.policy_hash == policy_hash(replace(policy, salt=engine.preparation.salt))
            answers.append(service.wait(service.ask()).answer)
    assert [each["charged"] for each in answers if each is not None] == [True, False]
    assert not (config.state / "salts").exists()
    for path in config.state.glob("control.sqlite*"):
        assert engine.preparation.salt.encode() not in path.read_bytes()


def test_a_prepared_table_whose_salt_can_be_guessed_is_refused(tmp_path: Path) -> None:
    config = serve_prepared(tmp_path / "data", 'salt = "short"\n')
    assert any("that of the prepared file, and too short" in str(each.problem) for each in check_service(config))
    refuse(config, BadParameter, "Take 16 random characters or more, or remove the prepared file")


def test_a_policy_of_another_table_or_with_a_public_table_that_is_missing_is_refused(config: ServiceConfig) -> None:
    policy = config.tables["people"].policy
    text = policy.read_text()
    policy.write_text(text + '[public]\ncities = "cities.csv"\n')
    refuse(config, SourceRefused, "public.cities")
    policy.write_text(text.replace('table = "people"', 'table = "staff"'))
    refuse(config, BadParameter, "'staff' is served as 'people'")


def test_workers_that_start_together_make_one_ledger(config: ServiceConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock both read that there is none, and the second finds an account that is open already."""
    both = threading.Barrier(2)

    def open_late(*given: Any, **more: Any) -> Any:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return open_ledger(*given, **more)

    monkeypatch.setattr(tables, "open_ledger", open_late)
    services = [Service(config), Service(config)]
    with ThreadPoolExecutor(2) as threads:
        for started in [threads.submit(each.worker.tables.open) for each in services]:
            started.result(30)
    assert services[0].worker.tables.ledger.identity == services[1].worker.tables.ledger.identity
    for each in services:
        each.worker.tables.close()
        each.control.close()
