"""A ledger written as text: "1000*laplace(scale=31.6) + 100*gaussian(sigma=50)".

    sum    := term ("+" term)*
    term   := factor ("*" factor)*           exactly one factor is a release, the others are whole numbers
    factor := number | name "(" arguments ")" | name "(" sum ("," sum)* ["," arguments] ")" | "(" sum ")"
    number := digits with an optional point and exponent, or a quotient of two such: 31.6, 1e-6, 1/3

Numbers mean the exact decimal that is written. Nothing is ever evaluated as code; a mistake is reported with its column.
"""

import re
from fractions import Fraction
from typing import NamedTuple, NoReturn

from discreet.accounting.vocabulary import COMBINATORS, LAWS, POSITIVE, WHOLE, Combinator
from discreet.errors import BadExpression, BadParameter
from discreet.loss import Loss, compose, repeat

DEEPEST, LONGEST, LARGEST_EXPONENT, MOST_TIMES = 50, 100_000, 400, 10**15

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<mark>\S))",
    re.ASCII,
)


class Token(NamedTuple):
    """A piece of the text, what it is, and where it begins (from 1)."""

    kind: str
    text: str
    column: int


def parse(text: str) -> Loss:
    """The fact that the text describes.

    >>> parse("2*gaussian(sigma=0.5) + claim(epsilon=1)").parts[0][1]
    2
    >>> parse("gaussian(sgima=1)")
    Traceback (most recent call last):
    discreet.errors.BadExpression: column 10: gaussian takes no "sgima"; it takes sigma, sensitivity, l0, l1, l2, linf
      gaussian(sgima=1)
               ^
    """
    return _Parser(text).whole()


class _Parser:
    """A cursor over the tokens; each method reads one line of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        if len(text) > LONGEST:
            raise BadExpression(text[:40] + "…", LONGEST, f"more than {LONGEST} characters", "repeat with k*x instead")
        found = [(match, match.lastgroup or "mark") for match in _TOKEN.finditer(text) if match.lastgroup]
        self.tokens = [Token(kind, match[kind], match.start(kind) + 1) for match, kind in found]
        self.tokens.append(Token("end", "", len(text.rstrip()) + 1))

    @property
    def now(self) -> Token:
        return self.tokens[self.place]

    def take(self, text: str) -> bool:
        if self.now.text != text or self.now.kind == "end":
            return False
        self.place += 1
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.fail(f'"{text}" expected', f"found {self.found()}")

    def found(self) -> str:
        return f'"{self.now.text}"' if self.now.kind != "end" else "the end of the text"

    def fail(self, problem: str, way_out: str, column: int | None = None) -> NoReturn:
        raise BadExpression(self.text, column or self.now.column, problem, way_out)

    def whole(self) -> Loss:
        if self.now.kind == "end":
            self.fail("nothing is written", "write a release, for example gaussian(sigma=10)")
        loss = self.sum()
        if self.now.kind != "end":
            self.fail(f"{self.found()} does not belong here", 'join releases with "+", repeat them with "*"')
        return loss

    def sum(self) -> Loss:
        terms = [self.term()]
        while self.take("+"):
            terms.append(self.term())
        return terms[0] if len(terms) == 1 else compose(*terms)

    def term(self) -> Loss:
        start, times, factors = self.now.column, 1, [self.factor()]
        while self.take("*"):
            factors.append(self.factor())
        releases = [f for f in factors if not isinstance(f, tuple)]
        if len(releases) != 1:
            problem = "a number alone is no release" if not releases else "releases are added, not multiplied"
            self.fail(problem, 'write k*release, and "+" between releases', start)
        for count in (f for f in factors if isinstance(f, tuple)):
            times *= self.times(*count)
        if times > MOST_TIMES:
            self.fail(f"more than {MOST_TIMES:.0e} repetitions", "that is no ledger of this world", start)
        return releases[0] if len(factors) == 1 else repeat(releases[0], int(times))

    def times(self, value: Fraction, column: int) -> int:
        if value.denominator != 1:
            self.fail("a release cannot be repeated a fraction of a time", "write a whole number", column)
        return value.numerator

    def factor(self) -> "Loss | tuple[Fraction, int]":
        token = self.now
        if token.kind == "number":
            return self.number(), token.column
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"nested more than {DEEPEST} deep", "write it flatter")
        if self.take("("):
            inside = self.sum()
            self.expect(")")
        elif token.kind == "name":
            inside = self.call()
        else:
            self.fail(f"a release or a number expected, found {self.found()}", f"the releases are {_names()}")
        self.depth -= 1
        return inside

    def call(self) -> Loss:
        name = self.now
        if name.text not in LAWS and name.text not in COMBINATORS:
            self.fail(f'no release is called "{name.text}"', f"the releases are {_names()}")
        self.place += 1
        self.expect("(")
        if name.text in COMBINATORS:
            return self.combined(name, COMBINATORS[name.text])
        law = LAWS[name.text]
        numbers = self.arguments(name, law.needs, law.may)
        self.expect(")")
        try:
            return law.make(numbers)
        except BadParameter as wrong:  # norms that contradict each other, or too few of them
            self.fail(f"{wrong.name} is {wrong.shown}: {wrong.reason}", wrong.way_out, name.column)

    def combined(self, name: Token, combinator: Combinator) -> Loss:
        releases = [self.sum()]
        while not combinator.needs and self.take(","):
            releases.append(self.sum())
        if combinator.needs:
            self.expect(",")
        column = self.now.column
        numbers = self.arguments(name, combinator.needs, ()) if combinator.needs else {}
        if numbers.get("rate", 0) > 1:
            self.fail("a rate is a probability", "give one between 0 and 1", column)
        self.expect(")")
        return combinator.make(tuple(releases), numbers)

    def arguments(self, name: Token, needs: tuple[str, ...], may: tuple[str, ...]) -> dict[str, Fraction]:
        given: dict[str, Fraction] = {}
        while self.now.kind == "name":
            key = self.now
            if key.text not in needs + may:
                self.fail(f'{name.text} takes no "{key.text}"', f"it takes {', '.join(needs + may)}")
            if key.text in given:
                self.fail(f'"{key.text}" is given twice', "give it once")
            self.place += 1
            self.expect("=")
            column = self.now.column
            given[key.text] = self.number()
            self.check(key.text, given[key.text], column)
            if not self.take(","):
                break
        for key_needed in needs:
            if key_needed not in given:
                self.fail(f"{name.text} needs {key_needed}=", f"write {name.text}({', '.join(f'{n}=…' for n in needs)})")
        return given

    def check(self, key: str, value: Fraction, column: int) -> None:
        if value == 0 and key in POSITIVE:
            self.fail(f"{key} must be positive", f"give a {key} above 0", column)
        if value > 1 and key == "delta":
            self.fail("delta is a probability", "give one between 0 and 1", column)
        if key in WHOLE and (value.denominator != 1 or value > MOST_TIMES):
            self.fail(f"{key} must be a whole number, at most {MOST_TIMES:.0e}", "write it in digits", column)

    def number(self) -> Fraction:
        value = self.decimal()
        if self.now.text == "/":
            self.place += 1
            column = self.now.column
            below = self.decimal()
            if below == 0:
                self.fail("division by zero", "give a denominator above 0", column)
            return value / below
        return value

    def decimal(self) -> Fraction:
        token = self.now
        if token.kind != "number":
            self.fail(f"a number expected, found {self.found()}", "write it in digits, without a sign")
        exponent = re.split("[eE]", token.text)[1:]
        if len(token.text) > LARGEST_EXPONENT or (exponent and abs(int(exponent[0])) > LARGEST_EXPONENT):
            self.fail("a number this long or large is not read", "keep exponents within ±400")
        self.place += 1
        return Fraction(token.text)


def _names() -> str:
    return ", ".join((*LAWS, *COMBINATORS))
