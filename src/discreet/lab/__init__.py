"""The textbooks' figures, errata, exercises and attacks, computed with discreet's own functions.

Random numbers come from seeded bits, so every result is reproducible; nothing here may be published as a private answer.

>>> from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES
>>> len(FIGURES), len(ERRATA), len(EXERCISES), len(ATTACKS)
(18, 15, 26, 8)
>>> EXERCISES["counties"].solve().answer
'E max ≤ 181.06 people'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.lab.anonymity import k_anonymity
    from discreet.lab.attacks import ATTACKS, Attack, AttackResult
    from discreet.lab.census import make_census, write_census
    from discreet.lab.errata import ERRATA, Erratum
    from discreet.lab.exercises import EXERCISES, Exercise, Feedback, Solution
    from discreet.lab.figures import FIGURES, Figure
    from discreet.mechanisms.textbook_accuracy import pct_error

_HOME = {
    "ATTACKS": "discreet.lab.attacks", "Attack": "discreet.lab.attacks", "AttackResult": "discreet.lab.attacks",
    "ERRATA": "discreet.lab.errata", "Erratum": "discreet.lab.errata",
    "EXERCISES": "discreet.lab.exercises", "Exercise": "discreet.lab.exercises", "Feedback": "discreet.lab.exercises",
    "Solution": "discreet.lab.exercises", "FIGURES": "discreet.lab.figures", "Figure": "discreet.lab.figures",
    "make_census": "discreet.lab.census", "write_census": "discreet.lab.census",
    "k_anonymity": "discreet.lab.anonymity", "pct_error": "discreet.mechanisms.textbook_accuracy",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Fetch a name from its home when it is first used: attacks open sessions, and figures need none."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


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
