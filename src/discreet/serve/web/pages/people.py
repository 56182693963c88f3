"""People, grants and tokens. A grant is a place under the root account, so it adds nothing to what is promised.

The secret of a token and a link that signs in are shown once, on the page that follows the form.
"""

from fractions import Fraction

from fastapi import Response

from discreet.errors import BadParameter
from discreet.serve.classroom import CLASS_NAME
from discreet.serve.control.model import Role, Scope
from discreet.serve.web.pages.drawing import Pages, Visit, redirect
from discreet.serve.web.pages.forms import RefusedForm, keep_form
from discreet.serve.web.pages.once import Values, redirect_with, show_once
from discreet.serve.web.problems import Refusal


class People:
    """The pages of people."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.control = pages, pages.web, pages.control
        self.stewardship = pages.stewardship

    def list(self, visit: Visit) -> Response:
        """Draw people and their grants, for stewards."""
        visit.caller.require(Scope.STEWARD)
        return show_once(self.pages, visit, lambda made: self._draw(visit, made))

    def _draw(self, visit: Visit, made: Values | None, refused: RefusedForm | None = None) -> Response:
        grants: dict[str, list[object]] = {}
        for grant in self.control.list_grants():
            budgets = self.pages.find_budgets(visit.caller, grant.account)
            grants.setdefault(grant.person, []).append((grant, budgets))
        roles = [each for each in Role if each is not Role.STEWARD]  # the owner alone makes stewards
        return self.pages.show(
            visit, "people", people=self.control.list_people(), grants=grants, roles=roles, made=made, refused=refused,
            tables=[each for each in self.control.list_tables() if not CLASS_NAME.fullmatch(each.name)],
        )  # fmt: skip

    def change(self, visit: Visit) -> Response:
        """Do what a form of the page asks for."""
        visit.caller.require(Scope.STEWARD)
        step, person = visit.field("do"), visit.field("person").strip()
        form = step if step == "add" else f"{step} {person}"
        fields = {"id": "person", "person": "person"}
        return keep_form(visit, form, lambda: self._change(visit), lambda kept: self._draw(visit, None, kept), fields)

    def _change(self, visit: Visit) -> Response:
        caller, person = visit.caller, visit.field("person").strip()
        match visit.field("do"):
            case "add":
                email = visit.field("email").strip() or None
                role = self._read_role(visit)
                self.stewardship.add_person(caller, person, visit.field("name").strip()[:200] or person, role, email)
            case "link":
                link = self.stewardship.make_link(caller, person)
                return redirect_with(self.pages, visit, "/people", {"person": person, "link": link})
            case "role":
                self.stewardship.change_person(caller, person, self._read_role(visit), None)
            case "disable" | "enable" as step:
                self.stewardship.change_person(caller, person, None, step == "disable")
            case "grant":
                if not visit.field("table"):
                    raise BadParameter("table", "empty", "none is chosen", "choose one")
                epsilon = visit.field("epsilon").strip()[:100] or None
                planned = self.stewardship.plan_grant(caller, person, visit.field("table"), epsilon)
                if planned.ration is not None and visit.field("confirm") != "yes":
                    shown = f"{float(Fraction(planned.ration)):.12g}"
                    return self.pages.show(visit, "grant", person=person, planned=planned, epsilon=shown)
                self.stewardship.grant(caller, person, visit.field("table"), epsilon)
            case "revoke":
                self.stewardship.revoke_grant(caller, person, visit.field("table"))
            case "pause":
                reason = visit.field("reason").strip()[:500] or "a steward paused it"
                self.stewardship.pause(caller, person, visit.field("table"), reason)
            case "resume":
                self.stewardship.pause(caller, person, visit.field("table"), None)
            case _:
                raise Refusal(422, "There is no such action. Use the buttons of the page.")
        return redirect("/people")

    @staticmethod
    def _read_role(visit: Visit) -> Role:
        role = visit.field("role")
        if role not in set(Role):
            raise BadParameter("role", repr(role[:40]), "not a role", f"take one of {', '.join(Role)}")
        return Role(role)

    # One's own

    def show_me(self, visit: Visit) -> Response:
        """Draw who one is, one's grants and tokens."""
        return show_once(self.pages, visit, lambda made: self._draw_me(visit, made))

    def _draw_me(self, visit: Visit, made: Values | None, refused: RefusedForm | None = None) -> Response:
        grants = self.control.list_grants(person=visit.caller.person.id)
        return self.pages.show(
            visit, "me", refused=refused, made=made, now=self.web.clock.now(),
            tokens=self.control.list_tokens(visit.caller.person.id),
            grants=[(each, self.pages.find_budgets(visit.caller, each.account)) for each in grants],
            scopes=[each for each in Scope if each is not Scope.STEWARD or visit.caller.is_steward],
            days=int(self.web.settings.token_days),
        )  # fmt: skip

    def change_me(self, visit: Visit) -> Response:
        """Make or revoke a token."""
        if visit.field("do") == "revoke":
            self.stewardship.revoke_token(visit.caller, visit.field("token"))
            return redirect("/me")
        fields = {"scopes": "scope"}
        return keep_form(
            visit, "token", lambda: self._add_token(visit), lambda kept: self._draw_me(visit, None, kept), fields
        )

    def _add_token(self, visit: Visit) -> Response:
        scopes = tuple(Scope(each) for each in visit.fields("scope") if each in set(Scope))
        tables = visit.fields("table") or None
        days, most = visit.field("days", "30").strip(), int(self.web.settings.token_days)
        if not days.isdecimal() or len(days) > 9 or not 1 <= int(days) <= most:
            raise BadParameter("days", repr(days[:20]), f"not a whole number from 1 to {most}", "give another")
        label = visit.field("label").strip()[:200] or "made in the browser"
        epsilon = visit.field("epsilon").strip()[:100] or None
        _, secret = self.stewardship.add_token(visit.caller, label, scopes, tables, float(days), epsilon)
        return redirect_with(self.pages, visit, "/me", {"secret": secret})


def add_to(pages: Pages) -> None:
    """Add the pages."""
    people = People(pages)
    pages.add("/people", people.list, people.change)
    pages.add("/me", people.show_me, people.change_me)
