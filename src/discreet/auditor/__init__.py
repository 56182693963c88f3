"""Audits: attacks on mechanisms that certify a lower bound on ε, and deterministic replay of queries.

An audit samples outputs on neighbouring inputs (`sampling`), parses them (`parse_output`, `outputs`), learns what tells the
inputs apart (`scores`), certifies it (`evidence`) and reports a `finding`; `attack` drives the rounds. `claims` says what is
tested, `targets` holds mutants that must be caught, `clients` plays games against clients of local privacy,
`client_checks` adds what a correct client never does, and `replay` checks sensitivities of queries without sampling.
`training` audits DP-SGD and fitted models: by replay (`training_replay`, `trainer_replay`), by the law of its batches
(`sampler_law`), by canaries, and in one run (`one_run`); `training_targets` has its mutants.
"""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily
from discreet.auditor.attack import audit
from discreet.auditor.claims import Mu, Pair, RenyiPoint, Rho
from discreet.auditor.finding import Check, Finding

if TYPE_CHECKING:
    from discreet.auditor.client_checks import audit_collection
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
    from discreet.auditor.one_run import OneRun, bound_right_guesses, certify_one_run
    from discreet.auditor.sampler_law import check_batches
    from discreet.auditor.training import CanaryGame, TrainingClaim, audit_training

# An audit of a function needs nothing of local privacy or of training.
__getattr__, __dir__ = export_lazily(globals(), {
    "discreet.auditor.client_checks": "audit_collection",
    "discreet.auditor.clients": (
        "CommandPlayer DevicePlayer Game History MechanismPlayer Player audit_client change_one list_games "
        "measure_supports recall repeat report_once retry"
    ),
    "discreet.auditor.one_run": "OneRun bound_right_guesses certify_one_run",
    "discreet.auditor.sampler_law": "check_batches",
    "discreet.auditor.training": "CanaryGame TrainingClaim audit_training",
})  # fmt: skip

__all__ = [
    "CanaryGame",
    "Check",
    "CommandPlayer",
    "DevicePlayer",
    "Finding",
    "Game",
    "History",
    "MechanismPlayer",
    "Mu",
    "OneRun",
    "Pair",
    "Player",
    "RenyiPoint",
    "Rho",
    "TrainingClaim",
    "audit",
    "audit_client",
    "audit_collection",
    "audit_training",
    "bound_right_guesses",
    "certify_one_run",
    "change_one",
    "check_batches",
    "list_games",
    "measure_supports",
    "recall",
    "repeat",
    "report_once",
    "retry",
]
