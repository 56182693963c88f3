"""Alerts: which are sent, where to, and that they hold names alone."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from discreet.engines.base import OutOfResources
from discreet.serve.config import ALERTS, AlertConfig
from discreet.serve.worker.alerts import Alerts
from tests.support.hand_clock import PATIENCE
from tests.support.served_tables import Service, configure, start_by_hand, write_table


class Receiver:
    """What a webhook received."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.arrived = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(302 if self.path == "/moved" else 204)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                with receiver.arrived:
                    receiver.bodies.append(json.loads(body) | {"path": self.path})
                    receiver.arrived.notify_all()

            def log_message(self, *_: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def wait_for(self, alert: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """Return the first alert of a kind."""

        def find() -> dict[str, Any] | None:
            return next((each for each in self.bodies if each["alert"] == alert), None)

        with self.arrived:
            assert self.arrived.wait_for(lambda: find() is not None, seconds), f"{alert!r} is not among {self.bodies}"
        found = find()
        assert found is not None
        return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(5)


@contextmanager
def alerting(tmp_path: Path, receiver: Receiver, epsilon: float = 3, **config: Any) -> Iterator[Service]:
    write_table(tmp_path / "data")
    configured = configure(tmp_path / "data", epsilon=epsilon, **config)
    with start_by_hand(replace(configured, alerts=AlertConfig(webhook=receiver.address)), "ada") as service:
        yield service


def test_the_owner_is_told_when_much_of_a_root_is_spent(tmp_path: Path, receiver: Receiver) -> None:
    with alerting(tmp_path, receiver, epsilon=1, classes=()) as service:
        service.wait(service.ask(epsilon="0.1"))
        assert receiver.bodies == []
        for i in range(9):  # zCDP: each costs about a tenth of what 1 costs at most
            service.wait(service.ask(epsilon=f"0.3{i}"))
        assert receiver.wait_for("root 80%")["subject"] == "data"
        spent = service.worker.tables.ledger.get_account("data").state.budget
        if spent.spent * 100 >= 95 * spent.limit:
            receiver.wait_for("root 95%")
    kinds = [each["alert"] for each in receiver.bodies]
    assert len(kinds) == len(set(kinds))  # each threshold once


def test_the_owner_is_told_of_failures_and_late_answers(tmp_path: Path, receiver: Receiver) -> None:
    def fail(original: Any, bounded: Any) -> Any:
        raise OutOfResources

    with alerting(tmp_path, receiver) as service:

        def be_late(original: Any, bounded: Any) -> Any:
            service.set_time(service.clock.now() + 0.5)
            return original(bounded)

        service.change_engine(be_late)
        service.wait(service.ask(epsilon="0.02"))
        assert receiver.wait_for("overrun")["subject"] == "people"
        service.change_engine(fail)
        service.wait(service.ask(epsilon="0.03"))
        assert receiver.wait_for("engine failed")["subject"] == "people"
        for body in receiver.bodies:
            assert set(body) == {"service", "alert", "subject", "path"}
            assert "SELECT" not in str(body)


def test_the_owner_is_told_of_a_ledger_that_is_not_valid(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    with alerting(tmp_path, receiver) as service:
        assert service.wait_for_job("ledger_check", "ledger").state == "done"
        assert receiver.bodies == []
        broken = SimpleNamespace(problem="entry 2 differs", entries=0, hash="")
        monkeypatch.setattr("discreet.serve.worker.jobs.check_ledger", lambda _: broken)
        assert service.wait_for_job("ledger_check", "ledger").state == "failed"
        assert receiver.wait_for("ledger check")["subject"] == service.config.name


def test_the_owner_is_told_of_a_request_for_a_table_and_of_nothing_else(tmp_path: Path, receiver: Receiver) -> None:
    """A web process that was taken over names no other alert, and sends no text of its own."""
    with alerting(tmp_path, receiver) as service:
        for subject, kind in (("people", "root 95%"), ("a text of the attacker's", "request"), ("people", "nonsense")):
            assert service.wait_for_job("alert", subject, {"kind": kind}).state == "done"
        service.wait_for_job("alert", "people", {"kind": "request"})
        assert receiver.wait_for("request")["subject"] == "people"
        assert len(receiver.bodies) == 1


def test_alerts_that_are_not_listed_are_not_sent_and_redirects_are_not_followed(receiver: Receiver) -> None:
    alerts = Alerts(AlertConfig(webhook=f"{receiver.address}/moved", when=("overrun",)), "service")
    alerts.send("request", "people")
    alerts.send("overrun", "people")
    alerts.stop()
    receiver.wait_for("overrun")
    assert [(each["alert"], each["path"]) for each in receiver.bodies] == [("overrun", "/moved")]
    assert {"root 80%", "root 95%", "engine failed", "overrun", "ledger check", "request"} == set(ALERTS)


def test_nothing_waits_for_an_alert_that_cannot_be_sent() -> None:
    alerts = Alerts(AlertConfig(webhook="http://127.0.0.1:9"), "service")
    for _ in range(300):  # more than wait
        alerts.send("overrun", "people")
    alerts.stop()
