"""The textbooks' figures, errata, exercises and attacks, computed with discreet's own functions.

Random numbers come from seeded bits, so every result is reproducible; nothing here may be published as a private answer.

>>> from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES
>>> len(FIGURES), len(ERRATA), len(EXERCISES), len(ATTACKS)
(17, 14, 24, 7)
>>> EXERCISES["counties"].solve().answer
'E max ≤ 181.06 people'
"""

from discreet.lab.attacks import ATTACKS, Attack, AttackResult
from discreet.lab.attacks.intersection import k_anonymity
from discreet.lab.census import make_census, write_census
from discreet.lab.errata import ERRATA, Erratum
from discreet.lab.exercises import EXERCISES, Exercise, Feedback, Solution
from discreet.lab.figures import FIGURES, Figure
from discreet.mechanisms.textbook_accuracy import pct_error

__all__ = [
    "ATTACKS",
    "ERRATA",
    "EXERCISES",
    "FIGURES",
    "Attack",
    "AttackResult",
    "Erratum",
    "Exercise",
    "Feedback",
    "Figure",
    "Solution",
    "k_anonymity",
    "make_census",
    "pct_error",
    "write_census",
]
