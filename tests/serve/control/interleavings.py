"""Actors that use one control database at random and in parallel, and a log of all that happened to its rows.

The log is written by triggers of the database, so it does not depend on what `Control` believes to have done.
"""

import random
import sqlite3
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg

from discreet.serve.control.errors import DayLimitReached, KeyTaken, StateChanged, TooManyWaiting
from discreet.serve.control.model import Ask, AskState, Job
from discreet.serve.control.store import Control, open_control
from tests.serve.control.sample import make_ask, make_request

LEASE = 0.03
PEOPLE = ("ada", "bob", "eve")
ENDS = (AskState.ANSWERED, AskState.FAILED, AskState.REFUSED)

_SQLITE = """
CREATE TABLE log (number INTEGER PRIMARY KEY, what TEXT, id TEXT, before TEXT, after TEXT);
CREATE TRIGGER asks AFTER UPDATE OF state ON control_asks WHEN OLD.state <> NEW.state
BEGIN INSERT INTO log (what, id, before, after) VALUES ('ask', NEW.id, OLD.state, NEW.state); END;
CREATE TRIGGER jobs AFTER UPDATE OF state ON control_jobs WHEN OLD.state <> NEW.state
BEGIN INSERT INTO log (what, id, before, after) VALUES ('job', NEW.id, OLD.state, NEW.state); END;
"""
_POSTGRES = """
CREATE TABLE log (number BIGSERIAL, what TEXT, id TEXT, before TEXT, after TEXT);
CREATE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
INSERT INTO log (what, id, before, after) VALUES (TG_ARGV[0], NEW.id, OLD.state, NEW.state); RETURN NEW; END $$;
CREATE TRIGGER asks AFTER UPDATE ON control_asks FOR EACH ROW WHEN (OLD.state <> NEW.state)
EXECUTE FUNCTION log_change('ask');
CREATE TRIGGER jobs AFTER UPDATE ON control_jobs FOR EACH ROW WHEN (OLD.state <> NEW.state)
EXECUTE FUNCTION log_change('job');
"""


def watch_rows(location: str) -> None:
    """Log every change of state from now on."""
    if location.startswith("postgresql:"):
        with psycopg.connect(location, autocommit=True) as server:
            server.execute(_POSTGRES)  # type: ignore[arg-type, unused-ignore]
    else:
        connection = sqlite3.connect(location)
        connection.executescript(_SQLITE)
        connection.close()


def read_log(location: str) -> list[tuple[str, str, str, str]]:
    """Return (what, id, state before, state after) in the order in which they happened."""
    sql = "SELECT what, id, before, after FROM log ORDER BY number"
    if location.startswith("postgresql:"):
        with psycopg.connect(location) as server:
            return server.execute(sql).fetchall()
    connection = sqlite3.connect(location)
    rows = connection.execute(sql).fetchall()
    connection.close()
    return rows


class Actor:
    """Does at random what analysts, stewards and workers do. `ended` are the jobs that it was told to have ended."""

    def __init__(self, control: Control, seed: int) -> None:
        self.control, self.random, self.name = control, random.Random(seed), f"actor {seed}"
        self.held: list[Job] = []
        self.ended: list[str] = []

    def run(self, steps: int) -> None:
        """Take random steps."""
        for _ in range(steps):
            step = self.random.choice((self.add, self.claim, self.claim, self.end, self.end, self.withdraw, self.decide))
            with suppress(StateChanged, KeyTaken, TooManyWaiting, DayLimitReached):
                step()

    def add(self) -> None:
        """Ask, often with a key that is taken."""
        person, key = self.random.choice(PEOPLE), str(self.random.randrange(60))
        state = self.random.choice((AskState.WAITING, AskState.WAITING, AskState.APPROVAL))
        ask = make_ask(key, person=person, state=state)
        self.control.add_ask(
            ask, make_request(ask) if state is AskState.APPROVAL else None, waiting_limit=10, epsilon_per_day="2", by=person
        )

    def claim(self) -> None:
        """Claim a job."""
        job = self.control.claim(self.name, time.time(), LEASE)
        if job is not None:
            self.held.append(job)

    def end(self) -> None:
        """End, release, renew or forget a job that was claimed, perhaps long ago."""
        if not self.held:
            return
        job = self.held.pop(self.random.randrange(len(self.held)))
        match self.random.randrange(6):
            case 0:
                time.sleep(LEASE * self.random.random() * 2)
                self.held.append(job)
            case 1:
                self.control.release(job)
            case 2:
                self.control.renew(job, time.time(), LEASE)
                self.held.append(job)
            case 3:
                if self.control.fail(job, {"title": "failed"}, to=AskState.FAILED):
                    self.ended.append(job.id)
            case _:
                if self.control.finish(job, to=self.random.choice(ENDS), answer={"by": self.name}, by=self.name):
                    self.ended.append(job.id)
                if self.random.random() < 0.3:
                    self.held.append(job)  # and end it again later

    def withdraw(self) -> None:
        """Withdraw an ask, whatever its state."""
        if ask := self._choose():
            self.control.withdraw_ask(ask.id, by=ask.person)

    def decide(self) -> None:
        """Approve or decline an ask, whatever its state."""
        if ask := self._choose():
            if self.random.random() < 0.7:
                self.control.approve_request(ask.id, ask.measurement, "steward")
            else:
                self.control.decline_request(ask.id, "steward")

    def _choose(self) -> Ask | None:
        return self.control.find_ask_by_key(self.random.choice(PEOPLE), str(self.random.randrange(60)))


def run_actors(location: str, seed: int, actors: int, steps: int) -> list[str]:
    """Run several actors as threads of this process, over one `Control`. Returns the jobs that they ended."""
    failures: list[BaseException] = []
    with open_control(location) as control:
        crew = [Actor(control, seed * 100 + number) for number in range(actors)]

        def run(actor: Actor) -> None:
            try:
                actor.run(steps)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(actor,)) for actor in crew]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return [job for actor in crew for job in actor.ended]


def run_actors_in_process(location: str, seed: int, actors: int, steps: int, results: Any) -> None:
    """As `run_actors`, in a process of its own."""
    try:
        results.put((seed, run_actors(location, seed, actors, steps), None))
    except BaseException as error:
        results.put((seed, [], repr(error)))
