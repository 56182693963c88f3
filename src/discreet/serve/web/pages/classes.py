"""Home of the lab, and classes: opening one, its join codes, what students find out, and joining.

Joining a class needs no sign-in, only its code of ten letters; guesses are limited for each address. Nothing here reaches a
real table: a class has an invented table and a root account of its own.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from discreet._numbers import parse_rational
from discreet.errors import BadParameter
from discreet.serve import classroom
from discreet.serve.control.model import Role, Scope
from discreet.serve.web.api_stewards import find_address
from discreet.serve.web.limits import RateLimit
from discreet.serve.web.pages import words
from discreet.serve.web.pages.drawing import Pages, Visit, read_form, redirect
from discreet.serve.web.pages.forms import RefusedForm, keep_form
from discreet.serve.web.pages.once import Values, redirect_with, show_once
from discreet.serve.web.problems import Refusal, not_found
from discreet.serve.web.signing_in import FORM_TOKEN

NO_CODE = "No open class has this code. Check it with your teacher."


class Classes:
    """The pages of the lab's home and of classes."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.control = pages, pages.web, pages.control
        self.join_limit = RateLimit(1.0, 100, "join codes")

    def show(self, visit: Visit) -> Response:
        """Draw what there is."""
        return self._show(visit, None)

    def _show(self, visit: Visit, refused: RefusedForm | None) -> Response:
        from discreet.lab.errata import ERRATA
        from discreet.lab.exercises import EXERCISES
        from discreet.lab.figures import FIGURES

        grants = {each.table for each in self.control.list_grants(person=visit.caller.person.id)}
        classes = [
            each
            for each in classroom.list_classes(self.control)
            if each.name in grants or (visit.caller.is_steward and each.closed is None)
        ]
        return self.pages.show(
            visit, "lab", refused=refused, figures=list(FIGURES.values()), errata=list(ERRATA.values()),
            exercises=list(EXERCISES.values()),
            attacks=list(classroom.LAB_ATTACKS), classes=classes,
        )  # fmt: skip

    def open_class(self, visit: Visit) -> Response:
        """Open a class, for stewards. Its page shows its code once."""
        visit.caller.require(Scope.STEWARD)
        return keep_form(visit, "class", lambda: self._open_class(visit), lambda kept: self._show(visit, kept))

    def _open_class(self, visit: Visit) -> Response:
        title = visit.field("title").strip()[:100]
        if not title:
            raise BadParameter("title", "empty", "the class has no name", "give one that your students know")
        epsilon = parse_rational(visit.field("epsilon", "3").strip()[:40], "epsilon")
        ration = parse_rational(visit.field("ration", "1").strip()[:40], "ration")
        rows = visit.field("rows", "500").strip()
        if not rows.isdecimal() or len(rows) > 8:
            raise BadParameter("rows", repr(rows[:20]), "not a whole number", "write one such as 500")
        person, now = visit.caller.person.id, self.web.clock.now()
        opened, code = classroom.open_class(self.control, person, title, epsilon, ration, int(rows), now)
        return redirect_with(self.pages, visit, f"/lab/class/{opened.name}", {"code": code})

    def _find_class(self, visit: Visit) -> tuple[classroom.Class, bool]:
        """Return a class and whether the visitor is in it. Others, except stewards, find nothing."""
        found = classroom.find_class(self.control, visit.path("name"))
        is_member = self.control.find_grant(visit.caller.person.id, visit.path("name")) is not None
        if found is None or not (is_member or visit.caller.is_steward):
            raise not_found()
        return found, is_member

    def show_class(self, visit: Visit) -> Response:
        """Draw the root that empties as the class asks; for a student, the people to find; for the teacher, all students,
        and once the code that was just made."""
        return show_once(self.pages, visit, lambda made: self._draw_class(visit, made))

    def _draw_class(self, visit: Visit, made: Values | None) -> Response:
        found, is_member = self._find_class(visit)
        caller = visit.caller
        entry, grants = self.control.find_table(found.name), self.control.list_grants(table=found.name)
        root = self.control.find_snapshot(found.name)
        budgets = self.pages.find_budgets(caller, f"{found.name}/{caller.person.id}") if is_member else None
        students, scores, guessed = [], list[classroom.Score](), 0
        if caller.is_steward:
            for grant in grants:
                person, snapshot = self.control.find_person(grant.person), self.control.find_snapshot(grant.account)
                shown = None if snapshot is None else words.describe_snapshot(snapshot)
                name = grant.person if person is None else person.name
                students.append((name, grant.person, shown))
            listed = classroom.list_scores(self.control, found, [each.person for each in grants])
            guessed, scores = len(listed), [] if found.closed is None else listed  # before, a score is a free answer
        own = classroom.find_score(self.control, found, caller.person.id) if is_member else None
        spent = Fraction(0) if root is None else root.budget.spent
        return self.pages.show(
            visit, "lab_class", found=found, made=made, entry=entry, budgets=budgets, students=students, scores=scores,
            root=None if root is None else words.describe_snapshot(root), own=own, is_member=is_member, count=len(grants),
            guessed=guessed, is_making=root is None or (is_member and budgets is None and found.closed is None),
            targets=classroom.list_targets(found) if is_member else [],
            limit=f"{ceil(100 * classroom.bound_chance(spent))}%" if spent else "50%",
            mean=f"{sum(each.right for each in scores) / len(scores):.1f}" if scores else None,
            query=f"SELECT sick, COUNT(*) AS n FROM {found.name} WHERE dept = 'care' GROUP BY sick",
        )  # fmt: skip

    def change_class(self, visit: Visit) -> Response:
        """Guess, for students; make a new code or close the class, for stewards."""
        found, is_member = self._find_class(visit)
        if visit.field("do") == "code":
            visit.caller.require(Scope.STEWARD)
            code = classroom.change_code(self.control, found, visit.caller.person.id)
            return redirect_with(self.pages, visit, f"/lab/class/{found.name}", {"code": code})
        if visit.field("do") == "close":
            visit.caller.require(Scope.STEWARD)
            classroom.close_class(self.control, found, self.web.clock.now(), visit.caller.person.id)
        elif visit.field("do") == "guess" and is_member:
            if found.closed is not None:
                raise Refusal(409, "The class is closed: it takes no guesses.")
            guesses = {
                each.id: answer == "yes"
                for each in classroom.list_targets(found)
                if (answer := visit.field(f"person-{each.id}")) in ("yes", "no")
            }
            classroom.guess(self.control, found, visit.caller.person.id, guesses)
        else:
            raise Refusal(422, "There is no such action. Use the buttons of the page.")
        return redirect(f"/lab/class/{found.name}")

    # Joining, without a sign-in

    def add_joining(self) -> None:
        """Add the page that takes a join code."""

        async def show(request: Request) -> Response:
            return await run_in_threadpool(self.pages.render, request, "lab_join", {"problem": None, "name": ""})

        async def join(request: Request) -> Response:
            form = await read_form(request)
            return await run_in_threadpool(self._join, request, lambda key: (form.get(key) or ("",))[0].strip())

        for method, handler in (("GET", show), ("POST", join)):
            self.pages.app.add_api_route(
                "/lab/join", handler, methods=[method], include_in_schema=False, response_model=None
            )

    def _join(self, request: Request, field: Callable[[str], str]) -> Response:
        caller = self.web.signing.find_caller(request)
        if caller is not None:
            self.web.signing.check_form(caller, field(FORM_TOKEN))
        self.join_limit.take(find_address(self.web, request))
        name, found = field("name")[:60], classroom.find_by_code(self.control, field("code")[:40])
        if found is None or (caller is None and not name):
            problem = NO_CODE if found is None else "Your name is missing. Your teacher sees it."
            return self.pages.render(request, "lab_join", {"problem": problem, "name": name}, 422)
        if caller is not None and caller.person.role is Role.READER:
            raise Refusal(403, "A reader cannot ask. Sign out to join as a student.")
        person = classroom.join_class(self.control, found, name if caller is None else caller.person, self.web.clock.now())
        if caller is not None:
            return redirect(f"/lab/class/{found.name}")
        return self.web.signing.sign_in(request, person, f"/lab/class/{found.name}")


def add_to(pages: Pages) -> None:
    """Add the pages."""
    classes = Classes(pages)
    pages.add("/lab", classes.show, classes.open_class)
    classes.add_joining()
    pages.add("/lab/class/{name}", classes.show_class, classes.change_class)
