"""The budget of a population: what its root account was opened with, whatever a configuration or a flag says later.

A budget is a promise to the people in the data and cannot be changed. Whatever states it reads it from the ledger: the
lines at the start, the control database, from which the pages take it, and accounts that are opened under it.
"""

from dataclasses import replace

from discreet.accounting.currencies import create_budget, parse_currency, smallest_epsilon
from discreet.errors import BadParameter
from discreet.ledger.account import AccountState
from discreet.serve.config import PopulationConfig


def read_opened(population: PopulationConfig, account: AccountState, name: str) -> PopulationConfig:
    """Return a population with the budget that its root account was opened with. `name` is the parameter that states one.

    Raises:
        BadParameter: if another budget is stated.
    """
    budget = account.budget
    wanted = create_budget(population.epsilon, population.delta, parse_currency(population.currency))
    if (wanted.limit, wanted.currency, population.delta) == (budget.limit, budget.currency, account.delta):
        return population
    epsilon = smallest_epsilon(budget.currency, budget.limit, account.delta, 12)
    assert not isinstance(epsilon, float)  # it was opened with an ε
    if population.is_stated:
        reason = "the account is open with another budget, which cannot be changed"
        opened = PopulationConfig(
            name=population.name, epsilon=epsilon, delta=account.delta, currency=budget.currency.name
        ).describe()
        raise BadParameter(name, str(population.epsilon), reason, f"state the one it was opened with, {opened}")
    return replace(population, epsilon=epsilon, delta=account.delta, currency=budget.currency.name)
