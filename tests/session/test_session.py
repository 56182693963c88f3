"""What is asked wrongly is refused before it is charged."""

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import discreet.session
from discreet._numbers import MAX_CONFIDENCE, MIN_CONFIDENCE
from discreet.errors import BadParameter, DiscreetError
from discreet.session import Executor
from discreet.session.connect import connect
from discreet.testing import seeded_bits
from tests.support.people import session

COUNT = "SELECT COUNT(*) AS n FROM people"
MEDIAN = "SELECT dept, MEDIAN(pay) AS m, COUNT(*) AS n FROM people GROUP BY dept"
OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    (COUNT, {"bits": 42}, "bits is 42"),
    (COUNT, {"progress": 5}, "progress is 5"),
    (COUNT, {"id": 5}, "id is 5"),
    (COUNT, {"weights": []}, "weights is of type list"),
    (COUNT, {"weights": "n"}, "weights is of type str"),
    (COUNT, {"weights": 5}, "weights is of type int"),
    (COUNT, {"size": 10**400}, "size is inf"),
    (COUNT, {"size": -(10**5000)}, "size is -inf"),
    (MEDIAN, {"confidence": 1 - 1e-15, "simultaneous": True}, "confidence is"),
    (MEDIAN, {"confidence": 1e-300}, "confidence is 1e-300"),
    (MEDIAN, {"confidence": Fraction(1, 10**400)}, "confidence is 0: must lie between"),
]


@pytest.mark.parametrize("more", [{}, {"bounds": "auto"}])
@pytest.mark.parametrize(("query", "options", "message"), OPTIONS)
def test_a_wrong_option_is_refused_before_it_is_charged(
    query: str, options: dict[str, Any], message: str, more: dict[str, Any]
) -> None:
    place = session(**more)
    with pytest.raises(DiscreetError, match=message):
        place.ask(query, epsilon=1, **options)
    assert place.account.budget.spent == 0


def test_threads_share_one_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It remembers failures that could not be recorded: a second one would open the source again."""
    place, real, first = session(), discreet.session.Executor, list[Executor | None]()

    def make(*args: Any) -> Executor:
        if not first:  # another thread comes first, while this one is still making its own
            first.append(None)
            first[0] = place.executor
        return real(*args)

    monkeypatch.setattr(discreet.session, "Executor", make)
    assert place.executor is first[0]
    assert place.executor is first[0]


def test_a_quote_refuses_the_same_confidences() -> None:
    for confidence in (1 - 1e-15, 1e-300, 0, 1, float("nan"), "0.95"):
        with pytest.raises(BadParameter, match="confidence is"):
            session().quote(MEDIAN, epsilon=1, confidence=confidence)  # type: ignore[arg-type]
        with pytest.raises(BadParameter, match="confidence is"):
            session().find_epsilon(COUNT, 5, confidence=confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("confidence", "simultaneous", "delta"),
    [*product((MIN_CONFIDENCE, MAX_CONFIDENCE, Fraction(1, 3)), (True, False), (0, 1e-6))],
)
def test_every_confidence_that_is_accepted_can_be_met(confidence: Fraction, simultaneous: bool, delta: float) -> None:
    place = session(delta=delta, **({"keys": {}} if delta else {}))  # with a δ, keys are selected too
    assert place.quote(MEDIAN, epsilon=1, confidence=confidence).columns  # type: ignore[arg-type]
    answer = place.ask(MEDIAN, epsilon=1, confidence=confidence, simultaneous=simultaneous)  # type: ignore[arg-type]
    for _, row in answer.rows:
        assert all(estimate.lower <= estimate.value <= estimate.upper for estimate in row)
    assert answer.plot().to_svg()


def test_a_sum_beyond_integers_of_64_bits_is_shown_in_every_format() -> None:
    answer = session(bounds={"pay": (0, 1e30)}).ask("SELECT SUM(pay) AS s FROM people", epsilon=1)
    assert answer.to_arrow().num_rows == answer.to_polars().height == len(answer.to_pandas()) == 1


def test_an_outline_needs_no_bounds_that_are_still_to_be_found() -> None:
    place = session(bounds={"pay": "auto"})
    assert place.outline("SELECT SUM(pay) AS s FROM people").max_groups == 1
    assert place.account.budget.spent == 0
    assert place.ask("SELECT SUM(pay) AS s FROM people", epsilon=8, bits=seeded_bits(1)).rows


@pytest.mark.parametrize(
    ("epsilon", "delta", "warned"), [(1, 0, 0), (20, 1e-4, 0), (1000, 0, 1), (1, 0.5, 1), (1000, 0.5, 2)]
)
def test_sessions_quotes_and_answers_say_that_a_budget_promises_next_to_nothing(
    epsilon: float, delta: float, warned: int
) -> None:
    session = connect("examples/people.csv", unit="id", unique=True, epsilon=epsilon, delta=delta)
    sql = "SELECT COUNT(*) AS n FROM people"
    answer = session.ask(sql, epsilon=1)
    for text in (repr(session), " ".join(session.quote(sql, epsilon=1).notes), " ".join(answer.notes)):
        assert text.count("promises next to nothing") == warned
