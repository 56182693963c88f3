"""Every mechanism has exactly the distribution and the ε that it states, and its draws do not depend on the value."""

import hmac
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.elementary import log_bounds
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.local.apple import CountMeanSketch
from discreet.local.draws import Draws, KeyedDraws, TapeDraws, below, draw_all
from discreet.local.fields import point_vector
from discreet.local.mechanism import AnyMechanism, draw_report, draw_state, memo_label
from discreet.local.numeric import BucketFlip, OneBitMean, RoundedBit
from discreet.local.oracles import Direct, FixedHashed, Hashed, Projective, SetOracle, Subset, Unary
from discreet.local.rappor import Rappor
from discreet.local.vectors import Seeded, list_laws, list_mechanisms
from tests.support import local_mutants
from tests.support.draw_trees import Recorder, enumerate_law, list_some_values, worst_ratio
from tests.support.local_memo import MemoBit

ORACLES = list_laws()
ALL = [mechanism for mechanisms in list_mechanisms().values() for mechanism in mechanisms]
MEMO = [MemoBit(4, 3, Fraction(3), Fraction(1, 5)), MemoBit(4, 3, Fraction(5, 2))]
SECRET = bytes(range(32))


def name_of_case(mechanism: object) -> str:
    return f"{type(mechanism).__name__}-{getattr(mechanism, 'values', '')}"


def stated_law(oracle: SetOracle, value: int) -> dict[tuple[int, ...], Fraction]:
    return {report: oracle.probability(report, base, value) for report, base in oracle.base_reports()}


def states_its_law(oracle: SetOracle) -> bool:
    return all(enumerate_law(oracle, value) == stated_law(oracle, value) for value in range(oracle.values))


def states_its_epsilon(mechanism: AnyMechanism, values: int) -> bool:
    """Whether the worst ratio of all draws is what the event's pure ε says."""
    worst = worst_ratio([enumerate_law(mechanism, value) for value in range(values)])
    return worst is not None and log_bounds(worst)[1] == pure(mechanism.event())


def states_its_supports(oracle: SetOracle) -> bool:
    """Whether reports support the true value and each other one with the probabilities that decoding divides by."""
    for value in range(oracle.values):
        law = enumerate_law(oracle, value)
        for other in range(oracle.values):
            found = sum((chance for report, chance in law.items() if oracle.supports(report, other)), Fraction(0))
            if found != (oracle.truth_support if other == value else oracle.other_support):
                return False
    return True


@pytest.mark.parametrize("oracle", ORACLES, ids=name_of_case)
def test_all_draws_give_the_stated_rationals(oracle: SetOracle) -> None:
    assert states_its_law(oracle)


@pytest.mark.parametrize("oracle", ORACLES, ids=name_of_case)
def test_epsilon_by_enumeration_is_that_of_the_event(oracle: SetOracle) -> None:
    assert states_its_epsilon(oracle, oracle.values)


@pytest.mark.parametrize("oracle", [each for each in ORACLES if type(each) is not FixedHashed], ids=name_of_case)
def test_supports_have_the_stated_probabilities(oracle: SetOracle) -> None:
    """Not for `FixedHashed`: its functions are few, and the stated probability is an average over salts."""
    assert states_its_supports(oracle)


@pytest.mark.parametrize("mechanism", MEMO, ids=name_of_case)
def test_a_memoising_mechanism_has_the_epsilon_of_its_event(mechanism: MemoBit) -> None:
    assert states_its_epsilon(mechanism, mechanism.values)


@pytest.mark.parametrize("name", ["never clears", "seven-bit thresholds", "float coin"])
def test_a_wrong_mechanism_is_caught_by_its_draws(name: str) -> None:
    mutant = local_mutants.MUTANT_MECHANISMS[name]
    assert isinstance(mutant, SetOracle)
    assert not states_its_law(mutant)


def test_a_biased_hash_is_caught_by_its_supports() -> None:
    mutant = local_mutants.MUTANT_MECHANISMS["modulo-biased hash"]
    assert isinstance(mutant, SetOracle)
    assert states_its_law(mutant)  # it is as private as it says: what it breaks is every estimate
    assert not states_its_supports(mutant)


@pytest.mark.parametrize("name", ["never clears", "seven-bit thresholds", "float coin"])
def test_a_wrong_mechanism_has_another_epsilon(name: str) -> None:
    mutant = local_mutants.MUTANT_MECHANISMS[name]
    assert not states_its_epsilon(mutant, mutant.values or 0)


def test_a_coin_of_doubles_is_off_even_at_53_bits() -> None:
    mutant = local_mutants.FloatCoin(3, Fraction(3, 2))
    assert mutant.keeping != mutant.truth_support


# -- observable draws ------------------------------------------------------------------------------------------------------


def taken_sizes(mechanism: AnyMechanism, value: Any, tape: bytes) -> list[int]:
    recorder = Recorder(tape)
    draw_report(mechanism, value, recorder, SECRET, "id")
    return recorder.sizes


@pytest.mark.parametrize("mechanism", [*ALL, *MEMO], ids=name_of_case)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(place=st.integers(0, 5), label=st.integers(0, 1 << 20))
def test_what_is_drawn_does_not_depend_on_the_value(mechanism: AnyMechanism, place: int, label: int) -> None:
    tape = Seeded(f"independence {label}").tape(place)
    sizes = {tuple(taken_sizes(mechanism, value, tape)) for value in list_some_values(mechanism)}
    assert len(sizes) == 1


def test_a_client_that_draws_as_it_goes_is_noticed() -> None:
    oracle = Direct(4, Fraction(3))
    sizes = set()
    for tape in (bytes([1, 2, 0]), bytes([5, 2, 0])):
        recorder = Recorder(tape)
        report = local_mutants.draw_lazily(oracle, 2, recorder)
        sizes.add((report == (2,), len(recorder.sizes)))
    assert sizes == {(True, 1), (False, 2)}


@pytest.mark.parametrize("mechanism", MEMO, ids=name_of_case)
def test_a_state_that_comes_back_takes_the_path_of_a_new_one(mechanism: MemoBit) -> None:
    tape = Seeded("path").tape(4)
    first = taken_sizes(mechanism, 0, tape)
    assert first == taken_sizes(mechanism, 0, tape) == taken_sizes(mechanism, 1, tape)
    assert draw_state(mechanism, 0, SECRET, "id") == draw_state(mechanism, 2, SECRET, "id")


# -- memo ------------------------------------------------------------------------------------------------------------------


def test_labels_hold_collection_device_and_state_unambiguously() -> None:
    labels = [
        memo_label(name, *rest)
        for name in ("a", "b")
        for rest in ((), ((), ()), ((1,), (2,)), ((1, 2), ()), ((), (1, 2)), ((12,), ()), ((1,), (2, 1)), ((1, 2), (1,)))
    ]
    assert len(set(labels)) == len(labels)


def test_permanent_noise_differs_between_collections_and_states_and_devices() -> None:
    mechanism = MemoBit(2, 1 << 20, Fraction(1000003, 1000000))
    drawn = {
        (secret, name): [draw_state(mechanism, value, bytes([secret]) * 32, name)[1] for value in range(2)]
        for secret in range(30)
        for name in ("a", "b")
    }
    cohorts = {permanent[0][0] for permanent in drawn.values()}
    assert len(cohorts) > 55  # of 60 devices in 2^20 cohorts
    flips = [tuple(bit ^ (value + cohort) % 2 for value, (cohort, bit) in enumerate(states)) for states in drawn.values()]
    assert set(flips) == {(0, 0), (0, 1), (1, 0), (1, 1)}  # independent: each is missing among 60 with probability 3e-8


def test_redrawn_permanent_noise_can_be_averaged_and_ours_cannot() -> None:
    mechanism = MemoBit(2, 1, Fraction(3))
    for value in range(2):
        draws = Seeded(f"averaging {value}")
        ours = {draw_report(mechanism, value, draws, SECRET, "id")[1] for _ in range(200)}
        redrawn = {local_mutants.redraw_permanent(mechanism, value, draws, SECRET, "id")[1] for _ in range(200)}
        assert (len(ours), len(redrawn)) == (1, 2)


# -- below -----------------------------------------------------------------------------------------------------------------


def is_uniform(draw: Callable[[Draws, int], int], bound: int, size: int) -> bool:
    """Whether every number below the bound comes from equally many tapes of `size` bytes, and rejection takes them all."""
    counts = [0] * bound
    for number in range(256**size):
        draws = TapeDraws(number.to_bytes(size, "big"))
        try:
            counts[draw(draws, bound)] += 1
        except ValueError:
            assert draws.consumed == size
    return min(counts) == max(counts) > 0


@pytest.mark.parametrize("bound", range(2, 257))
def test_below_is_uniform_over_all_tapes_of_one_byte(bound: int) -> None:
    assert is_uniform(below, bound, 1)


@pytest.mark.parametrize("bound", [257, 300, 512, 1000, 32769, 40000, 65535, 65536])
def test_below_is_uniform_over_all_tapes_of_two_bytes(bound: int) -> None:
    assert is_uniform(below, bound, 2)


def test_a_remainder_is_not_uniform() -> None:
    assert not is_uniform(local_mutants.draw_modulo, 10, 1)
    assert not is_uniform(local_mutants.draw_modulo, 1000, 2)
    assert is_uniform(local_mutants.draw_modulo, 64, 1)


@given(st.integers(1, 2**53), st.binary(min_size=0, max_size=64))
def test_below_takes_whole_draws_and_stays_below(bound: int, tape: bytes) -> None:
    draws, size = TapeDraws(tape), ((bound - 1).bit_length() + 7) // 8
    try:
        number = below(draws, bound)
    except ValueError:
        assert len(tape) - draws.consumed < size
    else:
        assert 0 <= number < bound
        assert draws.consumed % size == 0 if size else draws.consumed == 0


def test_one_draw_is_masked_to_the_bits_that_it_needs() -> None:
    assert below(TapeDraws(b"\xff\x00\x00\x00\x00\x00\x07"), 2**53) == (0x1F << 48) + 7
    assert draw_all(TapeDraws(b"\x80\x01"), (1, 2, 1, 2)) == (0, 0, 0, 1)


def test_keyed_draws_are_hmac_sha256_of_length_label_and_counter() -> None:
    label, secret = b"label", b"s" * 32
    blocks = [hmac.digest(secret, b"\0\0\0\5label" + count.to_bytes(4, "big"), "sha256") for count in range(2)]
    stream = KeyedDraws(secret, label)
    assert stream.take(5) + stream.take(59) == blocks[0] + blocks[1]


# -- exact parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda odds: Direct(2, odds),
        lambda odds: Unary(2, Fraction(3), odds),
        lambda odds: Hashed(9, odds, 3),
        lambda odds: OneBitMean(10, odds),
        lambda odds: RoundedBit(24, 6, odds),
        lambda odds: RoundedBit(24, 6, Fraction(3), odds),
        lambda odds: BucketFlip(8, 2, odds),
        lambda odds: Rappor(8, 2, 4, odds, Fraction(1, 2), Fraction(3, 4), "s"),
        lambda odds: CountMeanSketch(odds, 16, 64, "s"),
    ],
)
def test_a_probability_is_an_exact_fraction(make: Callable[[Any], Any]) -> None:
    for wrong in ("half", None, True, float("nan"), float("inf")):
        with pytest.raises(BadParameter):
            make(wrong)


def test_floats_and_texts_are_the_decimals_that_they_show() -> None:
    assert Direct(2, 1.1) == Direct(2, "1.1") == Direct(2, "11/10") == Direct(2, Fraction(11, 10))  # type: ignore[arg-type]


def test_an_integer_is_the_fraction_that_a_collection_writes() -> None:
    assert type(Direct(2, 3).odds) is Fraction  # type: ignore[arg-type]
    assert Direct(2, 3) == Direct(2, Fraction(3))  # type: ignore[arg-type]


# -- time ------------------------------------------------------------------------------------------------------------------


def count_steps(call: Callable[[], object]) -> int:
    """How many lines of Python a call runs."""
    steps = 0

    def trace(frame: object, event: str, arg: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps


HASHED, PROJECTIVE = Hashed(2**50, Fraction(3), 2), Projective.optimised(10**12, Fraction(3))


@pytest.mark.parametrize(
    ("values", "run"),
    [
        (2**50, lambda value: HASHED.hash(2**50 - 1, value)),
        (10**12, lambda value: point_vector(value, PROJECTIVE.order, PROJECTIVE.dimensions)),
    ],
)
def test_small_values_take_as_many_steps_as_large_ones(values: int, run: Callable[[int], object]) -> None:
    """Time is not promised; yet no loop over a value ends earlier for a small one."""
    steps = {count_steps(lambda value=value: run(value)) for value in (0, 1, values // 2, values - 1)}  # type: ignore[misc]
    assert len(steps) == 1


# -- domains that no client can send --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: Unary.optimised(10**9, Fraction(3)),
        lambda: Unary.symmetric(10**15, Fraction(3)),
        lambda: Subset(10**9, Fraction(3), 10**8),
        lambda: Subset.optimised(10**12, Fraction(3)),
        lambda: FixedHashed(10, Fraction(3), 3, 10**9, "salt"),
    ],
)
def test_oracles_whose_reports_no_client_can_send_are_refused_at_once(build: Any) -> None:
    with pytest.raises(BadParameter, match=r"Projective|Hashed"):
        build()
