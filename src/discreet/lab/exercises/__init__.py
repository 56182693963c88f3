"""The exercises of the textbooks as functions: change a parameter and the answer is computed again.

To add an exercise, write a function that returns a `Solution` and add an `Exercise` to the table of its file.
"""

from collections.abc import Mapping
from types import MappingProxyType

from discreet.lab.exercises.accuracy import ACCURACY, SENSITIVITY
from discreet.lab.exercises.definition import DEFINITION
from discreet.lab.exercises.exercise import Exercise, Feedback, Solution
from discreet.lab.exercises.response import LOCAL, RESPONSE

EXERCISES: Mapping[str, Exercise] = MappingProxyType(
    {exercise.name: exercise for exercise in (*RESPONSE, *DEFINITION, *SENSITIVITY, *ACCURACY, *LOCAL)}
)
"""By name: randomised response, the definition, sensitivity, accuracy, local privacy as it was deployed."""

__all__ = ["EXERCISES", "Exercise", "Feedback", "Solution"]
