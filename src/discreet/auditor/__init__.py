"""Audits: attacks on mechanisms that certify a lower bound on ε, and deterministic replay of queries.

An audit samples outputs on neighbouring inputs (`sampling`), parses them (`parse_output`, `outputs`), learns what tells the
inputs apart (`scores`), certifies it (`evidence`) and reports a `finding`; `attack` drives the rounds. `claims` says what is
tested, `targets` holds mutants that must be caught, `clients` plays games against clients of local privacy, and `replay`
checks sensitivities of queries without sampling.
"""

from discreet.auditor.attack import audit
from discreet.auditor.claims import Mu, Pair, RenyiPoint, Rho
from discreet.auditor.finding import Finding

__all__ = ["Finding", "Mu", "Pair", "RenyiPoint", "Rho", "audit"]
