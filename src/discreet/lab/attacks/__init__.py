"""Attacks that can be run: what an attacker learns without discreet, and with it.

To add an attack, write a file that defines an `Attack` and list it here; all but `attack` hold one attack, or two of a kind.

>>> from discreet.lab.attacks import ATTACKS, run
>>> sorted(ATTACKS)
['averaging', 'catastrophe', 'differencing', 'float-grid', 'intersection', 'name-and-shame', 'reconstruction', 'telemetry']
>>> run("differencing").numbers["known_without"]
100
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from discreet.errors import BadParameter
from discreet.lab.attacks.attack import Attack, AttackResult
from discreet.lab.attacks.averaging import AVERAGING
from discreet.lab.attacks.differencing import DIFFERENCING
from discreet.lab.attacks.exposure import CATASTROPHE, NAME_AND_SHAME
from discreet.lab.attacks.float_grid import FLOAT_GRID
from discreet.lab.attacks.intersection import INTERSECTION
from discreet.lab.attacks.reconstruction import RECONSTRUCTION
from discreet.lab.attacks.telemetry import TELEMETRY

_ALL = (AVERAGING, DIFFERENCING, RECONSTRUCTION, INTERSECTION, CATASTROPHE, NAME_AND_SHAME, FLOAT_GRID, TELEMETRY)

ATTACKS: Mapping[str, Attack] = MappingProxyType({attack.name: attack for attack in _ALL})
"""Every attack by its name."""


def run(name: str, **options: Any) -> AttackResult:
    """Run an attack by its name."""
    if name not in ATTACKS:
        raise BadParameter("attack", repr(name), "unknown", f"take one of {', '.join(ATTACKS)}")
    return ATTACKS[name].run(**options)


__all__ = ["ATTACKS", "Attack", "AttackResult", "run"]
