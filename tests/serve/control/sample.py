"""Asks and people for the tests of the control database."""

from typing import Any

from discreet.serve.control.base import new_id
from discreet.serve.control.model import Ask, AskOptions, AskState, Person, Request, RequestState, Role
from discreet.serve.control.store import Control


def make_ask(key: str = "monday", **fields: Any) -> Ask:
    """Return an ask of Ada's."""
    values: dict[str, Any] = {
        "id": new_id(), "key": key, "person": "ada", "table": "people", "account": "employees/ada", "root": "employees",
        "query": "SELECT COUNT(*) AS n FROM people", "options": AskOptions(), "epsilon": "1/10", "measurement": "m" + key,
        "cost": {"epsilon": "0.1"}, "state": AskState.WAITING, "accepted_at": 1_800_014_400.0,
    }  # fmt: skip
    return Ask(**(values | fields))


def make_request(ask: Ask) -> Request:
    """Return the request for its approval."""
    return Request(
        ask=ask.id, person=ask.person, table=ask.table, purpose="a report", reason="ε per ask", measurement=ask.measurement,
        state=RequestState.OPEN, created=ask.accepted_at,
    )  # fmt: skip


def add_ada(control: Control) -> Person:
    """Add Ada, an analyst."""
    return control.add_person(Person(id="ada", name="Ada", role=Role.ANALYST, email="ada@example.org", subject="iss ada"))
