"""The textbooks' figures, errata, exercises and attacks, computed with discreet's own functions.

Random numbers come from seeded bits, so every result is reproducible; nothing here may be published as a private answer.

>>> from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES
>>> len(FIGURES), len(ERRATA), len(EXERCISES), len(ATTACKS)
(13, 9, 9, 7)
>>> EXERCISES["counties"].solve().answer
'E max ≤ 181.06 people'
"""

from discreet.lab.attacks import ATTACKS, Attack, AttackResult
from discreet.lab.attacks.intersection import k_anonymity
from discreet.lab.errata import ERRATA, Erratum
from discreet.lab.exercises import EXERCISES, Exercise, Solution
from discreet.lab.figures import FIGURES, Figure

__all__ = [
    "ATTACKS",
    "ERRATA",
    "EXERCISES",
    "FIGURES",
    "Attack",
    "AttackResult",
    "Erratum",
    "Exercise",
    "Figure",
    "Solution",
    "k_anonymity",
]
