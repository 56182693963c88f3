"""What every named system shares: fixed draws, steps, wire, and ε that adds up to its events."""

from fractions import Fraction
from math import inf, log

import msgspec
import pytest

from discreet.accounting.currencies import create_budget
from discreet.accounting.lifetime import lifetime_epsilon
from discreet.accounting.pure import pure
from discreet.codec import from_wire, to_wire
from discreet.errors import TheoremNotApplicable
from discreet.events import shuffle
from discreet.local.apple import CountMeanSketch, HadamardCountMeanSketch, SequenceFragmentPuzzle
from discreet.local.draws import MAX_MODULUS, TapeDraws, draw_all
from discreet.local.longitudinal import SAME_PATTERN, LongitudinalOracle, pack_bits, unpack_bits
from discreet.local.numeric import BucketFlip, DuchiMean, OneBitMean, RoundedBit
from discreet.local.rappor import BasicRappor, Rappor
from discreet.local.rappor_unknown import UnknownRappor
from tests.support.local_distributions import total_epsilon

NOISE = Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)
SYSTEMS = [
    OneBitMean(100, Fraction(3)),
    DuchiMean(100, Fraction(3)),
    RoundedBit(24, 6, Fraction(3), Fraction(1, 10)),
    RoundedBit(24, 24, Fraction(3)),
    BucketFlip(40, 36, Fraction(2), Fraction(1, 10)),
    BucketFlip(8, 1, Fraction(2)),
    Rappor(40, 2, 8, *NOISE, "s"),
    Rappor(128, 2, 8, Fraction(1, 2), Fraction(0), Fraction(1), "s"),
    Rappor(16, 2, 8, Fraction(0), *NOISE[1:], "s"),
    BasicRappor.of(5, *NOISE),
    UnknownRappor(4, "_ab", 2, Rappor(32, 2, 4, *NOISE, "s"), BasicRappor.of(9, *NOISE)),
    CountMeanSketch(Fraction(9), 16, 64, "s"),
    HadamardCountMeanSketch(Fraction(9), 16, 64, "s"),
    SequenceFragmentPuzzle(4, "_ab", CountMeanSketch(Fraction(9), 4, 16, "f"), CountMeanSketch(Fraction(9), 4, 16, "w")),
]


def values_of(system):
    return [b"", b"a", b"ab", "é".encode(), b"\xff"] if system.values is None else [0, 1, system.values - 1]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: type(system).__name__)
def test_reports_are_integers_in_range_and_take_the_same_bytes_for_every_value(system):
    used = set()
    for value in values_of(system):
        for start in range(4):
            tape = TapeDraws(bytes((start * 37 + i * 101 + i // 7) % 256 for i in range(20_000)))
            report = system.draw(value, tape)
            used.add((start, tape.consumed))
            assert len(report) == len(system.fields)
            assert all(0 <= number < field.below <= MAX_MODULUS for number, field in zip(report, system.fields, strict=True))
            assert all(isinstance(number, int) for number in report)
    assert len(used) == 4
    assert len({field.name for field in system.fields}) == len(system.fields)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: type(system).__name__)
def test_systems_travel_as_json(system):
    plain = msgspec.json.encode(system, enc_hook=to_wire)
    assert msgspec.json.decode(plain, type=type(system), dec_hook=from_wire) == system


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: type(system).__name__)
def test_epsilon_is_that_of_the_event(system):
    single = system.report_event() if isinstance(system, LongitudinalOracle) else system.event()
    assert total_epsilon(single) == pytest.approx(system.epsilon, rel=1e-12)
    assert float(pure(system.event())) == pytest.approx(system.epsilon, rel=1e-12)


@pytest.mark.parametrize(
    "system", [each for each in SYSTEMS if isinstance(each, LongitudinalOracle)], ids=lambda system: type(system).__name__
)
def test_steps_and_their_events_agree(system):
    device = draw_all(TapeDraws(bytes(range(256)) * 8), system.device_moduli)
    state = system.encode(values_of(system)[0], device)
    assert state == system.encode(values_of(system)[0], device)
    assert all(0 <= number < MAX_MODULUS for number in state)
    life = system.lifetime(3)
    assert life.condition == SAME_PATTERN
    assert life.condition in str(life)
    if system.permanent_odds is None:
        assert life.epsilon == inf
    else:
        assert total_epsilon(system.permanent_event()) == pytest.approx(log(system.permanent_odds))
        assert life.epsilon == pytest.approx(3 * log(system.permanent_odds))
        event = system.memoised_event(reports=30, states=3)
        assert (event.report, event.reports, event.states) == (system.report_event(), 30, 3)
        stated, certified = system.lifetime(3, reports=30), lifetime_epsilon(event)
        assert float(certified.epsilon) == pytest.approx(stated.epsilon)
        assert float(certified.unconditional) == pytest.approx(stated.unconditional)
    fresh = system.instantaneous_event()
    assert (fresh is None) == (system.instantaneous_odds is None) == (system.epsilon_of_reports(30) == inf)
    if fresh is not None:
        assert total_epsilon(fresh) == pytest.approx(log(system.instantaneous_odds))
        assert system.epsilon_of_reports(30) == pytest.approx(30 * log(system.instantaneous_odds))


@pytest.mark.parametrize(
    "system", [each for each in SYSTEMS if isinstance(each, LongitudinalOracle)], ids=lambda system: type(system).__name__
)
def test_reports_of_one_memo_are_not_added_up(system):
    event = system.event()
    if max(system.permanent_moduli) == 1:  # nothing is memoised
        assert pure(365 * event) == 365 * pure(event)
        return
    assert pure(event) == pure(system.report_event())
    for repeated in (lambda: 365 * event, lambda: event + event, lambda: sum([event] * 3), lambda: 2 * shuffle(event, 100)):
        with pytest.raises(TheoremNotApplicable, match="reports=N"):
            repeated()
    assert pure(system.event("one") + system.event("two")) == 2 * pure(event)
    filter_ = create_budget(100, 0)
    with pytest.raises(TheoremNotApplicable, match="reports=N"):
        filter_.charge(event)


def test_a_text_with_permanent_noise_in_one_part_alone_is_marked():
    fresh = Fraction(0), *NOISE[1:]
    system = UnknownRappor(4, "_ab", 2, Rappor(32, 2, 4, *NOISE, "s"), BasicRappor.of(9, *fresh))
    with pytest.raises(TheoremNotApplicable):
        2 * system.event()


def test_bits_are_packed_and_unpacked():
    bits = tuple(int(i % 3 == 0) for i in range(70))
    assert unpack_bits(pack_bits(bits), 70) == bits
