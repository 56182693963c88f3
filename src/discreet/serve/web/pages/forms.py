"""A form that was refused: the page shows it again with what was filled in, and says beside the field what is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastapi import Response

from discreet.errors import BadParameter, DiscreetError
from discreet.serve.web.pages.drawing import Form, Visit
from discreet.serve.web.pages.words import describe_refusal
from discreet.serve.web.problems import Refusal

KEPT = frozenset({409, 422})
"""Refusals that are about what was filled in. Others are pages of their own."""


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """A form of a page, the field that is wrong (empty: none of them alone), why, and what was filled in."""

    form: str
    field: str
    text: str
    values: Form

    def get(self, name: str, default: str = "") -> str:
        """Return what a field was filled in with."""
        return (self.values.get(name) or (default,))[0]

    def has(self, name: str, value: str) -> bool:
        """Whether a box was ticked."""
        return value in self.values.get(name, ())


def keep_form(
    visit: Visit,
    form: str,
    run: Callable[[], Response],
    draw: Callable[[RefusedForm], Response],
    fields: Mapping[str, str] | None = None,
) -> Response:
    """Do what a form asks for; if it is refused, draw its page again. `fields` names the fields of parameters that have
    another name."""
    try:
        return run()
    except DiscreetError as error:
        name = error.name if isinstance(error, BadParameter) else ""
        field = (fields or {}).get(name, name)
        refused = RefusedForm(form, field if field in visit.form else "", describe_refusal(error), visit.form)
    except Refusal as error:
        if error.status not in KEPT:
            raise
        refused = RefusedForm(form, "", str(error), visit.form)
    response = draw(refused)
    response.status_code = 422
    return response
