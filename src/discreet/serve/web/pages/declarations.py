"""Rules and policies of a table. Both are changed in two steps: the difference first, then the confirmation.

A rule says what may be asked without a steward; it is about fairness and purpose, and the root account holds whatever the
rules say. A policy decides sensitivities, so a policy that is written in the browser is a proposal, and comes into force
when the owner accepts it where the worker runs.
"""

from difflib import unified_diff
from typing import Any

import msgspec
from fastapi import Response

from discreet._numbers import parse_rational
from discreet.errors import BadParameter, DiscreetError
from discreet.query.policy import read_policy
from discreet.serve.control.model import Rules, Scope, Snapshot, TableEntry
from discreet.serve.quoting import Target
from discreet.serve.rules import check_templates, parse_template
from discreet.serve.web.pages import words
from discreet.serve.web.pages.builder import suggest_queries
from discreet.serve.web.pages.drawing import Pages, Visit, redirect
from discreet.serve.web.pages.forms import RefusedForm

MAX_TEMPLATES = 50


def write_rules(table: str, rules: Rules) -> str:
    """Return rules as the lines of serve.toml that state them.

    >>> print(write_rules("people", Rules(epsilon_per_ask="1/20", declared_keys_only=True)))
    [tables.people.rules]
    epsilon_per_ask = 0.05
    declared_keys_only = true
    """
    lines = [f"[tables.{table}.rules]"]
    for name in ("epsilon_per_ask", "epsilon_per_day", "two_stewards_above"):
        value = getattr(rules, name)
        if value is not None:
            lines.append(f"{name} = {float(parse_rational(value, name)):g}")
    lines += [f"{name} = true" for name in ("declared_keys_only", "fresh") if getattr(rules, name)]
    if rules.templates:
        lines += ["templates = [", *(f"    {msgspec.json.encode(each).decode()}," for each in rules.templates), "]"]
    return "\n".join(lines)


def describe_rules(rules: Rules) -> list[str]:
    """Say what may be asked without approval."""
    found = []
    if rules.epsilon_per_ask is not None:
        found.append(f"A question may cost at most ε = {words.format_epsilon(rules.epsilon_per_ask)}.")
    if rules.epsilon_per_day is not None:
        found.append(f"A person may ask for at most ε = {words.format_epsilon(rules.epsilon_per_day)} a day.")
    if rules.declared_keys_only:
        found.append("Groups must have declared keys.")
    if rules.templates:
        found.append(f"A question must match one of {len(rules.templates)} templates.")
    if not rules.fresh:
        found.append("New noise for a question that is answered needs approval.")
    if rules.two_stewards_above is not None:
        shown = words.format_epsilon(rules.two_stewards_above)
        found.append(f"Two stewards, the asker not counted, approve what costs more than ε = {shown}. The owner sets this.")
    return found or ["Everything may be asked without approval, within the budget."]


def compare(before: str, after: str, names: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the difference of two texts, line by line, each with what it is: "added", "removed", "place" or "same"."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
    return [(kinds.get(line[:1], "same"), line) for line in lines if not line.startswith(("+++", "---"))]


class Declarations:
    """The pages of rules and policies."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.control = pages, pages.web, pages.control

    def show_rules(self, visit: Visit) -> Response:
        """Draw the rules; for stewards with the form that changes them."""
        entry, _ = self.web.find_table(visit.caller, visit.path("table"))
        return self._draw_rules(visit, entry, entry.rules, None, None)

    def _draw_rules(self, visit: Visit, entry: TableEntry, rules: Rules, difference: Any, problem: str | None) -> Response:
        kept = None if problem is None else RefusedForm("rules", "", problem, visit.form)
        shown = {name: getattr(rules, name) for name in ("epsilon_per_ask", "epsilon_per_day")}
        texts = {name: "" if value is None else f"{float(parse_rational(value, name)):g}" for name, value in shown.items()}
        return self.pages.show(
            visit, "rules", 422 if problem else 200, entry=entry, rules=rules, texts=texts, difference=difference,
            refused=kept, sentences=describe_rules(entry.rules), toml=write_rules(entry.name, rules),
        )  # fmt: skip

    def change_rules(self, visit: Visit) -> Response:
        """Show the difference, or put new rules into force."""
        visit.caller.require(Scope.STEWARD)
        entry, _ = self.web.find_table(visit.caller, visit.path("table"))
        try:
            rules = self._read_rules(visit, entry.rules)
            check_templates(rules, self.web.quoter.read_table(entry))
        except DiscreetError as error:
            return self._draw_rules(visit, entry, entry.rules, None, words.describe_refusal(error))
        if visit.field("do") != "confirm":
            before, after = write_rules(entry.name, entry.rules), write_rules(entry.name, rules)
            return self._draw_rules(visit, entry, rules, compare(before, after, ("now", "then")), None)
        try:
            self.pages.stewardship.change_rules(visit.caller, entry.name, rules)
        except BadParameter as refused:
            return self._draw_rules(visit, entry, entry.rules, None, words.describe_refusal(refused))
        return redirect(f"/t/{words.quote_path(entry.name)}/rules")

    @staticmethod
    def _read_rules(visit: Visit, before: Rules) -> Rules:
        limits = {}
        for name in ("epsilon_per_ask", "epsilon_per_day"):
            text = visit.field(name).strip()[:100]
            exact = parse_rational(text, name) if text else None
            if exact is not None and exact <= 0:
                raise BadParameter(name, text, "must be above 0", "leave it empty for no limit")
            limits[name] = None if exact is None else str(exact)
        lines = [each.strip() for each in visit.field("templates").replace("\r", "").split("\n")]
        for line in filter(None, lines):
            parse_template(line)
        return Rules(
            **limits, declared_keys_only=visit.field("declared_keys_only") == "yes", fresh=visit.field("fresh") == "yes",
            templates=tuple(each for each in lines if each)[:MAX_TEMPLATES], two_stewards_above=before.two_stewards_above,
        )  # fmt: skip

    # Policies

    def show_policy(self, visit: Visit) -> Response:
        """Draw the policy in force, and proposals."""
        entry, _ = self.web.find_table(visit.caller, visit.path("table"))
        return self._draw_policy(visit, entry, entry.policy, None, None, [])

    def _draw_policy(
        self, visit: Visit, entry: TableEntry, policy: str, difference: Any, problem: str | None, effects: Any
    ) -> Response:
        proposals = self.control.list_proposals(entry.name) if visit.caller.is_steward else ()
        return self.pages.show(
            visit, "policy", 422 if problem else 200, entry=entry, policy=policy, difference=difference, problem=problem,
            effects=effects, proposals=[
                (each, compare(entry.policy, each.policy, ("in force", "proposed"))) for each in proposals
            ],
        )  # fmt: skip

    def change_policy(self, visit: Visit) -> Response:
        """Show the difference and what it does to quotes, or record a proposal."""
        visit.caller.require(Scope.STEWARD)
        entry, _ = self.web.find_table(visit.caller, visit.path("table"))
        policy = visit.field("policy").replace("\r\n", "\n")[:200_000]
        try:
            read_policy(policy)
            if visit.field("do") == "propose":
                self.pages.stewardship.propose_policy(visit.caller, entry.name, policy)
                return redirect(f"/t/{words.quote_path(entry.name)}/policy")
            effects = self._find_effects(entry, policy)
        except DiscreetError as error:
            return self._draw_policy(visit, entry, policy, None, str(error), [])
        difference = compare(entry.policy, policy, ("in force", "proposed"))
        return self._draw_policy(visit, entry, policy, difference, None, effects)

    def _find_widths(self, entry: TableEntry, lineage: list[Snapshot], query: str) -> str:
        """Return the half-widths of a query's columns at ε = 0.1."""
        priced = self.web.quoter.price(entry, lineage, query, Target(epsilon="1/10", size=1_000))
        units = {each.name: each.unit for each in priced.calibrated.bounded.columns}
        found = [words.describe_accuracy(each, units.get(each.column, "")) for each in priced.quote.columns]
        return ", ".join(f"{each.column} {each.lines[0][0]}" for each in found)

    def _find_effects(self, entry: TableEntry, policy: str) -> list[dict[str, str]]:
        """Return what three queries cost at an error of 5% before and after, and their half-widths at ε = 0.1."""
        population = self.control.find_population(entry.population)
        lineage = [] if population is None else self.web.find_lineage(population.account)
        if not lineage:
            return []
        changed = msgspec.structs.replace(entry, policy=policy)
        found = []
        for query in suggest_queries(self.web.quoter.read_table(entry)):
            costs = []
            for version in (entry, changed):
                try:
                    priced = self.web.quoter.price(version, lineage, query.value, Target(error="5%", size=1_000))
                    widths = self._find_widths(version, lineage, query.value)
                    costs.append(f"{words.format_cost_short(priced.quote.cost)}; {widths} at ε = 0.1")
                except DiscreetError as error:
                    costs.append(f"refused: {error}")
            found.append({"text": query.text, "before": costs[0], "after": costs[1]})
        return found


def add_to(pages: Pages) -> None:
    """Add the pages."""
    declarations = Declarations(pages)
    pages.add("/t/{table}/rules", declarations.show_rules, declarations.change_rules)
    pages.add("/t/{table}/policy", declarations.show_policy, declarations.change_policy)
