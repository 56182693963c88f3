"""`ask`, `quote`, `budget`, `login` and `logout` with the address of a service, over a socket of the own machine."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tests.remote.test_client import TOKEN, Fake
from tests.support import console
from tests.support.people import BY_DEPARTMENT


@contextmanager
def listen(fake: Fake) -> Iterator[str]:
    """Answer as the fake service does, on a port of the own machine; without the token, 401."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.endswith("/tables"):
                sent = httpx.Response(200, json={"items": [{"name": "people"}], "cursor": None})
            else:
                sent = fake(httpx.Request(self.command, f"http://h{self.path}", headers=dict(self.headers), content=body))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                sent = httpx.Response(401, json={"detail": "This token is not known. Make a new one.", "status": 401})
            self.send_response(sent.status_code)
            self.send_header("Content-Length", str(len(sent.content)))
            self.end_headers()
            self.wfile.write(sent.content)

        do_POST = do_GET  # noqa: N815 - as the library calls it

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(folder: Path, *words: str, given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, with a text on its standard input."""
    env = {k: v for k, v in os.environ.items() if k != "DISCREET_TOKEN"} | {
        "DISCREET_CONFIG": str(folder / "config"),
        **more,
    }
    with patch.dict(os.environ, env, clear=True), patch.object(sys, "stdin", io.StringIO(given)):
        return console.run(*words)


def test_a_shell_asks_a_service(tmp_path: Path) -> None:
    fake = Fake()
    with listen(fake) as service:
        table = f"{service}/people"
        refused = run(tmp_path, "ask", table, BY_DEPARTMENT, "--epsilon", "1")
        assert (refused.returncode, refused.stdout) == (4, "")
        assert refused.stderr.startswith(f"discreet: {service}: no token. Give --token, set DISCREET_TOKEN")
        assert refused.stderr.endswith("See: discreet help serve#signing-in\n")
        signed_in = run(tmp_path, "login", service, given=f"{TOKEN}\n")
        assert (signed_in.returncode, signed_in.stderr) == (0, "")
        assert signed_in.stdout.endswith("Tables: people\n")
        assert TOKEN not in signed_in.stdout
        nothing = run(tmp_path, "login", service, given="\n")
        assert nothing.stderr.startswith("discreet: --token is empty: no token was given."), nothing.stderr
        link = run(tmp_path, "login", service, given=f"{service}/in?once=abcdefgh\n")
        assert (link.returncode, "open it in a browser" in link.stderr.lower()) == (2, True), link.stderr
        for command in (("quote", table, BY_DEPARTMENT, "--epsilon", "1"), ("budget", table)):
            typed = run(tmp_path, *command, "--token", "-", given=f"{TOKEN}\n", DISCREET_CONFIG=str(tmp_path / "other"))
            assert (typed.returncode, typed.stderr) == (0, "")
        document = json.loads(run(tmp_path, "login", service, "--json", given=TOKEN).stdout)
        assert document == {"service": service, "tables": ["people"]}
        answer = run(tmp_path, "ask", table, BY_DEPARTMENT, "--epsilon", "1", "--json")
        assert answer.returncode == 0, answer.stderr
        assert [row["dept"] for row in json.loads(answer.stdout)["rows"]] == ["a", "b", "c"]
        forged = run(tmp_path, "ask", table, BY_DEPARTMENT, "--epsilon", "1", "--release", str(tmp_path / "r.json"))
        assert (forged.returncode, "it is no certificate" in forged.stderr) == (4, True), forged.stderr
        assert not (tmp_path / "r.json").exists()
        quote = run(tmp_path, "quote", table, BY_DEPARTMENT, "--epsilon", "1")
        assert "Cost: ε = 1" in quote.stdout
        budget = run(tmp_path, "budget", table)
        assert budget.stdout == (
            "Budget: ε = 9 of 10 remaining, 10% spent.\nEverybody together: ε = 9 of 10 remaining, 10% spent.\n"
        )
        assert json.loads(run(tmp_path, "budget", table, "--json").stdout)["remaining"]["epsilon"] == 9
        wrong = run(tmp_path, "quote", table, BY_DEPARTMENT, "--epsilon", "1", "--token", "dsc_another-one")
        assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (4, "discreet: This token is not known. Make a new one.")
        owner = run(tmp_path, "ask", table, BY_DEPARTMENT, "--epsilon", "1", "--unit", "id")
        assert owner.returncode == 2
        assert owner.stderr.startswith("discreet: --unit is given: a service has its own policy and budget. Leave it out;")
        assert "is forgotten" in run(tmp_path, "logout", service, "--forget").stdout
        assert run(tmp_path, "budget", table).returncode == 4


@pytest.mark.parametrize("command", [("ask", "people.csv", BY_DEPARTMENT, "--epsilon", "1"), ("budget", "hr.ledger")])
def test_only_services_know_tokens(tmp_path: Path, command: tuple[str, ...]) -> None:
    refused = run(tmp_path, *command, "--token", TOKEN)
    assert refused.returncode == 2
    assert refused.stderr.startswith("discreet: --token is given: only a service knows tokens.")
