"""Requests for approval, publications, proposals of policies, settings."""

from typing import Any

import msgspec

from discreet.errors import BadParameter
from discreet.serve.control.asks import Asks, _find_ask
from discreet.serve.control.base import DEFAULT_PAGE, Page, Part, encode, find
from discreet.serve.control.database import Transaction
from discreet.serve.control.errors import StateChanged, TooManyWaiting
from discreet.serve.control.model import (
    AskState,
    Comment,
    Proposal,
    Publication,
    PublicationState,
    Request,
    RequestState,
)

_UNDECIDED = (RequestState.OPEN, RequestState.RETURNED)


class Requests(Asks):
    """The part of `Control` about approval."""

    def find_request(self, ask: str) -> Request | None:
        """Return the request for the approval of an ask."""
        return self._find(Request, "SELECT body FROM control_requests WHERE ask = ?", ask)

    def list_requests(
        self,
        *,
        state: RequestState | None = None,
        person: str | None = None,
        table: str | None = None,
        cursor: str | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> Page[Request]:
        """Return the newest requests, those before the cursor."""
        filters = {"state": state, "person": person, "table_name": table}
        return self._page(Request, "control_requests", filters, cursor, limit)

    def comment_request(self, ask: str, by: str, text: str, *, state: RequestState | None = None) -> Request:
        """Add a comment. `state` `RETURNED` asks the analyst back, and `OPEN` answers that.

        Raises:
            StateChanged: if it was decided.
        """
        if state not in (None, *_UNDECIDED):
            raise StateChanged(f"The request {ask}", "undecided", str(state))
        with self._write() as transaction:
            return self._change_request(transaction, ask, state, by, text)

    def approve_request(
        self, ask: str, measurement: str, by: str, *, comment: str = "", needed: int = 1, **fields: Any
    ) -> Request:
        """Approve an ask: it waits for a worker from now on. `fields` of the ask are set with it, such as `release_at`.

        The approval holds for the measurement that the steward saw: its hash contains the policy, so a policy that was
        widened meanwhile does not slip in under an older approval. If several stewards are `needed`, the request stays open
        until so many have approved it; who approves twice counts once, and who asked does not count.

        Raises:
            StateChanged: if it was decided or withdrawn, or the measurement is another.
        """
        with self._write() as transaction:
            found = _find_ask(transaction, "id = ?{lock}", ask)
            if found is None or found.measurement != measurement:
                raise StateChanged(f"The request {ask}", "about another measurement", RequestState.APPROVED)
            request = find(transaction, Request, "SELECT body FROM control_requests WHERE ask = ?{lock}", ask)
            approvals = add_approval(() if request is None else request.approvals, by, found.person, needed)
            if len(approvals) < needed:
                return self._change_request(transaction, ask, None, by, comment, approvals)
            self._change_state(transaction, ask, AskState.APPROVAL, AskState.WAITING, **fields)
            return self._change_request(transaction, ask, RequestState.APPROVED, by, comment, approvals)

    def decline_request(self, ask: str, by: str, *, comment: str = "") -> Request:
        """Decline an ask.

        Raises:
            StateChanged: if it was decided or withdrawn.
        """
        with self._write() as transaction:
            self._change_state(transaction, ask, AskState.APPROVAL, AskState.DECLINED, reason=comment or None)
            return self._change_request(transaction, ask, RequestState.DECLINED, by, comment)

    def _change_request(
        self,
        transaction: Any,
        ask: str,
        state: RequestState | None,
        by: str,
        text: str,
        approvals: tuple[str, ...] | None = None,
    ) -> Request:
        request = find(transaction, Request, "SELECT body FROM control_requests WHERE ask = ?{lock}", ask)
        if request is None or request.state not in _UNDECIDED:
            raise StateChanged(f"The request {ask}", "missing" if request is None else request.state, str(state))
        comments = (*request.comments, Comment(by=by, at=self._clock(), text=text)) if text else request.comments
        decided = by if state in (RequestState.APPROVED, RequestState.DECLINED) else request.decided_by
        changed = msgspec.structs.replace(
            request, state=state or request.state, comments=comments, decided_by=decided,
            approvals=request.approvals if approvals is None else approvals,
        )  # fmt: skip
        sql = "UPDATE control_requests SET state = ?, body = ? WHERE ask = ?"
        transaction.run(sql, changed.state, encode(changed), ask)
        details = {"person": request.person, "table": request.table, "measurement": request.measurement}
        said = state or ("comment" if approvals is None else "approved by the first steward")
        self._record(transaction, by, f"request {said}", ask, **details)
        return changed


def add_approval(approvals: tuple[str, ...], by: str, asker: str, needed: int) -> tuple[str, ...]:
    """Return the stewards who have approved. Where several are needed, who asks is none of them.

    >>> add_approval(("sam",), "sam", "ada", 2), add_approval((), "sam", "sam", 2), add_approval((), "sam", "sam", 1)
    (('sam',), (), ('sam',))
    """
    return tuple(each for each in dict.fromkeys((*approvals, by)) if needed == 1 or each != asker)


class _Proposed(msgspec.Struct):
    """Who proposed a publication, without the rest of it."""

    by: str


def _count_proposed(transaction: Transaction, person: str) -> int:
    """Return how many publications of a person wait for a quote, for approval or for a worker."""
    sql = "SELECT body FROM control_publications WHERE state IN (?, ?, ?)"
    waiting = (PublicationState.DRAFT, PublicationState.APPROVAL, PublicationState.RUNNING)
    rows = transaction.run(sql, *waiting).fetchall()
    return sum(msgspec.json.decode(body, type=_Proposed).by == person for (body,) in rows)


class Records(Part):
    """The part of `Control` about publications, proposals and settings."""

    def add_publication(self, publication: Publication, *, by: str | None = None, waiting_limit: int | None = None) -> None:
        """Add a publication.

        Raises:
            TooManyWaiting: if who proposes it has `waiting_limit` publications that are neither published nor decided.
        """
        with self._write() as transaction:
            if waiting_limit is not None:
                transaction.lock(f"publications of {publication.by}")
                if _count_proposed(transaction, publication.by) >= waiting_limit:
                    raise TooManyWaiting(waiting_limit, "publications", "Wait until a steward has decided one")
            transaction.run(
                "INSERT INTO control_publications (id, table_name, state, body) VALUES (?, ?, ?, ?)",
                publication.id, publication.table, publication.state, encode(publication),
            )  # fmt: skip
            self._record(transaction, by, "add publication", publication.id, table=publication.table)

    def approve_publication(self, publication: str, by: str, *, needed: int = 1) -> Publication:
        """Approve a publication: a worker publishes it. If several stewards are `needed`, it waits for them; who
        approves twice counts once, and who proposed it does not count.

        Raises:
            StateChanged: if it was decided, or has no quote yet: an approval is of what the quote says.
        """
        with self._write() as transaction:
            transaction.lock(f"approvals of {publication}")
            found = self.find_publication(publication)
            if found is not None and found.quote is None:
                raise StateChanged(f"The publication {publication}", "not quoted yet", PublicationState.RUNNING)
            approvals = () if found is None else add_approval(found.approvals, by, found.by, needed)
            to = PublicationState.RUNNING if len(approvals) >= needed else PublicationState.APPROVAL
            self._record(transaction, by, "approve publication", publication, stewards=len(approvals), needed=needed)
            return self.change_publication(publication, PublicationState.APPROVAL, to, by=by, approvals=approvals)

    def quote_publication(self, publication: str, quote: dict[str, Any]) -> dict[str, Any]:
        """Store the quote of a publication, unless it has one. Returns the one that it has then.

        Raises:
            StateChanged: if it was decided.
        """
        with self._write() as transaction:
            transaction.lock(f"approvals of {publication}")
            found = self.find_publication(publication)
            if found is not None and found.quote is not None:
                return found.quote
            state = PublicationState.APPROVAL if found is None else found.state
            if state not in (PublicationState.DRAFT, PublicationState.APPROVAL):
                raise StateChanged(f"The publication {publication}", state, "quoted")
            self.change_publication(publication, state, state, quote=quote)
        return quote

    def change_publication(
        self, publication: str, from_state: PublicationState, to: PublicationState, *, by: str | None = None, **fields: Any
    ) -> Publication:
        """Move a publication from one state to another, or keep its state, and set fields of it.

        Raises:
            StateChanged: if it is in another state.
        """
        with self._write() as transaction:
            sql = "SELECT body FROM control_publications WHERE id = ?{lock}"
            found = find(transaction, Publication, sql, publication)
            if found is None or found.state is not from_state:
                raise StateChanged(f"The publication {publication}", "missing" if found is None else found.state, to)
            changed = msgspec.structs.replace(found, state=to, **fields)
            sql = "UPDATE control_publications SET state = ?, body = ? WHERE id = ?"
            transaction.run(sql, to, encode(changed), publication)
            self._record(transaction, by, "change publication", publication, before=from_state, after=to)
        return changed

    def find_publication(self, publication: str) -> Publication | None:
        """Return the publication with this id."""
        return self._find(Publication, "SELECT body FROM control_publications WHERE id = ?", publication)

    def list_publications(
        self,
        *,
        table: str | None = None,
        state: PublicationState | None = None,
        cursor: str | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> Page[Publication]:
        """Return the newest publications, those before the cursor."""
        return self._page(Publication, "control_publications", {"table_name": table, "state": state}, cursor, limit)

    def list_publishing(self, table: str) -> list[float]:
        """Return the class of the slowest query of each publication of a table that is being published, in seconds."""
        found = self.list_publications(table=table, state=PublicationState.RUNNING).items
        slowest = [(each.quote or {}).get("slowest") for each in found]
        return [float(each) for each in slowest if isinstance(each, int | float)]

    def add_proposal(self, table: str, policy: str, by: str) -> Proposal:
        """Propose a policy. Its version is one more than that of the last proposal and of the policy in force."""
        with self._write() as transaction:
            transaction.lock(f"proposals of {table}")
            row = transaction.run("SELECT MAX(version) FROM control_proposals WHERE table_name = ?", table).fetchone()
            entry = transaction.run("SELECT body FROM control_tables WHERE name = ?", table).fetchone()
            if entry is None:
                raise BadParameter("table", repr(table), "there is no such table", "check its name")
            version = max(int(row[0] or 0), int(msgspec.json.decode(entry[0])["policy_version"])) + 1
            proposal = Proposal(table=table, version=version, policy=policy, by=by, at=self._clock())
            transaction.run(
                "INSERT INTO control_proposals (table_name, version, state, body) VALUES (?, ?, ?, ?)",
                table, version, proposal.state, encode(proposal),
            )  # fmt: skip
            self._record(transaction, by, "propose policy", table, version=version)
        return proposal

    def find_proposal(self, table: str, version: int) -> Proposal | None:
        """Return a proposal."""
        sql = "SELECT body FROM control_proposals WHERE table_name = ? AND version = ?"
        return self._find(Proposal, sql, table, version)

    def list_proposals(self, table: str | None = None, state: str | None = None) -> tuple[Proposal, ...]:
        """Return the newest proposals."""
        return self._page(Proposal, "control_proposals", {"table_name": table, "state": state}, None, 200).items

    def decide_proposal(self, table: str, version: int, state: str, *, by: str) -> Proposal:
        """Accept or decline a proposal.

        Raises:
            StateChanged: if it is not open.
        """
        if state not in ("accepted", "declined"):
            raise BadParameter("state", repr(state), "is no decision", 'give "accepted" or "declined"')
        with self._write() as transaction:
            sql = "SELECT body FROM control_proposals WHERE table_name = ? AND version = ?{lock}"
            found = find(transaction, Proposal, sql, table, version)
            if found is None or found.state != "open":
                raise StateChanged(f"The proposal {version} of {table}", "missing" if found is None else found.state, state)
            changed = msgspec.structs.replace(found, state=state)
            sql = "UPDATE control_proposals SET state = ?, body = ? WHERE table_name = ? AND version = ?"
            transaction.run(sql, state, encode(changed), table, version)
            self._record(transaction, by, f"policy {state}", table, version=version)
        return changed

    def set_setting(self, name: str, value: str, *, by: str | None = None) -> None:
        """Save a setting, such as the service's public key."""
        with self._write() as transaction:
            transaction.lock(f"setting {name}")
            transaction.run(
                "INSERT INTO control_settings (name, value) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                name, value,
            )  # fmt: skip
            self._record(transaction, by, "set", name)

    def find_setting(self, name: str) -> str | None:
        """Return a setting. Inside `transaction()` no other transaction can set it before the end of this one."""
        with self._read() as transaction:
            if self._is_writing:
                transaction.lock(f"setting {name}")
            row = transaction.run("SELECT value FROM control_settings WHERE name = ?", name).fetchone()
        return None if row is None else str(row[0])

    def list_settings(self) -> dict[str, str]:
        """Return all settings."""
        with self._read() as transaction:
            return dict(transaction.run("SELECT name, value FROM control_settings").fetchall())
