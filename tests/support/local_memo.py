"""A small mechanism with all three steps, for tests: a cohort for life, a memoised bit and a fresh flip of it."""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from discreet.events import Event, SetResponseEvent
from discreet.local.mechanism import State
from discreet.local.oracles import Field, Report


class MemoBit(msgspec.Struct, frozen=True, tag="memo bit"):
    """Whether a value has the parity of its cohort: kept with these odds for life, flipped with probability γ each time."""

    values: int
    cohorts: int
    odds: Fraction
    gamma: Fraction = Fraction(0)

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("c", self.cohorts), Field("b", 2))

    @property
    def device_moduli(self) -> tuple[int, ...]:
        return (self.cohorts,)

    @property
    def permanent_moduli(self) -> tuple[int, ...]:
        return (self.odds.numerator + self.odds.denominator,)

    @property
    def moduli(self) -> tuple[int, ...]:
        return (self.gamma.denominator,)

    def encode(self, value: int, device: Sequence[int]) -> State:
        return (device[0], (value + device[0]) % 2)

    def select_permanent(self, state: State, drawn: Sequence[int]) -> State:
        return (state[0], state[1] ^ (drawn[0] >= self.odds.numerator))

    def select(self, state: State, drawn: Sequence[int]) -> Report:
        return (state[0], state[1] ^ (drawn[0] < self.gamma.numerator))

    def event(self) -> Event:
        flipped = ((1 - self.gamma) * self.odds + self.gamma) / (self.gamma * self.odds + 1 - self.gamma)
        return SetResponseEvent(flipped, Fraction(1, 2), Fraction(0))

    def permanent_event(self) -> Event:
        return SetResponseEvent(self.odds, Fraction(1, 2), Fraction(0))

    def instantaneous_event(self) -> Event | None:
        return SetResponseEvent((1 - self.gamma) / self.gamma, Fraction(1, 2), Fraction(0)) if self.gamma else None
