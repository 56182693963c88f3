"""The lab: pages that work, classes that empty one root, and no way from here to a real table."""

import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES
from discreet.serve import classroom
from discreet.serve.control.model import JobState, Role
from discreet.serve.web.pages import lab as pages
from tests.support.lab_service import LabService, find_secret, open_lab, wait_for
from tests.support.served_tables import start_service, value_of


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabService]:
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


def test_the_page_lists_everything(lab: LabService) -> None:
    text = lab.visit("sam").get("/lab").text
    for kind, names in (("figure", FIGURES), ("erratum", ERRATA), ("exercise", EXERCISES)):
        assert all(f'href="/lab/{kind}/{name}"' in text for name in names)
    assert all(f'href="/lab/attack/{name}"' in text for name in classroom.LAB_ATTACKS)


def test_the_lab_needs_a_sign_in(lab: LabService) -> None:
    for path in ("/lab", "/lab/figure/noise-l1", "/lab/attack/averaging", "/lab/class/class_00000000"):
        assert lab.visit().get(path).headers["location"].startswith("/in")
    assert lab.visit().get("/lab/join").status_code == 200


@pytest.mark.parametrize("name", ["noise-l1", "cells", "k-anonymity", "exp-bounds"])
def test_a_figure_is_drawn_as_svg(lab: LabService, name: str) -> None:
    visitor = lab.visit("sam")
    page = visitor.get(f"/lab/figure/{name}")
    assert page.status_code == 200
    source = re.search(r'src="(/lab/figure/[^"]+)"', page.text)
    assert source is not None
    picture = visitor.get(source[1].replace("&amp;", "&"))
    assert picture.headers["content-type"] == "image/svg+xml"
    assert b"<svg" in picture.content
    assert b"<script" not in picture.content


def test_a_figure_follows_its_parameters(lab: LabService) -> None:
    visitor = lab.visit("sam")
    page = visitor.get("/lab/figure/noise-l1", params={"epsilon": "0.5", "k": "7"})
    assert "ε = 0.5" in page.text
    assert 'name="k" value="7"' in page.text
    assert "epsilon=0.5&amp;k=7" in page.text
    assert visitor.get("/lab/figure/noise-l1/picture", params={"k": "7"}).content != visitor.get(
        "/lab/figure/noise-l1/picture", params={"k": "8"}
    ).content  # fmt: skip


@pytest.mark.parametrize("value", ["0", "-1", "1e9", "500", "nan", "x", "1" * 100, "0.5"])
def test_parameters_that_take_long_or_mean_nothing_are_refused(lab: LabService, value: str) -> None:
    for path in ("/lab/figure/noise-l1", "/lab/figure/noise-l1/picture", "/lab/exercise/noise-per-query"):
        assert lab.visit("sam").get(path, params={"k": value}).status_code == 422


def test_what_is_not_there_is_not_found(lab: LabService) -> None:
    for path in (
        "figure/x",
        "figure/x/picture",
        "erratum/x",
        "exercise/x",
        "attack/x",
        "attack/catastrophe",
        "class/people",
    ):
        assert lab.visit("sam").get(f"/lab/{path}").status_code == 404


def test_an_exercise_is_checked(lab: LabService) -> None:
    visitor = lab.visit("sam")
    assert "Right:" in visitor.get("/lab/exercise/counties", params={"answer": "181.06"}).text
    assert "in place of 2" in visitor.get("/lab/exercise/counties", params={"answer": "90.53"}).text
    assert "181.06" not in visitor.get("/lab/exercise/counties").text
    assert "181.06" in visitor.get("/lab/exercise/counties", params={"show": "solution"}).text
    assert visitor.get("/lab/exercise/counties", params={"answer": "<b>"}).status_code == 422


def test_every_exercise_and_erratum_has_a_page(lab: LabService) -> None:
    visitor = lab.visit("sam")
    for path in (*(f"exercise/{name}" for name in EXERCISES), *(f"erratum/{name}" for name in ERRATA)):
        assert visitor.get(f"/lab/{path}").status_code == 200


def test_the_attacks_of_the_service_are_those_of_the_lab() -> None:
    for name, parameters in classroom.LAB_ATTACKS.items():
        options = ATTACKS[name].options
        for key, parameter in parameters.items():
            assert Fraction(options[key]) == parameter.default
            assert parameter.least <= parameter.default <= parameter.most
            assert parameter.is_whole == isinstance(options[key], int)


def test_an_attack_runs_in_a_worker_and_is_run_once(lab: LabService) -> None:
    visitor = lab.visit("sam")
    first = visitor.post("/lab/attack/differencing", epsilon="0.5")
    assert first.status_code == 303
    page = visitor.get(first.headers["location"])
    assert "Differencing: is person 17 sick?" in page.text
    assert visitor.post("/lab/attack/differencing", epsilon="1/2").headers["location"] == first.headers["location"]
    assert visitor.post("/lab/attack/averaging", answers="1000000").status_code == 422
    assert visitor.post("/lab/attack/averaging", answers="20.5").status_code == 422
    other = first.headers["location"].replace("differencing", "averaging")
    assert visitor.get(other).status_code == 404


def test_a_class_empties_one_root(lab: LabService) -> None:
    """Three students with ε = 1 each under ε = 2: what the third may ask depends on what the others asked."""
    name, code = lab.open_class(epsilon="2", ration="1")
    students = [lab.join(code, f"Student {i}") for i in range(3)]
    people = [lab.control.find_person(person) for _, person in students]
    assert all(each is not None and each.role is Role.STUDENT for each in people)
    query = f"SELECT COUNT(*) AS n FROM {name} WHERE age > {{}}"
    for i, (_, person) in enumerate(students[:2]):
        ask = lab.service.wait(lab.service.ask(person, query.format(30 + i), epsilon="1", table=name))
        assert ask.state == "answered", ask.problem
    root = lab.control.find_snapshot(name)
    assert root is not None
    assert root.budget.remaining == 0
    third = lab.service.wait(lab.service.ask(students[2][1], query.format(50), epsilon="1", table=name))
    assert third.state == "refused"
    page = lab.visit("sam").get(f"/lab/class/{name}").text
    assert all(f"Student {i}" in page for i in range(3))
    assert "at most 89%" in page  # e²/(1+e²), rounded up
    own = students[0][0].get(f"/lab/class/{name}").text
    assert "Student 1" not in own
    assert "Find the person" in own


def test_the_bound_on_guesses_is_that_of_replaced_values(lab: LabService) -> None:
    """Students know who is in the table. Under add/remove, another value of one person would cost up to 2ε, and the page
    would state half of it."""
    name, _ = lab.open_class()
    entry = lab.control.find_table(name)
    assert entry is not None
    assert entry.neighbours == "replace"
    quoted = lab.app.state.web.quoter.read_table(entry)
    assert quoted.unique


def test_students_see_their_class_and_no_real_table(lab: LabService) -> None:
    name, code = lab.open_class()
    visitor, person = lab.join(code)
    assert visitor.get(f"/t/{name}").status_code == 200
    assert visitor.get("/t/people").status_code == 404
    assert "people" not in visitor.get("/").text.replace("invented people", "")
    assert visitor.post("/people", page="/me", do="grant", person=person, table="people").status_code == 403
    assert visitor.post("/lab", title="mine").status_code == 403
    assert visitor.post(f"/lab/class/{name}", do="close").status_code == 403
    outsider, _ = lab.join(lab.open_class()[1])
    assert outsider.get(f"/lab/class/{name}").status_code == 404
    assert outsider.get(f"/t/{name}").status_code == 404


def test_guesses_are_scored_once(lab: LabService) -> None:
    name, code = lab.open_class()
    visitor, person = lab.join(code)
    found = classroom.find_class(lab.control, name)
    assert found is not None
    targets = classroom.list_targets(found)
    assert len(targets) == len(classroom.NAMES)
    right = {f"person-{each.id}": "yes" if each.is_sick else "no" for each in targets}
    wrong = right | {f"person-{targets[0].id}": "no" if targets[0].is_sick else "yes"}
    assert visitor.post(f"/lab/class/{name}", do="guess").status_code == 422
    assert visitor.post(f"/lab/class/{name}", do="guess", **wrong).status_code == 303
    page = f"/lab/class/{name}"
    other, _ = lab.join(code)
    shown = visitor.get(page).text  # whoever joins twice would read secrets from the first score
    assert "Your guesses are in" in shown
    assert "of 10 right" not in shown
    assert visitor.post(page, page="/me", do="guess", **right).status_code == 422  # the score would answer for nothing
    assert classroom.find_score(lab.control, found, person) == classroom.Score(person=person, right=9, of=10)
    teacher = lab.visit("sam")
    assert "were right" not in teacher.get(page).text  # nor does the teacher's page show scores while students ask
    assert "1 guessed" in teacher.get(page).text
    assert teacher.post(page, do="close").status_code == 303
    assert "9.0 of 10 were right" in teacher.get(page).text
    assert "9 of 10 right" in visitor.get(page).text
    assert "You did not guess" in other.get(page).text
    assert other.post(page, page="/me", do="guess", **right).status_code == 409


def test_wrong_codes_and_closed_classes_are_refused(lab: LabService) -> None:
    name, code = lab.open_class()
    assert lab.visit().post("/lab/join", code="abcdefghjk", name="Zoë").status_code == 422
    assert lab.visit().post("/lab/join", code=code, name="").status_code == 422
    student, _ = lab.join(code.upper().replace("-", " "))
    assert lab.visit("sam").post(f"/lab/class/{name}", do="close").status_code == 303
    assert lab.visit().post("/lab/join", code=code, name="Zoë").status_code == 422
    closed = student.get(f"/lab/class/{name}").text
    assert "The class is closed" in closed
    assert 'value="guess"' not in closed
    assert student.post(f"/lab/class/{name}", page="/me", do="guess").status_code == 409
    question = {"query": f"SELECT COUNT(*) AS n FROM {name}", "epsilon": "0.1", "do": "ask"}
    asked = student.post(f"/t/{name}/ask", page="/me", **question)
    assert "takes no asks" in asked.text
    form = student.get(f"/t/{name}/ask")
    assert (form.status_code, "The class is closed and takes no questions" in form.text) == (409, True)
    assert not re.search(rf"/t/{name}/ask", student.get("/").text + student.get(f"/t/{name}").text)
    assert not lab.control.list_asks(table=name).items


def test_joining_from_another_site_is_refused(lab: LabService) -> None:
    _, code = lab.open_class()
    data = {"code": code, "name": "Zoë"}
    foreign = lab.visit().client.post("/lab/join", data=data, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    signed_in = lab.visit("sam").client.post("/lab/join", data=data, headers={"Origin": "http://127.0.0.1:8765"})
    assert signed_in.status_code == 403  # the form has no token of the login


def test_names_of_students_are_texts(lab: LabService) -> None:
    name, code = lab.open_class()
    lab.join(code, "<script>alert(1)</script>")
    page = lab.visit("sam").get(f"/lab/class/{name}").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_two_students_of_one_name_are_told_apart(lab: LabService) -> None:
    name, code = lab.open_class(title="Tuesday")
    ids = [lab.join(code, "Kim")[1] for _ in range(2)]
    teacher = lab.visit("sam")
    for page in (teacher.get(f"/lab/class/{name}").text, teacher.get("/b").text):
        assert (page.count("<bdi>Kim</bdi>"), page.count("<bdi>Kim (2)</bdi>")) == (1, 1)
        assert all(f"<bdi>{each}</bdi>" in page for each in ids)
    assert "<bdi>Tuesday</bdi>" in teacher.get("/b").text


def test_the_code_and_the_seed_are_not_shown_again(lab: LabService) -> None:
    name, code = lab.open_class()
    found = classroom.find_class(lab.control, name)
    assert found is not None
    plain = code.replace("-", "")
    assert plain not in "".join(lab.control.list_settings().values())
    for path in ("/lab", f"/lab/class/{name}", f"/t/{name}", "/trail", "/state"):
        text = lab.visit("sam").get(path).text
        assert plain not in text.replace("-", "")
        assert found.seed not in text


def test_loading_a_page_again_opens_no_second_class(lab: LabService) -> None:
    visitor, before = lab.visit("sam"), len(classroom.list_classes(lab.control))
    made = visitor.post("/lab", title="Once", epsilon="2", ration="1", rows="100")
    assert made.status_code == 303
    shown = [find_secret(visitor.get(made.headers["location"]).text) for _ in range(2)]
    assert shown[0] is not None
    assert shown[1] is None
    assert len(classroom.list_classes(lab.control)) == before + 1


def test_a_new_code_takes_the_place_of_the_old_one(lab: LabService) -> None:
    name, code = lab.open_class()
    student, _ = lab.join(code)
    teacher = lab.visit("sam")
    made = teacher.post(f"/lab/class/{name}", do="code")
    assert made.status_code == 303
    fresh = find_secret(teacher.get(f"/lab/class/{name}").text)
    assert fresh is not None
    assert fresh != code
    assert lab.visit().post("/lab/join", code=code, name="Kim").status_code == 422
    lab.join(fresh, "Kim")
    assert student.post(f"/lab/class/{name}", do="code").status_code == 403
    assert teacher.post(f"/lab/class/{name}", do="close").status_code == 303
    assert teacher.post(f"/lab/class/{name}", page="/me", do="code").status_code == 422


def test_a_worker_opens_no_class_of_another_name(lab: LabService, tmp_path: Path) -> None:
    """What a web process that was taken over may put into the queue."""
    for name in ("people", "../../etc", "class_zzzzzzzz", "class_00000000"):
        assert lab.service.wait_for_job("open_class", name).state is JobState.FAILED
        assert lab.control.find_population(name) is None
    huge = classroom.Class(
        name="class_12345678", title="x", teacher="sam", epsilon="3", ration="1", rows=10**7, seed="00", created=0.0
    )
    lab.control.set_setting("class class_12345678", msgspec.json.encode(huge).decode())
    assert lab.service.wait_for_job("open_class", "class_12345678").state is JobState.FAILED


def test_a_class_is_served_again_after_a_restart(tmp_path: Path) -> None:
    with open_lab(tmp_path) as first:
        name, code = first.open_class()
        _, person = first.join(code)
        query = f"SELECT COUNT(*) AS n FROM {name}"
        paid = first.service.wait(first.service.ask(person, query, epsilon="0.5", table=name))
        config = first.service.config
    (config.state / "classes" / f"{name}.csv").unlink()  # as on another machine: the rows are made again
    with start_service(config) as again:
        free = again.wait(again.ask(person, query, epsilon="0.5", table=name))
        assert value_of(free) == value_of(paid)
        assert free.answer is not None
        root = again.control.find_snapshot(name)
        assert root is not None
        assert root.budget.spent == Fraction(1, 2)
        wait_for(lambda: again.control.find_table(name) is not None)


def test_sliders_and_fields_agree() -> None:
    for figure in FIGURES.values():
        for field in pages.make_fields(figure.options, figure.options):
            assert float(field.least) <= float(field.value) <= float(field.most)


def test_the_extra_brings_what_the_pictures_of_the_lab_need() -> None:
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [own] = [each for each in extras["optional-dependencies"]["serve"] if each.startswith("discreet[")]
    assert {"plot", "lab", "arrow", "remote"} <= set(own.removeprefix("discreet[").removesuffix("]").split(","))
