"""What an attack is, and what it leaves behind."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

from discreet.errors import BadParameter


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What the attacker learned, in words and in numbers that JSON can hold."""

    title: str
    lines: tuple[str, ...]
    numbers: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join((self.title, *(f"  {line}" for line in self.lines)))


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack by name. It plays the same each time, unless it is given another seed."""

    name: str
    summary: str
    function: Callable[..., AttackResult]

    @property
    def options(self) -> dict[str, Any]:
        """What can be chosen, and what is chosen if nobody does."""
        return {name: parameter.default for name, parameter in signature(self.function).parameters.items()}

    def play(self, **options: Any) -> AttackResult:
        """Attack, without discreet and with it."""
        for name in options:
            if name not in self.options:
                known = ", ".join(self.options)
                raise BadParameter("option", repr(name), f"the attack {self.name} has none of that name", f"it has {known}")
        return self.function(**options)
