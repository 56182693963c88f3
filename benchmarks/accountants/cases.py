"""The accounting cases that everybody answers: parts, δ, and the true ε where it is known."""

from math import sqrt
from typing import NamedTuple


class Part(NamedTuple):
    """A law with sensitivity 1, how often it ran, and the rate of the Poisson sample that it ran on."""

    law: str  # gaussian (width σ), laplace (width = scale), response (width = ε)
    width: float
    times: int
    rate: float = 1.0


class Case(NamedTuple):
    name: str
    parts: tuple[Part, ...]
    delta: float
    truth: float | None  # ε, exact to the digits shown in docs; None where nobody has it in closed form

    def expression(self) -> str:
        """The same ledger in discreet's language."""
        names = {"gaussian": "gaussian(sigma={})", "laplace": "laplace(scale={})", "response": "response(epsilon={})"}
        terms = []
        for part in self.parts:
            one = names[part.law].format(repr(part.width))
            terms.append(f"{part.times}*{one}" if part.rate == 1 else f"{part.times}*subsampled({one}, rate={part.rate!r})")
        return " + ".join(terms)


def _different_gaussians(count: int) -> tuple[Part, ...]:
    return tuple(Part("gaussian", 50 + 0.5 * i, 1) for i in range(count))


def _different_mixture(count: int) -> tuple[Part, ...]:
    laws = ("gaussian", "laplace")
    return tuple(Part(laws[i % 2], 60 + 0.25 * i, 1 + i % 3) for i in range(count))


CASES = (
    Case("10⁴ Gaussians, σ = 1000, δ = 1e-6", (Part("gaussian", 1000.0, 10_000),), 1e-6, 0.3968573776440836),
    Case("100 Gaussians, σ = 200, δ = 1e-5", (Part("gaussian", 200.0, 100),), 1e-5, 0.16004203445813212),
    Case("500 Gaussians, σ = 200, δ = 1e-5", (Part("gaussian", 200.0, 500),), 1e-5, 0.3846923540510616),
    Case("1,000 responses, ε = 0.05, δ = 1e-6", (Part("response", 0.05, 1000),), 1e-6, 8.283573346016258),
    Case("500 responses, ε = 1, δ = 1e-5", (Part("response", 1.0, 500),), 1e-5, 311.767604639710743),
    Case("30 Laplace, scale √30, δ = 1e-6", (Part("laplace", sqrt(30), 30),), 1e-6, 4.362985903),
    Case("1,000 Laplace, scale √1000, δ = 1e-6", (Part("laplace", sqrt(1000), 1000),), 1e-6, 4.847031697),
    Case("10⁴ sampled Gaussians, σ = 1, rate 0.01, δ = 1e-5", (Part("gaussian", 1.0, 10_000, 0.01),), 1e-5, 6.18771239),
    Case("200 different Gaussians, δ = 1e-6", _different_gaussians(200), 1e-6, 0.67333256198),
    Case("250 different Gaussians and Laplace, δ = 1e-6", _different_mixture(250), 1e-6, None),
    Case("500 Gaussians, σ = 200, δ = 1e-15", (Part("gaussian", 200.0, 500),), 1e-15, 0.83330225236),
)
"""The reference rows of FACTS, and three that break some accountants."""
