"""`discreet ledger open`, `check` and `head`."""

import json
from pathlib import Path
from typing import Any

from discreet._numbers import format_down
from discreet.accounting.currencies import currency_name, parse_currency
from discreet.cli.output import parse_number, print_json, print_line
from discreet.errors import BadParameter
from discreet.ledger import open_ledger
from discreet.ledger.account import AccountState
from discreet.ledger.check import check_ledger as recompute
from discreet.ledger.keys import default_key_path, format_fingerprint, load_key, read_public_key, rotate_key
from discreet.ledger.verify import find_divergence, sign_head
from discreet.paths import is_postgres


def open_account(
    place: str, account: str, epsilon: str, delta: str, currency: str | None, parent: str | None, *, as_json: bool
) -> None:
    """Open an account, and the ledger if there is none."""
    kept = None if currency is None else parse_currency(currency)
    promise = parse_number(epsilon, "epsilon"), parse_number(delta, "delta")
    AccountState.open(account, *promise, kept)  # what can be refused is refused before a file is made
    made = open_ledger(place, create=True).open_account(account, *promise, kept, parent).initial_state
    unit = currency_name(made.budget.currency)
    if as_json:
        print_json(
            {
                "account": made.name,
                "currency": unit,
                "limit": float(made.budget.limit),
                "reserved": float(made.budget.delta_limit),
            }
        )
        return
    print_line(f"account {made.name}: {format_down(made.budget.limit, 6)} of {unit}, for life")
    if made.budget.delta_limit:
        print_line(f"δ = {format_down(made.budget.delta_limit, 3)} of it is reserved for selections and claims")


def check_ledger(place: str, head: str | None, key: str | None, *, as_json: bool) -> bool:
    """Recompute everything; with a head, also that the ledger continues it. Whether all of it holds."""
    ledger = open_ledger(place)
    report = recompute(ledger)
    problem = report.problem
    if problem is None and head is not None:
        problem = find_divergence(ledger, read_json(head, "--head"), None if key is None else read_public_key(key))
    if as_json:
        print_json(
            {
                "holds": problem is None,
                "entries": report.entries,
                "hash": report.hash,
                "unanswered": list(report.unanswered),
                "quarantined": list(report.quarantined),
                "problem": problem,
            }
        )
        return problem is None
    if problem is not None:
        print_line(f"BROKEN: {problem}")
        return False
    names = ", ".join(account.name for account in report.accounts) or "none"
    print_line(f"{report.entries} entries hold together; accounts: {names}")
    if head is not None:
        print_line("the ledger continues the signed head")
    for id in report.unanswered:
        print_line(f"paid for and not answered: {id} (a crash, or still under way; asking again with this id costs nothing)")
    for source in report.quarantined:
        print_line(f"Quarantined: {source!r} (a query on it failed; see discreet source list)")
    return True


def print_head(place: str, key: str | None) -> None:
    """Print the signed head. It is JSON in any case: it is meant to be kept in a file."""
    ledger = open_ledger(place)
    print_json(sign_head(ledger, load_key(resolve_key_path(place, key))))


def print_public_key(place: str, key: str | None) -> None:
    """Print the public key and its fingerprint."""
    found = load_key(resolve_key_path(place, key)).public
    print_json({"public_key": found, "fingerprint": format_fingerprint(found)})


def rotate(place: str, key: str | None, *, as_json: bool) -> None:
    """Replace the ledger's key and print both public keys."""
    made = rotate_key(open_ledger(place), resolve_key_path(place, key))
    if as_json:
        print_json({"old": made.old, "new": made.new, "entry": made.entry})
        return
    print_line(f"The ledger signs with a new key from entry {made.entry} on. Give its public key to your readers:")
    print_line(f"  new: {made.new} ({format_fingerprint(made.new)})")
    print_line(f"  old: {made.old} ({format_fingerprint(made.old)})")
    print_line("Earlier certificates and heads verify with the old public key, or with the new one and --ledger.")


def resolve_key_path(place: str, key: str | None) -> Path:
    """Where the ledger's secret key is."""
    if key is not None:
        return Path(key)
    if is_postgres(place):
        raise BadParameter("--key", "missing", "a database keeps no key file beside it", "name a file for the ledger's key")
    return default_key_path(place)


def read_json(path: str, name: str) -> Any:
    """A JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadParameter(name, path, f"cannot be read ({error.strerror})", "name a file that can") from None
    except (ValueError, RecursionError):
        raise BadParameter(name, path, "not JSON", "give the file as it was written") from None
