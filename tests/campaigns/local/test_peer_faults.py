"""Faults of other libraries, caught by our auditor in their own environment; false alarms have probability 1e-9.

The environments are those of the benchmarks: benchmarks/.peers, made on first use, which needs the network.
"""

from fractions import Fraction
from pathlib import Path

import pytest
from benchmarks.local import PURE_LDP
from benchmarks.peers import interpreter

from discreet.auditor.clients import CommandPlayer, audit_client, report_once
from discreet.local.collection import Collection, Lifetime
from discreet.local.domains import Integers
from discreet.local.rappor import BasicRappor

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "peer_pure_ldp.py"


def test_pure_ldp_rappor_never_clears_a_bit() -> None:
    """pure-ldp 1.2.0 sends the bit of the value as 1 always: there is no ε, whatever f is."""
    python = interpreter("pure-ldp", PURE_LDP)
    one_time = BasicRappor.of(8, Fraction(1, 2), Fraction(0), Fraction(1))
    collection = Collection("peer", 1, one_time, Integers(0, 7), Lifetime.of(one_time, 100, "once"))
    player = CommandPlayer(collection, [str(python), str(SCRIPT), "client", "0.5", "{collection}"])
    found = audit_client(player, report_once(player, 0, 1), confidence=1 - Fraction(1, 10**9), samples=4_000)
    print(found)
    assert found.violation
