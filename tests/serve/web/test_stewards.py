"""Rules, released answers, tokens with a ration, and requests that the owner is told of."""

import re
from fractions import Fraction

import pytest

from discreet.errors import BadParameter
from discreet.ledger.account import AccountState
from discreet.remote.wire import budget_from_wire
from discreet.serve.control.model import AskState, Role, Rules, Scope, Snapshot
from tests.support.web_service import QUERY, Service

ASK = {"table": "people", "query": QUERY, "epsilon": 0.1}
RULES = "/api/v1/tables/people/rules"


def test_a_steward_changes_the_rules_and_the_trail_says_so(service: Service) -> None:
    steward, analyst = service.client("sam"), service.client("ada")
    assert steward.get(RULES).json()["fresh"] is True
    changed = steward.send("PUT", RULES, json={"epsilon_per_ask": "1/20", "declared_keys_only": True})
    assert changed.status_code == 200, changed.text
    assert steward.get(RULES).json() == changed.json()
    assert (changed.json()["epsilon_per_ask"], changed.json()["epsilon_per_day"]) == ("1/20", None)
    assert analyst.post("/api/v1/asks", json=ASK).json()["state"] == "for approval"
    [line] = [each for each in service.control.trail.list().items if each.action == "change rules"]
    assert (line.actor, line.subject) == ("sam", "people")
    assert (line.details["before"]["epsilon_per_ask"], line.details["after"]["epsilon_per_ask"]) == (None, "1/20")
    service.control.trail.check()


def test_rules_that_serve_toml_states_are_shown_and_not_changed(service: Service) -> None:
    service.register(has_fixed_rules=True)
    sam = service.client("sam")
    refused = sam.send("PUT", RULES, json={"epsilon_per_ask": "0.05"})
    assert refused.status_code == 422
    assert "serve.toml" in refused.json()["detail"]
    assert sam.get(RULES).status_code == 200
    assert service.control.find_table("people").rules == Rules(fresh=True)  # type: ignore[union-attr]


def test_only_a_steward_sees_and_changes_rules(service: Service) -> None:
    for person in ("ada", "rea"):
        assert service.client(person).get(RULES).status_code == 403
        assert service.client(person).send("PUT", RULES, json={}).status_code == 403
    assert service.client().get(RULES).status_code == 401
    assert service.client("sam").get("/api/v1/tables/nope/rules").status_code == 404
    assert service.client("sam").send("PUT", "/api/v1/tables/nope/rules", json={}).status_code == 404
    assert service.control.find_table("people").rules == Rules(fresh=True)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "body",
    [
        {"templates": ["SELECT {"]},
        {"templates": ["nonsense"]},
        {"templates": ["SELECT COUNT(*) AS n FROM elsewhere"]},
        {"epsilon_per_day": "-1"},
        {"epsilon_per_day": "x"},
        {"epsilonn": 1},
        {"fresh": 1},
    ],
)
def test_rules_that_are_none_are_refused(service: Service, body: dict[str, object]) -> None:
    assert service.client("sam").send("PUT", RULES, json=body).status_code == 422
    assert service.control.find_table("people").rules == Rules(fresh=True)  # type: ignore[union-attr]


def test_a_steward_releases_an_answer(service: Service) -> None:
    ask = service.ask()["id"]
    path = f"/api/v1/asks/{ask}/release"
    assert service.client("ada").post(path, json={}).status_code == 403
    assert service.client("rea").post(path, json={}).status_code == 403
    queued = service.client("sam").post(path, json={"title": "heads"})
    assert queued.status_code == 202
    assert service.client("sam").get(queued.headers["location"]).json()["kind"] == "release"
    found = service.control.find_ask(ask)
    assert found is not None
    assert (found.released, found.answer is not None) == ("sam", True)
    [line] = [each for each in service.control.trail.list().items if each.action == "release answer"]
    assert (line.actor, line.subject, line.details["person"]) == ("sam", ask, "ada")


def test_an_ask_without_an_answer_is_not_released(service: Service) -> None:
    waiting = service.client("ada").post("/api/v1/asks", json=ASK).json()["id"]
    assert service.client("sam").post(f"/api/v1/asks/{waiting}/release", json={}).status_code == 409
    assert service.client("sam").post("/api/v1/asks/nope/release", json={}).status_code == 404
    assert not [job for job in service.control.list_jobs() if job.kind == "release"]


def test_a_token_shows_and_uses_the_account_of_its_own_ration(service: Service) -> None:
    """The mutant shows the person's account: the analyst then sees a budget that the token cannot spend."""
    name = "employees/ada/token-1"
    parent = service.accounts[1]
    own = AccountState.open(name, Fraction(1, 2), 1e-9, parent.budget.currency, parent)
    service.control.save_snapshots([Snapshot.of(own)])
    secret = service.control.add_token("ada", "small", scopes=(Scope.ASK, Scope.READ), accounts={"employees": name})[1]
    client = service.client(token=secret)
    table = client.get("/api/v1/tables/people").json()
    assert table["account"] == name
    assert client.get("/api/v1/tables").json()["items"][0]["account"] == name
    shown = client.get(f"/api/v1/accounts/{table['account']}").json()
    assert budget_from_wire(shown["lineage"][0]["budget"]).limit == own.budget.limit
    assert client.post("/api/v1/asks", json=ASK | {"epsilon": 2}).json()["error"] == "BudgetExceeded"
    assert client.post("/api/v1/asks", json=ASK).json()["account"] == name
    assert service.client("ada").get("/api/v1/tables/people").json()["account"] == "employees/ada"


def test_a_token_with_a_ration_elsewhere_sees_no_table_here(service: Service) -> None:
    secret = service.control.add_token("ada", "other", scopes=(Scope.ASK, Scope.READ), accounts={"others": "others/x"})[1]
    client = service.client(token=secret)
    assert client.get("/api/v1/tables").json()["items"] == []
    assert client.get("/api/v1/tables/people").status_code == 404


def test_a_worker_is_asked_to_tell_the_owner_of_a_request(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/20"))
    client = service.client("ada")
    for _ in range(2):  # the same key: one request, one alert
        shown = client.post("/api/v1/asks", json=ASK | {"purpose": "secret"}, headers={"Idempotency-Key": "k"}).json()
        assert shown["state"] == "for approval"
    [job] = [each for each in service.control.list_jobs() if each.kind == "alert"]
    assert (job.subject, job.payload) == ("people", {"kind": "request"})


def test_free_answers_do_not_count_towards_the_day(service: Service) -> None:
    """The mutant counts the quoted ε of repeated answers: the third ask then needs approval."""
    service.ask()
    service.register(rules=Rules(epsilon_per_day="1/5"))
    client = service.client("ada")
    for _ in range(5):
        assert client.post("/api/v1/asks", json=ASK).json()["answer"]["charged"] is False
    assert service.control.spent_today("ada", "people") == Fraction(1, 10)
    assert client.post("/api/v1/asks", json=ASK | {"query": f"{QUERY} ORDER BY n"}).json()["state"] == "waiting"
    service.control.withdraw_ask(service.control.list_asks(state=AskState.WAITING).items[0].id)
    assert client.post("/api/v1/asks", json=ASK | {"epsilon": "0.099"}).json()["state"] == "waiting"
    assert client.post("/api/v1/asks", json=ASK | {"epsilon": "0.002"}).json()["state"] == "for approval"


@pytest.mark.parametrize("error", ["1/3", "±1/3", "20/3 %", "7", "5%"])
def test_an_error_may_be_an_exact_rational(service: Service, error: str) -> None:
    quoted = service.client("ada").post(
        "/api/v1/quotes", json={"table": "people", "query": QUERY, "error": error, "size": 100_000}
    )
    assert quoted.status_code == 200, quoted.text


@pytest.mark.parametrize("error", ["1/0", "1/-3", "/3", "1/3/3", "1//3"])
def test_what_is_no_error_is_refused(service: Service, error: str) -> None:
    quoted = service.client("ada").post("/api/v1/quotes", json={"table": "people", "query": QUERY, "error": error})
    assert quoted.status_code == 422


def test_what_the_policy_does_not_declare_is_listed_at_once(service: Service) -> None:
    policy = service.register().policy.replace("lower = 0\nupper = 100\n", "")
    service.register(policy=policy)
    root = AccountState.open("employees", 3)
    service.control.save_snapshots(
        [Snapshot.of(each) for each in (root, AccountState.open("employees/ada", 3, parent=root))]
    )
    query = "SELECT city, SUM(pay) AS s FROM people GROUP BY city"
    refused = service.client("ada").post("/api/v1/quotes", json=ASK | {"query": query}).json()
    assert (refused["error"], refused["status"]) == ("MissingDeclarations", 422)
    assert refused["fields"]["missing"] == ["bounds", "keys"]
    assert "Ask a steward to declare bounds for `pay` and keys for `city`" in refused["detail"]
    assert "connect(" not in str(refused)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [("5", "more than ε = 3, the whole budget of employees, for life"), ("0", "above 0"), ("-1", "above 0")],
)
def test_a_ration_that_promises_nothing_is_refused(service: Service, epsilon: str, words: str) -> None:
    """A larger one than everybody's would state an ε that nobody can spend. A worker refuses it, too."""
    refused = service.client("sam").post("/api/v1/grants", json={"person": "bob", "table": "people", "epsilon": epsilon})
    assert refused.status_code == 422
    assert words in refused.json()["detail"]
    with pytest.raises(BadParameter, match=re.escape(words.replace("employees", "employees/ada"))):
        service.make_token(epsilon=epsilon)
    assert service.control.find_grant("bob", "people") is None
    assert not service.control.list_jobs()


def test_the_trail_says_with_which_budget_a_grant_was_given(service: Service) -> None:
    sam = service.client("sam")
    for person, epsilon, recorded in (("bob", "1", "1"), ("sam", None, "3"), ("ada", None, "3")):
        body = {"person": person, "table": "people"} | ({} if epsilon is None else {"epsilon": epsilon})
        assert sam.post("/api/v1/grants", json=body).status_code == 202
        line = next(each for each in service.control.trail.list().items if each.action == "add grant")
        assert (line.details["person"], line.details["epsilon"]) == (person, recorded)
    smaller = sam.post("/api/v1/grants", json={"person": "ada", "table": "people", "epsilon": "1"})
    assert smaller.status_code == 422
    assert "employees/ada was opened with ε = 3, for life. Leave it out; the rules" in smaller.json()["detail"]


def test_a_request_takes_nothing_of_the_day_and_a_quote_says_what_is_used(service: Service) -> None:
    """The mutant counts what waits for approval: the small ask then needs it, too."""
    service.register(rules=Rules(epsilon_per_day="3/10"))
    client = service.client("ada")
    assert client.post("/api/v1/asks", json=ASK | {"epsilon": "0.31"}).json()["state"] == "for approval"
    assert client.post("/api/v1/asks", json=ASK | {"epsilon": "0.2"}).json()["state"] == "waiting"
    quoted = client.post("/api/v1/quotes", json=ASK | {"epsilon": "0.25"}).json()
    assert quoted["today"] == {"asked": "1/5", "allowed": "3/10"}
    expected = "it asks ε = 0.25, and the rules allow ε = 0.3 in a day (UTC), of which 0.2 was asked"
    assert quoted["needs_approval"] == expected


def test_a_template_that_queries_can_match_is_taken(service: Service) -> None:
    template = "SELECT COUNT(*) AS n FROM people WHERE dept = {dept} AND pay >= {pay}"
    assert service.client("sam").send("PUT", RULES, json={"templates": [template]}).status_code == 200


def test_a_token_lives_as_long_as_was_asked_for_or_is_refused(service: Service) -> None:
    made, _ = service.make_token(days=90.0)
    assert made.expires is not None
    assert made.expires - made.created == pytest.approx(90 * 86_400, abs=60)
    for days in (91.0, 999.0):
        with pytest.raises(BadParameter, match="at most 90 days"):
            service.make_token(days=days)


def test_readers_see_released_answers_and_nothing_else(service: Service) -> None:
    ask, other = service.ask()["id"], service.ask(epsilon=0.2)["id"]
    service.add_person("stu", Role.STUDENT)
    people = [service.client(each) for each in ("rea", "bob", "stu")]  # no grant
    for client in people:
        assert client.get(f"/api/v1/asks/{ask}").status_code == 404
        assert client.get("/api/v1/released").json()["items"] == []
    assert service.client("sam").post(f"/api/v1/asks/{ask}/release", json={}).status_code == 202
    for client in people[:2]:
        [listed] = client.get("/api/v1/released").json()["items"]
        shown = client.get(f"/api/v1/asks/{ask}").json()
        assert (listed["id"], shown["state"]) == (ask, "answered")
        for each in (listed, shown):
            assert (each["person"], each["key"], each["account"], each["reason"]) == ("", "", "", None)
        assert client.get(f"/api/v1/asks/{ask}/answer?format=csv").text.startswith("dept,n,")
        assert client.get(f"/api/v1/asks/{other}").status_code == 404
        assert client.delete(f"/api/v1/asks/{ask}").status_code in (403, 404)
    assert people[2].get(f"/api/v1/asks/{ask}").status_code == 404
    assert people[2].get("/api/v1/released").json()["items"] == []
