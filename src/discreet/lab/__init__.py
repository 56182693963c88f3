"""The textbook live: figures, errata, exercises and attacks that run on discreet's own functions.

Everything random here is drawn from seeded bits, so that a figure can be drawn again bit for bit; nothing of it may be
published as a private answer.

>>> from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES
>>> len(FIGURES), len(ERRATA), len(EXERCISES), len(ATTACKS)
(13, 9, 9, 7)
>>> EXERCISES["counties"].solve().answer
'E max ≤ 181.06 people'
"""

from discreet.lab.attacks import ATTACKS, Attack, AttackResult
from discreet.lab.errata import ERRATA, Erratum
from discreet.lab.exercises import EXERCISES, Exercise, Solution
from discreet.lab.figures import FIGURES, Figure
from discreet.lab.k_anonymity import k_anonymity

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
