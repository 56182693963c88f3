"""The 2020 redistricting data of the US Census Bureau: schema, levels, and how its privacy budget was divided.

    python examples/census/redistricting.py      prints what each table cost, and what all of them cost together

The Bureau measured 65 tables of persons, 10 or 11 on each of six levels, with discrete Gaussian noise. A neighbour has one
person replaced by another, so a table on one level changes in two cells: its squared l2 sensitivity is 2, and a table with
share s of ρ has σ² = 1/(ρ·s). The numbers are facts from the code that the Bureau published [DAS21]: the scale 339/542, the
shares by level, and the shares by query of the strategy `ProductionCandidate20210527US_mult8_add02_dsepJune3`. Housing units
were a second publication, with the scale 12343/3379. See docs/census.md.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt, sqrt

from discreet.accounting.conversions import epsilon_from_zcdp, epsilon_from_zcdp_classic
from discreet.accounting.curve import epsilon
from discreet.events import Composition, DiscreteGaussianEvent, compose
from discreet.units import Neighbours, histogram

COLUMNS = {"hhgq": 8, "votingage": 2, "hispanic": 2, "cenrace": 63}
"""Where a person lives (a household, or one of seven kinds of group quarters), of voting age or not, Hispanic or not, and
which of six races, one or several: 8 · 2 · 2 · 63 = 2,016 cells for each place."""

LEVELS = ("US", "State", "County", "Tract", "Block group", "Block")

SCALE = Fraction(339, 542)
RHO = 1 / SCALE**2
DELTA = Fraction(1, 10**10)
PUBLISHED_EPSILON = 17.14
UNITS_RHO = 1 / Fraction(12343, 3379) ** 2
"""ρ of the tables of housing units, which were published as ε = 2.47."""

LEVEL_SHARES = dict(zip(LEVELS, (Fraction(n, 4099) for n in (104, 1440, 447, 687, 1256, 165)), strict=True))

QUERIES = {
    "total": (),
    "race": ("cenrace",),
    "hispanic": ("hispanic",),
    "voting age": ("votingage",),
    "institution": ("hhinstlevels",),
    "group quarters": ("hhgq",),
    "hispanic × race": ("hispanic", "cenrace"),
    "voting age × race": ("votingage", "cenrace"),
    "voting age × hispanic": ("votingage", "hispanic"),
    "voting age × hispanic × race": ("votingage", "hispanic", "cenrace"),
    "detail": tuple(COLUMNS),
}
"""The columns of each query. `hhinstlevels` is `hhgq` in three groups: households, institutions, other group quarters."""

_NUMERATORS = {
    "US": (4097, (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213)),
    "State": (4097, (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230)),
    "County": (4097, (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
    "Tract": (4102, (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482)),
    "Block group": (4099, (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288)),
    "Block": (4097, (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
}

QUERY_SHARES: dict[str, dict[str, Fraction]] = {
    level: {query: Fraction(part, whole) for query, part in zip(QUERIES, parts, strict=True) if part}
    for level, (whole, parts) in _NUMERATORS.items()
}
"""By level, the share of each query of that level's share. The nation's total is not measured: it is published exactly."""


def square_sigma(level: str, query: str) -> Fraction:
    """Return σ² of the noise of a query on a level, exactly.

    >>> round(sqrt(square_sigma("State", "total")), 2)
    1.1
    """
    return 1 / (RHO * LEVEL_SHARES[level] * QUERY_SHARES[level][query])


def list_sigmas() -> dict[str, dict[str, float]]:
    """Return σ by level and query."""
    return {level: {query: sqrt(square_sigma(level, query)) for query in shares} for level, shares in QUERY_SHARES.items()}


def make_event(digits: int = 12) -> Composition:
    """Return what happened: 65 tables with discrete Gaussian noise. σ is rounded up to so many digits after the point."""
    changes = histogram(Neighbours.REPLACE)  # two cells of every table
    sigmas = (square_sigma(level, query) for level, shares in QUERY_SHARES.items() for query in shares)
    return compose(*(DiscreteGaussianEvent(_root_up(square, digits), changes) for square in sigmas))


def _root_up(square: Fraction, digits: int) -> Fraction:
    scaled = square * 100**digits
    return Fraction(isqrt(scaled.numerator // scaled.denominator) + 1, 10**digits)


def compare_costs() -> dict[str, float]:
    """Return ε at δ = 1e-10 by three theorems: the last is what the published noise guarantees."""
    return {
        "ρ + 2√(ρ·ln 1/δ)": epsilon_from_zcdp_classic(RHO, DELTA),
        "best Rényi order": epsilon_from_zcdp(RHO, DELTA),
        "certified curve": epsilon(make_event(), DELTA).upper,
    }


def format_sigmas(sigmas: Mapping[str, Mapping[str, float]]) -> str:
    """Write σ as a table, one column per level."""
    lines = [f"{'σ':<30}" + "".join(f"{level:>12}" for level in sigmas)]
    for query in QUERIES:
        cells = (f"{some[query]:12.2f}" if query in some else f"{'–':>12}" for some in sigmas.values())
        lines.append(f"{query:<30}" + "".join(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    print(format_sigmas(list_sigmas()))
    print(f"\nρ = {RHO} = {float(RHO):.6f}; ε at δ = 1e-10, published as {PUBLISHED_EPSILON}:")
    for name, each in compare_costs().items():
        print(f"  {name:<20} {each:.4f}")
