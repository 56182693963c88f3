"""Find what an engine cannot decode before any analyst asks.

A row on which the engine raises would be found by bisection at almost no cost: whether a question fails tells whether the
row is among those that it reads. So every declared column of a source that could fail is read once when the source is
opened, and the source is refused if a cell cannot be read. What passed is remembered in the owner's state, by a hash of what
the rows are known by, so that it is paid for once; nothing of it is in a ledger, an answer or a certificate.
"""

import os
from collections.abc import Callable, Collection
from hashlib import sha256
from pathlib import Path

from discreet.engines.engine import Engine
from discreet.engines.owner import owner_log
from discreet.errors import LedgerUnavailable

VALIDATION_VERSION = 1
"""Of the rules. What passed older ones is validated again."""


def validate_source(engine: Engine, columns: Collection[str], state_folder: Callable[[], Path]) -> None:
    """Refuse a source with cells that cannot be read in these columns. `state` finds the folder of the owner's state."""
    fingerprint = engine.compute_fingerprint(columns)
    if fingerprint is None:
        return
    passed = None
    if fingerprint.digest is not None:
        known = sha256(repr((VALIDATION_VERSION, engine.identity, sorted(columns), fingerprint.digest)).encode()).hexdigest()
        passed = _mark(state_folder, known)
    if passed is not None and os.path.exists(passed):
        return
    engine.probe(columns)
    if passed is not None:
        _remember(passed)


def _mark(state: Callable[[], Path], known: str) -> Path | None:
    """The file that says that a source passed. Without a folder for it, the source is validated each time it is opened:
    only failures need a place that lasts, and with a ledger that is the ledger."""
    try:
        return state() / "validated" / known
    except LedgerUnavailable as mistake:
        owner_log.warning("%s", mistake)
        return None


def _remember(mark: Path) -> None:
    try:
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch(mode=0o600)
    except OSError as mistake:
        owner_log.warning("%s", mistake)
