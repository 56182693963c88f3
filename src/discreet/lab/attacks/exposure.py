"""Two mechanisms that are private with a δ and expose people: the catastrophe and name and shame.

*Catastrophe* [N1]: the whole table with probability δ, otherwise q(x) + Lap(s/ε), which is (ε, δ)-private. *Name and shame*
[L12]: each record in clear with probability δ, so that nδ people are exposed on average; with δ = 1/n at least one is in 63%
of all releases, with δ = 1/n² in one of n. So δ must be far below one in the number of people, and it must be added up over
all releases. Notions without a δ give both an infinite cost [N2], and an account without a δ refuses them.
"""

from fractions import Fraction
from math import inf
from typing import Any

from discreet._numbers import Number, check_int, check_probability
from discreet.accounting.renyi import renyi
from discreet.accounting.zcdp import zcdp
from discreet.errors import QueryRefused
from discreet.events import Claim, compose
from discreet.lab.attacks.attack import Attack, AttackResult, open_testbed, refusal_message
from discreet.mechanisms.unsafe import Catastrophe, NameAndShame, at_least_once
from discreet.testing import seeded_bits


def catastrophe(
    people: int = 1_000, delta: Number = 0.001, releases: int = 2_000, epsilon: Number = Fraction(1), seed: int = 1
) -> AttackResult:
    """Release a count of a table many times at ε; with probability δ each release is the whole table [N1]."""
    n, k = check_int(people, "people", minimum=1), check_int(releases, "releases", minimum=1)
    probability = check_probability(delta, "delta")
    unsafe, names, bits = Catastrophe(probability, epsilon), [f"person {i}" for i in range(n)], seeded_bits(seed)
    seen = [unsafe.release(names, bits) for _ in range(k)]
    disasters = sum(answer == names for answer in seen)
    usual = next((answer for answer in seen if answer != names), n)
    eps = f"{float(unsafe.epsilon):g}"
    costs, (rows, account) = costs_without_delta(unsafe.event()), collect_refusals(unsafe.event(), names)
    return AttackResult(
        f"Catastrophe: all of {n:,} records with probability δ = {float(probability):g}, otherwise a noisy count at ε = "
        f"{eps}",
        (
            f"A usual answer looks harmless: {usual}.",
            f"Without discreet: one release exposes {unsafe.expected_exposures(n):g} people on average: all {n:,} at once, "
            f"with probability {float(probability):g}. At least one of {k:,} releases exposes them with probability "
            f"{at_least_once(probability, k):.4g}; here {disasters} did.",
            f"What the notions say: {format_costs(costs, eps)}.",
            f"With discreet: no query returns rows: {rows}.",
            f"An account without a δ refuses it too: {account}.",
        ),
        {
            "people": n, "delta": float(probability), "releases": k, "epsilon": float(unsafe.epsilon),
            "expected_exposed": unsafe.expected_exposures(n), "disaster_in_one": float(probability),
            "disaster_in_all": at_least_once(probability, k),
            "disasters": disasters, "exposed": disasters * n,
            "infinite_elsewhere": all(value == inf for value in costs.values()), "rows_refused": rows is not None,
            "refused": account is not None, "refusal": account,
        },
    )  # fmt: skip


def name_and_shame(people: int = 1_000, delta: Number = 0.001, releases: int = 2_000, seed: int = 12) -> AttackResult:
    """Release a table many times, each time with every record in clear with probability δ."""
    n, k = check_int(people, "people", minimum=2), check_int(releases, "releases", minimum=1)
    probability = check_probability(delta, "delta")
    unsafe, names, bits = NameAndShame(probability), [f"person {i}" for i in range(n)], seeded_bits(seed)
    exposed = [len(unsafe.release(names, bits)) for _ in range(k)]
    with_exposure, mean = sum(count > 0 for count in exposed), sum(exposed) / k
    at_least_one, safer = at_least_once(probability, n), at_least_once(Fraction(1, n * n), n)
    costs, (rows, account) = costs_without_delta(unsafe.event()), collect_refusals(unsafe.event(), names)
    return AttackResult(
        f"Name and shame: each of {n:,} records in clear with probability δ = {float(probability):g}",
        (
            f"Without discreet: one release exposes {unsafe.expected_exposures(n):g} people on average, and at least one "
            f"with probability {at_least_one:.4g}. In {k:,} releases it was {mean:.3g} on average, and at least one in "
            f"{with_exposure / k:.1%}.",
            f"With δ = 1/n² = {1 / n**2:g} at least one person would be exposed with probability {safer:.4g}.",
            f"What the notions say: {format_costs(costs)}.",
            f"With discreet: no query returns rows: {rows}.",
            f"An account without a δ refuses it too: {account}.",
        ),
        {
            "people": n, "delta": float(probability), "releases": k, "expected_exposed": unsafe.expected_exposures(n),
            "at_least_one": at_least_one, "at_least_one_at_n_squared": safer, "mean_exposed": mean,
            "releases_with_exposure": with_exposure, "infinite_elsewhere": all(value == inf for value in costs.values()),
            "rows_refused": rows is not None, "refused": account is not None, "refusal": account,
        },
    )  # fmt: skip


def costs_without_delta(event: Claim) -> dict[str, float]:
    """Return the cost of an event in notions without a δ; ∞ where there is no bound [N2]."""
    return {"RDP at order 2": float(renyi(event, 2)), "zCDP": float(zcdp(event))}


def format_costs(costs: dict[str, float], epsilon: str = "0") -> str:
    """Write the costs in notions without a δ in words."""
    text = ", ".join(f"{'∞' if value == inf else f'{value:g}'} ({name})" for name, value in costs.items())
    return f"it is ({epsilon}, δ)-private; in notions without a δ it costs {text}"


def collect_refusals(event: Claim, names: list[Any]) -> tuple[str | None, str | None]:
    """Return why discreet refuses a query for rows, and why a ledger's account without a δ refuses the event."""
    with (
        open_testbed([{"id": i, "name": name} for i, name in enumerate(names)]) as testbed,
        testbed.connect_with_ledger(1) as session,
    ):
        account = refusal_message(lambda: session.account.reserve(compose(event), measurement="rows in clear"))
        try:
            session.ask("SELECT name FROM people", epsilon=1)
        except QueryRefused as refused:
            return str(refused), account
    return None, account


CATASTROPHE = Attack(
    "catastrophe",
    "a noisy count, or with probability δ the whole table: (ε, δ)-private, and harmful",
    catastrophe,
    {"people": 10_000, "releases": 10_000},
)
NAME_AND_SHAME = Attack(
    "name-and-shame",
    "each record in clear with probability δ: (0, δ)-private, nδ people exposed",
    name_and_shame,
    {"people": 10_000, "releases": 10_000},
)
