"""What two terrible mechanisms have in common: a definition that they satisfy, and an account that does not pay for them."""

from math import expm1, inf, log1p
from typing import Any

from discreet._numbers import Number, check_probability
from discreet.accounting.renyi import renyi
from discreet.accounting.zcdp import zcdp
from discreet.errors import QueryRefused
from discreet.events import Claim, compose
from discreet.lab.attacks.attack import open_testbed, refusal_message


def at_least_once(probability: Number, times: int) -> float:
    """1 − (1 − p)^k: how likely something is to happen at least once in so many tries.

    >>> round(at_least_once(0.001, 1000), 4), at_least_once(1e-300, 2)
    (0.6323, 2e-300)
    """
    return -expm1(times * log1p(-float(check_probability(probability, "probability"))))


def guarantees_without_delta(event: Claim) -> dict[str, float]:
    """What definitions without a δ to hide in say: there is no bound at all [N2]."""
    return {"Rényi at order 2": float(renyi(event, 2)), "zCDP": float(zcdp(event))}


def format_guarantees(guarantees: dict[str, float]) -> str:
    """The same in words."""
    said = ", ".join(f"{'∞' if value == inf else f'{value:g}'} ({name})" for name, value in guarantees.items())
    return f"as (0, δ) it passes; by definitions without a δ it costs {said}"


def collect_refusals(event: Claim, names: list[Any]) -> tuple[str | None, str | None]:
    """What discreet says to a question for rows, and a ledger's account without a δ to such a release."""
    with (
        open_testbed([{"id": i, "name": name} for i, name in enumerate(names)]) as built,
        built.connect_with_ledger(1) as session,
    ):
        unpaid = refusal_message(lambda: session.account.reserve(compose(event), measurement="rows in clear"))
        try:
            session.ask("SELECT name FROM people", epsilon=1)
        except QueryRefused as refused:
            return str(refused), unpaid
    return None, unpaid
