"""The budget of an account under another: at most that of its parent.

A larger one would promise nothing, because the parent caps it, and would state a wrong ε to the analyst.
"""

from fractions import Fraction

from discreet._numbers import check_positive, parse_rational
from discreet.accounting.cost import Budget
from discreet.accounting.currencies import Filter, create_budget
from discreet.errors import BadParameter


def check_ration(epsilon: str, above: Filter, delta: Fraction, parent: str) -> Fraction:
    """Return the ε of a ration under an account of this budget and δ.

    >>> check_ration("1/2", create_budget(3, 1e-9), Fraction(1, 10**9), "employees")
    Fraction(1, 2)
    >>> check_ration("5", create_budget(3, 1e-9), Fraction(1, 10**9), "employees")
    Traceback (most recent call last):
    discreet.errors.BadParameter: epsilon is 5: more than ε = 3, the whole budget of employees, for life. Give at most 3.
    """
    exact = check_positive(parse_rational(epsilon, "epsilon"), "epsilon")
    if create_budget(exact, delta, above.currency).limit > above.limit:
        whole = state_whole(above, delta)
        reason = f"more than ε = {whole}, the whole budget of {parent}, for life"
        raise BadParameter("epsilon", epsilon, reason, f"give at most {whole}")
    return exact


def state_whole(budget: Filter, delta: Fraction) -> str:
    """Return the ε that a whole budget promises at δ, as a person writes it."""
    return f"{Budget.of(budget, delta).limit_epsilon:.12g}"
