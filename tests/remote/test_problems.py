"""Every error of discreet goes over HTTP as a problem and comes back as itself."""

from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

import msgspec
import pytest

from discreet import errors
from discreet.engines.base import OutOfResources
from discreet.errors import BadParameter, BudgetExceeded, DiscreetError, QueryRefused
from discreet.remote.plain import parse_json
from discreet.remote.problems import FIELDS, from_problem, to_problem

REFUSED = QueryRefused("no aggregate", "add a count", 1, 8)
EXAMPLES: list[DiscreetError] = [
    DiscreetError("something", "in two lines"),
    BadParameter("scale", "-1", "must be positive", "give a scale above 0"),
    BadParameter("error", Fraction(1, 3), "must be positive", "give more", column="pay"),
    BadParameter("epsilon", Decimal("0.1"), "too small", "give more"),
    BadParameter("epsilon", inf, "too large", "give less"),
    BadParameter("n", 10**40, "too large", "give less"),
    BadParameter("unique", None, "neither", "give one"),
    errors.TheoremNotApplicable("advanced composition", "ε ≤ 1", "use another"),
    errors.BadValues("are no numbers", "give numbers"),
    errors.BadExpression("laplac(1)", 3, "unknown", "write laplace"),
    errors.BadEventEncoding("no tag", "read it with another version"),
    BudgetExceeded("ε", cost=Fraction(2), remaining=Fraction(1, 3), fitting_epsilon=Fraction(1, 3)),
    BudgetExceeded("ρ", cost=inf, remaining=Fraction(0), fitting_epsilon=Fraction(0), cost_epsilon=0.625),
    BudgetExceeded(errors.DELTA_CURRENCY, cost=Fraction(1, 10**9), remaining=Fraction(0)),
    REFUSED,
    QueryRefused("no keys", "declare them", parameter="keys"),
    errors.MissingDeclarations("keys are missing", ("keys", "bounds"), "connect(SOURCE)", ["or give a δ"]),
    errors.PlanRefused([REFUSED, BadParameter("budget.epsilon", "-1", "must be positive", "give an ε above 0")]),
    errors.SourceRefused("no such file", "name another", parameter="policy"),
    errors.SourceQuarantined("serve:people", "hr.ledger"),
    errors.EngineFailed(),
    errors.LedgerUnavailable("hr.ledger", "it is locked", "try again", make_at="x.ledger"),
    errors.LedgerCorrupted("hr.ledger", "entry 3 was changed"),
    errors.NotSignedIn("no token", "sign in"),
    errors.NotFound("no such table", "name another"),
    errors.AskPending("3f", "for approval"),
    errors.ServiceUnavailable("too many asks are waiting", "try again later", retry_after=2.5),
    errors.ServiceChanged("https://data.example", "it has another key", "ask its steward"),
]


def send(error: DiscreetError) -> DiscreetError:
    problem = to_problem(error, "https://data.example")
    return from_problem(parse_json(msgspec.json.encode(problem)), problem["status"])


def fields(error: DiscreetError) -> dict[str, Any]:
    found = vars(error)
    return {name: [*map(fields, each)] if name == "problems" else each for name, each in found.items()}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda each: type(each).__name__)
def test_an_error_comes_back_as_itself(error: DiscreetError) -> None:
    back = send(error)
    assert type(back) is type(error)
    assert (str(back), back.args, back.see) == (str(error), error.args, error.see)
    assert fields(back) == fields(error)
    assert [*map(type, vars(back).values())] == [type(vars(error)[name]) for name in vars(back)]


def test_every_error_has_a_wire_form_and_an_example() -> None:
    kinds = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, DiscreetError)}
    assert kinds == FIELDS.keys() == {type(each) for each in EXAMPLES}


def test_the_exact_rational_of_a_refusal_arrives() -> None:
    with pytest.raises(BudgetExceeded) as refused:
        raise send(BudgetExceeded("ε", cost=Fraction(1), remaining=Fraction(1, 3), fitting_epsilon=Fraction(1, 3)))
    assert refused.value.fitting_epsilon == Fraction(1, 3)


def test_what_only_the_owner_may_read_stays_with_the_owner() -> None:
    """The mutant sends `str(error)` whole."""
    error = errors.SourceRefused("a cell cannot be read", "correct it", "row 17: 'Ada Lovelace'")
    problem = to_problem(error)
    assert "Lovelace" in str(error)
    assert "Lovelace" not in repr(problem)
    back = send(error)
    assert (str(back), vars(back)["for_owner"]) == ("a cell cannot be read. Correct it.", ())


def test_why_an_engine_failed_is_not_told() -> None:
    assert type(send(OutOfResources())) is errors.EngineFailed
    assert to_problem(OutOfResources()) == to_problem(errors.EngineFailed())


def test_an_error_of_a_later_version_is_a_plain_one() -> None:
    later = to_problem(REFUSED) | {"error": "LaterError", "detail": "What is wrong. What to do."}
    assert (type(from_problem(later)), str(from_problem(later))) == (DiscreetError, "What is wrong. What to do.")
    wrong = to_problem(EXAMPLES[11])
    wrong["fields"]["fitting_epsilon"] = "__import__('os')"
    assert type(from_problem(wrong)) is DiscreetError
    del wrong["fields"]["fitting_epsilon"]
    assert type(from_problem(wrong)) is DiscreetError


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, errors.NotSignedIn), (404, errors.NotFound), (502, errors.ServiceUnavailable), (429, errors.ServiceUnavailable),
     (400, DiscreetError)],
)  # fmt: skip
def test_a_page_of_a_proxy_becomes_an_error(status: int, kind: type[DiscreetError]) -> None:
    for body in (None, [], "text", {"title": "Bad Gateway"}, {"detail": 7}):
        assert type(from_problem(body, status)) is kind


def test_a_message_cannot_write_to_the_terminal() -> None:
    hostile = to_problem(REFUSED) | {
        "detail": "a\x1b[2J\u202eb",
        "see": "\x1b",
        "fields": {"reason": "\x1b[2J", "see": "\x1b"},
    }
    back = from_problem(hostile)
    assert (str(back), vars(back)["reason"], back.see) == ("a□[2J□b", "□[2J", QueryRefused.see)
