"""What again.py does: the publication beside it once more, signed with the key that signed it or with one that
replaced it, and with no other."""

import json
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from discreet.errors import BadParameter, DiscreetError
from discreet.ledger import open_ledger
from discreet.ledger.certificate import read_entries
from discreet.ledger.keys import load_key
from discreet.ledger.rotation import is_accepted_signer
from discreet.paths import exists, read_text
from discreet.publisher.publication import publish, resolve_key_path
from discreet.publisher.read import read_workload
from discreet.text import to_printable

USAGE = (
    "usage: python again.py FOLDER [KEY]\n"
    "FOLDER is where the paths in plan.toml start from; KEY is the file of the ledger's key, if it is not beside the ledger."
)


def reproduce(published: Path, arguments: Sequence[str]) -> None:
    """Publish the plan in this folder into a new one, `again`; a mistake is one line."""
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        sys.exit(USAGE)
    try:
        workload = read_workload(published / "plan.toml", beside=arguments[0])
        key = (
            None
            if workload.ledger is None
            else _require_known_key(published, resolve_key_path(workload.ledger, *arguments[1:]), workload.ledger)
        )
        made = publish(workload, "again", key=key)
    except DiscreetError as refused:
        sys.exit(f"{refused}\n{USAGE}")
    print(to_printable(str(made.folder)))


def _require_known_key(published: Path, path: Path, ledger: "str | PathLike[str]") -> Path:
    """The key, which is there and is the one of the certificate or replaced it: what another signs looks like a forgery."""

    def refuse(reason: str) -> BadParameter:
        return BadParameter("KEY", str(path), reason, "name the file of the ledger's key")

    if not exists(path, refuse):
        raise refuse("there is no key, and none is made here")
    certificate = published / "release.json"

    def unread(reason: str) -> BadParameter:
        return BadParameter("release.json", str(certificate), reason, "allow reading it")

    if exists(certificate, unread):
        stated = json.loads(read_text(certificate, unread))
        if not is_accepted_signer(
            open_ledger(ledger), load_key(path).public, stated["public_key"], read_entries(stated)[1].number
        ):
            raise BadParameter("KEY", str(path), "release.json was signed with another", "name the file of that key")
    return path
