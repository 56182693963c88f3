"""What stewards do, and what people do with their own tokens: people, grants, tokens, requests, publications, the trail.

Each action is a line of the audit trail, written in the same transaction; analysts read the lines about themselves. Nothing
here opens an account or changes a budget: it puts a job into the queue, and a worker does it. A grant is always a place
under the root account of a population, so no grant adds to what is promised to the people in the data.

No steward makes a steward, or a link that signs one in: by that, one steward could be the two that `two_stewards_above`
wants. The command line does it, where the worker runs.

Tokens and links are made in the browser alone: a token that could make another one would survive being revoked.
"""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

import msgspec

from discreet._numbers import parse_rational
from discreet.errors import BadParameter, ServiceUnavailable
from discreet.serve.control.base import new_id
from discreet.serve.control.model import (
    Grant,
    Job,
    Person,
    Population,
    Proposal,
    Publication,
    PublicationState,
    Request,
    RequestState,
    Role,
    Rules,
    Scope,
    Snapshot,
    TableEntry,
    Token,
    TrailEntry,
)
from discreet.serve.control.people import check_email, check_person_id
from discreet.serve.rations import check_ration, state_whole
from discreet.serve.rules import check_templates, count_stewards
from discreet.serve.web.problems import Refusal, not_found
from discreet.serve.web.service import Web
from discreet.serve.web.signing_in import Caller

MAX_PLAN = 100_000
MAX_SCANNED = 2_000
MAX_RATIONS, RATION_DAYS = 20, 30
"""How many tokens with a budget of their own a person may make in how many days."""
ABOUT_PEOPLE = frozenset({"add person", "change person", "add link", "sign in by link"})
"""Actions whose subject is a person."""


@dataclass(frozen=True, slots=True)
class PlannedGrant:
    """What a grant would open: an account under the root of a population, with a ration or all of everybody's budget."""

    entry: TableEntry
    population: Population
    account: str
    opened: Snapshot | None  # the account, if it is open already: then its budget is fixed
    ration: str | None


@dataclass(frozen=True, slots=True)
class Stewardship:
    """Actions of stewards on one service."""

    web: Web

    # People

    def add_person(self, caller: Caller, id: str, name: str, role: Role, email: str | None) -> Person:
        """Add a person."""
        caller.require(Scope.STEWARD)
        caller.require_all_tables()
        check_person_id(id)
        _refuse_steward(id, role)
        person = Person(id=id, name=name, role=role, email=check_email(email))
        return self.web.control.add_person(person, by=caller.person.id)

    def change_person(self, caller: Caller, person: str, role: Role | None, disabled: bool | None) -> Person:
        """Change a person's role, or shut a person out."""
        caller.require(Scope.STEWARD)
        caller.require_all_tables()
        found = self.web.control.find_person(person)
        if found is None:
            raise not_found()
        if found.role is not Role.STEWARD:
            _refuse_steward(person, role)
        if person == caller.person.id:
            raise Refusal(409, "You cannot change your own role or shut yourself out. Another steward can.")
        return self.web.control.change_person(person, role=role, disabled=disabled, by=caller.person.id)

    def make_link(self, caller: Caller, person: str) -> str:
        """Return the address that signs a person in once: anybody but a steward, in whose name its maker could act."""
        caller.require(Scope.STEWARD)
        caller.require_browser()
        found = self.web.control.find_person(person)
        if found is None or found.disabled:
            raise not_found()
        _refuse_steward(person, found.role)
        secret = self.web.control.add_link(person, by=caller.person.id)
        return f"{self.web.settings.address}/in?once={secret}"

    # Grants

    def grant(self, caller: Caller, person: str, table: str, epsilon: str | None) -> tuple[Grant, Job | None]:
        """Let a person ask of a table, from an account of their own under the root of its population."""
        planned = self.plan_grant(caller, person, table, epsilon)
        control, by, account, ration = self.web.control, caller.person.id, planned.account, planned.ration
        given = Grant(person=person, table=table, account=account, created=self.web.clock.now(), by=by)
        with control.transaction():
            opened, population = planned.opened, planned.population
            whole = population.epsilon if opened is None else state_whole(opened.budget, Fraction(opened.delta))
            control.add_grant(given, by=by, epsilon=ration or whole)
            payload = {"parent": population.account, "epsilon": ration, "population": planned.entry.population}
            job = None if opened is not None else control.enqueue("open_account", account, payload, person=person, by=by)
        return given, job

    def plan_grant(self, caller: Caller, person: str, table: str, epsilon: str | None) -> "PlannedGrant":
        """Return what a grant would open, if it may be given. Nothing is changed."""
        caller.require(Scope.STEWARD)
        control = self.web.control
        entry, found = control.find_table(table), control.find_person(person)
        population = None if entry is None else control.find_population(entry.population)
        if entry is None or found is None or population is None or not caller.may_use(table):
            raise not_found()
        if found.role is Role.STUDENT and not entry.invented:
            raise Refusal(409, "A student may only be granted tables of invented rows.")
        account = f"{population.account}/{person}"
        opened = control.find_snapshot(account)
        ration = None if epsilon is None else str(self._check_ration(epsilon, population.account))
        if opened is not None and ration is not None:
            raise _fixed_error(opened, ration)
        return PlannedGrant(entry, population, account, opened, ration)

    def _check_ration(self, epsilon: str, *accounts: str) -> Fraction:
        """Return the ε of a ration under an account: the first of these that is open."""
        above = next((each for name in accounts if (each := self.web.control.find_snapshot(name)) is not None), None)
        if above is None:
            raise ServiceUnavailable("The account of the population is not open yet", "try again in a moment")
        return check_ration(epsilon, above.budget, Fraction(above.delta), above.account)

    def revoke_grant(self, caller: Caller, person: str, table: str) -> None:
        """Take a grant away. What was asked stays asked and paid."""
        caller.require(Scope.STEWARD)
        if not caller.may_use(table) or not self.web.control.remove_grant(person, table, by=caller.person.id):
            raise not_found()

    def pause(self, caller: Caller, person: str, table: str, reason: str | None) -> Grant:
        """Take no asks from the account of a grant, or, without a reason, take them again."""
        caller.require(Scope.STEWARD)
        grant = self.web.control.find_grant(person, table)
        if grant is None or not caller.may_use(table):
            raise not_found()
        if reason is None:
            self.web.control.resume_account(grant.account, by=caller.person.id)
        else:
            self.web.control.pause_account(grant.account, reason, by=caller.person.id)
        return self.web.control.find_grant(person, table) or grant

    # Tokens

    def add_token(
        self,
        caller: Caller,
        label: str,
        scopes: Iterable[Scope],
        tables: tuple[str, ...] | None,
        days: float,
        epsilon: str | None,
    ) -> tuple[Token, str]:
        """Make a token of the caller's own. Its secret is shown once."""
        caller.require_browser()
        wanted, control = tuple(dict.fromkeys(scopes)), self.web.control
        self._check_token(caller, wanted)
        granted = {grant.table: grant for grant in control.list_grants(person=caller.person.id)}
        if tables is not None and not set(tables) <= granted.keys():
            raise not_found()
        reached = [grant for table, grant in granted.items() if tables is None or table in tables]
        if epsilon is not None:
            parse_rational(epsilon, "epsilon")  # also where the person has no grant, and no account to be limited
            self._limit_rations(caller)
        accounts = {} if epsilon is None else self._name_accounts(reached)
        longest = self.web.settings.token_days
        if not 0 < days <= longest:
            reason = f"a token lives for more than 0 and at most {longest:g} days"
            raise BadParameter("days", f"{days:g}", reason, f"give at most {longest:g}, and make a new one then")
        expires = self.web.clock.now() + 86_400 * days
        parents = {name: account.rpartition("/")[0] for name, account in accounts.items()}
        rations = {} if epsilon is None else {
            name: str(self._check_ration(epsilon, parent, parent.rpartition("/")[0])) for name, parent in parents.items()
        }  # fmt: skip
        with control.transaction():
            token, secret = control.add_token(
                caller.person.id, label, scopes=wanted, tables=tables, accounts=accounts, expires=expires,
                by=caller.person.id, epsilon=epsilon,
            )  # fmt: skip
            for population, account in accounts.items():
                payload = {"parent": parents[population], "epsilon": rations[population], "population": population}
                control.enqueue("open_account", account, payload, person=caller.person.id, by=caller.person.id)
        return token, secret

    def _check_token(self, caller: Caller, scopes: tuple[Scope, ...]) -> None:
        if not scopes:
            raise BadParameter("scopes", "()", "a token without a scope may do nothing", 'give ["ask", "read"]')
        if Scope.STEWARD in scopes and not caller.is_steward:
            raise Refusal(403, "Only a steward can make a token with the scope `steward`.")

    def _limit_rations(self, caller: Caller) -> None:
        """Refuse a person who has many tokens with a budget of their own: each is an account that the ledger keeps for ever,
        also when its token is revoked."""
        since = self.web.clock.now() - 86_400 * RATION_DAYS
        made = [each for each in self.web.control.list_tokens(caller.person.id) if each.accounts and each.created > since]
        if len(made) >= MAX_RATIONS:
            said = f"You made {MAX_RATIONS} tokens with a budget of their own in {RATION_DAYS} days, which is the most."
            raise Refusal(429, f"{said} Make one without, or limit one by tables and days.", {"Retry-After": "86400"})

    def _name_accounts(self, grants: Iterable[Grant]) -> dict[str, str]:
        mark, found = secrets.token_hex(4), dict[str, str]()
        for grant in grants:
            entry = self.web.control.find_table(grant.table)
            if entry is not None:
                found[entry.population] = f"{grant.account}/token-{mark}"
        if not found:
            raise Refusal(409, "A token with a budget of its own needs a table that you may ask of.")
        return found

    def revoke_token(self, caller: Caller, token: str) -> Token:
        """Revoke a token of the caller's own, or of anybody's for a steward. A token revokes itself alone."""
        if caller.token is not None and caller.token.id != token:
            caller.require_browser()
        found = self.web.control.find_token_by_id(token)
        if found is None or not (found.person == caller.person.id or caller.is_steward):
            raise not_found()
        return self.web.control.revoke_token(token, by=caller.person.id) or found

    # Requests

    def find_request(self, caller: Caller, ask: str) -> Request:
        """Return a request of the caller's own, or of anybody's for a steward."""
        found = self.web.control.find_request(ask)
        is_seen = found is not None and caller.may_use(found.table)
        if found is None or not is_seen or not (found.person == caller.person.id or caller.is_steward):
            raise not_found()
        return found

    def approve(self, caller: Caller, ask: str, measurement: str, comment: str) -> Request:
        """Approve the measurement that the steward saw, and no other. Its clock starts now."""
        caller.require(Scope.STEWARD)
        request, found, now = self.find_request(caller, ask), self.web.control.find_ask(ask), self.web.clock.now()
        if found is None or request.measurement != measurement:
            raise Refusal(409, "The request is about another measurement. Load it again.")
        release = None if found.class_seconds is None else now + found.class_seconds
        needed = self.count_stewards(found.table, Fraction(found.epsilon))
        self._refuse_twice(caller, needed, request.person, request.approvals)
        return self.web.control.approve_request(
            ask, measurement, caller.person.id, comment=comment, needed=needed, accepted_at=now, release_at=release
        )

    def count_stewards(self, table: str, epsilon: Fraction | float) -> int:
        """Return how many stewards must approve what costs this ε of a table. A table that is gone wants two."""
        entry = self.web.control.find_table(table)
        return 2 if entry is None else count_stewards(entry.rules, epsilon)

    @staticmethod
    def _refuse_twice(caller: Caller, needed: int, asker: str, approvals: tuple[str, ...]) -> None:
        if needed > 1 and caller.person.id == asker:
            raise Refusal(409, "You asked for this, and two other stewards must approve it.")
        if needed > 1 and caller.person.id in approvals:
            raise Refusal(409, "You have approved this. A second steward must approve it, too.")

    def decline(self, caller: Caller, ask: str, comment: str) -> Request:
        """Decline a request."""
        caller.require(Scope.STEWARD)
        self.find_request(caller, ask)
        return self.web.control.decline_request(ask, caller.person.id, comment=comment)

    def send_back(self, caller: Caller, ask: str, comment: str) -> Request:
        """Ask the analyst back."""
        caller.require(Scope.STEWARD)
        self.find_request(caller, ask)
        comment = _require_text(comment)
        return self.web.control.comment_request(ask, caller.person.id, comment, state=RequestState.RETURNED)

    def reply(self, caller: Caller, ask: str, comment: str) -> Request:
        """Answer a steward who asked back."""
        if self.find_request(caller, ask).person != caller.person.id:
            raise not_found()
        comment = _require_text(comment)
        return self.web.control.comment_request(ask, caller.person.id, comment, state=RequestState.OPEN)

    # Publications and policies

    def add_publication(self, caller: Caller, title: str, table: str, plan: str) -> Publication:
        """Propose a publication. A worker quotes it, a steward approves it."""
        caller.require(Scope.ASK)
        entry, grant = self.web.find_table(caller, table)
        if grant is None:
            raise not_found()
        account = self.web.choose_account(caller, entry, grant)
        if not self.web.find_lineage(account):
            raise ServiceUnavailable("The account is not open yet", "try again in a moment", retry_after=1)
        publication = Publication(
            id=new_id(), title=title, table=table, plan=plan, by=caller.person.id, state=PublicationState.APPROVAL,
            created=self.web.clock.now(), account=account,
            token=None if caller.token is None else caller.token.id,
        )  # fmt: skip
        with self.web.control.transaction():
            limit = self.web.settings.max_waiting
            self.web.control.add_publication(publication, by=caller.person.id, waiting_limit=limit)
            self.web.control.enqueue("publication", publication.id, {"step": "quote"}, person=caller.person.id)
        return publication

    def find_publication(self, caller: Caller | None, id: str) -> Publication:
        """Return a publication that the caller may see: a public one, one of their own, or of a table that is granted."""
        found = self.web.control.find_publication(id)
        public = found is not None and found.is_public and found.state is PublicationState.PUBLISHED
        if found is None or not (public or (caller is not None and self.may_read(caller, found))):
            raise not_found()
        return found

    def may_read(self, caller: Caller, found: Publication) -> bool:
        """Whether a publication is the caller's, or of a table that is granted, or a steward's to see."""
        if not caller.may_use(found.table):
            return False
        granted = self.web.control.find_grant(caller.person.id, found.table) is not None
        return caller.is_steward or found.by == caller.person.id or (
            granted and found.state is PublicationState.PUBLISHED
        )  # fmt: skip

    def decide_publication(self, caller: Caller, id: str, approve: bool) -> Publication:
        """Approve or decline a publication."""
        caller.require(Scope.STEWARD)
        found, by, control = self.find_publication(caller, id), caller.person.id, self.web.control
        if not approve:
            return control.change_publication(found.id, PublicationState.APPROVAL, PublicationState.DECLINED, by=by)
        needed = self.count_stewards(found.table, find_epsilon(found))
        self._refuse_twice(caller, needed, found.by, found.approvals)
        with control.transaction():
            changed = control.approve_publication(found.id, by, needed=needed)
            if changed.state is PublicationState.RUNNING:
                control.enqueue("publication", found.id, {"step": "publish"}, by=by)
        return changed

    def open_publication(self, caller: Caller, id: str, is_public: bool) -> Publication:
        """Show a publication to everybody, or not any more."""
        caller.require(Scope.STEWARD)
        found = self.find_publication(caller, id)
        if not caller.may_use(found.table):
            raise not_found()
        state = PublicationState.PUBLISHED
        return self.web.control.change_publication(found.id, state, state, by=caller.person.id, is_public=is_public)

    def find_rules(self, caller: Caller, table: str) -> Rules:
        """Return what may be asked of a table without approval."""
        caller.require(Scope.STEWARD)
        return self.web.find_table(caller, table)[0].rules

    def change_rules(self, caller: Caller, table: str, rules: Rules) -> Rules:
        """Set what may be asked of a table without approval, from the next ask on.

        Raises:
            BadParameter: if serve.toml states the rules of this table.
        """
        caller.require(Scope.STEWARD)
        entry = self.web.find_table(caller, table)[0]
        if entry.has_fixed_rules:
            hint = "change them there, and restart the worker"
            raise BadParameter("rules", repr(table), "the rules of this table are stated in serve.toml", hint)
        check_templates(rules, self.web.quoter.read_table(entry))
        changed = self.web.control.change_rules(table, rules, by=caller.person.id)
        if changed is None:
            raise not_found()
        return changed.rules

    def release_answer(self, caller: Caller, ask: str, title: str) -> Job:
        """Release the answer of an ask: a worker mirrors it into the released tables, which tools read freely. It was paid
        for, so that costs nothing; that it is shown to more people is a steward's decision, and in the trail."""
        caller.require(Scope.STEWARD)
        found = self.web.find_answered(caller, ask)
        return self.web.control.release_ask(found.id, caller.person.id, title=title)

    def propose_policy(self, caller: Caller, table: str, policy: str) -> Proposal:
        """Propose a policy. It comes into force when the owner accepts it where the worker runs."""
        from discreet.query.policy import read_policy

        caller.require(Scope.STEWARD)
        self.web.find_table(caller, table)
        read_policy(policy)
        if re.search(r"^\s*salt\s*=", policy, re.MULTILINE):
            raise BadParameter("salt", "given", "the salt is the owner's secret", "leave it out")
        return self.web.control.add_proposal(table, policy, caller.person.id)

    # Trail

    def list_trail(self, caller: Caller, cursor: str | None, limit: int) -> tuple[list[TrailEntry], str | None]:
        """Return lines of the audit trail, newest first: all for a steward, else those about the caller."""
        caller.require_all_tables()
        if caller.is_steward:
            page = self.web.control.trail.list(cursor=cursor, limit=limit)
            return list(page.items), page.cursor
        found, scanned = list[TrailEntry](), 0
        while len(found) < limit and scanned < MAX_SCANNED:
            page = self.web.control.trail.list(cursor=cursor, limit=50)
            found += [line for line in page.items if is_about(line, caller.person.id)]
            scanned, cursor = scanned + len(page.items), page.cursor
            if cursor is None:
                break
        return found, cursor


def _require_text(comment: str) -> str:
    if not comment.strip():
        raise Refusal(422, "Nothing was written. Write what you want to know, or your reply.")
    return comment


def _refuse_steward(person: str, role: Role | None) -> None:
    if role is Role.STEWARD:
        command = f"discreet serve invite serve.toml {person} --role steward"
        raise Refusal(403, f"Stewards are added and invited by the owner alone, where the worker runs: {command}.")


def find_epsilon(publication: Publication) -> float:
    """Return the ε that a publication costs, rounded up; infinity until a worker has quoted it."""
    cost = (publication.quote or {}).get("cost")
    upper = (cost.get("epsilon") or {}).get("upper") if isinstance(cost, dict) else None
    return float(upper) if isinstance(upper, int | float) else inf


def _fixed_error(opened: Snapshot, ration: str) -> BadParameter:
    whole = state_whole(opened.budget, Fraction(opened.delta))
    reason = f"the account {opened.account} was opened with ε = {whole}, for life"
    hint = "leave it out; the rules of the table limit what is asked in a day, and a pause ends it"
    return BadParameter("epsilon", f"{float(Fraction(ration)):.12g}", reason, hint)


def is_about(line: TrailEntry, person: str) -> bool:
    """Whether a line tells what a person did or what was done to them, their requests or their tokens. The subject of other
    lines is a table or an account, which may have a person's name."""
    subject = line.subject if line.action in ABOUT_PEOPLE else None
    return person in (line.actor, subject, line.details.get("person"))


def to_plain(value: msgspec.Struct, *hidden: str) -> dict[str, Any]:
    """Return a value of the control database as plain values, without its secret fields."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return {name: each for name, each in plain.items() if name not in (*hidden, "digest", "csrf")}
