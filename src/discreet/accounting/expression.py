"""A composition as text: "1000*laplace(scale=31.6) + 100*gaussian(sigma=50)".

    sum    := term ("+" term)*
    term   := factor ("*" factor)*           exactly one factor is an event, the others are integers
    factor := number | name "(" arguments ")" | name "(" sum ("," sum)* ["," arguments] ")" | "(" sum ")"
    number := power ["/" power]              31.6, 1e-6, 1/3, 2**20
    power  := decimal ["**" decimal]         the second one is an integer
    decimal: digits with an optional point and exponent

Numbers mean the exact decimal that is written. Nothing is ever evaluated as code; a mistake is reported with its column.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from math import ceil
from typing import NamedTuple, NoReturn, TypeAlias, TypedDict, cast

from discreet.accounting.elementary import exp_bounds
from discreet.accounting.training import dpsgd, read_schedule
from discreet.errors import BadExpression, BadParameter
from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    SetResponseEvent,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    compose,
    group,
    repeat,
)
from discreet.units import Sensitivity, to_sensitivity

Numbers: TypeAlias = Mapping[str, Fraction]

NORMS = ("l0", "l1", "l2", "linf")
SENSITIVITY_ARGUMENTS = ("sensitivity", *NORMS)
TRAINING_ARGUMENTS = ("batch", "n", "rate", "epochs", "steps")
INTEGER_ARGUMENTS = ("l0", "n", "size", "threshold", "groups", "users", "batch", "steps")
"""Arguments that are integers."""

POSITIVE_ARGUMENTS = (
    "scale", "sigma", *SENSITIVITY_ARGUMENTS, "n", "size", "threshold", "groups", "users", "batch", "epochs", "steps",
)  # fmt: skip
"""Arguments that are above 0."""


def _read_sensitivity(numbers: Numbers) -> Sensitivity:
    """Read `sensitivity=`, which shifts one coordinate, or the norms of a change of several."""
    given = {name: numbers[name] for name in NORMS if name in numbers}
    if not given:
        return to_sensitivity(numbers.get("sensitivity", Fraction(1)))
    if "sensitivity" in numbers:
        raise BadParameter("sensitivity", numbers["sensitivity"], "norms are given as well", "give sensitivity= or norms")
    l0 = given.get("l0")
    return Sensitivity(l0=None if l0 is None else int(l0), l1=given.get("l1"), l2=given.get("l2"), linf=given.get("linf"))


def make_response_event(epsilon: Fraction) -> Event:
    """Binary randomised response that costs ε or, by rounding, slightly more: it describes an event that has happened.

    >>> from discreet.accounting.pure import pure
    >>> pure(make_response_event(Fraction(1))) >= 1
    True
    """
    if epsilon > 1000:  # a claim of ε is accounted as randomised response of ε anyway
        return Claim(epsilon, Fraction(0))
    low, high = exp_bounds(-epsilon)
    bits = 128 + ceil(epsilon * 3 / 2)
    wrong = Fraction(int(low / (1 + high) * (1 << bits)), 1 << bits)
    return RandomizedResponseEvent(1 - wrong, 2)


class NoiseTerm(NamedTuple):
    """A name of the language: what it means, what it needs, and the event that it makes."""

    meaning: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[Numbers], Event]
    note: Callable[[Numbers], str] | None = None
    """What to say about how the numbers were read."""


class _TrainingArguments(TypedDict, total=False):
    batch: int
    n: int
    rate: Fraction
    epochs: Fraction
    steps: int


def _training_arguments(numbers: Numbers) -> "_TrainingArguments":
    given: dict[str, Fraction | int] = {name: numbers[name] for name in TRAINING_ARGUMENTS if name in numbers}
    return cast(
        "_TrainingArguments",
        {name: int(value) if name in INTEGER_ARGUMENTS else value for name, value in given.items()},
    )


NOISE_TERMS: dict[str, NoiseTerm] = {
    "laplace": NoiseTerm(
        "continuous Laplace noise (discreet itself draws discrete_laplace)",
        ("scale",),
        SENSITIVITY_ARGUMENTS,
        lambda n: LaplaceEvent(n["scale"], _read_sensitivity(n)),
    ),
    "gaussian": NoiseTerm(
        "Gaussian noise, continuous or rounded afterwards",
        ("sigma",),
        SENSITIVITY_ARGUMENTS,
        lambda n: GaussianEvent(n["sigma"], _read_sensitivity(n)),
    ),
    "discrete_laplace": NoiseTerm(
        "P(k) ∝ e^{-|k|/scale} on integers",
        ("scale",),
        SENSITIVITY_ARGUMENTS,
        lambda n: DiscreteLaplaceEvent(n["scale"], _read_sensitivity(n)),
    ),
    "discrete_gaussian": NoiseTerm(
        "P(k) ∝ e^{-k²/2σ²} on integers",
        ("sigma",),
        SENSITIVITY_ARGUMENTS,
        lambda n: DiscreteGaussianEvent(n["sigma"], _read_sensitivity(n)),
    ),
    "binomial": NoiseTerm(
        "the number of heads in n fair coins, less n/2",
        ("n",),
        SENSITIVITY_ARGUMENTS,
        lambda n: BinomialEvent(int(n["n"]), _read_sensitivity(n)),
    ),
    "exponential": NoiseTerm(
        "the exponential mechanism, where one unit moves differences of rate·score by at most epsilon",
        ("epsilon",),
        (),
        lambda n: ExponentialEvent(n["epsilon"]),
    ),
    "threshold": NoiseTerm(
        "partition selection by a noisy count of units; one unit is counted in at most `groups` keys (1 unless given)",
        ("scale", "threshold"),
        ("groups",),
        lambda n: ThresholdEvent(n["scale"], int(n["threshold"]), int(n.get("groups", 1))),
    ),
    "response": NoiseTerm(
        "binary randomised response",
        ("epsilon",),
        (),
        lambda n: make_response_event(n["epsilon"]),
    ),
    "set_response": NoiseTerm(
        "a report that names a set of values, `odds` times as likely if it holds the own one; a set holds one value with "
        "probability share, two with probability pair",
        ("odds", "share", "pair"),
        (),
        lambda n: SetResponseEvent(n["odds"], n["share"], n["pair"]),
    ),
    "claim": NoiseTerm(
        "a statement by others that something was (ε, δ)-private",
        ("epsilon",),
        ("delta",),
        lambda n: Claim(n["epsilon"], n.get("delta", Fraction(0))),
    ),
    "dpsgd": NoiseTerm(
        "training with DP-SGD on Poisson samples: sigma is the noise multiplier, the rate is batch/n or rate, and there are "
        "steps, or epochs·n/batch rounded up, of them",
        ("sigma",),
        TRAINING_ARGUMENTS,
        lambda n: dpsgd(sigma=n["sigma"], **_training_arguments(n)),
        lambda n: (
            f"dpsgd: {read_schedule(**_training_arguments(n))}, Poisson sampling; neighbours add or remove one record."
        ),
    ),
}
"""Every name that takes numbers only."""


class Combinator(NamedTuple):
    """A name that takes events: what it means, the number that it needs, and the event that it makes."""

    meaning: str
    required: tuple[str, ...]
    make: Callable[[tuple[Event, ...], Numbers], Event]


COMBINATORS: dict[str, Combinator] = {
    "subsampled": Combinator(
        "a Poisson sample: each unit joins with probability rate; neighbours add or remove one unit",
        ("rate",),
        lambda events, n: Subsampled(events[0], n["rate"]),
    ),
    "sampled": Combinator(
        "a sample without replacement of this share of the units; neighbours replace one unit",
        ("rate",),
        lambda events, n: SampledWithoutReplacement(events[0], n["rate"]),
    ),
    "group": Combinator(
        "the same event for neighbours that differ in up to `size` units",
        ("size",),
        lambda events, n: group(events[0], int(n["size"])),
    ),
    "shuffled": Combinator(
        "the reports of this many users, of which only the multiset is seen; neighbours replace one value",
        ("users",),
        lambda events, n: Shuffled(events[0], int(n["users"])),
    ),
    "parallel": Combinator(
        "events about disjoint parts of the units",
        (),
        lambda events, n: Parallel(events),
    ),
}
"""Every name that takes events: `parallel` several, the others one."""


MAX_DEPTH, MAX_LENGTH, MAX_EXPONENT, MAX_REPETITIONS = 50, 100_000, 400, 10**15
MAX_POWER_BITS = 1330
"""About those of 10⁴⁰⁰, the largest number that an exponent writes."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<mark>\S))",
    re.ASCII,
)


class Token(NamedTuple):
    """A piece of the text, what it is, and where it begins (from 1)."""

    kind: str
    text: str
    column: int


def parse(text: str) -> Event:
    """The event that the text describes. Raise `BadExpression` with the column of a mistake.

    >>> parse("2*gaussian(sigma=0.5) + claim(epsilon=1)").parts[0][1]
    2
    >>> parse("gaussian(sgima=1)")
    Traceback (most recent call last):
    discreet.errors.BadExpression: column 10: gaussian takes no "sgima". It takes sigma, sensitivity, l0, l1, l2, linf.
      gaussian(sgima=1)
               ^
    """
    return _Parser(text).parse_all()


def parse_with_notes(text: str) -> tuple[Event, tuple[str, ...]]:
    """The event that the text describes, and how numbers were read where that is not obvious.

    >>> parse_with_notes("dpsgd(sigma=1.1, batch=256, n=60000, epochs=60)")[1][0][:45]
    'dpsgd: q = 8/1875 = 0.004267, T = 14,063 step'
    """
    parser = _Parser(text)
    return parser.parse_all(), tuple(dict.fromkeys(parser.notes))


class _Parser:
    """A cursor over the tokens; each method reads one line of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.notes: list[str] = []
        if len(text) > MAX_LENGTH:
            raise BadExpression(text[:40] + "…", MAX_LENGTH, f"more than {MAX_LENGTH} characters", "repeat with k*x instead")
        found = [(match, match.lastgroup or "mark") for match in _TOKEN.finditer(text) if match.lastgroup]
        self.tokens = [Token(kind, match[kind], match.start(kind) + 1) for match, kind in found]
        self.tokens.append(Token("end", "", len(text.rstrip()) + 1))

    @property
    def current(self) -> Token:
        return self.tokens[self.place]

    def take(self, text: str) -> bool:
        if self.current.text != text or self.current.kind == "end":
            return False
        self.place += 1
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.fail(f'"{text}" expected', f"found {self.describe_current()}")

    def describe_current(self) -> str:
        return f'"{self.current.text}"' if self.current.kind != "end" else "the end of the text"

    def fail(self, problem: str, hint: str, column: int | None = None) -> NoReturn:
        raise BadExpression(self.text, column or self.current.column, problem, hint)

    def parse_all(self) -> Event:
        if self.current.kind == "end":
            self.fail("the text is empty", "write an event, for example gaussian(sigma=10)")
        event = self.parse_sum()
        if self.current.kind != "end":
            self.fail(f"{self.describe_current()} does not belong here", 'join events with "+", repeat them with "*"')
        return event

    def parse_sum(self) -> Event:
        terms = [self.parse_term()]
        while self.take("+"):
            terms.append(self.parse_term())
        return terms[0] if len(terms) == 1 else compose(*terms)

    def parse_term(self) -> Event:
        start, times, factors = self.current.column, 1, [self.parse_factor()]
        while self.take("*"):
            factors.append(self.parse_factor())
        events = [f for f in factors if not isinstance(f, tuple)]
        if len(events) != 1:
            problem = "a number alone is no event" if not events else "events are added, not multiplied"
            self.fail(problem, 'write k*event, and "+" between events', start)
        for count in (f for f in factors if isinstance(f, tuple)):
            times *= self.check_repetitions(*count)
        if times > MAX_REPETITIONS:
            self.fail(f"more than {MAX_REPETITIONS:.0e} repetitions", "write a smaller number", start)
        return events[0] if len(factors) == 1 else repeat(events[0], int(times))

    def check_repetitions(self, value: Fraction, column: int) -> int:
        if value.denominator != 1:
            self.fail("an event cannot be repeated a fraction of a time", "write an integer", column)
        return value.numerator

    def parse_factor(self) -> "Event | tuple[Fraction, int]":
        token = self.current
        if token.kind == "number":
            return self.parse_number(), token.column
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested more than {MAX_DEPTH} deep", "write it flatter")
        if self.take("("):
            inside = self.parse_sum()
            self.expect(")")
        elif token.kind == "name":
            inside = self.parse_call()
        else:
            self.fail(f"an event or a number expected, found {self.describe_current()}", f"the events are {_list_names()}")
        self.depth -= 1
        return inside

    def parse_call(self) -> Event:
        name = self.current
        if name.text not in NOISE_TERMS and name.text not in COMBINATORS:
            nearest = get_close_matches(name.text, (*NOISE_TERMS, *COMBINATORS), 1)
            hint = f"did you mean {nearest[0]}? The events are" if nearest else "the events are"
            self.fail(f'no event is called "{name.text}"', f"{hint} {_list_names()}")
        self.place += 1
        self.expect("(")
        if name.text in COMBINATORS:
            return self.parse_combinator(name, COMBINATORS[name.text])
        term = NOISE_TERMS[name.text]
        numbers = self.parse_arguments(name, term.required, term.optional)
        self.expect(")")
        try:
            event = term.make(numbers)
            self.notes += [] if term.note is None else [term.note(numbers)]
            return event
        except BadParameter as wrong:  # norms that contradict each other, or too few of them
            self.fail(f"{wrong.name} is {wrong.value}: {wrong.reason}", wrong.hint, name.column)

    def parse_combinator(self, name: Token, combinator: Combinator) -> Event:
        if self.current.text in combinator.required:
            self.fail(f"{name.text} needs an event before {self.current.text}=", f"write {_list_form(name.text)}")
        events = [self.parse_sum()]
        while not combinator.required and self.take(","):
            events.append(self.parse_sum())
        if combinator.required and self.current.text not in (")", ""):  # without numbers, those that it needs are named
            self.expect(",")
        column = self.current.column
        numbers = self.parse_arguments(name, combinator.required, ()) if combinator.required else {}
        if numbers.get("rate", 0) > 1:
            self.fail("a rate is a probability", "give one between 0 and 1", column)
        self.expect(")")
        try:
            return combinator.make(tuple(events), numbers)
        except BadParameter as wrong:  # an event that cannot be shuffled or sampled
            self.fail(f"{wrong.name} is {wrong.value}: {wrong.reason}", wrong.hint, name.column)

    def parse_arguments(self, name: Token, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Fraction]:
        given: dict[str, Fraction] = {}
        while self.current.kind == "name":
            key = self.current
            if key.text not in required + optional:
                self.fail(f'{name.text} takes no "{key.text}"', f"it takes {', '.join(required + optional)}")
            if key.text in given:
                self.fail(f'"{key.text}" is given twice', "give it once")
            self.place += 1
            self.expect("=")
            column = self.current.column
            given[key.text] = self.parse_number()
            self.check_argument(key.text, given[key.text], column)
            if not self.take(","):
                break
        for key_needed in required:
            if key_needed not in given:
                self.fail(f"{name.text} needs {key_needed}=", f"write {_list_form(name.text)}")
        return given

    def check_argument(self, key: str, value: Fraction, column: int) -> None:
        if value == 0 and key in POSITIVE_ARGUMENTS:
            self.fail(f"{key} must be positive", f"give a {key} above 0", column)
        if value > 1 and key == "delta":
            self.fail("delta is a probability", "give one between 0 and 1", column)
        if key in INTEGER_ARGUMENTS and (value.denominator != 1 or value > MAX_REPETITIONS):
            self.fail(f"{key} must be an integer, at most {MAX_REPETITIONS:.0e}", "write it in digits", column)

    def parse_number(self) -> Fraction:
        value = self.parse_power()
        if self.current.text == "/":
            self.place += 1
            column = self.current.column
            below = self.parse_power()
            if below == 0:
                self.fail("division by zero", "give a denominator above 0", column)
            return value / below
        return value

    def parse_power(self) -> Fraction:
        value = self.parse_decimal()
        if [each.text for each in self.tokens[self.place : self.place + 2]] != ["*", "*"]:
            return value
        self.place += 2
        column, exponent = self.current.column, self.parse_decimal()
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        if exponent.denominator != 1 or bits * exponent > MAX_POWER_BITS:
            self.fail("the power is too large, or not an integer", "write the number out in digits", column)
        return value ** int(exponent)

    def parse_decimal(self) -> Fraction:
        token = self.current
        if token.kind != "number":
            self.fail(f"a number expected, found {self.describe_current()}", "write it in digits, without a sign")
        exponent = re.split("[eE]", token.text)[1:]
        if len(token.text) > MAX_EXPONENT or (exponent and abs(int(exponent[0])) > MAX_EXPONENT):
            self.fail("the number is too long or too large", "keep exponents within ±400")
        self.place += 1
        return Fraction(token.text)


def _list_names() -> str:
    return ", ".join((*NOISE_TERMS, *COMBINATORS))


def _list_form(name: str) -> str:
    """How a name is written, with all that it needs."""
    known = NOISE_TERMS.get(name) or COMBINATORS[name]
    return f"{name}({', '.join([*(['x'] if name in COMBINATORS else []), *(f'{each}=…' for each in known.required)])})"
