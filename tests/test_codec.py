"""Events on the wire: every kind is decoded as it was encoded, and the form of version 1 never changes."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import events
from discreet.codec import decode, encode
from discreet.errors import BadEventEncoding
from discreet.events import Claim, Composition, DiscreteLaplaceEvent, GaussianEvent, PrivacyEvent, compose
from discreet.units import Sensitivity, to_sensitivity
from tests.support.every_event import EVERY

GOLDEN = Path(__file__).with_name("golden_events.json")


@pytest.mark.parametrize("name", EVERY)
def test_every_event_is_decoded_as_it_was_encoded(name):
    again = decode(encode(EVERY[name]))
    assert again == EVERY[name]
    assert hash(again) == hash(EVERY[name])


def test_the_examples_hold_every_kind():
    kinds = {kind.__struct_config__.tag for kind in PrivacyEvent.__subclasses__()}
    written = b"".join(encode(event) for event in EVERY.values()).decode()
    shown = {kind for kind in kinds if f'"type":"{kind}"' in written}
    assert shown == kinds


def test_the_wire_form_is_the_golden_one():
    """A change here would make old ledgers unreadable: add new kinds, never change these."""
    golden = json.loads(GOLDEN.read_text())
    for name, stored in golden.items():
        assert json.loads(encode(EVERY[name])) == stored, name
        assert decode(json.dumps(stored)) == EVERY[name], name
    assert set(golden) == set(EVERY)


@given(
    sigma=st.fractions(Fraction(1, 10**9), Fraction(10**9)),
    l2=st.fractions(Fraction(1, 10**3), Fraction(10**3)),
    times=st.integers(1, 10**15),
)
@settings(max_examples=60, deadline=None)
def test_any_parameters_are_decoded(sigma, l2, times):
    event = compose(GaussianEvent(sigma, Sensitivity(l2_squared=l2)) * times, DiscreteLaplaceEvent(sigma, to_sensitivity(3)))
    assert decode(encode(event)) == event


GOOD = encode(GaussianEvent(Fraction(1), to_sensitivity(1))).decode()


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"type":"Nonsense"}',
        '{"type":"Claim","epsilon":"1/2"}',
        '{"type":"Claim","epsilon":"1/2","delta":"0/1","more":1}',
        '{"type":"Claim","epsilon":"2/4","delta":"0/1"}',
        '{"type":"Claim","epsilon":"9/1","epsilon":"1/2","delta":"0/1"}',
        '{"type":"Claim","epsilon":"1/0","delta":"0/1"}',
        '{"type":"Claim","epsilon":"0.5","delta":"0/1"}',
        '{"type":"Claim","epsilon":0.5,"delta":"0/1"}',
        '{"type":"Claim","epsilon":"-1/2","delta":"0/1"}',
        '{"type":"Claim","epsilon":"1/2","delta":"2/1"}',
        '{"type":"Claim","epsilon":"' + "1" * 9000 + '/1","delta":"0/1"}',
        GOOD.replace('"sigma":"1/1"', '"sigma":"0/1"'),
        GOOD.replace('"sigma":"1/1"', '"sigma":"-1/1"'),
        GOOD.replace('"l2_squared":"1/1"', '"l2_squared":"9/1"'),
        GOOD.replace('"l1":"1/1"', '"l1":"0/1"'),
        GOOD.replace('"linf":"1/1"', '"linf":null'),
        '{"type":"Composition","parts":[[' + GOOD + ",0]]}",
        '{"type":"Composition","parts":[[{"type":"Composition","parts":[]},1]]}',
        '{"type":"Subsampled","loss":' + GOOD + ',"rate":"2/1"}',
        '{"type":"Group","loss":' + GOOD + ',"size":0}',
        '{"type":"ResponseLoss","truth":"1/2","choices":1}',
        '{"type":"ThresholdLoss","scale":"1/1","threshold":5,"groups":0}',
        b"\xff\xfe",
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_this_version_would_not_write_is_refused(stored):
    with pytest.raises(BadEventEncoding):
        decode(stored)


def test_an_event_too_long_to_decode_is_not_encoded():
    with pytest.raises(BadEventEncoding):
        encode(Claim(Fraction(1, 1 << 20_000), Fraction(0)))


def test_an_empty_composition_is_an_event():
    assert decode(encode(Composition())) == events.NO_EVENT
