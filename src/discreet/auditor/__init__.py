"""Attack a mechanism and certify what it really leaks: the game (neighbours, answers, events) and the evidence."""

from discreet.auditor.attack import audit
from discreet.auditor.claims import Mu, RenyiPoint, Rho
from discreet.auditor.finding import Finding
from discreet.auditor.sampling import Pair

__all__ = ["Finding", "Mu", "Pair", "RenyiPoint", "Rho", "audit"]
