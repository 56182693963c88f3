"""discreet itself, through the same runner: the upper end of the certified interval."""

import os
from fractions import Fraction

from discreet.accounting.curve import epsilon as certified
from timing import answer

from discreet.accounting.expression import parse

loss = parse(os.environ["DISCREET_EXPRESSION"])  # parsed once, as a peer's own objects would be; the curve is what is timed
answer(lambda parts, delta: certified(loss, Fraction(repr(delta))).upper)
