"""Memoised noise: what holds between any two histories, and what only between histories with the same pattern of changes."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import inf, log

import pytest

from discreet import BadParameter, BudgetExceeded, TheoremNotApplicable, codec, epsilon, lifetime_epsilon, pure, zcdp
from discreet.accounting import basic_composition
from discreet.accounting.currencies import Pure, create_budget
from discreet.accounting.elementary import log_bounds
from discreet.accounting.lifetime import SAME_PATTERN
from discreet.errors import BadEventEncoding
from discreet.events import (
    Claim,
    Composition,
    Event,
    Memoised,
    RandomizedResponseEvent,
    compose,
    group,
    parallel,
    shuffle,
    subsample,
)
from discreet.ledger.account import compute_charge

ONE_BIT = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
"""1BitMean at odds 3 over three grid points: P(memo = 1 | value)."""


def probability(
    history: Sequence[int], outputs: Sequence[int], memo: Sequence[Fraction], fresh: Sequence[Fraction]
) -> Fraction:
    """P(outputs | history) of one bit: memo[v] draws the bit of value v once, fresh[bit] is P(report = 1)."""
    total = Fraction(1)
    for state in set(history):
        ones = sum(o for v, o in zip(history, outputs, strict=True) if v == state)
        zeros = sum(1 - o for v, o in zip(history, outputs, strict=True) if v == state)
        weights = ((1 - memo[state], fresh[0]), (memo[state], fresh[1]))
        total *= sum((weight * p**ones * (1 - p) ** zeros for weight, p in weights), Fraction(0))
    return total


def largest_ratio(
    one: Sequence[int], two: Sequence[int], memo: Sequence[Fraction], fresh: Sequence[Fraction]
) -> Fraction | None:
    """max P(o | one)/P(o | two) over all outputs; None where it is infinite."""
    worst = Fraction(0)
    for outputs in product((0, 1), repeat=len(one)):
        p, q = probability(one, outputs, memo, fresh), probability(two, outputs, memo, fresh)
        if q == 0 and p > 0:
            return None
        worst = max(worst, p / q) if q else worst
    return worst


def same_pattern(one: Sequence[int], two: Sequence[int]) -> bool:
    """Whether the same pairs of times have equal values in both."""
    return len(set(zip(one, two, strict=True))) == len(set(one)) == len(set(two))


def list_pairs(length: int) -> Iterable[tuple[tuple[int, ...], tuple[int, ...]]]:
    histories = list(product(range(3), repeat=length))
    return product(histories, histories)


def make_event(odds: Fraction) -> Event:
    return Claim(log_bounds(odds)[1], Fraction(0))


def test_one_bit_with_memo_alone_tells_a_change_for_certain() -> None:
    """1BitRRPM, odds 3: (0, 0) against (0, 1)."""
    memo, fresh = (Fraction(1, 4), Fraction(3, 4)), (Fraction(0), Fraction(1))
    assert largest_ratio((0, 1), (0, 0), memo, fresh) is None
    coin = RandomizedResponseEvent(Fraction(3, 4), 2)
    event = Memoised(coin, coin, None, reports=2, states=2)
    assert pure(event) == zcdp(event) == inf
    assert epsilon(event, 1e-6).upper == inf
    assert epsilon(event, 1e-6).lower <= log(3)
    assert basic_composition(event).delta == 1
    assert Pure().cost(event) == (0, 1)  # a δ that no account has


def test_between_equal_patterns_the_memo_is_all_that_is_seen() -> None:
    fresh = (Fraction(0), Fraction(1))
    for one, two in list_pairs(3):
        if not same_pattern(one, two):
            continue
        states = len(set(one))
        event = Memoised(make_event(Fraction(3)), make_event(Fraction(3)), None, reports=3, states=states)
        found = lifetime_epsilon(event)
        ratio = largest_ratio(one, two, ONE_BIT, fresh)
        assert ratio is not None
        assert log_bounds(ratio)[0] <= found.epsilon
        assert found.unconditional == inf
    # attained: every state goes from one end of the grid to the other
    assert largest_ratio((0, 2, 0), (2, 0, 2), ONE_BIT, fresh) == 9
    assert largest_ratio((0, 0, 0), (2, 2, 2), ONE_BIT, fresh) == 3


def test_with_fresh_noise_every_pair_of_histories_is_bounded() -> None:
    flip = Fraction(1, 10)
    fresh = (flip, 1 - flip)
    instantaneous = RandomizedResponseEvent(1 - flip, 2)
    event = Memoised(make_event(Fraction(3)), make_event(Fraction(3)), instantaneous, reports=3, states=3)
    bound = pure(event)
    assert float(bound) == pytest.approx(3 * log(9))
    for one, two in list_pairs(3):
        ratio = largest_ratio(one, two, ONE_BIT, fresh)
        assert ratio is not None
        assert log_bounds(ratio)[0] <= bound
        if same_pattern(one, two):
            conditional = lifetime_epsilon(Memoised(event.report, event.permanent, instantaneous, 3, len(set(one))))
            assert log_bounds(ratio)[0] <= conditional.epsilon
    # the mutant: the bound for equal patterns, without its condition
    changed = largest_ratio((0, 1, 0), (0, 0, 0), ONE_BIT, (Fraction(1, 100), Fraction(99, 100)))
    assert changed is not None
    assert log(changed) > 2 * log(3)


# Basic RAPPOR, k = 3 bits and h = 1, f = 1/2, p = 1/2, q = 3/4.

RAPPOR_MEMO = (Fraction(1, 4), Fraction(3, 4))  # a bit that is 0, or 1, before the permanent noise
RAPPOR_FRESH = (Fraction(1, 2), Fraction(3, 4))


def rappor_loss(reports: int) -> float:
    """The largest ln P(o | 0…01…1)/P(o | 2…2), by bits, which are independent, and numbers of ones in both halves."""
    half, total = reports // 2, 0.0
    for bit in range(3):
        worst = Fraction(0)
        for first, second in product(range(half + 1), repeat=2):
            runs = ((int(bit == 0), first, half), (int(bit == 1), second, half))
            changed = Fraction(1)
            for true, ones, times in runs:
                changed *= mix(true, ones, times)
            worst = max(worst, changed / mix(int(bit == 2), first + second, reports))
        total += log(worst)
    return total


def mix(true: int, ones: int, times: int) -> Fraction:
    weight = RAPPOR_MEMO[true]
    low, high = (p**ones * (1 - p) ** (times - ones) for p in RAPPOR_FRESH)
    return (1 - weight) * low + weight * high


@pytest.mark.parametrize(("reports", "published"), [(32, 18.6), (128, 77.0)])
def test_the_loss_of_basic_rappor_grows_with_its_reports(reports: int, published: float) -> None:
    exact = rappor_loss(reports)
    assert exact == pytest.approx(published, abs=0.05)
    one_report = make_event(Fraction(77, 45))
    instantaneous = make_event(Fraction(2) ** 3)  # three bits, each 1 with probability 1/2 or 3/4
    event = Memoised(one_report, make_event(Fraction(9)), instantaneous, reports, states=3)
    assert exact > reports * float(pure(one_report))  # what reports without a memo would cost is no bound
    assert exact > lifetime_epsilon(event).epsilon  # nor is the bound for equal patterns
    assert exact <= float(pure(event))


def test_one_report_is_the_event_of_one_report() -> None:
    coin, flip = RandomizedResponseEvent(Fraction(2, 3), 2), RandomizedResponseEvent(Fraction(9, 10), 2)
    event = Memoised(coin, coin, flip, reports=1, states=2)
    assert event.unconditional == coin
    assert epsilon(event, 1e-6) == epsilon(coin, 1e-6)


def count_ratio_of_two_reports() -> Fraction | None:
    """The largest ratio of two reports of a memoised bit between a history that changes and one that does not."""
    return largest_ratio((0, 1), (0, 0), (Fraction(1, 4), Fraction(3, 4)), (Fraction(0), Fraction(1)))


COIN = RandomizedResponseEvent(Fraction(3, 4), 2)
ONE = Memoised(COIN, COIN, None, reports=1, states=2)


@pytest.mark.parametrize(
    "repeated",
    [
        lambda: 2 * ONE,
        lambda: ONE + ONE,
        lambda: compose(ONE, Memoised(COIN, COIN, COIN, reports=1, states=1)),
        lambda: ONE + Memoised(COIN, COIN, COIN, reports=9, states=1),
        lambda: shuffle(ONE, 100) * 30,
        lambda: subsample(ONE, Fraction(1, 2)) + ONE,
        lambda: group(ONE, 2) + parallel(ONE, COIN),
        lambda: Composition(((ONE, 2),)),
        lambda: codec.decode(b'{"type":"Composition","parts":[[%s,2]]}' % codec.encode(ONE)),
    ],
)
def test_reports_of_one_memo_do_not_compose(repeated: Callable[[], Event]) -> None:
    assert count_ratio_of_two_reports() is None  # so that every finite ε would be false
    with pytest.raises((TheoremNotApplicable, BadEventEncoding)):
        repeated()


def test_reports_of_different_memos_compose() -> None:
    events = [Memoised(COIN, COIN, None, reports=1, states=2, memo=memo) for memo in ("a", "b", "c")]
    assert pure(compose(*events)) == 3 * pure(COIN)
    assert pure(parallel(ONE, ONE)) == pure(COIN)  # a person is in one branch
    assert pure(group(ONE, 3)) == 3 * pure(COIN)  # three people have three memos
    assert float(pure(2 * Memoised(COIN, COIN, COIN, reports=3, states=2))) == pytest.approx(6 * log(3))


def test_no_account_takes_a_single_report_of_a_memo() -> None:
    budget = create_budget(100, 0)
    for event in (ONE, shuffle(ONE, 10), compose(ONE), Memoised(COIN, COIN, None, 1, 2, "a")):
        with pytest.raises(TheoremNotApplicable, match="reports=N"):
            budget.charge(event)
        with pytest.raises(TheoremNotApplicable, match="reports=N"):
            compute_charge(Pure(), event)
    with pytest.raises(BudgetExceeded):
        budget.charge(Memoised(COIN, COIN, None, reports=2, states=2))
    assert budget.charge(Memoised(COIN, COIN, COIN, reports=2, states=2)).spent == 2 * pure(COIN)


def test_a_memo_without_a_label_is_written_as_before() -> None:
    assert b"memo" not in codec.encode(ONE).replace(b"Memoised", b"")
    for event in (ONE, Memoised(COIN, COIN, None, 1, 2, "a")):
        assert codec.decode(codec.encode(event)) == event
    with pytest.raises(BadParameter, match="memo"):
        Memoised(COIN, COIN, None, 1, 2, None)  # type: ignore[arg-type]


def test_the_condition_is_printed_with_the_epsilon() -> None:
    coin = RandomizedResponseEvent(Fraction(3, 4), 2)
    found = lifetime_epsilon(Memoised(coin, coin, coin, reports=100, states=2))
    assert found.condition == SAME_PATTERN
    assert SAME_PATTERN in str(found)
    assert "ε = 2.2 for life" in str(found)
    assert "any other two histories ε = 110" in str(found)


def test_wrong_arguments_are_refused() -> None:
    coin = RandomizedResponseEvent(Fraction(3, 4), 2)
    with pytest.raises(BadParameter, match="nothing is memoised"):
        lifetime_epsilon(coin)  # type: ignore[arg-type]
    for reports, states in ((0, 1), (1, 0)):
        with pytest.raises(BadParameter, match="Memoised"):
            Memoised(coin, coin, None, reports, states)
