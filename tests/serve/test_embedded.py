"""One process that serves: its log and its metrics name no table, person, question or token."""

import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import httpx
import pytest

from discreet.errors import BadParameter
from discreet.remote.client import open_remote
from discreet.serve import embedded
from discreet.serve.config import parse_config
from tests.support.served_tables import COUNT, write_table

TOML = """
[service]
listen = "127.0.0.1:0"
metrics = "127.0.0.1:{metrics}"
[populations.employees]
epsilon = 3
delta = 1e-9
[tables.people]
source = "data/people.csv"
policy = "data/people.policy.toml"
population = "employees"
schedule = "none"
"""
PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from discreet.serve import embedded
from discreet.serve.config import read_config
config = replace(read_config(Path("serve.toml")), embedded=True)
embedded.run(config, browser=False, say=lambda line: print(line, flush=True))
"""


def test_log_and_metrics_hold_no_question_and_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "config"))
    write_table(tmp_path / "data")
    (tmp_path / "serve.toml").write_text(TOML.format(metrics=0))
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout is not None
    printed = ""
    try:
        while "Metrics" not in printed:
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            printed += line
        [address, token] = re.findall(r'connect\("(\S+)", token="(\S+)"\)', printed)[0]
        [place] = re.findall(r"http://127\.0\.0\.1:\d+/metrics", printed)
        with httpx.Client(verify=False) as http:
            people = open_remote(address, token, http)
            people.ask(COUNT.format(name="people"), epsilon=0.1)
            base = address.rpartition("/")[0]
            assert http.get(f"{base}/metrics").status_code in (401, 404)  # not at the port that people reach
            assert http.get(f"{base}/api/v1/tables/a-secret-name", headers={"Authorization": token}).status_code >= 400
            http.post(f"{base}/api/v1/asks", content=b"{broken")
        with urlopen(place, timeout=10) as response:
            metrics = response.read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        rest, logged = process.communicate(timeout=30)
    assert 'discreet_http_requests_total{method="POST",route="/api/v1/asks",status="200"}' in metrics
    for text in (metrics, logged, rest):
        for secret in (token, "SELECT", "people", "owner", "a-secret-name", "once=", "Traceback"):
            assert secret not in text, text
    with pytest.raises((URLError, ConnectionError)):
        urlopen(place, timeout=5)


def test_metrics_that_cannot_be_listened_on_are_refused(tmp_path: Path) -> None:
    import socket

    from discreet.serve.control.store import open_control
    from discreet.serve.web.metrics import Metrics

    write_table(tmp_path / "data")
    with socket.create_server(("127.0.0.1", 0)) as taken, open_control(tmp_path / "control.db") as control:
        config = parse_config(TOML.format(metrics=taken.getsockname()[1]), tmp_path)
        with (
            pytest.raises(BadParameter, match="metrics"),
            embedded._serve_metrics(config, Metrics(control), lambda _: None),
        ):
            raise AssertionError("it was served")


def test_a_line_of_the_log_has_neither_message_nor_traceback_of_an_exception() -> None:
    import logging

    from discreet.serve.web.metrics import LOG_CONFIG, PlainFormatter

    try:
        raise ValueError("SELECT secret")
    except ValueError:
        record = logging.LogRecord("discreet.serve", logging.ERROR, "f", 1, "a job failed", (), sys.exc_info())
    record.exc_text = "Traceback: SELECT secret"
    line = PlainFormatter(LOG_CONFIG["formatters"]["plain"]["fmt"]).format(record)
    assert "a job failed" in line
    assert "ValueError" in line
    assert "SELECT" not in line


def test_a_worker_alone_logs_the_kind_of_an_exception_and_not_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mutant that leaves logging as Python sets it up quotes a value in a traceback."""
    write_table(tmp_path / "data")
    config = parse_config(TOML.format(metrics=0), tmp_path)
    log = logging.getLogger("discreet.serve")
    before = log.handlers[:], log.propagate, log.level

    def fail() -> None:
        try:
            raise ValueError("ada earns 99")
        except ValueError:
            log.exception("a slot failed, and goes on")

    monkeypatch.setattr(embedded, "_wait_for_signal", fail)
    try:
        embedded.run(config, web=False, say=lambda _: None)
    finally:
        log.handlers[:], log.propagate, log.level = before
    written = capsys.readouterr().err
    assert "a slot failed, and goes on\n(ValueError)" in written
    assert "ada" not in written


def test_a_service_for_a_team_names_the_next_step(tmp_path: Path) -> None:
    from discreet.serve.config import read_config
    from discreet.serve.control.model import Person, Role
    from discreet.serve.control.store import open_control

    write_table(tmp_path / "data")
    (tmp_path / "serve.toml").write_text(TOML.format(metrics=0))
    config = read_config(tmp_path / "serve.toml")
    with open_control(tmp_path / "control.db") as control:
        said = embedded._name_next_step(config, control)
        assert said.endswith(f": discreet serve invite {tmp_path}/serve.toml NAME --role steward")
        control.add_person(Person(id="sam", name="Sam", role=Role.STEWARD))
        assert "People sign in at http://127.0.0.1:0/in." in embedded._name_next_step(config, control)
