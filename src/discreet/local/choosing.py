"""Which oracles there are for a number of values and an ε, and which one to take."""

from math import ceil

from discreet._numbers import Number, check_int, read_positive
from discreet.errors import BadParameter
from discreet.local.odds import odds_for_epsilon
from discreet.local.oracles import Direct, Hadamard, Hashed, Oracle, Projective, Subset, Unary

MAX_LONG_VALUES = 1 << 16
"""Beyond this, no report lists all values: it would be longer than 8 kilobytes."""


def list_oracles(values: int, epsilon: Number) -> dict[str, Oracle]:
    """Return each oracle at its best parameters for this ε.

    >>> list(list_oracles(100, 1))
    ['direct', 'symmetric unary', 'optimised unary', 'subset', 'hashed', 'hadamard', 'projective']
    """
    exact = read_positive(epsilon, "epsilon")
    odds, root = odds_for_epsilon(exact), odds_for_epsilon(exact / 2, max(64, ceil(8 / exact)))
    long: dict[str, Oracle] = {}
    if values <= MAX_LONG_VALUES:
        long = {
            "symmetric unary": Unary.symmetric(values, root),
            "optimised unary": Unary.optimised(values, odds),
            "subset": Subset.optimised(values, odds),
        }
    return {
        "direct": Direct(values, odds),
        **long,
        "hashed": Hashed.optimised(values, odds),
        "hadamard": Hadamard(values, odds),
        "projective": Projective.optimised(values, odds),
    }


def choose_oracle(values: int, epsilon: Number, name: str | None = None) -> Oracle:
    """Return the oracle of a name at its best parameters, or the recommended one: direct where it errs least, else
    projective.

    >>> type(choose_oracle(3, 1)).__name__, type(choose_oracle(1000, 1)).__name__
    ('Direct', 'Projective')
    >>> choose_oracle(1000, 1, "hadamard").bits
    11
    """
    check_int(values, "values", 2)
    known = list_oracles(values, epsilon)
    if name is None:
        direct, projective = known["direct"], known["projective"]
        return direct if direct.null_variance <= projective.null_variance else projective
    if name not in known:
        reason = f"its reports of {values:,} values would be long" if name in DECODING else "not a known oracle"
        raise BadParameter("oracle", repr(name), reason, f"take {', '.join(known)}")
    return known[name]


DECODING = {
    "direct": "n + d",
    "symmetric unary": "n·d",
    "optimised unary": "n·d",
    "subset": "n·d/(X + 1)",
    "hashed": "n + X·d·log d",
    "hadamard": "n + d·log d",
    "projective": "n + X·d·log d",
}
