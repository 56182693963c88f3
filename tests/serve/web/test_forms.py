"""Forms of pages: each is answered by a redirect, makes nothing twice, and keeps what was filled in when it is refused."""

import re
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import msgspec
import pytest

from discreet.serve.control.base import new_id
from discreet.serve.control.model import Publication, PublicationState, Rules
from discreet.serve.web.pages.charts import NARROW, break_titles, narrow
from discreet.serve.web.pages.reading import list_errors
from discreet.serve.web.pages.records import write_sample_plan
from tests.serve.web.test_templates import sign_in
from tests.support.lab_service import find_secret
from tests.support.web_service import OPEN, POLICY, Client, Service, open_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with open_service(tmp_path_factory.mktemp("forms"), replace(OPEN, pages=True)) as opened:
        yield opened


@pytest.fixture(scope="module")
def sam(service: Service) -> Client:
    return sign_in(service, "sam")


def send(client: Client, path: str, **fields: Any) -> httpx.Response:
    """Send a form with the token of its login."""
    token = re.search(r'name="form_token" value="([^"]+)"', client.get("/me").text)
    assert token is not None
    return client.post(path, data={"form_token": token[1], **fields})


def test_the_page_of_people_offers_what_works_and_says_how_stewards_are_made(service: Service, sam: Client) -> None:
    page = sam.get("/people").text
    choices = re.findall(r'<select id="(?:new-role|role-\d+)" name="role"[^>]*>(.*?)</select>', page)
    assert len(choices) == len(service.control.list_people()) + 1
    for choice in choices:
        offered = set(re.findall(r"<option[^>]*>([^<]+)</option>", choice)) - {"choose one"}
        assert offered == {"analyst", "reader", "student"}
    assert "discreet serve invite SERVICE NAME --role steward" in page
    assert 'aria-label="Link that signs in: ada"' in page
    assert 'aria-label="Link that signs in: sam"' not in page
    assert send(sam, "/people", do="add", person="eve", name="Eve", role="steward").status_code in (403, 409, 422)


# What is shown once


@pytest.mark.parametrize(
    ("path", "fields", "begins"),
    [
        ("/me", {"do": "add", "label": "x", "days": "30", "scope": ["ask", "read"]}, "dsc_"),
        ("/people", {"do": "link", "person": "ada"}, "http://127.0.0.1:8765/in?once="),
    ],
)
def test_a_secret_is_shown_once_after_a_redirect(service: Service, path: str, fields: Any, begins: str) -> None:
    client = sign_in(service, "sam")
    before = len(service.control.list_tokens("sam"))
    made = send(client, path, **fields)
    assert (made.status_code, made.headers["location"]) == (303, path)
    shown = find_secret(client.get(path).text)
    assert shown is not None
    assert shown.startswith(begins)
    assert find_secret(client.get(path).text) is None
    assert len(service.control.list_tokens("sam")) == before + (path == "/me")


def test_a_secret_is_shown_to_its_login_on_its_page_alone(service: Service) -> None:
    """The mutants show what another login signed, and what was meant for another page."""
    client = sign_in(service, "sam")
    send(client, "/me", do="add", label="x", days="30", scope=["ask"])
    cookie = client.http.cookies["discreet-once"]
    elsewhere = client.get("/people")
    assert (elsewhere.status_code, find_secret(elsewhere.text)) == (200, None)
    assert client.http.cookies["discreet-once"] == cookie  # it waits for its own page
    other = sign_in(service, "ada")
    other.http.cookies.set("discreet-once", cookie)
    assert find_secret(other.get("/me").text) is None
    client.http.cookies.delete("discreet-once")
    client.http.cookies.set("discreet-once", cookie[:-1] + ("0" if cookie[-1] != "0" else "1"))
    assert find_secret(client.get("/me").text) is None


# People


def test_no_table_is_chosen_beforehand(service: Service, sam: Client) -> None:
    service.register(name="class_0c77e447", invented=True)
    choice = re.findall(r'<select id="table-1" name="table" required>(.*?)</select>', sam.get("/people").text)
    assert re.findall(r'value="([^"]*)"', choice[0]) == ["", "people"]


def test_what_cannot_be_taken_back_by_a_click_needs_two(sam: Client) -> None:
    page = sam.get("/people").text
    for button in ("Take it away", "Block"):
        assert button in page
        for found in re.finditer(f">{button}</button>", page):
            before = page[: found.start()]
            assert before.rfind("<details>") > before.rfind("</details>"), button


# Budgets in words


def test_a_steward_reads_whose_budget_it_is(service: Service, sam: Client) -> None:
    ask = service.ask("ada")["id"]
    theirs, own = (client.get(f"/a/{ask}").text for client in (sam, sign_in(service, "ada")))
    assert "Ada has " in theirs
    assert "You have " not in theirs
    assert "You have " in own


def test_the_list_says_what_was_charged(service: Service) -> None:
    ada = sign_in(service, "ada")
    service.ask("ada", epsilon=0.25)
    assert ", ε = 0.2" in re.split(r'class="list">|</li>', ada.get("/asks").text.partition("<main")[2])[1]
    service.ask("ada", epsilon=0.25)
    repeated = re.split(r'class="list">|</li>', ada.get("/asks").text.partition("<main")[2])[1]
    assert "free, answered before" in repeated
    assert "ε" not in repeated


def test_nothing_fits_an_empty_account(service: Service) -> None:
    ada = sign_in(service, "ada")
    query = {"query": "SELECT COUNT(*) AS n FROM people WHERE pay > 7", "epsilon": "2.9"}
    before = service.control.find_snapshot("employees/ada")
    assert before is not None
    assert "Too little budget remains" not in ada.get("/t/people/ask", params=query).text
    half = msgspec.structs.replace(before, spent=str(before.budget.limit / 2), entry=before.entry + 1)
    service.control.save_snapshots([half])
    coarser = ada.get("/t/people/ask", params=query).text
    assert "Ask for a coarser answer" in coarser
    assert "more than all of what remains" in coarser
    fitting = re.search(r"ε = ([0-9.]+) would fit", coarser)  # as the command line and the API name one
    assert fitting is not None
    assert "more than what remains" not in ada.get("/t/people/ask", params=query | {"epsilon": fitting[1]}).text
    service.register(rules=Rules(epsilon_per_ask="1/10"))
    assert "A steward must approve" not in ada.get("/t/people/ask", params=query).text  # which would not help
    service.register()
    service.control.save_snapshots([msgspec.structs.replace(half, spent=before.limit, entry=half.entry + 1)])
    empty = ada.get("/t/people/ask", params=query).text
    assert "Too little budget remains" in empty
    assert "coarser" not in empty
    service.control.save_snapshots([msgspec.structs.replace(before, entry=half.entry + 2)])


def test_a_paused_analyst_sees_it_before_the_quote(service: Service) -> None:
    ada = sign_in(service, "ada")
    service.control.pause_account("employees/ada", "vacation")
    try:
        for path in ("/", "/t/people", "/t/people/ask"):
            page = ada.get(path).text.partition('id="quote"')[0]
            assert "paused your account: <bdi>vacation</bdi>" in page
    finally:
        service.control.resume_account("employees/ada")
    assert "paused your account" not in ada.get("/").text


# Quotes


def read_quote(client: Client, **fields: str) -> str:
    """Return the text of the quote that appears while somebody types."""
    response = send(client, "/t/people/quote", error="5%", size="1000", confidence="0.95", **fields)
    assert response.status_code == 200
    return response.text


def test_a_query_that_is_being_typed_is_not_scolded(service: Service) -> None:
    ada = sign_in(service, "ada")
    typing = read_quote(ada, query="SELECT COUNT(*) AS n FROM")
    assert "cannot be read so far" in typing
    assert 'role="alert"' not in typing
    assert 'class="problem"' not in typing
    assert 'role="alert"' in ada.get("/t/people/ask", params={"query": "SELECT COUNT(*) AS n FROM"}).text
    assert 'class="problem"' in read_quote(ada, query="SELECT COUNT(*) AS n FROM people", epsilon="x")


def test_a_median_is_off_by_ranks(service: Service) -> None:
    ada = sign_in(service, "ada")
    median, mean = (read_quote(ada, query=f"SELECT {each}(pay) AS m FROM people") for each in ("MEDIAN", "AVG"))
    assert re.search(r"rank ± [0-9.]+% of the rows", median)
    assert "off by ranks, not by values" in median
    assert "rank" not in mean
    assert "Your budget</p>" in mean


def test_the_smallest_group_follows_the_size_of_the_table(service: Service) -> None:
    ada = sign_in(service, "ada")
    assert 'name="size" value="1000"' in ada.get("/t/people/ask").text
    assert "1,000 is a guess" in ada.get("/t/people/ask").text
    service.register(rows_at_most=800)
    try:
        page = ada.get("/t/people/ask").text
        assert 'name="size" value="80"' in page
        assert "is a guess" not in page
        assert 'name="size" value="7"' in ada.get("/t/people/ask", params={"size": "7"}).text
    finally:
        service.register()


def test_a_check_of_the_ledger_ends_with_a_verdict(service: Service, sam: Client) -> None:
    assert send(sam, "/state").status_code == 303
    assert "A check is queued" in sam.get("/state").text
    job = service.control.claim("test", kinds=["ledger_check"], per_person=None)
    assert job is not None
    service.control.finish(job, result={"holds": True, "entries": 1234, "hash": "0" * 64})
    assert "<b>The ledger is whole</b>: all 1,234 entries" in sam.get("/state").text


# Forms that are refused


def find_wrong(page: str, id: str) -> str | None:
    """Return what a page says beside a field."""
    found = re.search(rf'id="{id}-wrong">([^<]*)<', page)
    return None if found is None else found[1]


@pytest.mark.parametrize(
    ("path", "fields", "wrong", "kept"),
    [
        ("/me", {"do": "add", "label": "my label", "days": "999", "scope": "read"}, "days", ("my label", "999")),
        ("/me", {"do": "add", "label": "my label", "days": "abc", "scope": "read"}, "days", ("my label", "abc")),
        ("/people", {"do": "add", "person": "Ada B", "name": "Ada Bee", "role": "reader"}, "new-id", ("Ada B", "Ada Bee")),
        ("/people", {"do": "grant", "person": "bob", "table": "people", "epsilon": "-1"}, r"epsilon-\d+", ("-1",)),
        ("/people", {"do": "grant", "person": "bob", "table": "", "epsilon": "1"}, r"table-\d+", ("1",)),
        ("/lab", {"title": "", "epsilon": "2.5", "ration": "1", "rows": "500"}, "title", ("2.5",)),
        ("/lab", {"title": "Monday", "epsilon": "1", "ration": "2", "rows": "500"}, "ration", ("Monday", "2")),
        ("/lab", {"title": "Monday", "epsilon": "2", "ration": "1", "rows": "many"}, "rows", ("Monday", "many")),
        ("/lab/attack/averaging", {"answers": "20.5"}, "p-answers", ("20.5",)),
    ],
)  # fmt: skip
def test_a_refused_form_keeps_its_values(
    service: Service, sam: Client, path: str, fields: Any, wrong: str, kept: Any
) -> None:
    before = (service.control.list_people(), service.control.list_tokens("sam"), service.control.list_grants())
    refused = send(sam, path, **fields)
    assert refused.status_code == 422
    assert find_wrong(refused.text, wrong)
    assert re.search(rf'aria-describedby="{wrong}-wrong"|id="{wrong}" name="table"', refused.text)
    for each in kept:
        assert f'value="{each}"' in refused.text
    assert (service.control.list_people(), service.control.list_tokens("sam"), service.control.list_grants()) == before


def test_a_ration_of_a_token_that_is_no_number_is_named(service: Service) -> None:
    ada, before = sign_in(service, "ada"), service.control.list_tokens("ada")
    refused = send(ada, "/me", do="add", label="my label", days="7", scope="read", epsilon="x")
    assert refused.status_code == 422
    assert find_wrong(refused.text, "epsilon")
    assert 'value="my label"' in refused.text
    assert service.control.list_tokens("ada") == before


def test_refused_rules_and_plans_keep_their_texts(sam: Client, service: Service) -> None:
    rules = send(sam, "/t/people/rules", do="review", epsilon_per_ask="-3", epsilon_per_day="2", templates="SELECT {x}")
    assert rules.status_code == 422
    assert 'value="-3"' in rules.text
    assert "SELECT {x}</textarea>" in rules.text
    plan = send(sign_in(service, "ada"), "/p", title="", table="people", plan="my plan")
    assert plan.status_code == 422
    assert "my plan</textarea>" in plan.text


def test_the_rule_for_short_names_is_on_the_page(sam: Client) -> None:
    assert "small letters, digits, hyphens" in sam.get("/people").text


# Words and charts


def test_every_error_says_more_than_its_title() -> None:
    for each in list_errors():
        assert each["text"].rstrip(".").lower() != each["title"].lower()
        assert not re.search(r"[a-z]_[a-z]|discreet\.", each["text"]), each


def test_a_proposed_policy_shows_its_half_widths(sam: Client) -> None:
    policy = POLICY.replace("upper = 100", "upper = 200")
    page = send(sam, "/t/people/policy", do="review", policy=policy).text
    found = re.findall(r"± ([0-9,.]+) at ε = 0.1</td>", page)
    assert len(found) >= 2
    assert len(set(found)) > 1  # twice the bound is twice the half-width


def test_titles_fit_the_panel_of_a_small_screen(service: Service) -> None:
    long = "95% intervals of the counts within the contribution bounds."
    spec = break_titles(narrow({"title": {"text": "n", "subtitle": [long]}, "width": 400}), NARROW)
    assert spec["width"] == NARROW
    assert " ".join(spec["title"]["subtitle"]) == long
    assert max(map(len, spec["title"]["subtitle"])) < 40
    ada, ask = sign_in(service, "ada"), service.ask("ada")["id"]
    widths = []
    for query in ("narrow=1", "", "wide=1"):
        picture = ada.get(f"/a/{ask}/chart.svg?{query}").text
        found = re.search(r'<svg[^>]* width="([0-9.]+)"', picture)
        assert found is not None
        widths.append(float(found[1]))
    assert widths[0] < 390 < widths[1] < 800 < widths[2] < 1130


# Certain blanks


def test_a_query_that_shows_nothing_warns_before_it_is_charged(service: Service) -> None:
    ada = sign_in(service, "ada")
    blank = {"query": "SELECT id, COUNT(*) AS n FROM people GROUP BY id", "epsilon": "0.5"}
    assert "which is the privacy unit" in read_quote(ada, **blank)
    assert "which is the privacy unit" in send(ada, "/t/people/ask", do="confirm", confidence="0.95", **blank).text
    unknown = read_quote(ada, query="SELECT COUNT(*) AS n FROM people WHERE dept = 'Marketing' AND pay > 3")
    assert "is not a declared key of dept" in unknown
    assert "declared key" not in read_quote(ada, query="SELECT COUNT(*) AS n FROM people WHERE dept = 'a' AND pay > 3")
    assert "would be empty" not in read_quote(ada, query="SELECT dept, COUNT(*) AS n FROM people GROUP BY dept")


# What is for life


def test_a_ration_is_granted_in_two_steps(service: Service, sam: Client) -> None:
    assert send(sam, "/people", do="add", person="zoe", name="Zoe", role="analyst", email="zoe").status_code == 422
    assert send(sam, "/people", do="add", person="zoe", name="Zoe", role="analyst", email="z@example.org").status_code == 303
    ration = {"do": "grant", "person": "zoe", "table": "people", "epsilon": "1/2"}
    asked = send(sam, "/people", **ration)
    assert (asked.status_code, "Grant ε = 0.5 for life" in asked.text) == (200, True)
    assert service.control.find_grant("zoe", "people") is None
    assert send(sam, "/people", **ration, confirm="yes").status_code == 303
    assert service.control.find_grant("zoe", "people") is not None


def test_rules_are_checked_before_they_are_shown(sam: Client) -> None:
    refused = send(sam, "/t/people/rules", do="review", templates="DROP TABLE people")
    assert refused.status_code == 422
    assert "Put these rules into force" not in refused.text
    named = send(sam, "/t/people/rules", do="review", epsilon_per_ask="x")
    assert "ε per question is" in named.text
    assert "epsilon_per_ask is" not in named.text


# Publications


def add_publication(service: Service, state: PublicationState, **fields: Any) -> str:
    made = Publication(
        id=new_id(), title="Heads", table="people", plan="", by="ada", state=PublicationState.APPROVAL, created=0.0,
        account="employees/ada", **fields,
    )  # fmt: skip
    service.control.add_publication(made)
    if state is not made.state:
        service.control.change_publication(made.id, made.state, state, **fields)
    return made.id


def test_a_publication_that_cannot_be_paid_is_not_offered(service: Service, sam: Client) -> None:
    for amount, is_offered in ((1e-6, True), (1_000.0, False)):
        cost = {"epsilon": {"lower": 47.6, "upper": 47.6}, "delta": 1e-9, "currency": "zcdp", "amount": amount}
        id = add_publication(service, PublicationState.APPROVAL, quote={"cost": cost, "fits": True, "budgets": []})
        page = sam.get(f"/p/{id}").text
        assert ('value="approve" disabled' not in page) == is_offered
        assert ("It costs more than what remains of" not in page) == is_offered


def test_a_folder_is_read_file_by_file_and_its_certificate_is_filled_in(service: Service, sam: Client) -> None:
    files = {"heads.csv": b64encode(b"n").decode(), "release.json": b64encode(b'{"a": 1}').decode(), "../x": "", "x y": ""}
    id = add_publication(service, PublicationState.PUBLISHED, files=files)
    page = sam.get(f"/p/{id}").text
    assert re.findall(rf'href="/p/{id}/files/([^"]+)"', page) == ["heads.csv", "release.json"]
    assert sam.get(f"/p/{id}/files/heads.csv").content == b"n"
    assert sam.get(f"/p/{id}/files/other.csv").status_code == 404
    assert service.client().get(f"/p/{id}/files/heads.csv").status_code in (303, 401, 404)
    assert f'href="/verify?publication={id}"' in page
    assert "&#34;a&#34;: 1" in sam.get(f"/verify?publication={id}").text
    zipped = sam.post("/verify", files={"file": ("folder.zip", b"PK\x03\x04\xff")})
    assert "This is a zip file. Unpack it, and choose release.json" in zipped.text


def test_publishing_an_answer_starts_from_its_query(service: Service) -> None:
    ada = sign_in(service, "ada")
    query = "SELECT COUNT(*) AS n FROM people WHERE pay > 41"
    ask = service.ask("ada", query=query, epsilon=0.25)
    page = ada.get(f"/p?ask={ask['id']}").text
    assert "pay &gt; 41" in page
    assert "epsilon = 0.25" in page


@pytest.mark.parametrize(
    "query", ['SELECT 1 AS "a"', "SELECT '\\\\'", 'SELECT """" AS x', "SELECT 1\r\n", "SELECT 1\nFROM t"]
)
def test_a_plan_holds_its_query_as_it_was_written(query: str) -> None:
    found = tomllib.loads(write_sample_plan([query]))["questions"]["q1"]["sql"]
    assert found.strip() == query.strip()
