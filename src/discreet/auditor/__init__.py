"""Audits: attacks on mechanisms that certify a lower bound on ε, and deterministic replay of queries.

An audit samples outputs on neighbouring inputs (`sampling`), parses them (`parse_output`, `outputs`), learns what tells the
inputs apart (`scores`), certifies it (`evidence`) and reports a `finding`; `attack` drives the rounds. `claims` says what is
tested, `targets` holds mutants that must be caught, `clients` plays games against clients of local privacy,
`client_checks` adds what a correct client never does, and `replay`
checks sensitivities of queries without sampling.
"""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily
from discreet.auditor.attack import audit
from discreet.auditor.claims import Mu, Pair, RenyiPoint, Rho
from discreet.auditor.finding import Finding

if TYPE_CHECKING:
    from discreet.auditor.client_checks import Check, audit_collection
    from discreet.auditor.clients import (
        CommandPlayer,
        DevicePlayer,
        Game,
        History,
        MechanismPlayer,
        Player,
        audit_client,
        change_one,
        list_games,
        measure_supports,
        recall,
        repeat,
        report_once,
        retry,
    )

# An audit of a function needs nothing of local privacy.
__getattr__, __dir__ = export_lazily(globals(), {
    "discreet.auditor.client_checks": "Check audit_collection",
    "discreet.auditor.clients": (
        "CommandPlayer DevicePlayer Game History MechanismPlayer Player audit_client change_one list_games "
        "measure_supports recall repeat report_once retry"
    ),
})  # fmt: skip

__all__ = [
    "Check",
    "CommandPlayer",
    "DevicePlayer",
    "Finding",
    "Game",
    "History",
    "MechanismPlayer",
    "Mu",
    "Pair",
    "Player",
    "RenyiPoint",
    "Rho",
    "audit",
    "audit_client",
    "audit_collection",
    "change_one",
    "list_games",
    "measure_supports",
    "recall",
    "repeat",
    "report_once",
    "retry",
]
