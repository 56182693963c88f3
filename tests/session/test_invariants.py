"""Invariants: exact counts that are public, with a reason. They weaken the guarantee, and whoever reads it is told."""

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import connect
from discreet.errors import BadParameter, DiscreetError, PlanRefused
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import privacy_unit_of
from discreet.ledger.keys import default_key_path, load_key
from discreet.ledger.verify import verify
from discreet.streams import open_stream
from discreet.units import AMONG, Invariant, Neighbours, histogram, invariants_from_json, read_invariants
from tests.support import console
from tests.support.certificates import list_false_claims, sign_again

REASON = "The works council publishes staff numbers."
COUNT = "SELECT COUNT(*) AS n FROM people WHERE age < 40"
OLDER = "SELECT COUNT(*) AS n FROM people WHERE age >= 40"
COLUMNS = ["id", "dept", "age", "pay"]


def make_ledger(folder: Path) -> Path:
    place = folder / "hr.ledger"
    ledger = open_ledger(place, create=True)
    ledger.open_account("all", 3)
    ledger.open_account("hr", 2, parent="all")
    ledger.open_account("pay", 2, parent="all")
    return place


def ask(place: Path, sql: str = COUNT, *, account: str = "hr", **options: Any) -> Any:
    options = {"neighbours": "replace"} | options
    session = connect("examples/people.csv", unit="id", unique=True, ledger=place, account=account, **options)
    return session, session.ask(sql, epsilon=0.25)


# -- what is refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("invariants", "neighbours", "words"),
    [
        (["dept"], "replace", ["not a reason for each", "why it is public"]),
        ("dept", "replace", ["not a reason for each"]),
        ({"dept": ""}, "replace", ["`dept` without a reason", "not protected"]),
        ({"dept": "  "}, "replace", ["without a reason"]),
        ({"dept": None}, "replace", ["without a reason"]),
        ({"dept": "two\nlines"}, "replace", ["without a reason"]),
        ({"": REASON}, "replace", ["not columns"]),
        ({"dept,dept": REASON}, "replace", ["different columns"]),
        ({"dept": REASON, ("dept",): REASON}, "replace", ["given twice"]),
        ({"floor": REASON}, "replace", ["`floor`", "not in the table", "dept"]),
        ({"id": REASON}, "replace", ["each privacy unit", "nothing to protect"]),
        ({"dept, id": REASON}, "replace", ["nothing to protect"]),
        ({"dept": REASON}, "add-remove", ["no two data sets would be neighbours", 'neighbours="replace"']),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_charged(invariants: Any, neighbours: str, words: list[str]) -> None:
    with pytest.raises(DiscreetError) as refused:
        connect("examples/people.csv", unit="id", epsilon=1, neighbours=neighbours, invariants=invariants)
    for word in words:
        assert word in str(refused.value)


def test_all_problems_are_listed_at_once() -> None:
    with pytest.raises(PlanRefused) as refused:
        read_invariants({"floor": REASON, "id": REASON, "age": ""}, Neighbours.ADD_REMOVE, COLUMNS, ["id"])
    assert len(refused.value.problems) == 4


def test_none_are_the_default() -> None:
    for nothing in (None, {}):
        assert read_invariants(nothing, Neighbours.ADD_REMOVE, COLUMNS, ["id"]) == ()
    session = connect("examples/people.csv", unit="id", epsilon=1)
    assert session.invariants == ()
    assert "invariants" not in session.executor.describe(session.calibrate(COUNT, epsilon=0.5))
    assert "Conditional" not in repr(session)


def test_a_stream_takes_no_invariants() -> None:
    session = connect(
        "examples/visits.csv", unit="id", keys={"ward": ["north", "south"]}, epsilon=1, delta=1e-6, neighbours="replace",
        invariants={"ward": REASON},
    )  # fmt: skip
    asked = "SELECT COUNT(*) AS n FROM visits"
    with pytest.raises(BadParameter, match="invariants is given: exact counts of a source that grows"):
        open_stream(session, asked, name="visits", time="day", start="2026-03-01", steps=8, epsilon=1)
    assert session.account.budget.spent == 0


@pytest.mark.parametrize(
    "values", [None, [], {}, "state", [{"by": "state", "public": "law"}], [{"by": ["b", "a"], "public": "law"}],
               [{"by": ["a"]}], [{"by": ["a"], "public": ""}], [{"by": ["a"], "public": "law", "more": 1}], [3]],
)  # fmt: skip
def test_a_specification_that_is_not_canonical_is_refused(values: Any) -> None:
    with pytest.raises(BadParameter):
        invariants_from_json(values)


def test_names_cannot_be_chosen_so_that_two_conditions_read_alike() -> None:
    def relation(*lists: list[str]) -> str:
        return privacy_unit_of({"unit": "id", "neighbours": "n", "invariants": [{"by": by, "public": "x"} for by in lists]})

    pairs = [
        relation(["a", "b"]),
        relation(["a` and `b"]),
        relation(["a"], ["b"]),
        relation(["a`, and number of rows for each `b"]),
    ]
    assert len(set(pairs)) == len(pairs)


# -- the account ------------------------------------------------------------------------------------------------------------


def test_an_account_keeps_to_its_invariants(tmp_path: Path) -> None:
    place = make_ledger(tmp_path)
    ask(place, invariants={"dept": REASON})
    with pytest.raises(
        BadParameter, match=r"invariants is not given: the account 'all' has others \(number of rows for each `dept`\)"
    ):
        ask(place, OLDER)
    with pytest.raises(BadParameter, match="same exact counts"):
        ask(place, OLDER, invariants={"dept, age": REASON})
    with pytest.raises(BadParameter, match="the account 'all' has others"):  # and so does the whole family
        ask(place, OLDER, account="pay")
    ask(place, OLDER, invariants={"dept": "Worded otherwise."})  # the same counts
    ask(place, account="pay", invariants={"dept": REASON})
    assert check_ledger(open_ledger(place)).is_valid
    state = open_ledger(place).get_account("hr").state
    assert state.condition == "number of rows for each `dept`"
    assert state.privacy_unit == f"id: {Neighbours.REPLACE.definition}{AMONG}number of rows for each `dept`"


def test_an_account_without_invariants_gets_none_later(tmp_path: Path) -> None:
    place = make_ledger(tmp_path)
    ask(place)
    with pytest.raises(BadParameter, match="the account 'all' has none"):
        ask(place, OLDER, invariants={"dept": REASON})
    assert open_ledger(place).get_account("hr").state.condition == ""


def test_the_order_of_invariants_does_not_matter(tmp_path: Path) -> None:
    place = make_ledger(tmp_path)
    ask(place, invariants={"dept": REASON, "pay,age": REASON})
    ask(place, OLDER, invariants={"age,pay": REASON, "dept": REASON})
    assert open_ledger(place).get_account("hr").state.debits == 2


def test_a_mutant_that_forgets_invariants_mixes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(measurement: dict[str, Any]) -> str:
        return f"{measurement['unit']}: {measurement['neighbours']}"

    place = make_ledger(tmp_path)
    monkeypatch.setattr("discreet.session.executor.privacy_unit_of", forget)
    ask(place, invariants={"dept": REASON})
    ask(place, OLDER)  # what test_an_account_keeps_to_its_invariants refuses


# -- what readers are told --------------------------------------------------------------------------------------------------


def issue(folder: Path) -> tuple[dict[str, Any], Path]:
    place = make_ledger(folder)
    session, answer = ask(place, invariants={"dept": REASON})
    return json.loads(json.dumps(session.certify(answer, load_key(default_key_path(place))))), place


def test_session_quote_certificate_and_verdict_say_it(tmp_path: Path) -> None:
    certificate, place = issue(tmp_path)
    words = certificate["guarantee"]["words"]
    assert words.startswith("Conditional: this holds only among data sets with the same number of rows for each `dept`")
    assert REASON.rstrip(".") in words
    assert "m units" in words
    key = load_key(default_key_path(place))
    verdict = verify(certificate, public=key.public, ledger=open_ledger(place))
    assert verdict.is_valid
    assert verdict.condition == "number of rows for each `dept`"
    assert verdict.conclusion.startswith("VALID: ")
    assert verdict.conclusion.endswith(
        "conditional: it holds only among data sets with the same number of rows for each `dept`."
    )
    assert any("is public" in each for each in verdict.assumptions)
    assert "conditional" in verify(certificate).conclusion
    session = connect(
        "examples/people.csv", unit="id", unique=True, epsilon=1, neighbours="replace", invariants={"dept": REASON}
    )
    assert "Conditional: this holds only among" in repr(session)
    assert any("Conditional" in note for note in session.quote(COUNT, epsilon=0.5).notes)


def drop_from_measurement(certificate: dict[str, Any]) -> None:
    del certificate["measurement"]["invariants"]


def drop_from_guarantee(certificate: dict[str, Any]) -> None:
    del certificate["guarantee"]["invariants"]


def drop_everywhere(certificate: dict[str, Any]) -> None:
    drop_from_measurement(certificate)
    drop_from_guarantee(certificate)
    words = certificate["guarantee"]["words"]
    certificate["guarantee"]["words"] = words[words.index("Whatever else is known") :]


def change_columns(certificate: dict[str, Any]) -> None:
    for part in ("measurement", "guarantee"):
        certificate[part]["invariants"][0]["by"] = ["age"]


def change_reason(certificate: dict[str, Any]) -> None:
    certificate["guarantee"]["invariants"][0]["public"] = "Nobody minds."


def shorten_words(certificate: dict[str, Any]) -> None:
    certificate["guarantee"]["words"] = certificate["guarantee"]["words"].replace("only ", "")


def break_type(certificate: dict[str, Any]) -> None:
    certificate["measurement"]["invariants"] = 7


@pytest.mark.parametrize(
    "forge",
    [drop_from_measurement, drop_from_guarantee, drop_everywhere, change_columns, change_reason, shorten_words, break_type],
)
def test_a_certificate_cannot_lose_its_condition(tmp_path: Path, forge: Callable[[dict[str, Any]], None]) -> None:
    certificate, place = issue(tmp_path)
    forged = copy.deepcopy(certificate)
    forge(forged)
    signed = sign_again(forged, load_key(default_key_path(place)))
    assert list_false_claims(verify(signed))
    assert not verify(signed).is_valid


def test_commands_say_it(tmp_path: Path) -> None:
    place = make_ledger(tmp_path)
    asked = ["ask", "examples/people.csv", COUNT, "--unit", "id", "--unique", "--epsilon", "0.25", "--ledger", place,
             "--account", "hr", "--neighbours", "replace", "--invariants", f"dept={REASON}",
             "--release", tmp_path / "release.json"]  # fmt: skip
    done = console.run(*asked)
    assert done.returncode == 0, done.stderr
    shown = console.run("budget", place, "--account", "hr")
    marked = "CONDITIONAL: guaranteed only among data sets with the same number of rows for each `dept`"
    assert marked in " ".join(shown.stdout.split())
    listed = json.loads(console.run("budget", place, "--account", "hr", "--json").stdout)
    assert "number of rows for each `dept`" in json.dumps(listed)
    verified = console.run("verify", tmp_path / "release.json", "--ledger", place)
    assert verified.returncode == 0, verified.stdout
    assert "The guarantee is conditional" in verified.stdout
    refused = console.run(*asked[:-4], "--invariants", "dept=")
    assert refused.returncode == 2
    assert "--invariants" in refused.stderr


def test_a_publication_says_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    source = Path("examples/people.csv").resolve()
    plan.write_text(
        f'source = "{source}"\nunit = "id"\nunique = true\nneighbours = "replace"\n'
        f'[invariants]\ndept = "{REASON}"\n[budget]\nepsilon = 1\n[questions.n]\nsql = "{COUNT}"\n'
    )
    done = console.run("publish", plan, "--to", tmp_path / "out", "--yes")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "guarantee.md").read_text()
    assert "among data sets with the same number of rows for each" in page
    assert REASON.rstrip(".") in page
    assert "it is exact and public" in page


# -- the theorem ------------------------------------------------------------------------------------------------------------

CELLS = list(product("ab", (0, 1)))  # state, answer
PEOPLE = 4


def list_pairs() -> Iterator[tuple[Counter[tuple[str, int]], Counter[tuple[str, int]], int]]:
    """All pairs of data sets of 4 people, with the number of people that must be replaced to get from one to the other."""
    worlds = [Counter(each) for each in combinations_with_replacement(CELLS, PEOPLE)]
    for x, y in product(worlds, worlds):
        yield x, y, (x - y).total()


def count_states(world: Counter[tuple[str, int]]) -> dict[str, int]:
    return dict(Counter(state for state, _ in world.elements()))


def find_violation(bound: Callable[[int], float]) -> bool:
    """Whether two data sets that agree on their states are further apart, in units of ρ, than a bound for m people."""
    unit = float(histogram(Neighbours.REPLACE).l2_squared)
    for x, y, m in list_pairs():
        if count_states(x) == count_states(y):
            apart = np.array([x[cell] - y[cell] for cell in CELLS], float)
            if (apart**2).sum() / unit > bound(m):
                return True
    return False


def test_data_sets_that_agree_are_m_squared_rho_apart_and_mutants_are_found() -> None:
    assert not find_violation(lambda m: m**2)
    assert find_violation(lambda m: m)  # as if ρ were additive over people
    assert find_violation(lambda m: 1)  # as if only neighbours were ever compared


def test_under_add_remove_no_neighbour_agrees() -> None:
    worlds = [Counter(each) for n in (2, 3) for each in combinations_with_replacement(CELLS, n)]
    neighbours = [(x, y) for x, y in product(worlds, worlds) if (x - y).total() + (y - x).total() == 1]
    assert neighbours
    assert not any(count_states(x) == count_states(y) for x, y in neighbours)


def test_an_invariant_is_a_value() -> None:
    assert Invariant(("b", "a"), " by law ") == Invariant(("a", "b"), "by law")
