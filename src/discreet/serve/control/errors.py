"""What can go wrong with the control database. Each error says what is wrong and what to do."""

from fractions import Fraction

from discreet._numbers import format_down, format_up
from discreet.errors import BadParameter, DiscreetError


class ControlUnavailable(DiscreetError):
    """The control database cannot be opened, read or written. Nothing was changed."""

    see = "docs/serve.md#for-a-team"

    def __init__(self, where: str, reason: str, hint: str) -> None:
        self.where, self.reason, self.hint = where, reason, hint
        super().__init__(f"control database {where}: {reason}. {hint[:1].upper()}{hint[1:]}.")


class ControlMissing(ControlUnavailable):
    """There is no control database at this place, and it can be reached."""


class KeyTaken(DiscreetError):
    """The asker used this idempotency key for another measurement. Nothing was changed."""

    see = "docs/asking.md#asking-again"

    def __init__(self, key: str, ask: str) -> None:
        self.key, self.ask = key, ask
        super().__init__(f"The id {key!r} belongs to another query. Use a new id, or ask the same query again.")


class PersonExists(BadParameter):
    """The id or the OIDC subject of a person is taken. Nothing was changed."""

    def __init__(self, id: str) -> None:
        super().__init__("person", repr(id), "there is such a person already", "choose another id")


class StateChanged(DiscreetError):
    """An ask is not in the state that a change starts from: another process was first, or the ask has ended."""

    see = "docs/serve.md#states-of-an-ask"

    def __init__(self, subject: str, found: str, wanted: str) -> None:
        self.subject, self.found, self.wanted = subject, found, wanted
        super().__init__(f"{subject} is {found!r} and cannot become {wanted!r}. Read its state again.")


class TooManyWaiting(DiscreetError):
    """A person has as many asks, publications or attacks waiting as the service allows. Nothing was charged."""

    see = "docs/serve.md#limits"

    def __init__(self, limit: int, things: str = "asks", hint: str = "Wait for an answer, or withdraw an ask") -> None:
        self.limit = limit
        super().__init__(f"You have {limit} {things} waiting, which is the limit. {hint}.")


class DayLimitReached(DiscreetError):
    """An ask would exceed the ε that may be asked in a day without approval. Nothing was charged."""

    see = "docs/serve.md#rules"

    def __init__(self, limit: str, spent: str) -> None:
        self.limit, self.spent = limit, spent
        super().__init__(
            f"The rules allow ε = {format_down(Fraction(limit), 3)} a day without approval, and "
            f"ε = {format_up(Fraction(spent), 3)} was asked today. Ask for less, or request approval."
        )


class TrailBroken(DiscreetError):
    """The audit trail was changed after it was written. `number` is the first line that is wrong."""

    see = "docs/serve.md#the-audit-trail"

    def __init__(self, number: int, problem: str) -> None:
        self.number, self.problem = number, problem
        super().__init__(f"Line {number} of the audit trail: {problem}. Restore the control database from a backup.")
