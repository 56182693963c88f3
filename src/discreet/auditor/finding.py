"""The finding of an audit: in words, as JSON, as a grade, as a page with the trade-off curve."""

from dataclasses import dataclass
from math import exp
from typing import Any

from discreet import formats
from discreet._numbers import format_up
from discreet.auditor.claims import Point
from discreet.auditor.evidence import Evidence
from discreet.errors import BadParameter
from discreet.paths import reason_of


@dataclass(frozen=True, slots=True)
class Finding:
    """The certified result of an audit. All of its bounds hold together with probability `confidence`."""

    violation: bool
    claim: str
    certified_epsilon: float
    delta: float
    claimed_epsilon: float  # the claim's ε at that δ
    confidence: float
    pair: str
    event: str
    likelier: str  # the input under which the event is likelier
    resolution: float | None  # see `Evidence.compute_resolution`; None where there is a violation
    evidence: Evidence
    points: tuple[Point, ...]
    samples: int
    seconds: float
    failures: tuple[str, ...] = ()  # how calls failed, if none of them returned

    @property
    def _min_detectable(self) -> str:
        return f"{format_up(100 * self.evidence.min_detectable_probability, 2)}%"

    @property
    def _failure(self) -> str:
        if not self.failures:
            return ""
        hint = "Run the function once, and audit it when it returns."
        return f"Every call failed ({', '.join(self.failures)}): no output was tested. {hint} "

    @property
    def not_seen(self) -> tuple[str, ...]:
        """What an audit of this kind and length cannot find."""
        return (
            "other inputs than the pairs that were tried",
            f"a fault that shows in fewer than {self._min_detectable} of the outputs, or only after many calls",
            "a mechanism that recognises the auditor (by its inputs, its process, the number of calls) and adapts to it",
            "side channels: files, network traffic, the duration of a call within its limit",
        )

    def __str__(self) -> str:
        bound = (
            f"ε ≥ {self.certified_epsilon:.4g} at δ = {self.delta:.3g} with confidence {100 * self.confidence:.10g}%, where "
            f"ε = {self.claimed_epsilon:.4g} is claimed"
        )
        event = (
            f"{self.event}, with probability ≥ {self.evidence.p_low:.4g} on {self.likelier} and ≤ "
            f"{self.evidence.q_high:.4g} on the other of {self.pair} ({self.samples:,} outputs, {self.seconds:.1f} s)"
        )
        if self.violation:
            return f"{self._failure}The claim of {self.claim} is false: {bound}. Evidence: {event}."
        return (
            f"{self._failure}No violation of {self.claim} was found: {bound}. Best event: {event}. Resolution: a claim "
            f"{100 * (self.resolution or 0):.3g}% too small would have been found at this event. "
            f"Not tested: {'; '.join(self.not_seen)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what `discreet audit --json` prints."""
        return {
            "violation": self.violation,
            "certified_epsilon": self.certified_epsilon,
            "delta": self.delta,
            "claimed_epsilon": self.claimed_epsilon,
            "claim": self.claim,
            "pair": self.pair,
            "event": self.event,
            "likelier": self.likelier,
            "resolution": self.resolution,
            "not_seen": list(self.not_seen),
            "confidence": self.confidence,
            "samples": self.samples,
            "seconds": self.seconds,
            "failures": list(self.failures),
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return formats.to_json(self.to_dict())

    def grade(self) -> str:
        """Say to a student that the claim passed, or which inputs and outputs refute it."""
        if not self.violation:
            if self.failures:
                return self._failure.strip()
            return (
                f"Passed: {self.claim} was not refuted ({self.samples:,} outputs). This is no proof: other inputs were not "
                f"tried, and a fault that shows in fewer than {self._min_detectable} of the outputs cannot be found with "
                "so many."
            )
        return (
            f"Not private enough. Run it on {self.pair} and count how often {self.event}. On {self.likelier} this has "
            f"probability ≥ {self.evidence.p_low:.4g}, on the other input ≤ {self.evidence.q_high:.4g}; {self.claim} allows "
            f"at most {self.evidence.point.max_probability(self.evidence.q_high):.4g} for the first."
        )

    def report(self, path: str) -> None:
        """Write one page with the claimed trade-off curve and the certified attack; needs the extra `lab`."""
        plt = _load_pyplot(path)
        figure, axes = plt.subplots(figsize=(8, 9))
        figure.subplots_adjust(bottom=0.34, top=0.94)
        false_positives = [k / 400 for k in range(401)]
        false_negatives = [_claimed_trade_off(self.points, alpha) for alpha in false_positives]
        axes.fill_between(false_positives, false_negatives, 1, color="#56B4E9", alpha=0.25)
        axes.plot(false_positives, false_negatives, color="#0072B2", linewidth=2.5, label="claimed: no attack lies below")
        colour = "#D55E00" if self.violation else "#009E73"
        axes.plot(
            [self.evidence.q_high], [1 - self.evidence.p_low], "o", color=colour, label="certified: this attack or better"
        )
        axes.set(xlabel="false-positive rate", ylabel="false-negative rate", xlim=(0, 1), ylim=(0, 1))
        axes.set_title(f"Audit of {self.claim}")
        axes.legend()
        figure.text(0.08, 0.03, _wrap_text(str(self)), fontsize=9, family="sans-serif", va="bottom")
        try:
            figure.savefig(path, dpi=120)
        except (OSError, ValueError) as failed:
            raise BadParameter("report", path, reason_of(failed), "name a .png file in a folder that exists") from None
        finally:
            plt.close(figure)


@dataclass(frozen=True, slots=True)
class Check:
    """Whether something was observed that a correct client or trainer does not do: `problem` says what."""

    name: str
    problem: str = ""
    passed: str = ""  # what was checked

    @property
    def violation(self) -> bool:
        """Whether there is a problem."""
        return bool(self.problem)

    def __str__(self) -> str:
        return f"Refuted: {self.problem}." if self.problem else f"Passed: {self.passed}."

    def grade(self) -> str:
        """Say the same to a student."""
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return what `discreet audit --json` prints."""
        return {"violation": self.violation, "check": self.name, "problem": self.problem, "passed": self.passed}


def _claimed_trade_off(points: tuple[Point, ...], alpha: float) -> float:
    """Return the least false-negative rate that the points allow at a false-positive rate α, in both directions [DRS22]."""
    steep = max(1 - point.delta - exp(point.epsilon) * alpha for point in points)
    flat = max((1 - point.delta - alpha) * exp(-point.epsilon) for point in points)
    return max(0.0, steep, flat)


def _load_pyplot(path: str) -> Any:
    try:
        import matplotlib
    except ImportError:
        raise BadParameter("report", path, "matplotlib is not installed", "pip install 'discreet[lab]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _wrap_text(text: str) -> str:
    from textwrap import fill

    return fill(text.replace("$", r"\$"), 105)
