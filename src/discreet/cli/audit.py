"""`discreet audit`: attack somebody's function and print what it really leaks."""

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import typer

from discreet.auditor.attack import audit
from discreet.auditor.claims import Claim, Domain, Mu, Rho
from discreet.auditor.sampling import load_function
from discreet.cli.output import parse_number, print_line
from discreet.cli.question import show_progress
from discreet.errors import BadParameter
from discreet.paths import read_text
from discreet.units import Neighbours

RELATIONS = {"add-remove": Neighbours.ADD_REMOVE, "replace": Neighbours.REPLACE}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What was typed."""

    function: str
    epsilon: str | None
    delta: str
    rho: str | None
    mu: str | None
    pairs: str | None
    domain: str
    neighbours: str
    confidence: float
    seconds: float
    limit: float
    workers: int
    restart: bool

    @property
    def claim(self) -> Claim:
        """ε and δ, or ρ, or μ."""
        given = [name for name in ("epsilon", "rho", "mu") if getattr(self, name) is not None]
        if len(given) != 1:
            raise BadParameter("claim", " and ".join(given) or "missing", "exactly one is tested", "give --epsilon 1, say")
        if self.rho is not None:
            return Rho(parse_number(self.rho, "rho"))
        if self.mu is not None:
            return Mu(parse_number(self.mu, "mu"))
        return (parse_number(self.epsilon or "", "epsilon"), parse_number(self.delta, "delta"))


def run(request: AuditRequest, *, as_json: bool, grade: bool, report: str | None) -> None:
    """Audit, print, and leave with 1 if the claim is false."""
    sys.path.insert(0, "")
    claim, domain, pairs = request.claim, _parse_domain(request.domain), _read_pairs(request.pairs)
    if request.neighbours not in RELATIONS:
        raise BadParameter("--neighbours", repr(request.neighbours), "unknown", "take add-remove or replace")
    load_function(request.function)  # a mistyped name is told before any process is started
    with show_progress("auditing …") as told:
        outcome = audit(
            request.function, claim, pairs, confidence=request.confidence, seconds=request.seconds, domain=domain,
            relation=RELATIONS[request.neighbours], limit=request.limit, workers=request.workers or os.cpu_count() or 1,
            restart=request.restart, progress=told,
        )  # fmt: skip
    print_line(outcome.to_json() if as_json else outcome.grade() if grade else str(outcome))
    if report is not None:
        outcome.report(report)
    raise typer.Exit(1 if outcome.violation else 0)


def _parse_domain(text: str) -> Domain:
    if text == "any":
        return "any"
    low, colon, high = text.partition(":")
    if not colon:
        raise BadParameter("--domain", repr(text), "not two ends", "write --domain 0:1, or --domain any")
    return float(parse_number(low, "domain")), float(parse_number(high, "domain"))


def _read_pairs(path: str | None) -> list[Any] | None:
    """A JSON list of pairs of inputs: [[[], [1]], [[1, 2], [1, 2, 3]]]."""
    if path is None:
        return None

    def refuse(reason: str) -> BadParameter:
        return BadParameter("--pairs", repr(path), reason, "write [[[], [1]], [[0], [0, 1]]]")

    try:
        read = json.loads(read_text(path, refuse))
    except (json.JSONDecodeError, RecursionError):
        raise refuse("not JSON") from None
    if not isinstance(read, list):
        raise refuse("holds no list")
    return read
