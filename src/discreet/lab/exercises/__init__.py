"""The exercises of the texts, as functions: change a number and the answer is computed again."""

from collections.abc import Mapping
from types import MappingProxyType

from discreet.lab.exercises import accuracy, meaning, sensitivity
from discreet.lab.exercises.solution import Exercise, Solution

_ALL = (
    Exercise("outcome-range", "S4, ex. 3.4", "ε = ln 1.25 and an event has probability 0.2, or 0.5. What can it be if one "
             "person's record changes?", meaning.outcomes),
    Exercise("sample-sizes", "S4, ex. 2.6 and 4.6", "How many people does a proportion with error α need, and what happens "
             "when α or ε is halved?", accuracy.sample_sizes),
    Exercise("counties", "S4, ex. 4.5", "The population of 3,143 counties at ε = 0.1, one person replaced. How large is the "
             "largest error?", accuracy.counties),
    Exercise("names", "B2", "How often 10,000 first names occur, at ε = 1. How far off are they all, with probability 0.95?",
             accuracy.names),
    Exercise("sensitivity-quiz", "B2", "What is the sensitivity of: one predicate; two that overlap; four disjoint hair "
             "colours; an average salary?", sensitivity.sensitivity_quiz),
    Exercise("tail-bounds", "S4, B2", "Do the tails of the noise obey their formulas?", accuracy.tail_bounds),
    Exercise("gender-and-hair", "B2", "Counts by gender and hair colour, 2 × 4 cells, each at ε. What do they cost?",
             meaning.cells),
    Exercise("rules-of-thumb", "B2, S4, N1", "Which ε and δ are good ones?", meaning.rules_of_thumb),
    Exercise("no-promise", "B2", "What does differential privacy not promise?", meaning.no_promise),
)  # fmt: skip

EXERCISES: Mapping[str, Exercise] = MappingProxyType({exercise.name: exercise for exercise in _ALL})
"""By name."""

__all__ = ["EXERCISES", "Exercise", "Solution"]
