"""discreet itself, through the same runner: the upper end of the certified interval."""

import os
from fractions import Fraction
from importlib import import_module

from timing import answer

from discreet.accounting.expression import parse

curve = import_module("discreet.accounting.curve")
loss = parse(os.environ["DISCREET_EXPRESSION"])  # parsed once, as a peer's own objects would be; the curve is what is timed
answer(lambda parts, delta: curve.epsilon(loss, Fraction(repr(delta))).upper)
