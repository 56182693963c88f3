"""Attacks that can be played: what somebody who may ask learns without discreet, and with it.

>>> from discreet.lab.attacks import ATTACKS, run
>>> sorted(ATTACKS)
['averaging', 'catastrophe', 'differencing', 'float-grid', 'intersection', 'name-and-shame', 'reconstruction']
>>> run("differencing").numbers["known_without"]
100
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from discreet.errors import BadParameter
from discreet.lab.attacks import (
    averaging,
    catastrophe,
    differencing,
    float_grid,
    intersection,
    name_and_shame,
    reconstruction,
)
from discreet.lab.attacks.attack import Attack, AttackResult

_MODULES = (averaging, differencing, reconstruction, intersection, catastrophe, name_and_shame, float_grid)

ATTACKS: Mapping[str, Attack] = MappingProxyType({module.ATTACK.name: module.ATTACK for module in _MODULES})
"""Every attack by its name."""


def run(name: str, **options: Any) -> AttackResult:
    """Play an attack by its name."""
    if name not in ATTACKS:
        raise BadParameter("attack", repr(name), "none of that name", f"take one of {', '.join(ATTACKS)}")
    return ATTACKS[name].play(**options)


__all__ = ["ATTACKS", "Attack", "AttackResult", "run"]
