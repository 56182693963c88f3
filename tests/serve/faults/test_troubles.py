"""Full disks, databases that restart, clocks that jump: the books stay right, and moments stay where they are."""

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from discreet.serve.control.model import AskState
from discreet.serve.schedule import JumpFreeClock
from tests.support.killed_services import Place, run_campaign
from tests.support.postgres_server import cluster, database
from tests.support.served_tables import configure, start_service, write_table
from tests.support.service_troubles import fill_disks, restart_server, watch_log


def test_a_full_disk_loses_and_gives_nothing(tmp_path: Path) -> None:
    run_campaign(tmp_path, asks=48, every=1000, trouble=fill_disks)
    assert "the disk" in watch_log(tmp_path), "the disk was never full"


def test_a_database_server_that_restarts_loses_and_gives_nothing(tmp_path: Path) -> None:
    """Control database and ledger are in one server, which is stopped and started again during asks."""
    name = f"restarted{uuid4().hex[:12]}"
    with cluster(name) as address:
        place = Place(database(address)[0], database(address)[0])
        run_campaign(tmp_path, asks=40, every=1000, place=place, trouble=restart_server(name))


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_is_set_moves_no_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=(2.0, 9.0)), "ada") as service:
        ask = service.ask()
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + jump)
        assert ask.release_at is not None
        start, left = time.monotonic(), ask.release_at - service.clock.now()
        assert 0 < left <= 2.0
        answered = service.wait(ask)
        assert left <= time.monotonic() - start < 9.0, "neither at once nor a day later"
        assert answered.answered_at == ask.release_at
        assert answered.overruns == 0
        assert service.wait(service.ask(epsilon="0.02")).overruns == 0


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_clocks_of_web_and_worker_that_differ_cost_no_more_than_a_class(tmp_path: Path, skew: float) -> None:
    """The clock of one machine was set between the starts of its processes."""
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=(2.0, 9.0)), "ada") as service:
        web: Any = JumpFreeClock(wall=lambda: time.time() + skew)
        ask = service.make_ask()
        assert ask.class_seconds is not None
        sent = msgspec.structs.replace(ask, accepted_at=web.now(), release_at=web.now() + ask.class_seconds)
        start = time.monotonic()
        answered = service.wait(service.control.add_ask(sent))
        assert answered.state is AskState.ANSWERED
        assert answered.overruns == 0
        assert 2.0 <= time.monotonic() - start < 9.0
