"""Many reports at once are those that clients draw."""

from fractions import Fraction
from math import log
from random import Random

import numpy as np
import pytest

from discreet import BadParameter
from discreet.local.bulk import encode_many, select_many
from discreet.local.draws import TapeDraws, draw_all
from discreet.local.oracles import Direct, FixedHashed, Hadamard, Hashed, Projective, SetOracle, Subset, Unary
from discreet.testing import seeded_bits
from tests.support.goodness_of_fit import ALPHA, kl
from tests.support.local_reports import ODDS, ORACLES

TINY: dict[str, SetOracle] = {
    "direct": Direct(5, ODDS),
    "oue": Unary.optimised(4, ODDS),
    "sue": Unary.symmetric(4, Fraction(3, 2)),
    "subset": Subset(5, ODDS, 2),
    "hashed": Hashed(7, ODDS, 3),
    "fixed hashed": FixedHashed(7, ODDS, 3, 4, "salt"),
    "hadamard": Hadamard(6, ODDS),
    "projective": Projective(9, ODDS, 3, 3),
}
LARGE = {
    "projective over two": Projective(7, Fraction(5, 4), 2, 3),
    "projective of a pair": Projective(3, Fraction(3), 2, 2),
    "projective over 53": Projective.optimised(2000, Fraction(52)),
    "projective without tables": Projective(1 << 32, ODDS, 3, 22),
    "hashed without tables": Hashed(1 << 30, ODDS, 3),
    "unary of 70": Unary.optimised(70, ODDS),
    "subset of one": Subset(9, Fraction(3), 1),
}


@pytest.mark.parametrize("name", [*ORACLES, *LARGE])
def test_many_reports_are_those_of_the_client_on_the_same_tape(name: str) -> None:
    oracle, random = (ORACLES | LARGE)[name], Random(name)
    values = [random.randrange(oracle.values) for _ in range(60)] + [0, oracle.values - 1]
    tapes = [random.randbytes(64 * len(oracle.moduli)) for _ in values]
    drawn = np.array([draw_all(TapeDraws(tape), oracle.moduli) for tape in tapes]).T
    columns = select_many(oracle, values, list(drawn))
    reports = list(zip(*(columns[field.name].tolist() for field in oracle.fields), strict=True))
    assert reports == [oracle.draw(value, TapeDraws(tape)) for value, tape in zip(values, tapes, strict=True)]


def find_wrong_chances(oracle: SetOracle, value: int, people: int, seed: int) -> list[str]:
    """Return which reports, and which supports, are too frequent or too rare for the exact distribution."""
    columns = encode_many(oracle, np.full(people, value), seeded_bits(seed))
    drawn, times = np.unique(np.stack(list(columns.values()), axis=1), axis=0, return_counts=True)
    found = {tuple(report): int(count) for report, count in zip(drawn.tolist(), times, strict=True)}
    exact = {report: oracle.probability(report, base, value) for report, base in oracle.base_reports()}
    if not found.keys() <= exact.keys() or sum(exact.values()) != 1:
        return ["reports that no client sends"]
    shares = {str(report): (found.get(report, 0) / people, p) for report, p in exact.items()}
    for other in range(oracle.values):
        inside = [report for report in exact if oracle.supports(report, other)]
        shares[f"supports {other}"] = (
            sum(found.get(report, 0) for report in inside) / people, sum((exact[report] for report in inside), Fraction(0)),
        )  # fmt: skip
    limit = log(2 * len(shares) / ALPHA)
    return [name for name, (share, p) in shares.items() if people * kl(min(share, 1.0), float(p)) > limit]


@pytest.mark.parametrize("name", TINY)
def test_many_reports_have_the_exact_distribution(name: str) -> None:
    oracle = TINY[name]
    assert find_wrong_chances(oracle, 1, 200_000, 7) == []


def test_the_test_of_the_distribution_notices_odds_that_are_a_twentieth_off() -> None:
    class Wrong(Direct, frozen=True):
        """Says that its odds are larger than those it draws with."""

        def probability(self, report: tuple[int, ...], base: Fraction, value: int) -> Fraction:
            return Direct(self.values, self.odds * Fraction(21, 20)).probability(report, base, value)

    assert find_wrong_chances(Wrong(5, ODDS), 1, 200_000, 7)


def test_coins_of_16_bits_are_exact_between_two_multiples() -> None:
    oracle = Unary(2, Fraction(3), Fraction(1, 1 << 18))  # a quarter of the smallest step
    ones = sum(int((encode_many(oracle, np.zeros(1 << 19, np.int64), seeded_bits(i))["w0"] >> 1).sum()) for i in range(8))
    expected = 16
    assert 1 <= ones <= 60, f"{ones} instead of about {expected}"  # Poisson: below 1e-6 each, and the bits are seeded


@pytest.mark.parametrize("values", [[0, 7], [-1, 2], [0.5], ["a"], [None], [[1, 2]], [True, False]], ids=repr)
def test_values_that_are_none_are_refused(values: list[object]) -> None:
    with pytest.raises(BadParameter, match="values"):
        encode_many(Direct(7, ODDS), values)


def test_nobody_sends_nothing() -> None:
    for oracle in ORACLES.values():
        assert {len(column) for column in encode_many(oracle, []).values()} == {0}
