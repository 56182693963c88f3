"""What the owner does on the command line: check a service, accept a policy, invite a person."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from discreet.errors import BadParameter, DiscreetError, LedgerUnavailable
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key
from discreet.query.policy import read_policy, read_public, write_policy
from discreet.query.schema import DEFAULT_SALT
from discreet.serve.config import ServiceConfig, TableConfig
from discreet.serve.control.errors import ControlMissing, ControlUnavailable
from discreet.serve.control.model import Person, Role
from discreet.serve.control.people import check_person_id
from discreet.serve.control.store import open_control
from discreet.serve.embedded import LINK_SECONDS, find_address, is_served
from discreet.serve.schedule import JumpFreeClock, propose_classes
from discreet.serve.worker.populations import read_opened
from discreet.serve.worker.registration import check_salt, read_policy_file, time_pass
from discreet.serve.worker.tables import Tables
from discreet.session.options import SourceOptions
from discreet.session.source import open_source

DEFAULT_ROWS = 100_000
COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was opened, and what is wrong with it."""

    what: str
    problem: str | None = None
    warning: str | None = None  # what can be served as it is, and hardly be asked


def check_service(config: ServiceConfig) -> list[Check]:
    """Open everything that a service needs. Nothing is asked and nothing is made."""

    def check(what: str, run: Callable[[], object]) -> Check:
        try:
            run()
        except DiscreetError as error:
            return Check(what, str(error))
        return Check(what)

    checks = []
    for table in config.tables.values():
        options = SourceOptions(source=table.source, policy=table.policy, table=table.table)
        policy = check(f"policy of {table.name}", partial(_check_policy, table))
        if policy.problem is None:
            policy = replace(policy, warning=_find_unedited(table))
        checks.append(policy)
        if policy.problem is None:
            checks.append(check(f"source of {table.name}", partial(_check_source, options)))
    if _is_new(config):
        made = "ledger, key and control database: made when a worker first starts"
        checks.append(check(made, partial(_check_state, config)))
    else:
        checks.append(check("ledger", lambda: _check_ledger(config)))
        checks.append(check("key", lambda: _check_key(config.key)))
        checks.append(check("control database", lambda: open_control(config.control, create=False).close()))
    if config.oidc is not None:
        checks.append(check("secret of the sign-in", lambda: _check_file(config.oidc.secret_file)))  # type: ignore[union-attr]
    return checks


def _is_new(config: ServiceConfig) -> bool:
    """Whether the databases can be reached and hold nothing of a service yet, and there is no key."""
    try:
        open_ledger(config.ledger).close()
    except LedgerUnavailable as error:
        if error.make_at is None or config.key.exists():
            return False
    else:
        return False
    try:
        open_control(config.control, create=False).close()
    except ControlMissing:
        return True
    except ControlUnavailable:
        pass
    return False


def _check_ledger(config: ServiceConfig) -> None:
    """Whether the ledger opens, and its accounts have the budgets that are stated."""
    ledger = open_ledger(config.ledger)
    try:
        known = {each.name: each for each in ledger.list_accounts()}
    finally:
        ledger.close()
    for population in config.populations.values():
        if population.name in known:
            read_opened(population, known[population.name], f"populations.{population.name}.epsilon")


def _check_policy(table: TableConfig) -> None:
    read_policy(read_policy_file(table), table.policy.name)


def _check_source(options: SourceOptions) -> None:
    check_salt(open_source(options).validate())


def _find_unedited(table: TableConfig) -> str | None:
    """Say that a policy declares neither a bound nor a key: then only counts can be asked."""
    columns = read_policy(read_policy_file(table), table.policy.name).columns.values()
    if any(each.lower is not None or each.keys is not None for each in columns):
        return None
    return (
        f"{table.policy.name} declares neither bounds nor keys, so sums and averages are refused, and groups are shown "
        "only if many units have them. Edit it"
    )


def _check_state(config: ServiceConfig) -> None:
    """Whether the state can be made: the nearest folder that is there can be written."""
    nearest = next(each for each in (config.state, *config.state.parents) if each.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        hint = "allow writing to it, or set DISCREET_STATE to another folder"
        raise BadParameter("state", repr(str(nearest)), "it may not be written", hint)


def _check_key(path: Path) -> None:
    _check_file(path)
    load_key(path)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise BadParameter("file", repr(str(path)), "there is none", "check the path")


def propose_schedules(config: ServiceConfig) -> dict[str, tuple[float, ...]]:
    """Return a schedule for each table, from invented rows of its declared number. No row of a table is read."""
    return {
        table.name: propose_classes(time_pass(read_policy(read_policy_file(table)), table.rows_at_most or DEFAULT_ROWS))
        for table in config.tables.values()
    }


def accept_policy(config: ServiceConfig, table: str, version: int) -> Path:
    """Bring a proposed policy into force: replace the file, and register the table. Returns where the earlier one is kept.

    The salt is never part of a proposal: it stays as it is.
    """
    if table not in config.tables:
        raise BadParameter("table", repr(table), "it is not served", f"take one of: {', '.join(config.tables)}")
    settings = config.tables[table]
    clock = JumpFreeClock()
    with open_control(config.control, create=False, clock=clock.now) as control:
        proposal = control.find_proposal(table, version)
        if proposal is None or proposal.state != "open":
            reason = "there is no such proposal" if proposal is None else f"it is {proposal.state}"
            raise BadParameter("version", version, reason, "see the policy page of the table")
        before = read_policy(read_policy_file(settings))
        proposed = read_policy(proposal.policy)
        if proposed.salt != DEFAULT_SALT or (proposed.name, proposed.unit) != (before.name, before.unit):
            hint = "decline it; these are changed in the file alone"
            raise BadParameter("version", version, "it changes the salt, the name or the privacy unit", hint)
        kept = settings.policy.with_name(f"{settings.policy.name}.before-{version}")
        kept.write_bytes(settings.policy.read_bytes())
        os.chmod(kept, settings.policy.stat().st_mode & 0o777)
        text = write_policy(replace(proposed, salt=before.salt))
        if before.salt == DEFAULT_SALT:
            text = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("salt = "))
        public = read_public(read_policy_file(settings))  # no part of a proposal: paths are the owner's
        if public:
            lines = [f"{json.dumps(name)} = {json.dumps(path)}\n" for name, path in public.items()]
            text = "".join([text, "\n[public]\n", *lines])
        draft = settings.policy.with_name(f".{settings.policy.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        os.chmod(draft, settings.policy.stat().st_mode & 0o777)
        os.replace(draft, settings.policy)
        try:
            tables = Tables(config, control, clock)
            tables.open_table(table)
        except DiscreetError:
            os.replace(kept, settings.policy)
            raise
        control.decide_proposal(table, version, "accepted", by=COMMAND_LINE)
    return kept


@dataclass(frozen=True, slots=True)
class Invited:
    """A person who can sign in, and the link for it."""

    person: Person
    link: str
    is_new: bool
    is_running: bool | None  # None: that cannot be seen from here


def invite_person(config: ServiceConfig, person: str, role: str | None = None) -> Invited:
    """Add a person if new, make a steward of one who is to be, and return a link that signs them in once. A new person is
    an analyst unless another role is given.

    Raises:
        BadParameter: if the name or the role is none, or the person is known and has another role.
    """
    check_person_id(person, "person")
    try:
        wanted = None if role is None else Role(role)
    except ValueError:
        names = ", ".join(each.value for each in Role)
        raise BadParameter("role", repr(role), "there is no such role", f"take one of: {names}") from None
    with open_control(config.control, create=False, clock=JumpFreeClock().now) as control:
        found = control.find_person(person)
        is_new = found is None
        if found is None:
            found = control.add_person(Person(id=person, name=person, role=wanted or Role.ANALYST), by=COMMAND_LINE)
        elif found.disabled:
            hint = "unblock them on the page of people first"
            raise BadParameter("person", repr(person), "they are blocked, and no link lets them in", hint)
        elif wanted is Role.STEWARD and found.role is not wanted:
            found = control.change_person(person, role=wanted, by=COMMAND_LINE)
        elif wanted is not None and found.role is not wanted:
            hint = "leave it out for a link, or change the role on the page of people"
            raise BadParameter("role", repr(wanted.value), f"{person} is known, and has the role {found.role.value}", hint)
        secret = control.add_link(person, seconds=LINK_SECONDS, by=COMMAND_LINE)
        link = f"{find_address(config, control)}/in?once={secret}"
        return Invited(found, link, is_new, is_served(config.state) if config.embedded else None)
