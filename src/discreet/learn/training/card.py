"""A model card: what a trained model guarantees, how it was trained, and what is not protected. All of it is public."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet._numbers import format_up
from discreet.accounting.cost import SHOWN_DIGITS, format_at

NOT_PROTECTED = (
    "What is known about people in general: a model may reveal facts about a person that it learned from others.",
    "Records that hold the same person more often than declared: the guarantee is for one {unit}.",
    "What was looked at before training: choices of architecture, features or settings made on the same records.",
    "Predictions for a person are computed from that person's input, which they do not hide.",
    "The time that training took, to someone who watched the process: it shows the number of records.",
)


@dataclass(frozen=True)
class ModelCard:
    """What is published beside a model."""

    facts: dict[str, Any]
    guarantee: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**self.facts, "guarantee": self.guarantee, "not_protected": self._list_unprotected()}

    def to_markdown(self) -> str:
        """The card as Markdown."""
        shown = ((name.replace("_", " "), _format_fact(value)) for name, value in self.facts.items() if value is not None)
        rows = "\n".join(f"| {name} | {value} |" for name, value in shown)
        unprotected = "\n".join(f"- {each}" for each in self._list_unprotected())
        return (
            f"# Model card\n\n{self.guarantee}\n\n## Training\n\n| | |\n|---|---|\n{rows}\n\n"
            f"## What is not protected\n\n{unprotected}\n"
        )

    def _list_unprotected(self) -> list[str]:
        return [each.format(unit=self.facts["unit"]) for each in NOT_PROTECTED]

    __str__ = to_markdown


def _format_fact(value: Any) -> str:
    """Write a value for the table; a fraction with more than a few digits has a decimal beside it.

    >>> _format_fact("757079/500000"), _format_fact("1/20"), _format_fact("book-keeping"), _format_fact(1e-06)
    ('757079/500000 (about 1.514)', '1/20', 'book-keeping', '1e-06')
    """
    above, _, below = str(value).partition("/")
    is_long = above.isdigit() and below.isdigit() and len(below) > 3
    return f"{value} (about {float(Fraction(str(value))):.4g})" if is_long else str(value)


def describe_guarantee(epsilon: Any, delta: Any, unit: str, steps: int, made: int) -> str:
    """State the guarantee of the cost that was paid, in a sentence."""
    extra = "" if made == steps else f" {made:,} steps were made of {steps:,} that are paid for; that changes no guarantee."
    return (
        f"The weights, and all weights on the way to them, are differentially private: ε = "
        f"{format_up(epsilon, SHOWN_DIGITS)}{format_at(delta)}, between data sets of which one has one {unit} more.{extra}"
    )
