"""Attacks on a service of several processes, over HTTP: analysts who pool their answers, and a web process that another user
runs."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import httpx
import pytest

from discreet.errors import BudgetExceeded, ServiceChanged
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Debit
from tests.support.forked_processes import ROOT
from tests.support.served_tables import COUNT, configure, write_table
from tests.support.service_processes import Processes

STRANGER = "nobody"


@pytest.fixture(autouse=True)
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "config"))


def test_analysts_who_pool_their_answers_through_eight_processes_never_pass_the_root(tmp_path: Path) -> None:
    """Four web and four worker processes; eight analysts, each of whom may spend the whole root."""
    write_table(tmp_path / "data")
    processes = Processes(configure(tmp_path / "data", classes=(), epsilon=Fraction(1, 2)), tmp_path)
    people = [f"analyst{i}" for i in range(8)]
    processes.prepare(*people)

    def spend(number: int) -> tuple[int, int]:
        answered = refused = 0
        for i in range(6):
            epsilon = Fraction(150 + 10 * i + number, 1000)  # each asks something else, so nothing is free
            try:
                processes.ask(people[number], COUNT.format(name="people"), number % 4, epsilon=epsilon)
                answered += 1
            except BudgetExceeded:
                refused += 1
        return answered, refused

    try:
        processes.start(4, 4)
        with ThreadPoolExecutor(8) as clients:
            ended = list(clients.map(spend, range(8)))
    finally:
        processes.stop()
    answered, refused = (sum(each) for each in zip(*ended, strict=True))
    ledger = open_ledger(processes.config.ledger)
    try:
        root = ledger.get_account("data").state.budget
        debits = [each for each in ledger.iter_entries() if isinstance(each, Debit)]
        assert check_ledger(ledger).is_valid
        assert len(debits) == answered >= 2
        assert refused >= 8
        assert root.spent == sum(each.cost for each in debits) <= root.limit
    finally:
        ledger.close()


def test_a_web_process_of_another_user_serves_and_reads_neither_data_nor_ledger_nor_key(tmp_path: Path) -> None:
    """It has the control database alone; what it cannot read is tried under the same user."""
    assert os.getuid() == 0, "this test runs a process as another user, which only root can: run the tests as root"
    place = Path(tempfile.mkdtemp(prefix="discreet-web-"))  # outside the folders of pytest, which only root can enter
    try:
        place.chmod(0o711)
        control = place / "control"
        control.mkdir(mode=0o700)
        shutil.chown(control, STRANGER, "nogroup")
        write_table(place / "data")
        config = replace(configure(place / "data", classes=()), control=str(control / "control.sqlite"))
        for path in (*(place / "data").iterdir(), place / "data"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        processes = Processes(config, place)
        processes.user = STRANGER
        processes.prepare("ada")
        for path in control.iterdir():
            shutil.chown(path, STRANGER, "nogroup")
        try:
            processes.start(1, 1)
            pid = processes.running["web 0"].pid
            status = Path(f"/proc/{pid}/status").read_text()
            assert "Uid:\t65534\t65534\t65534\t65534" in status
            answer = processes.ask("ada", COUNT.format(name="people"), epsilon=Fraction(1, 10))
            assert {row[0] for row in answer.records} == {"a", "b"}
            held = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.exists()}
        finally:
            processes.stop()
        salt = config.state / "salts" / "people.salt"
        secrets = [Path(config.ledger), config.key, salt, place / "data" / "people.csv"]
        assert all(each.exists() for each in secrets)
        assert not held & {str(each) for each in secrets}
        for path in secrets:
            command = ["/bin/cat", str(path)]
            tried = subprocess.run(command, user=STRANGER, group="nogroup", extra_groups=[], capture_output=True)
            assert tried.returncode != 0
            assert b"Permission denied" in tried.stderr
            assert not tried.stdout
        assert salt.read_text().strip().encode() not in b"".join(each.read_bytes() for each in control.iterdir())
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """One web and one worker process, for Ada and Bob."""
    folder = tmp_path_factory.mktemp("processes")
    write_table(folder / "data")
    made = Processes(configure(folder / "data", classes=()), folder)
    made.prepare("ada", "bob")
    try:
        made.start(1, 1)
        yield made
    finally:
        made.stop()


def test_a_ledger_that_was_set_back_is_noticed_by_the_next_ask_of_any_client(processes: Processes, tmp_path: Path) -> None:
    """The owner restores an old ledger together with an old control database, so no worker notices; the client does."""
    query, state = COUNT.format(name="people"), processes.config.state
    session = processes.open("ada")
    session.ask(query, epsilon=Fraction(1, 100))
    back_up(processes, tmp_path / "backup")
    session.ask(query, epsilon=Fraction(2, 100))
    stop_all(processes)
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "backup", state)
    restart(processes)
    with pytest.raises(ServiceChanged, match="set back"):
        session.ask(query, epsilon=Fraction(3, 100))
    with pytest.raises(ServiceChanged, match="set back"):
        processes.open("ada")


def back_up(processes: Processes, folder: Path) -> None:
    """Copy the state of a service that runs, as its owner does: the control database, then the ledger, then the rest."""
    names = [Path(each).name for each in (processes.config.control, processes.config.ledger)]
    folder.mkdir()
    for name in names:
        with closing(sqlite3.connect(processes.config.state / name)) as database:
            database.execute("VACUUM INTO ?", (str(folder / name),))
    rest = shutil.ignore_patterns(*names, "*-wal", "*-shm")
    shutil.copytree(processes.config.state, folder, ignore=rest, dirs_exist_ok=True)


def stop_all(processes: Processes) -> None:
    for process in processes.running.values():
        process.kill()
        process.wait()


def restart(processes: Processes) -> None:
    for name in list(processes.running):
        processes.spawn(name)
    processes.wait_for_web(0)


def test_no_request_names_a_source(processes: Processes, tmp_path: Path) -> None:
    """No field of the API is a path or an address that the service would open, and one that is given is refused."""
    (tmp_path / "secret.csv").write_text("id,dept,pay\n1,a,7\n")
    queries = [
        "SELECT COUNT(*) AS n FROM '{}'", "SELECT COUNT(*) AS n FROM read_csv('{}')", 'SELECT COUNT(*) AS n FROM "{}"',
        "SELECT COUNT(*) AS n FROM people JOIN '{}' USING (id)", "ATTACH '{}' AS x", "COPY people TO '{}'",
        "SELECT COUNT(*) AS n FROM people WHERE dept = (SELECT content FROM read_text('{}'))",
    ]  # fmt: skip
    places = [str(tmp_path / "secret.csv"), "http://127.0.0.1:9/x.csv", "file:///etc/passwd", "s3://b/x.csv"]
    headers = {"Authorization": f"Bearer {processes.tokens['bob']}"}
    with httpx.Client(verify=False, base_url=f"{processes.address()}/api/v1", headers=headers, trust_env=False) as client:
        for place in places:
            for query in queries:
                body = {"table": "people", "query": query.format(place), "epsilon": 0.1}
                for route in ("quotes", "asks"):
                    assert client.post(f"/{route}", json=body).status_code == 422, body
            for field in ("source", "path", "policy", "ledger", "account", "url", "key"):
                body = {"table": "people", "query": COUNT.format(name="people"), "epsilon": 0.1, field: place}
                assert client.post("/asks", json=body).status_code == 422, field
            assert client.post("/asks", json={"table": place, "query": "x", "epsilon": 1}).status_code in (404, 422)
        assert client.get("/asks").json()["items"] == []


def test_processes_of_a_service_end_with_the_test_that_started_them(tmp_path: Path) -> None:
    """Also when the test is killed, and so can end nothing itself."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.support.served_tables import configure, write_table\n"
        "from tests.support.service_processes import Processes\nfolder = Path(sys.argv[1])\nwrite_table(folder / 'data')\n"
        "processes = Processes(configure(folder / 'data', classes=()), folder)\nprocesses.prepare('ada')\n"
        "processes.spawn('worker 0')\nprocesses.wait_for_worker()\n"
        "print(processes.running['worker 0'].pid, flush=True)\nsys.stdin.read()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as test:
        assert test.stdout is not None
        worker = int(test.stdout.readline())
        assert Path(f"/proc/{worker}").exists()
        test.kill()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{worker}/exe").exists():  # one that has ended may still be listed
        assert time.monotonic() < deadline, "the worker goes on"
        time.sleep(0.05)
