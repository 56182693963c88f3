"""What requests of the API hold. Fields that are not listed are refused: a misspelt `epsilon` must not pass unseen.

Numbers are read as they are written: 0.1 is one tenth, and "1/3" is exact.
"""

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from discreet._numbers import parse_rational
from discreet.errors import BadParameter
from discreet.query.parser import MAX_CHARACTERS
from discreet.serve.control.model import Role, Rules
from discreet.serve.control.people import EMAIL, MAX_EMAIL, PERSON_ID
from discreet.serve.quoting import Target
from discreet.serve.web.service import Question

NUMBER = r"^[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?(/[0-9]{1,80})?$"
ERROR = r"^ *±? *[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?(/[0-9]{1,80})? *%? *$"
_POSITIVE = r"([1-9][0-9]{0,2}(\.[0-9]{1,40})?|0\.[0-9]{0,38}[1-9])(/[1-9][0-9]{0,2})?"
"""What the description of the API allows: it is accepted everywhere. More is accepted, and refused with a reason if it is
too large, too small or not positive."""
HEAD = r"^[0-9]{1,18}:[0-9a-f]{64}$"
MAX_TEMPLATES = 100


def _to_text(value: Any) -> Any:
    """Return a number of JSON as the text that stands for it; leave texts as they are."""
    if isinstance(value, bool):
        return value  # pydantic refuses it: not a text
    return repr(value) if isinstance(value, int | float) else value


def _to_whole(value: Any) -> Any:
    """Return 1000 for 1000.0, which is an integer of JSON; leave the rest to pydantic."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _describe_number(pattern: str) -> WithJsonSchema:
    """Return the schema of a positive number, which is written as a number of JSON or as a text."""
    number = {"type": "number", "minimum": 1e-9, "maximum": 999}
    return WithJsonSchema({"anyOf": [number, {"type": "string", "pattern": f"^{pattern}$"}]})


NumberText = Annotated[str, Field(max_length=200, pattern=NUMBER), BeforeValidator(_to_text), _describe_number(_POSITIVE)]
ErrorText = Annotated[
    str, Field(max_length=100, pattern=ERROR), BeforeValidator(_to_text), _describe_number(f" ?±? ?{_POSITIVE} ?%?")
]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Weights = Annotated[dict[Name, NumberText], Field(json_schema_extra={"additionalProperties": False})]
Text = Annotated[str, Field(max_length=5_000)]


class Body(BaseModel):
    """A body of JSON."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=200_000)


class QuoteBody(Body):
    """A query of a table, with its ε or with the error that its answer may have."""

    table: Name
    query: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
    epsilon: NumberText | None = None
    error: ErrorText | None = None
    size: Annotated[int, Field(ge=1, le=10**15), BeforeValidator(_to_whole)] | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    weights: Weights | None = None

    def to_question(self) -> Question:
        """Return the question."""
        epsilon = None if self.epsilon is None else str(parse_rational(self.epsilon, "epsilon"))
        given = None if self.weights is None else sorted(self.weights.items())
        weights = None if given is None else tuple((name, str(parse_rational(each, "weights"))) for name, each in given)
        target = Target(epsilon, self.error, self.size, self.confidence, weights)
        more = {
            name: getattr(self, name) for name in ("simultaneous", "fresh", "purpose") if name in type(self).model_fields
        }
        return Question(self.table, self.query, target, **more)


class AskBody(QuoteBody):
    """A query that is asked: it is charged, unless it was answered before."""

    simultaneous: bool = False
    fresh: bool = False
    purpose: Text = ""


class PersonBody(Body):
    """A person. The id is a part of account names."""

    id: Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{PERSON_ID}$"})]
    name: Name
    role: Annotated[Role, Field(strict=False)]
    email: Annotated[str, Field(max_length=MAX_EMAIL, pattern=f"^{EMAIL}$")] | None = None


class PersonChange(Body):
    """What changes about a person."""

    role: Annotated[Role, Field(strict=False)] | None = None
    disabled: bool | None = None


class GrantBody(Body):
    """A person may ask of a table. `epsilon` is the budget of the person's account; left out: the whole of the root."""

    person: Name
    table: Name
    epsilon: NumberText | None = None


class PauseBody(Body):
    """Why no asks are taken."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]


class ApprovalBody(Body):
    """An approval holds for one measurement: the one that the steward saw."""

    measurement: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    comment: Text = ""


class CommentBody(Body):
    """What a steward or an analyst says about a request."""

    comment: Text = ""


class PublicationBody(Body):
    """A workload that is published as a folder. `plan` is a plan.toml without source, ledger and account."""

    title: Name
    table: Name
    plan: Annotated[str, Field(min_length=1, max_length=100_000)]


class PublicBody(Body):
    """Whether a publication is shown to everybody."""

    is_public: bool


class PolicyBody(Body):
    """A policy, as TOML without the salt."""

    policy: Annotated[str, Field(min_length=1, max_length=200_000)]


class RulesBody(Body):
    """What may be asked of a table without approval. A limit that is left out or null sets none."""

    epsilon_per_ask: NumberText | None = None
    epsilon_per_day: NumberText | None = None
    declared_keys_only: bool = False
    templates: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]], Field(max_length=MAX_TEMPLATES)
    ] = []
    fresh: bool = False

    def to_rules(self) -> Rules:
        """Return the rules."""
        limits = {
            name: None if text is None else str(_read_limit(text, name))
            for name, text in (("epsilon_per_ask", self.epsilon_per_ask), ("epsilon_per_day", self.epsilon_per_day))
        }
        return Rules(**limits, declared_keys_only=self.declared_keys_only, templates=tuple(self.templates), fresh=self.fresh)


def _read_limit(text: str, name: str) -> Fraction:
    exact = parse_rational(text, name)
    if exact < 0:
        raise BadParameter(name, text, "a limit is not negative", "give 0, and every query needs approval")
    return exact


class ReleaseBody(Body):
    """An answer that is released for tools that read released tables. `title` names its table."""

    title: Annotated[str, Field(max_length=200)] = ""


class VerifyBody(Body):
    """A certificate, and the public key of who should have signed it, if it is known."""

    certificate: dict[str, Any]
    public_key: Annotated[str, Field(max_length=200)] | None = None


def read_head(text: str | None) -> tuple[int, str] | None:
    """Return the number and the hash of `Ledger-Head: 12:ab…`, the head of the ledger that a client has seen.

    >>> read_head("12:" + "ab" * 32)[0], read_head(None)
    (12, None)
    """
    if text is None:
        return None
    number, _, hash = text.partition(":")
    return int(number), hash


def read_wait(prefer: str | None) -> float | None:
    """Return the seconds of `Prefer: wait=30`; None if it is not stated.

    >>> read_wait("respond-async, wait=30"), read_wait("return=minimal"), read_wait(None)
    (30.0, None, None)
    """
    found = re.search(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])", prefer or "")
    return None if found is None else float(found[1])
