"""What an audit found: in words, as JSON, as one page with a picture."""

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
    """The certified outcome of an audit. All that it states holds together with probability `confidence`."""

    violation: bool
    claim: str
    certified_epsilon: float
    delta: float
    claimed_epsilon: float  # the claim's ε at that δ
    confidence: float
    pair: str
    event: str
    likelier: str  # the input under which the event is likelier
    resolution: float | None  # None where there is a violation
    evidence: Evidence
    points: tuple[Point, ...]
    samples: int
    seconds: float

    @property
    def _min_detectable(self) -> str:
        return f"{format_up(100 * self.evidence.min_detectable_probability, 2)}%"

    @property
    def not_seen(self) -> tuple[str, ...]:
        """What no audit of this kind and length can find."""
        return (
            "other inputs than the pairs that were tried",
            f"a fault that shows in fewer than {self._min_detectable} of the answers, or only after many calls",
            "a mechanism that recognises the auditor (its inputs, its process, the number of calls) and behaves meanwhile",
            "what is not in the answer: files, network traffic, the duration of a call within its limit",
        )

    def __str__(self) -> str:
        seen = self.evidence
        counted = (
            f"{self.event}: at least {seen.p_low:.4g} given {self.likelier}, at most {seen.q_high:.4g} given the other of "
            f"{self.pair}"
        )
        cost = f"({self.confidence:.7g} sure; {self.samples:,} answers, {self.seconds:.1f} s)"
        if self.violation:
            return (
                f"The claim of {self.claim} is false: ε is at least {self.certified_epsilon:.4g} at δ = {self.delta:.3g}, "
                f"where {self.claimed_epsilon:.4g} is claimed. {counted} {cost}."
            )
        return (
            f"Nothing found against {self.claim}: ε is at least {self.certified_epsilon:.4g} at δ = {self.delta:.3g}, where "
            f"{self.claimed_epsilon:.4g} is claimed; a leak {100 * (self.resolution or 0):.3g}% short of it at the best "
            f"event would have been seen. Best event: {counted} {cost}. Not seen: {'; '.join(self.not_seen)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """What `discreet audit --json` prints."""
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
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return formats.to_json(self.to_dict())

    def grade(self) -> str:
        """For a student: passed, or the two inputs and the event that break it."""
        if not self.violation:
            return (
                f"Passed: {self.claim} could not be refuted ({self.samples:,} answers). This is no proof: other inputs were "
                f"not tried, and a fault that shows in fewer than {self._min_detectable} of the answers cannot be "
                "seen with so many."
            )
        return (
            f"Not private enough. Run it on {self.pair} and watch for this: {self.event}. Given {self.likelier} it happens "
            f"with probability at least {self.evidence.p_low:.4g}, given the other with at most {self.evidence.q_high:.4g}; "
            f"with {self.claim} the first could be at most "
            f"{self.evidence.point.max_probability(self.evidence.q_high):.4g}."
        )

    def report(self, path: str) -> None:
        """One page with the trade-off curve that is claimed and what is certified; needs the extra `plot`."""
        plt = _load_pyplot(path)
        figure, axes = plt.subplots(figsize=(8, 9))
        figure.subplots_adjust(bottom=0.34, top=0.94)
        alarms = [k / 400 for k in range(401)]
        misses = [_claimed_trade_off(self.points, alpha) for alpha in alarms]
        axes.fill_between(alarms, misses, 1, color="#56B4E9", alpha=0.25)
        axes.plot(alarms, misses, color="#0072B2", linewidth=2.5, label="claimed: no attack lies below")
        colour = "#D55E00" if self.violation else "#009E73"
        axes.plot(
            [self.evidence.q_high], [1 - self.evidence.p_low], "o", color=colour, label="certified: this attack, or better"
        )
        axes.set(xlabel="false alarms", ylabel="misses", xlim=(0, 1), ylim=(0, 1), title=f"Audit of {self.claim}")
        axes.legend()
        figure.text(0.08, 0.03, _wrap_text(str(self)), fontsize=9, family="sans-serif", va="bottom")
        try:
            figure.savefig(path, dpi=120)
        except (OSError, ValueError) as failed:
            raise BadParameter("report", path, reason_of(failed), "name a .png file in a folder that exists") from None
        finally:
            plt.close(figure)


def _claimed_trade_off(points: tuple[Point, ...], alpha: float) -> float:
    """The least share of misses that the points allow at this share of false alarms, in both directions [DRS22]."""
    steep = max(1 - point.delta - exp(point.epsilon) * alpha for point in points)
    flat = max((1 - point.delta - alpha) * exp(-point.epsilon) for point in points)
    return max(0.0, steep, flat)


def _load_pyplot(path: str) -> Any:
    try:
        import matplotlib
    except ImportError:
        raise BadParameter("report", path, "matplotlib is not installed", "pip install 'discreet[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _wrap_text(text: str) -> str:
    from textwrap import fill

    return fill(text.replace("$", r"\$"), 105)
