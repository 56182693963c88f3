"""Full disks, databases that restart, clocks that jump: the books stay right, and moments stay where they are."""

import time
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from discreet.serve.control.model import AskState
from tests.support.killed_services import Place, run_campaign
from tests.support.postgres_server import cluster, database
from tests.support.served_tables import configure, start_by_hand, write_table
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
    """The mutant that reads the clock of the machine answers at once, or a day later."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data", classes=(2.0, 9.0)), "ada") as service:
        ask = service.ask()
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + jump)
        service.hand.wall += jump
        service.wait_until_ready(ask)
        service.set_time_of(ask, -0.01)
        assert service.find(ask).state is AskState.RUNNING
        service.set_time_of(ask)
        answered = service.find(ask)
        assert answered.state is AskState.ANSWERED
        assert answered.answered_at == ask.release_at
        assert answered.overruns == 0
        assert service.wait(service.ask(epsilon="0.02")).overruns == 0


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_clocks_of_web_and_worker_that_differ_cost_no_more_than_a_class(tmp_path: Path, skew: float) -> None:
    """The clock of one machine was set between the starts of its processes."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data", classes=(2.0, 9.0)), "ada") as service:
        ask, now = service.make_ask(), service.clock.now()
        assert ask.class_seconds is not None
        sent = msgspec.structs.replace(ask, accepted_at=now + skew, release_at=now + skew + ask.class_seconds)
        service.control.add_ask(sent)
        service.wait_until_ready(sent)
        service.set_time(now + 1.99)
        assert service.find(sent).state is AskState.RUNNING
        service.set_time(now + 2.0)
        answered = service.find(sent)
        assert answered.state is AskState.ANSWERED
        assert answered.overruns == 0
