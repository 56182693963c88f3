"""Templates and static files: everything is escaped, nothing is inline, what others wrote is what VENDOR.toml states."""

import re
import tomllib
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discreet.query.parser import read_query
from discreet.query.policy import read_policy
from discreet.serve.control.model import Publication, PublicationState
from discreet.serve.web.pages.builder import Built, list_groups, list_measures, suggest_queries, write_query
from discreet.serve.web.pages.drawing import load_static, make_environment
from tests.support.web_service import OPEN, POLICY, Client, Service, open_service

WEB = Path(__file__).parent.parent.parent.parent / "src/discreet/serve/web"
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
PAGES_OPEN = replace(OPEN, pages=True)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_switches_escaping_off_or_has_anything_inline(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*(safe|tojson|forceescape)\b|Markup|autoescape", text)
    assert not re.search(r"\sstyle\s*=|<style|\son\w+\s*=|javascript:|hx-on|hx-vals|hx-vars|hx-headers", text)
    for script in re.findall(r"<script[^>]*>[^<]*", text):
        assert re.fullmatch(r"<script src=\"\{\{ static\('[\w./-]+'\) \}\}\" defer>", script), script
    for address in re.findall(r"\b(?:href|src|action|srcset)=\"([^\"]*)\"", text):
        assert address.startswith(("/", "#", "{{")), address
        assert not address.startswith("//")
    assert not re.search(r"\s[\w-]+=\{\{", text), "an attribute without quotes"


def test_every_template_can_be_read_and_escapes() -> None:
    environment = make_environment()
    assert environment.autoescape is True
    for path in TEMPLATES:
        environment.get_template(path.name)


def test_vendored_files_are_what_is_stated() -> None:
    folder = WEB / "static/vendor"
    stated = tomllib.loads((folder / "VENDOR.toml").read_text(encoding="utf-8"))
    for name, entry in stated.items():
        content = (folder / name).read_bytes()
        assert sha256(content).hexdigest() == entry["sha256"]
        assert b"sourceMappingURL" not in content
        assert (folder / entry["licence_file"]).stat().st_size > 100
        assert f"vendor/{name}" in load_static()
    known = {"VENDOR.toml", *stated, *(entry["licence_file"] for entry in stated.values())}
    assert {path.name for path in folder.iterdir()} == known


def test_scripts_of_our_own_make_no_markup() -> None:
    scripts = sorted((WEB / "static").glob("*.js"))
    assert [each.name for each in scripts] == ["app.js", "editor.js"]
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|setTimeout\(['\"]", text)
    assert not re.search(r"@import|url\((?!#)", (WEB / "static/style.css").read_text(encoding="utf-8"))


class Nodes(HTMLParser):
    """The names of the elements of a page and of their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.found.append((tag, tuple(name for name, _ in attributes)))


def sign_in(service: Service, person: str) -> Client:
    """Return a client with the cookie of a person's login."""
    _, secret = service.control.add_login(person)
    client = service.client()
    client.http.cookies.set("discreet", secret)
    return client


HOSTILE = st.one_of(
    st.sampled_from([
        "<script>alert(1)</script>", "\" onmouseover=\"alert(1)", "'><img src=x onerror=alert(1)>", "</textarea><b>",
        "\u202egnp.exe", "א" * 40, "x" * 300, "{{ 7*7 }}", "{% raw %}", "&lt;b&gt;", "a\x00b", "javascript:alert(1)",
        "\" hx-get=\"/out\" hx-trigger=\"load",
    ]),
    st.text(min_size=1, max_size=30),
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile_service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_service(tmp_path_factory.mktemp("hostile"), PAGES_OPEN) as service:
        yield service, sign_in(service, "ada"), sign_in(service, "sam")


def toml_text(text: str) -> str:
    import json

    return json.dumps(text.replace("\x7f", "")).replace("\\/", "/")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=HOSTILE)
def test_no_text_of_others_becomes_a_node(hostile_service: Any, text: str) -> None:
    service, ada, sam = hostile_service
    text = "".join(each for each in text if not 0xD800 <= ord(each) <= 0xDFFF)
    plain = _collect(service, ada, sam, "plain")
    assert _collect(service, ada, sam, text or "plain") == plain


def _collect(service: Service, ada: Client, sam: Client, text: str) -> dict[str, list[Any]]:
    """Return the nodes of pages on which a text stands as title, description, key, comment, alias and search."""
    key = toml_text(text)
    policy = POLICY.replace('keys = ["a", "b"]', f'keys = ["a", {key}]') if "\\u0000" not in key else POLICY
    try:
        read_policy(policy)
    except Exception:
        policy = POLICY
    service.register(title=text, description=text, notes=(text,), policy=policy, label=text)
    service.control.set_setting("unused", "x")
    publication = Publication(
        id="hostile", title=text, table="people", plan=text, by="ada", state=PublicationState.APPROVAL, created=0.0,
        quote={"x": text}, problem={"detail": text},
    )  # fmt: skip
    if service.control.find_publication("hostile") is None:
        service.control.add_publication(publication)
    service.control.change_publication(
        "hostile", PublicationState.APPROVAL, PublicationState.APPROVAL, title=text, plan=text, quote={"x": text}
    )
    service.control.pause_account("employees/ada", text)
    alias = '"' + text.replace('"', '""') + '"'
    query = f"SELECT dept, COUNT(*) AS {alias} FROM people GROUP BY dept"
    found = {}
    for client, path in (
        (ada, "/"),
        (ada, "/t/people"),
        (sam, "/people"),
        (sam, "/p"),
        (sam, "/p/hostile"),
        (sam, "/state"),
    ):
        response = client.get(path)
        assert response.status_code == 200, (path, response.text[:500])
        found[path] = Nodes(response.text).found
    service.control.resume_account("employees/ada")
    asked = ada.get("/t/people/ask", params={"query": query, "error": text})
    searched = ada.get("/asks", params={"text": text, "state": text})
    for name, response in (("/t/people/ask", asked), ("/asks", searched)):
        assert response.status_code == 200, (name, response.text[:500])
        tags = Nodes(response.text).found
        assert not [each for each in tags if any(name.startswith("on") for name in each[1])]
        assert {tag for tag, _ in tags if tag in ("script", "img", "iframe", "b", "svg", "object", "style")} <= {
            "script", "svg", "img", "b",
        }  # fmt: skip
        assert sum(tag == "script" for tag, _ in tags) == (2 if name == "/t/people/ask" else 1)
    return found


def test_a_page_of_another_login_is_refused(tmp_path: Path) -> None:
    with open_service(tmp_path, PAGES_OPEN) as service:
        ada, sam = sign_in(service, "ada"), sign_in(service, "sam")
        theirs = re.search(r'name="form_token" value="([^"]+)"', sam.get("/people").text)
        assert theirs is not None
        form = {"form_token": theirs[1], "query": "SELECT COUNT(*) AS n FROM people", "error": "5%", "do": "ask"}
        assert ada.post("/t/people/ask", data=form).status_code == 403
        assert ada.post("/t/people/ask", data={**form, "form_token": ""}).status_code == 403
        assert ada.post("/people", data={"person": "eve", "do": "add", "role": "steward"}).status_code == 403
        assert service.control.find_person("eve") is None


def test_a_stranger_is_led_to_the_sign_in_and_learns_nothing(tmp_path: Path) -> None:
    with open_service(tmp_path, PAGES_OPEN) as service:
        stranger, bob = service.client(), sign_in(service, "bob")
        for path in ("/", "/t/people", "/t/nothing", "/a/0", "/b", "/people"):
            response = stranger.get(path)
            assert response.status_code == 303
            assert response.headers["location"].startswith("/in?next=")
        there, nowhere = bob.get("/t/people"), bob.get("/t/nothing")
        assert there.status_code == nowhere.status_code == 404
        assert there.text == nowhere.text


def test_a_quote_that_changed_is_not_asked(tmp_path: Path) -> None:
    with open_service(tmp_path, PAGES_OPEN) as service:
        ada = sign_in(service, "ada")
        token = re.search(r'name="form_token" value="([^"]+)"', ada.get("/t/people/ask").text)
        assert token is not None
        form = {"form_token": token[1], "query": "SELECT SUM(pay) AS s FROM people", "error": "5%", "size": "1000"}
        confirmed = ada.post("/t/people/ask", data={**form, "do": "confirm"}).text
        shown = {name: found[1] for name in ("key", "measurement")
                 if (found := re.search(rf'name="{name}" value="([^"]+)"', confirmed))}  # fmt: skip
        service.register(policy=POLICY.replace("upper = 100", "upper = 200"))
        response = ada.post("/t/people/ask", data={**form, **shown, "do": "ask"})
        assert "nothing was asked" in response.text
        assert service.control.count_waiting("ada") == 0
        service.register()
        taken = ada.post("/t/people/ask", data={**form, **shown, "do": "ask"})
        assert taken.status_code == 303
        again = ada.post("/t/people/ask", data={**form, **shown, "do": "ask"})
        assert again.headers["location"] == taken.headers["location"]
        assert service.control.count_waiting("ada") == 1


def test_the_builder_writes_queries_that_are_understood() -> None:
    table = read_policy(POLICY)
    for measure in list_measures(table):
        for group in list_groups(table):
            query = write_query(table, Built(measure=measure.value, by=group.value, where="pay", order="<", value="9"))
            assert len(read_query(query, table).groups) == 1
    for each in suggest_queries(table):
        read_query(each.value, table)


@given(value=st.text(max_size=30), where=st.sampled_from(["dept", "pay", "city"]))
def test_no_value_of_the_builder_ends_its_literal(value: str, where: str) -> None:
    table = read_policy(POLICY)
    query = write_query(table, Built(where=where, value=value))
    assert query.count("FROM") == 1 + value.count("FROM")
    if "'" in value:
        literal = query.partition("WHERE ")[2].partition("= ")[2]
        assert re.fullmatch(r"'(?:[^']|'')*'", literal)


@pytest.mark.parametrize(("site", "expected"), [("same-origin", 303), ("cross-site", 403), ("same-site", 403), (None, 403)])
def test_an_origin_that_is_hidden_counts_only_if_the_browser_says_same_origin(
    tmp_path: Path, site: str | None, expected: int
) -> None:
    with open_service(tmp_path, PAGES_OPEN) as service:
        sam = sign_in(service, "sam")
        token = re.search(r'name="form_token" value="([^"]+)"', sam.get("/me").text)
        assert token is not None
        headers = {"Origin": "null"} | ({} if site is None else {"Sec-Fetch-Site": site})
        form = {"form_token": token[1], "person": "eve", "do": "add", "role": "analyst"}
        assert sam.post("/people", data=form, headers=headers).status_code == expected
        assert (service.control.find_person("eve") is not None) == (expected == 303)
