"""What again.py does: the publication beside it once more, signed with the key that signed it, and with no other."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from discreet.errors import BadParameter, DiscreetError
from discreet.ledger.keys import key_at
from discreet.publisher.publication import key_place, publish
from discreet.publisher.read import read_plan
from discreet.text import printable

USAGE = (
    "usage: python again.py FOLDER [KEY]\n"
    "FOLDER is where the paths in plan.toml start from; KEY is the file of the ledger's key, if it is not beside the ledger."
)


def again(published: Path, arguments: Sequence[str]) -> None:
    """Publish the plan in this folder into a new one, `again`; a mistake is one line."""
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        sys.exit(USAGE)
    try:
        workload = read_plan(published / "plan.toml", beside=arguments[0])
        key = None if workload.ledger is None else _known_key(published, key_place(workload.ledger, *arguments[1:]))
        made = publish(workload, "again", key=key)
    except DiscreetError as refused:
        sys.exit(f"{refused}\n{USAGE}")
    print(printable(str(made.folder)))


def _known_key(published: Path, place: Path) -> Path:
    """The key, which is there and is the one of the certificate: what another signs looks like a forgery."""
    if not place.is_file():
        raise BadParameter("KEY", str(place), "there is no key, and none is made here", "name the file of the ledger's key")
    certificate = published / "release.json"
    if certificate.is_file():
        signer = json.loads(certificate.read_text(encoding="utf-8"))["public_key"]
        if key_at(place).public != signer:
            raise BadParameter("KEY", str(place), "release.json was signed with another", "name the file of that key")
    return place
