"""What a client runs: a mechanism that makes one report of one value, from integers that are drawn before the value is seen.

**Two kinds.** A one-time `Mechanism` draws everything afresh for each report. A `MemoisingMechanism` (RAPPOR, Microsoft's
telemetry) has up to three steps, each with its own list of moduli:

1. *device*: drawn once for the life of a device (a cohort, a rounding point, which buckets are observed);
2. *permanent*: drawn once for each state that the value takes on this device, and repeated whenever the state comes back;
3. *instantaneous*: drawn afresh for each report.

Steps 1 and 2 are not stored: they are drawn again each time from a stream that a secret of the device and a label determine
(`KeyedDraws`), so that a state that was seen before takes the same path as a new one. The label holds the collection's id,
the device's draws and the state: two collections, or two states, never share a stream.

**Observable draws.** Every list of moduli is a constant of the mechanism. What a client takes from its random source is
determined by these lists and by the rejections inside `below`, which do not depend on the value.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

from discreet.events import Event
from discreet.local.draws import Draws, KeyedDraws, draw_all
from discreet.local.oracles import Field, Report

State: TypeAlias = tuple[int, ...]
"""What is memoised, and what a permanent step made of it: integers below 2**53."""


class Mechanism(Protocol):
    """A mechanism that draws every report afresh. Every set oracle is one."""

    @property
    def values(self) -> int | None:
        """How many values there are: the value is an integer below it. None: the value is any text, as bytes of UTF-8."""
        ...

    @property
    def fields(self) -> tuple[Field, ...]:
        """The integers of a report."""
        ...

    @property
    def moduli(self) -> tuple[int, ...]:
        """The numbers below which one report draws, whatever the value."""
        ...

    def select(self, value: Any, drawn: Sequence[int], /) -> Report:
        """Make the report of a value from what was drawn below each of `moduli`."""
        ...

    def event(self) -> Event:
        """Return the event of one report on its own."""
        ...


class MemoisingMechanism(Mechanism, Protocol):
    """A mechanism that repeats its permanent noise for a state that comes back. `select` takes the permanent state."""

    @property
    def device_moduli(self) -> tuple[int, ...]:
        """The numbers below which a device draws once for life; may be empty."""
        ...

    @property
    def permanent_moduli(self) -> tuple[int, ...]:
        """The numbers below which a device draws once for each state."""
        ...

    def encode(self, value: Any, device: Sequence[int], /) -> State:
        """Return the state of a value on a device with these draws: equal states have equal permanent noise."""
        ...

    def select_permanent(self, state: State, drawn: Sequence[int], /) -> State:
        """Make the permanent state, which holds all that `select` needs (a cohort too)."""
        ...

    def permanent_event(self) -> Event:
        """Return the event of the permanent step for one state.

        Raises:
            BadParameter: it hides nothing.
        """
        ...

    def instantaneous_event(self) -> Event | None:
        """Return the event of the fresh step, as a mechanism on any permanent state; None if it hides nothing."""
        ...


AnyMechanism: TypeAlias = Mechanism | MemoisingMechanism


def is_memoising(mechanism: AnyMechanism) -> TypeGuard[MemoisingMechanism]:
    """Whether a mechanism has a permanent step.

    >>> from fractions import Fraction
    >>> from discreet.local.oracles import Direct
    >>> is_memoising(Direct(4, Fraction(3)))
    False
    """
    return hasattr(type(mechanism), "permanent_moduli")


def memo_label(collection_id: str, device: Sequence[int] | None = None, state: Sequence[int] = ()) -> bytes:
    """Name the stream of a device's draws, or with `device` that of one state's permanent draws.

    >>> memo_label("ab12"), memo_label("ab12", (3,), (1, 0))
    (b'discreet.local memo ab12 device', b'discreet.local memo ab12 device 3 state 1,0')
    """
    text = f"discreet.local memo {collection_id} device"
    if device is not None:
        text += f" {','.join(map(str, device))} state {','.join(map(str, state))}"
    return text.encode("ascii")


def draw_state(mechanism: MemoisingMechanism, value: Any, secret: bytes, collection_id: str) -> tuple[State, State]:
    """Return the state of a value on the device that has this secret, and the permanent state that it is repeated with."""
    device = draw_all(KeyedDraws(secret, memo_label(collection_id)), mechanism.device_moduli)
    state = mechanism.encode(value, device)
    stream = KeyedDraws(secret, memo_label(collection_id, device, state))
    return state, mechanism.select_permanent(state, draw_all(stream, mechanism.permanent_moduli))


def draw_report(
    mechanism: AnyMechanism, value: Any, draws: Draws, secret: bytes, collection_id: str
) -> tuple[State, Report]:
    """Draw the report of one value, with all fresh draws first; return the memoised state (empty without memo) with it."""
    drawn = draw_all(draws, mechanism.moduli)
    if not is_memoising(mechanism):
        return (), mechanism.select(value, drawn)
    state, permanent = draw_state(mechanism, value, secret, collection_id)
    return state, mechanism.select(permanent, drawn)
