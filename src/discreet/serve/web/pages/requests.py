"""Requests for approval. A steward sees who asks what and why, what it costs of the root, which rule sent it here and what
else waits, with its sum; never a preview on true data.

An approval is bound to the hash of the measurement that was shown. One that is given after looking at the data tells about
them, and no software sees that: the page says so.
"""

from fractions import Fraction
from typing import Any

from fastapi import Response

from discreet.accounting.cost import format_percent_up
from discreet.remote.wire import cost_from_wire
from discreet.serve.control.model import Request, RequestState
from discreet.serve.web.pages import words
from discreet.serve.web.pages.drawing import Pages, Visit, redirect
from discreet.serve.web.problems import Refusal


class Requests:
    """The pages of requests."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.control = pages, pages.web, pages.control
        self.stewardship = pages.stewardship

    def list(self, visit: Visit) -> Response:
        """Draw the requests: all for a steward, else one's own."""
        person = None if visit.caller.is_steward else visit.caller.person.id
        state = visit.field("state")
        chosen = RequestState(state) if state in set(RequestState) else None
        page = self.control.list_requests(person=person, state=chosen, cursor=visit.field("cursor")[:100] or None, limit=50)
        lines = [self._describe(each) for each in page.items]
        waiting = [each for each in lines if each["request"].state is RequestState.OPEN]
        return self.pages.show(
            visit, "requests", lines=lines, cursor=page.cursor, state=state if chosen else "", all=list(RequestState),
            waiting=len(waiting), total=self._sum(waiting),
        )  # fmt: skip

    def _describe(self, request: Request) -> dict[str, Any]:
        ask = self.control.find_ask(request.ask)
        cost = None if ask is None else cost_from_wire(ask.cost)
        root = None if ask is None else self.control.find_snapshot(ask.root)
        share = (
            None
            if cost is None or root is None
            else format_percent_up(Fraction(cost.amount) / Fraction(root.limit))
        )  # fmt: skip
        return {
            "request": request,
            "ask": ask,
            "cost": "" if cost is None else words.format_cost(cost),
            "amount": Fraction(0) if cost is None else Fraction(cost.amount),
            "share": share or "an unknown share",
            "root": root,
        }

    @staticmethod
    def _sum(lines: Any) -> str:
        """Return the share of each root that the lines cost together."""
        sums: dict[str, Fraction] = {}
        for each in lines:
            if (root := each["root"]) is not None:
                sums[root.account] = sums.get(root.account, Fraction(0)) + each["amount"] / Fraction(root.limit)
        return ", ".join(f"{format_percent_up(share)} of the whole budget of {name}" for name, share in sums.items())

    def show(self, visit: Visit) -> Response:
        """Draw one request."""
        request = self.stewardship.find_request(visit.caller, visit.path("ask"))
        described = self._describe(request)
        ask = described["ask"]
        budgets = None if ask is None else self.pages.find_budgets(visit.caller, ask.account)
        others = self.control.list_requests(state=RequestState.OPEN, limit=100).items if visit.caller.is_steward else ()
        lines = [self._describe(each) for each in others]
        person = self.control.find_person(request.person)
        return self.pages.show(
            visit, "request", **described, person=person, budgets=budgets, waiting=len(lines), total=self._sum(lines),
            is_open=request.state in (RequestState.OPEN, RequestState.RETURNED),
            is_mine=request.person == visit.caller.person.id,
            needed=1 if ask is None else self.stewardship.count_stewards(ask.table, Fraction(ask.epsilon)),
        )  # fmt: skip

    def decide(self, visit: Visit) -> Response:
        """Approve, decline, ask back or reply."""
        ask, comment, caller = visit.path("ask"), visit.field("comment")[:5_000], visit.caller
        match visit.field("do"):
            case "approve":
                self.stewardship.approve(caller, ask, visit.field("measurement"), comment)
            case "decline":
                self.stewardship.decline(caller, ask, comment)
            case "return":
                self.stewardship.send_back(caller, ask, comment)
            case "reply":
                self.stewardship.reply(caller, ask, comment)
            case _:
                raise Refusal(422, "There is no such decision. Use the buttons of the page.")
        return redirect(f"/r/{ask}")

    def approve_several(self, visit: Visit) -> Response:
        """Approve several requests at once: first a page with their sum, then all that are still as they were shown."""
        chosen = [self.stewardship.find_request(visit.caller, each) for each in visit.fields("ask")[:100]]
        lines = [self._describe(each) for each in chosen if each.state is RequestState.OPEN]
        if not lines:
            raise Refusal(422, "No open request was chosen. Tick some of them.")
        if visit.field("do") != "approve":
            return self.pages.show(visit, "approve", lines=lines, total=self._sum(lines))
        for line in lines:
            measurement = visit.field(f"measurement-{line['request'].ask}")
            self.stewardship.approve(visit.caller, line["request"].ask, measurement, visit.field("comment")[:5_000])
        return redirect("/r")


def add_to(pages: Pages) -> None:
    """Add the pages."""
    requests = Requests(pages)
    pages.add("/r", requests.list, requests.approve_several)
    pages.add("/r/{ask}", requests.show, requests.decide)
