"""The signed head: how long the chain is and how it ends, to be kept elsewhere.

A chain shows that an entry was edited; it cannot show that the whole file was put back to an earlier day. Against that, keep
the head where whoever can write the ledger cannot: a later ledger must still contain it.
"""

from typing import Any

from discreet.errors import BadParameter
from discreet.ledger.book import Ledger
from discreet.ledger.entry import GENESIS, to_canonical_json
from discreet.ledger.keys import SigningKey, format_fingerprint, is_public_key, verify_signature
from discreet.ledger.rotation import check_signing_key, is_accepted_signer, signing_key

HEAD_FORMAT = "discreet head 1"
_FIELDS = {"format": str, "entries": int, "hash": str, "public_key": str, "signature": str}


def sign_head(ledger: Ledger, key: SigningKey) -> dict[str, Any]:
    """The head of now."""
    check_signing_key(ledger.store, key)
    with ledger.store.read_transaction() as pages:
        number, link = pages.read_last()
    head: dict[str, Any] = {"format": HEAD_FORMAT, "entries": number, "hash": link.hex(), "public_key": key.public}
    return head | {"signature": key.sign(to_canonical_json(head))}


def find_divergence(ledger: Ledger, head: Any, public: str | None = None) -> str | None:
    """Why the ledger is not a continuation of this head; None if it is one. Without a key, the one of the ledger's
    last rotation is taken, or else the head's own; a key counts for those that it replaced later, too."""
    head = read_head(head)
    public = public or signing_key(ledger.store)
    unsigned = {name: value for name, value in head.items() if name != "signature"}
    if not verify_signature(head["public_key"], head["signature"], to_canonical_json(unsigned)):
        return "the head's signature does not hold: it was changed"
    if public is not None and not is_accepted_signer(ledger, public, head["public_key"], head["entries"]):
        used, wanted = format_fingerprint(head["public_key"]), format_fingerprint(public)
        return f"the head was signed with another key ({used}, not {wanted})"
    with ledger.store.read_transaction() as pages:
        last, _ = pages.read_last()
        found = pages.find_hash(head["entries"]) if head["entries"] else GENESIS
    if last < head["entries"]:
        return f"the ledger ends at entry {last}, but entry {head['entries']} was signed: it was rolled back"
    if found is None or found.hex() != head["hash"]:
        return f"entry {head['entries']} is not the one that was signed: this is another history"
    return None


def read_head(head: Any) -> dict[str, Any]:
    """A head, if that is what this is."""
    known = isinstance(head, dict) and {name: type(value) for name, value in head.items()} == _FIELDS
    if not known or head["format"] != HEAD_FORMAT or not head["hash"].isascii() or not is_public_key(head["public_key"]):
        raise BadParameter("head", "this file", "not a signed head", "give what discreet ledger head printed")
    return dict(head)
