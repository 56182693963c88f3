"""How the embedded service listens."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from discreet.errors import BadParameter
from discreet.serve.config import read_folder
from discreet.serve.embedded import _listen
from tests.support.served_tables import write_table


def test_connections_send_at_once(tmp_path: Path) -> None:
    """A response in two parts must not wait 40 ms for the client's acknowledgement of the first."""
    write_table(tmp_path / "data")
    config = replace(read_folder(tmp_path / "data"), listen=("127.0.0.1", 0))
    with _listen(config) as (listening,), socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_unix_socket_of_a_process_that_runs_is_not_taken(tmp_path: Path) -> None:
    """A second web process would else take the place of the first, which nobody could reach any more."""
    write_table(tmp_path / "data")
    config = replace(read_folder(tmp_path / "data"), listen=tmp_path / "web.sock")
    with _listen(config), pytest.raises(BadParameter, match="Address already in use"), _listen(config):
        raise AssertionError("it was taken")
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "web.sock"))  # and left behind
    with _listen(config) as (listening,):
        assert listening.getsockname() == str(tmp_path / "web.sock")
