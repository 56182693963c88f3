"""Every draw of a local mechanism: the exact distribution of its reports, as an oracle for what it states."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import log
from typing import Any

from discreet.events import Claim, Composition, Event

Distribution = dict[tuple[int, ...], Fraction]


def distribute(moduli: Sequence[int], select: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Distribution:
    """Return the distribution of what `select` makes of integers that are uniform below each modulus."""
    found: Distribution = {}
    chance = Fraction(1)
    for modulus in moduli:
        chance /= modulus
    for drawn in product(*map(range, moduli)):
        made = tuple(int(number) for number in select(drawn))
        found[made] = found.get(made, Fraction(0)) + chance
    return found


def mix(parts: Iterable[tuple[Fraction, Distribution]]) -> Distribution:
    """Return the mixture of distributions."""
    found: Distribution = {}
    for weight, part in parts:
        for made, chance in part.items():
            found[made] = found.get(made, Fraction(0)) + weight * chance
    return found


def distribute_reports(mechanism: Any, value: Any) -> Distribution:
    """Return the distribution of one report of a value, over every draw of every step."""
    if not hasattr(mechanism, "permanent_moduli"):
        return distribute(mechanism.moduli, lambda drawn: mechanism.select(value, drawn))
    fresh: dict[tuple[int, ...], Distribution] = {}

    def report(state: tuple[int, ...]) -> Distribution:
        if state not in fresh:
            fresh[state] = distribute(mechanism.moduli, lambda drawn: mechanism.select(state, drawn))
        return fresh[state]

    devices = distribute(mechanism.device_moduli, lambda drawn: drawn)
    states = mix((weight, distribute_permanent(mechanism, value, device)) for device, weight in devices.items())
    return mix((weight, report(state)) for state, weight in states.items())


def distribute_permanent(mechanism: Any, value: Any, device: Sequence[int]) -> Distribution:
    """Return the distribution of the memoised state of a value on a device."""
    state = mechanism.encode(value, device)
    return distribute(mechanism.permanent_moduli, lambda drawn: mechanism.select_permanent(state, drawn))


def largest_ratio(distributions: Sequence[Distribution]) -> Fraction | None:
    """Return how much likelier a report is under one distribution than under another, at most; None for no limit."""
    largest = Fraction(1)
    for one, two in product(distributions, repeat=2):
        for made, chance in one.items():
            if made not in two:
                return None
            largest = max(largest, chance / two[made])
    return largest


def distribute_history(mechanism: Any, values: Sequence[Any]) -> Distribution:
    """Return the distribution of the reports of one device over time, its permanent noise repeated for equal states."""
    devices = distribute(mechanism.device_moduli, lambda drawn: drawn)
    return mix((weight, _on_device(mechanism, values, device)) for device, weight in devices.items())


def _on_device(mechanism: Any, values: Sequence[Any], device: Sequence[int]) -> Distribution:
    states = [mechanism.encode(value, device) for value in values]
    different = list(dict.fromkeys(states))
    permanent = [
        distribute(mechanism.permanent_moduli, lambda drawn, state=state: mechanism.select_permanent(state, drawn))
        for state in different
    ]
    parts = []
    for choice in product(*(each.items() for each in permanent)):
        memo = {state: made for state, (made, _) in zip(different, choice, strict=True)}
        weight = Fraction(1)
        for _, chance in choice:
            weight *= chance
        joint: Distribution = {(): Fraction(1)}
        for state in states:
            step = distribute(mechanism.moduli, lambda drawn, made=memo[state]: mechanism.select(made, drawn))
            joint = {(*old, *new): a * b for old, a in joint.items() for new, b in step.items()}
        parts.append((weight, joint))
    return mix(parts)


def total_epsilon(event: Event) -> float:
    """Return the pure ε of an event of local privacy, from its odds alone."""
    if isinstance(event, Composition):
        return sum(times * total_epsilon(part) for part, times in event.parts)
    return float(event.epsilon) if isinstance(event, Claim) else log(event.odds)
