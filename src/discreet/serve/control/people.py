"""People, and how they are recognised: tokens, browser logins, links that sign in once.

A secret has 32 random bytes and is shown once; the database holds its SHA-256 alone and looks it up by that, so a copy of
the database is no way to sign in, and no comparison takes a time that depends on a secret.
"""

import re
import secrets
from collections.abc import Iterable

import msgspec

from discreet.errors import BadParameter
from discreet.serve.control.base import Part, decode, digest_secret, encode, find, new_id
from discreet.serve.control.database import Transaction
from discreet.serve.control.errors import PersonExists
from discreet.serve.control.model import Link, Login, Person, Role, Scope, Token

RESERVED = frozenset({"worker", "oidc", "service", "publication"})
"""What the trail calls parts of the service, whose lines a person of that name would read; and what stands before the colon
in the id of a publication's debit, where asks have the person."""
PERSON_ID = r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?"
"""The id of a person: part of names of accounts, and of ids of debits, in which a colon ends it."""
EMAIL = r"[^@\s]+@[^@\s]+"
MAX_EMAIL = 200
TOKEN_PREFIX = "dsc_"
"""What a token begins with, so that scanners find one that was published by mistake."""
LAST_USED_SECONDS = 60.0
"""The last use of a token is written at most this often."""


def check_person_id(id: str, name: str = "id") -> str:
    """Return the short name of a person, which is part of account names. `name` is what the caller calls it.

    >>> check_person_id("ada-l")
    'ada-l'
    >>> check_person_id("Bob Smith")
    Traceback (most recent call last):
    discreet.errors.BadParameter: id is 'Bob Smith': not 1 to 40 small letters, digits and hyphens. \
Take one such as "ada", it is part of account names.
    """
    if re.fullmatch(PERSON_ID, id, re.ASCII) is None:
        reason = "not 1 to 40 small letters, digits and hyphens"
        raise BadParameter(name, repr(id[:40]), reason, 'take one such as "ada", it is part of account names')
    return id


def check_email(email: str | None) -> str | None:
    """Return an e-mail address, or None for none.

    >>> check_email("ada@example.org"), check_email(None)
    ('ada@example.org', None)
    """
    if email is not None and (len(email) > MAX_EMAIL or re.fullmatch(EMAIL, email) is None):
        raise BadParameter("email", repr(email[:40]), "not an e-mail address", "write one such as ada@example.org, or none")
    return email


class People(Part):
    """The part of `Control` about people."""

    def add_person(self, person: Person, *, by: str | None = None) -> Person:
        """Add a person.

        Raises:
            BadParameter: if the id is none, from a page, the command line or a provider.
            PersonExists: if the id or the OIDC subject is taken, or the id is reserved.
        """
        check_person_id(person.id)
        if person.id in RESERVED:
            raise PersonExists(person.id)
        person = msgspec.structs.replace(person, created=person.created or self._clock())
        with self._write() as transaction:
            transaction.lock(f"person {person.id}")
            taken = transaction.run("SELECT id FROM control_people WHERE id = ? OR subject = ?", person.id, person.subject)
            if taken.fetchone() is not None:
                raise PersonExists(person.id)
            transaction.run(
                "INSERT INTO control_people (id, email, subject, disabled, body) VALUES (?, ?, ?, ?, ?)",
                person.id, person.email, person.subject, int(person.disabled), encode(person),
            )  # fmt: skip
            self._record(transaction, by, "add person", person.id, role=person.role)
        return person

    def change_person(
        self,
        person: str,
        *,
        name: str | None = None,
        email: str | None = None,
        subject: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        by: str | None = None,
    ) -> Person:
        """Change what is given of a person. Who is disabled or becomes a steward is signed out everywhere, and their links
        end: a browser that a link of another steward's signed in acts as no steward.

        Raises:
            BadParameter: if there is no such person.
        """
        given = {"name": name, "email": email, "subject": subject, "role": role, "disabled": disabled}
        fields = {key: value for key, value in given.items() if value is not None}
        with self._write() as transaction:
            found = find(transaction, Person, "SELECT body FROM control_people WHERE id = ?{lock}", person)
            if found is None:
                raise BadParameter("person", repr(person), "there is no such person", "check the id")
            changed = msgspec.structs.replace(found, **fields)
            transaction.run(
                "UPDATE control_people SET email = ?, subject = ?, disabled = ?, body = ? WHERE id = ?",
                changed.email, changed.subject, int(changed.disabled), encode(changed), person,
            )  # fmt: skip
            if disabled or (changed.role is Role.STEWARD and found.role is not Role.STEWARD):
                transaction.run("DELETE FROM control_logins WHERE person = ?", person)
                transaction.run("DELETE FROM control_links WHERE person = ?", person)
            self._record(transaction, by, "change person", person, **{key: str(value) for key, value in fields.items()})
        return changed

    def disable_person(self, person: str, *, by: str | None = None) -> Person:
        """Shut a person out: no token, login or link of theirs works from now on."""
        return self.change_person(person, disabled=True, by=by)

    def find_person(self, person: str) -> Person | None:
        """Return the person with this id."""
        return self._find(Person, "SELECT body FROM control_people WHERE id = ?", person)

    def find_person_by_subject(self, subject: str) -> Person | None:
        """Return the person with this issuer and subject of OIDC."""
        return self._find(Person, "SELECT body FROM control_people WHERE subject = ?", subject)

    def find_person_by_email(self, email: str) -> Person | None:
        """Return the person with this address; None if several have it."""
        found = self._list(Person, "SELECT body FROM control_people WHERE email = ?", email)
        return found[0] if len(found) == 1 else None

    def list_people(self) -> tuple[Person, ...]:
        """Return all people, by id."""
        return self._list(Person, "SELECT body FROM control_people ORDER BY id")

    # Tokens

    def add_token(
        self,
        person: str,
        label: str,
        *,
        scopes: Iterable[Scope] = (Scope.ASK, Scope.READ),
        tables: Iterable[str] | None = None,
        accounts: dict[str, str] | None = None,
        expires: float | None = None,
        by: str | None = None,
        epsilon: str | None = None,
    ) -> tuple[Token, str]:
        """Make a token. Returns it and its secret, which cannot be shown again. `epsilon` is that of its accounts, for the
        trail.

        Raises:
            BadParameter: if there is no such person.
        """
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        token = Token(
            id=new_id(), person=person, digest=digest_secret(secret), label=label, scopes=tuple(scopes),
            created=self._clock(), tables=None if tables is None else tuple(tables), accounts=accounts or {},
            expires=expires,
        )  # fmt: skip
        with self._write() as transaction:
            _require_person(transaction, person)
            transaction.run(
                "INSERT INTO control_tokens (id, person, digest, body) VALUES (?, ?, ?, ?)",
                token.id, person, token.digest, encode(token),
            )  # fmt: skip
            stated = {} if epsilon is None else {"epsilon": epsilon}
            self._record(transaction, by, "add token", token.id, person=person, label=label, scopes=token.scopes, **stated)
        return token, secret

    def find_token(self, secret: str) -> Token | None:
        """Return the token with this secret, if it may be used: not revoked, not expired, its person not disabled."""
        now, digest = self._clock(), digest_secret(secret)
        token = self._find(Token, f"SELECT t.body FROM control_tokens t {_ENABLED} t.digest = ?", digest)
        if token is None or token.revoked is not None or (token.expires is not None and token.expires <= now):
            return None
        if token.last_used is None or now - token.last_used >= LAST_USED_SECONDS:
            token = self._change_token(token.id, last_used=now)
        return None if token is None or token.revoked is not None else token

    def find_token_by_id(self, token: str) -> Token | None:
        """Return the token with this id, whether it may be used or not."""
        return self._find(Token, "SELECT body FROM control_tokens WHERE id = ?", token)

    def set_token_account(self, token: str, population: str, account: str, *, by: str | None = None) -> Token | None:
        """State which account a token asks from, once a worker has opened it."""
        found = self.find_token_by_id(token)
        accounts = {**(found.accounts if found else {}), population: account}
        return self._change_token(token, by, "set account of token", accounts=accounts)

    def revoke_token(self, token: str, *, by: str | None = None) -> Token | None:
        """Make a token unusable from the next request on."""
        return self._change_token(token, by, "revoke token", revoked=self._clock())

    def list_tokens(self, person: str | None = None) -> tuple[Token, ...]:
        """Return the tokens of a person, or of all, newest first."""
        if person is None:
            return self._list(Token, "SELECT body FROM control_tokens ORDER BY number DESC")
        return self._list(Token, "SELECT body FROM control_tokens WHERE person = ? ORDER BY number DESC", person)

    def _change_token(self, token: str, by: str | None = None, action: str = "", **fields: object) -> Token | None:
        with self._write(durable="last_used" not in fields) as transaction:
            found = find(transaction, Token, "SELECT body FROM control_tokens WHERE id = ?{lock}", token)
            if found is None or (found.revoked is not None and "revoked" in fields):
                return found
            changed = msgspec.structs.replace(found, **fields)
            transaction.run("UPDATE control_tokens SET body = ? WHERE id = ?", encode(changed), token)
            self._record(transaction, by, action, token, person=found.person)
        return changed

    # Links and logins

    def add_link(self, person: str, *, seconds: float = 600.0, by: str | None = None) -> str:
        """Make a link that signs a person in once, within `seconds`. Returns its secret."""
        secret = secrets.token_urlsafe(32)
        link = Link(digest=digest_secret(secret), person=person, expires=self._clock() + seconds)
        with self._write() as transaction:
            _require_person(transaction, person)
            transaction.run("DELETE FROM control_links WHERE expires < ?", self._clock() - 86400)
            transaction.run(
                "INSERT INTO control_links (digest, person, expires, body) VALUES (?, ?, ?, ?)",
                link.digest, person, link.expires, encode(link),
            )  # fmt: skip
            self._record(transaction, by, "add link", person)
        return secret

    def use_link(self, secret: str) -> Person | None:
        """Use a link up. Returns whom it signs in; None if it is unknown, used, expired, or its person is disabled."""
        now = self._clock()
        with self._write() as transaction:
            link = find(transaction, Link, "SELECT body FROM control_links WHERE digest = ?{lock}", digest_secret(secret))
            if link is None or link.used is not None or link.expires <= now:
                return None
            used = msgspec.structs.replace(link, used=now)
            transaction.run("UPDATE control_links SET body = ? WHERE digest = ?", encode(used), link.digest)
            person = find(transaction, Person, "SELECT body FROM control_people WHERE id = ?", link.person)
            if person is None or person.disabled:
                return None
            self._record(transaction, person.id, "sign in by link", person.id)
        return person

    def add_login(self, person: str, *, seconds: float = 8 * 3600.0) -> tuple[Login, str]:
        """Sign a browser in. Returns the login and the secret of its cookie."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        login = Login(
            digest=digest_secret(secret), person=person, csrf=secrets.token_urlsafe(32), created=now, expires=now + seconds
        )
        with self._write() as transaction:
            _require_person(transaction, person)
            transaction.run("DELETE FROM control_logins WHERE expires < ?", now)
            transaction.run(
                "INSERT INTO control_logins (digest, person, expires, body) VALUES (?, ?, ?, ?)",
                login.digest, person, login.expires, encode(login),
            )  # fmt: skip
        return login, secret

    def find_login(self, secret: str, *, seconds: float | None = None) -> Login | None:
        """Return the login with this secret, if it has not expired and its person is not disabled.

        `seconds` prolongs it: it then ends that long after its last use, written at most once a minute.
        """
        now, digest = self._clock(), digest_secret(secret)
        login = self._find(Login, f"SELECT t.body FROM control_logins t {_ENABLED} t.digest = ?", digest)
        if login is None or login.expires <= now:
            return None
        if seconds is not None and now + seconds - login.expires >= LAST_USED_SECONDS:
            with self._write(durable=False) as transaction:
                row = transaction.run("SELECT body FROM control_logins WHERE digest = ?{lock}", digest).fetchone()
                if row is None:
                    return None
                login = msgspec.structs.replace(decode(Login, row[0]), expires=now + seconds)
                transaction.run(
                    "UPDATE control_logins SET expires = ?, body = ? WHERE digest = ?", login.expires, encode(login), digest
                )
        return login

    def end_login(self, secret: str) -> None:
        """Sign a browser out."""
        with self._write() as transaction:
            transaction.run("DELETE FROM control_logins WHERE digest = ?", digest_secret(secret))


_ENABLED = "JOIN control_people p ON p.id = t.person AND p.disabled = 0 WHERE"


def _require_person(transaction: Transaction, person: str) -> None:
    found = find(transaction, Person, "SELECT body FROM control_people WHERE id = ?", person)
    if found is None or found.disabled:
        raise BadParameter("person", repr(person), "there is no such person", "add the person first")
