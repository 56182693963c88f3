"""Domains: which values a collection asks for, and the number that a mechanism knows each by.

A domain is fixed before anything is collected. A value that it does not list must not be left out in silence: not reporting
would depend on the value, and nothing protects that. So a list has a value `other`, and integers outside a range are clipped
to its ends.

**Missing is not absent.** A person who has no value (`None`) reports the value `missing`, protected like any other. A person
who does not take part at all sends nothing, and is absent: everyone can see that. Without `missing`, a range of integers has
no number for such a person, the client refuses, and silence shows that there is no value. Declare it.

Texts are compared by their code points, without normalisation, so that every client agrees.
"""

from functools import lru_cache
from typing import TypeAlias

import msgspec

from discreet._numbers import check_int
from discreet.errors import BadParameter, BadValues

MISSING_TEXT = b"\xff"
"""What stands for a missing value where any text may be reported: no text has these bytes in UTF-8."""


class Listed(msgspec.Struct, frozen=True, tag="listed"):
    """A list of texts, then `other` and `missing` under these names; None leaves one of them out.

    >>> colours = Listed(("red", "green"), missing="none")
    >>> colours.labels, [colours.index(value) for value in ("green", "mauve", None)]
    (('red', 'green', 'other', 'none'), [1, 2, 3])
    """

    values: tuple[str, ...]
    other: str | None = "other"
    missing: str | None = None

    def __post_init__(self) -> None:
        labels = self.labels
        if not all(isinstance(label, str) and is_text(label) for label in labels):
            raise BadParameter("domain", "a list", "its values are not texts", "give each value as text in Unicode")
        if len(set(labels)) < len(labels):
            raise BadParameter("domain", "a list", "a value stands in it twice", "name every value once, `other` included")

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of all values, in the order of their numbers."""
        return tuple(self.values) + tuple(name for name in (self.other, self.missing) if name is not None)

    @property
    def size(self) -> int:
        """How many values there are, with `other` and `missing`."""
        return len(self.labels)

    def index(self, value: str | int | None) -> int:
        """Return the number of a value.

        Raises:
            BadValues: it is not in the list, and there is no `other`.
        """
        label, numbers = self.missing if value is None else value, _number_labels(self.labels)
        other = numbers.get(self.other)
        place = numbers.get(label if isinstance(label, str) else None, other)
        if place is None:
            raise BadValues("are not all in the domain, which has no `other`", "give a listed value, or declare `other`")
        return place


class Integers(msgspec.Struct, frozen=True, tag="integers"):
    """The integers from `low` to `high`, in buckets of `step`; what lies outside is clipped to the ends.

    A float without a fraction is its integer: JSON and JavaScript do not tell 1.0 from 1.

    >>> hours = Integers(0, 23, missing="none")
    >>> hours.size, [hours.index(value) for value in (-5, 7, 99, None)]
    (25, [0, 7, 23, 24])
    """

    low: int
    high: int
    step: int = 1
    missing: str | None = None

    def __post_init__(self) -> None:
        low, high = check_int(self.low, "low", -(2**53) + 1), check_int(self.high, "high", -(2**53) + 1)
        check_int(self.step, "step", 1)
        if not low < high < 2**53 or high - low >= 2**53:
            raise BadParameter("high", high, f"not above low = {low} by less than 2**53", "give another range")
        if self.missing is not None and not is_text(self.missing):
            raise BadParameter("missing", "a name", "it is no text", "give a name in Unicode")

    @property
    def buckets(self) -> int:
        """How many values there are without `missing`."""
        return (self.high - self.low) // self.step + 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of all values: the lowest integer of each bucket."""
        names = tuple(str(self.low + place * self.step) for place in range(self.buckets))
        return names if self.missing is None else (*names, self.missing)

    @property
    def size(self) -> int:
        """How many values there are, with `missing`."""
        return self.buckets + (self.missing is not None)

    def index(self, value: str | float | None) -> int:
        """Return the number of a value.

        Raises:
            BadValues: it is no integer, or is missing and `missing` is not declared.
        """
        if value is None and self.missing is not None:
            return self.buckets
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadValues("are not all integers", "give integers; declare `missing` to report None")
        return (min(max(value, self.low), self.high) - self.low) // self.step


class Texts(msgspec.Struct, frozen=True, tag="texts"):
    """Any text: for mechanisms that hash it (RAPPOR, count-mean sketch). None is a value of its own, and no text equals it.

    Mechanisms that cut texts to an alphabet (those for unknown texts) read a missing value as an empty text.

    >>> Texts().index("naïve"), Texts().index(None)
    (b'na\\xc3\\xafve', b'\\xff')
    """

    @property
    def labels(self) -> None:
        """None: the values are not listed."""
        return

    @property
    def size(self) -> None:
        """None: there is no end of values."""
        return

    def index(self, value: str | int | None) -> bytes:
        """Return the bytes that the mechanism hashes.

        Raises:
            BadValues: it is no text.
        """
        if value is None:
            return MISSING_TEXT
        if not isinstance(value, str) or not is_text(value):
            raise BadValues("are not all texts", "give text in Unicode, or None if it is missing")
        return value.encode()


@lru_cache(maxsize=64)
def _number_labels(labels: tuple[str, ...]) -> dict[str | None, int]:
    """Return the number of each label: a search in the list would end at the value, and its time would show it."""
    return {label: place for place, label in enumerate(labels)}


Domain: TypeAlias = Listed | Integers | Texts


def is_text(value: str) -> bool:
    """Whether a text can be written in UTF-8: it has no lone surrogate.

    >>> is_text("é"), is_text(chr(0xD800))
    (True, False)
    """
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False
