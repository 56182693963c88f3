"""Classes: students who attack an invented table together, and learn what one budget for everybody means.

A teacher, who is a steward, opens a class. A worker makes its table from a secret seed, with a root account of its own; no
row of a real table is in it, and its name, `class_` and eight digits, is taken by no other table. Who has the join code gets
a person with the role `student`, which sees invented tables only, and a ration under the root. The rations add up to more
than the root, so a class that pools its answers empties it, which the teacher's page shows.

*Find the person.* Ten people of the table are known by number, age and department; whether each is sick is secret, and as
likely as not. A student answers for all ten once, and sees the score when the class is closed and takes no more guesses:
a student who joins twice, under another name, would else turn the first score into an answer that costs nothing.

What is known of a class is a setting of the control database. The seed is there too: rows of a class are about no person,
and the seed keeps them from students, who cannot guess 128 random bits, and from no one else. Here is no engine and no
ledger; the worker's half is `worker.classes`.
"""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec

from discreet.accounting.risk import posterior_range
from discreet.errors import BadParameter
from discreet.query.policy import read_policy
from discreet.remote.invented import invent_columns, to_rows
from discreet.serve.control.base import digest_secret
from discreet.serve.control.model import Grant, Job, JobState, Person, Role
from discreet.serve.control.store import Control

CLASS_NAME = re.compile(r"class_[0-9a-f]{8}")
CODE_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none is taken for another
CODE_LENGTH = 10
MAX_STUDENTS = 60
MAX_CLASSES = 200
MAX_EPSILON = 20
MIN_ROWS, MAX_ROWS = 100, 5_000
NAMES = ("Ada", "Bo", "Cem", "Dua", "Eli", "Fay", "Gus", "Hana", "Ines", "Jo")

POLICY = """\
table = "{name}"
unit = "id"
unique = true
salt = "{salt}"

[columns.id]
kind = "integer"

[columns.dept]
kind = "text"
keys = ["care", "office", "sales", "works"]

[columns.age]
kind = "integer"
lower = 18
upper = 67

[columns.pay]
kind = "integer"
lower = 1000
upper = 9000

[columns.sick]
kind = "integer"
lower = 0
upper = 1
keys = [0, 1]
"""


class Class(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class. `epsilon` is the budget of all its students together, `ration` that of each."""

    name: str
    title: str
    teacher: str
    epsilon: str
    ration: str
    rows: int
    seed: str  # 32 hexadecimal digits
    created: float
    closed: float | None = None

    @property
    def policy(self) -> str:
        """The policy of its table. Its salt comes from the seed, so that all workers have the same."""
        return POLICY.format(name=self.name, salt=digest_secret(f"salt {self.seed}"))


@dataclass(frozen=True, slots=True)
class Target:
    """A person of the table whom students look for: what they know, and what they do not."""

    name: str
    id: int
    age: int | None
    dept: str | None
    is_sick: bool


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the secrets a student had right."""

    person: str
    right: int
    of: int


# -- opening, joining, closing --------------------------------------------------------------------------------------------


def open_class(
    control: Control, teacher: str, title: str, epsilon: Fraction, ration: Fraction, rows: int, now: float
) -> tuple[Class, str]:
    """Open a class, and return it with its join code, which is shown once. A worker makes its table and accounts.

    Raises:
        BadParameter: if a number is out of its range.
    """
    for name, value in (("epsilon", epsilon), ("ration", ration)):
        if not 0 < value <= MAX_EPSILON:
            raise BadParameter(name, f"{float(value):.12g}", f"must be above 0, and at most {MAX_EPSILON}", "give another")
    if ration > epsilon:
        most = f"{float(epsilon):.12g}"
        raise BadParameter("ration", f"{float(ration):.12g}", "more than everybody has together", f"give at most {most}")
    if not MIN_ROWS <= rows <= MAX_ROWS:
        raise BadParameter("rows", rows, f"must be {MIN_ROWS} to {MAX_ROWS:,}", "give another number")
    if len(list_classes(control)) >= MAX_CLASSES:
        raise BadParameter("class", title, f"there are {MAX_CLASSES} classes already", "use one of them")
    opened = Class(
        name=f"class_{secrets.token_hex(4)}", title=title, teacher=teacher, epsilon=str(epsilon), ration=str(ration),
        rows=rows, seed=secrets.token_hex(16), created=now,
    )  # fmt: skip
    with control.transaction():
        control.set_setting(_class_key(opened.name), msgspec.json.encode(opened).decode(), by=teacher)
        code = change_code(control, opened)
        control.enqueue("open_class", opened.name, by=teacher)
    return opened, code


def change_code(control: Control, of: Class, by: str | None = None) -> str:
    """Return a new join code of a class, which is shown once. Its earlier codes are void.

    Raises:
        BadParameter: if the class is closed.
    """
    if of.closed is not None:
        raise BadParameter("class", of.title, "it is closed", "open another one")
    code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
    with control.transaction():
        for key, value in control.list_settings().items():
            if key.startswith("class code ") and value == of.name:
                control.set_setting(key, "")
        control.set_setting(_code_key(code), of.name, by=by)
    return code


def find_class(control: Control, name: str) -> Class | None:
    """Return the class with this name."""
    text = control.find_setting(_class_key(name)) if CLASS_NAME.fullmatch(name) else None
    return None if text is None else msgspec.json.decode(text, type=Class)


def list_classes(control: Control) -> list[Class]:
    """Return all classes, newest first."""
    found = [
        msgspec.json.decode(value, type=Class)
        for key, value in control.list_settings().items()
        if key.startswith("class ") and CLASS_NAME.fullmatch(key.removeprefix("class "))
    ]
    return sorted(found, key=lambda each: -each.created)


def find_by_code(control: Control, code: str) -> Class | None:
    """Return the open class that a join code belongs to. Blanks, hyphens and capitals do not matter."""
    plain = re.sub(r"[\s-]", "", code.lower())
    name = control.find_setting(_code_key(plain)) if len(plain) == CODE_LENGTH else None
    found = None if name is None else find_class(control, name)
    return None if found is None or found.closed is not None else found


def join_class(control: Control, joined: Class, student: Person | str, now: float) -> Person:
    """Give a person, or a new student with this name, a ration of a class. Joining twice changes nothing.

    Raises:
        BadParameter: if the class is full, or a worker has not made its table yet.
    """
    entry = control.find_table(joined.name)
    if entry is None or not entry.invented:
        raise BadParameter("class", joined.title, "its table is being made", "try again in a few seconds")
    by = f"class {joined.name}"
    with control.transaction():
        control.find_setting(_class_key(joined.name))  # locks: students are counted one after the other
        if isinstance(student, Person) and control.find_grant(student.id, joined.name) is not None:
            return student
        if len(control.list_grants(table=joined.name)) >= MAX_STUDENTS:
            raise BadParameter("class", joined.title, f"it has {MAX_STUDENTS} students already", "ask the teacher")
        if isinstance(student, str):
            student = _number_name(student, {each.name for each in _list_students(control, joined)})
            person = Person(id=f"student-{secrets.token_hex(4)}", name=student, role=Role.STUDENT)
            student = control.add_person(person, by=by)
        account = f"{joined.name}/{student.id}"
        control.add_grant(Grant(person=student.id, table=joined.name, account=account, created=now, by=by), by=by)
        payload = {"parent": joined.name, "epsilon": joined.ration, "population": joined.name}
        control.enqueue("open_account", account, payload, person=student.id, by=by)
    return student


def _list_students(control: Control, of: Class) -> list[Person]:
    found = (control.find_person(each.person) for each in control.list_grants(table=of.name))
    return [each for each in found if each is not None]


def _number_name(name: str, taken: Collection[str]) -> str:
    """Return a name that no student of a class has yet.

    >>> _number_name("Kim", {"Kim", "Kim (2)"}), _number_name("Kim", {"Ada"})
    ('Kim (3)', 'Kim')
    """
    return name if name not in taken else next(each for i in count(2) if (each := f"{name} ({i})") not in taken)


def close_class(control: Control, closed: Class, now: float, by: str) -> Class:
    """Take no more students and no more asks. What was asked stays."""
    ended = msgspec.structs.replace(closed, closed=now)
    with control.transaction():
        control.set_setting(_class_key(closed.name), msgspec.json.encode(ended).decode(), by=by)
        entry = control.find_table(closed.name)
        if entry is not None:
            control.register_table(msgspec.structs.replace(entry, is_open=False))
    return ended


def _class_key(name: str) -> str:
    return f"class {name}"


def _code_key(code: str) -> str:
    return f"class code {digest_secret(code)}"


# -- rows and secrets -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=20)
def invent_class(found: Class) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """Return the columns and rows of a class's table. They are about no person."""
    columns = invent_columns(read_policy(found.policy), found.rows, int(found.seed, 16))
    return tuple(columns), tuple(to_rows(columns))


def list_targets(found: Class) -> list[Target]:
    """Return the people whom students look for: ten whose secret is not missing. The first rows of invented columns hold
    every key once, so they are passed over: of the others each secret is drawn by itself."""
    columns, rows = invent_class(found)
    people = [dict(zip(columns, row, strict=True)) for row in rows]
    known = [each for each in people[len(NAMES) :] if each["sick"] is not None]
    return [
        Target(name, each["id"], each["age"], each["dept"], bool(each["sick"]))
        for name, each in zip(NAMES, known, strict=False)
    ]


def guess(control: Control, found: Class, person: str, guesses: Mapping[int, bool]) -> Score:
    """Score a student's guesses, once.

    Raises:
        BadParameter: if the student has guessed already, or has not guessed for everyone.
    """
    targets = list_targets(found)
    missing = [each.name for each in targets if each.id not in guesses]
    if missing:
        raise BadParameter("guesses", f"{len(guesses)} given", f"{missing[0]} is missing", "guess for all of them")
    score = Score(person=person, right=sum(guesses[each.id] == each.is_sick for each in targets), of=len(targets))
    with control.transaction():
        if control.find_setting(_score_key(found.name, person)) is not None:
            raise BadParameter("guesses", person, "you have guessed already", "a second try would say who was wrong")
        control.set_setting(_score_key(found.name, person), msgspec.json.encode(score).decode())
    return score


def find_score(control: Control, found: Class, person: str) -> Score | None:
    """Return how a student did, if they have guessed."""
    text = control.find_setting(_score_key(found.name, person))
    return None if text is None else msgspec.json.decode(text, type=Score)


def list_scores(control: Control, found: Class, people: Sequence[str]) -> list[Score]:
    """Return the scores of these people, best first."""
    scores = [score for each in people if (score := find_score(control, found, each)) is not None]
    return sorted(scores, key=lambda each: (-each.right, each.person))


def bound_chance(epsilon: Fraction) -> float:
    """Return the largest probability of guessing one secret after answers that cost ε in all, if it was even before. It
    holds where neighbours replace one person by another: under add/remove a changed value costs up to 2ε.

    >>> round(bound_chance(Fraction(1)), 3), round(bound_chance(Fraction(3)), 3)
    (0.731, 0.953)
    """
    return float(posterior_range(epsilon, Fraction(1, 2)).upper)


def _score_key(name: str, person: str) -> str:
    return f"class {name} score {person}"


# -- attacks of the lab, which a worker runs ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an attack: its default and its range, within which it is computed in seconds."""

    default: Fraction
    least: Fraction
    most: Fraction

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer."""
        return self.least.denominator == 1


_EPSILON = Parameter(Fraction(1), Fraction(1, 100), Fraction(10))


def _whole(default: int, least: int, most: int) -> Parameter:
    return Parameter(Fraction(default), Fraction(least), Fraction(most))


LAB_ATTACKS: dict[str, dict[str, Parameter]] = {
    "averaging": {"answers": _whole(500, 10, 2_000), "epsilon": _EPSILON, "seed": _whole(500, 1, 9_999)},
    "differencing": {"epsilon": _EPSILON, "seed": _whole(17, 1, 9_999)},
    "reconstruction": {
        "people": _whole(400, 20, 400), "questions": _whole(2_000, 100, 2_000), "epsilon": _EPSILON,
        "seed": _whole(2003, 1, 9_999),
    },
}  # fmt: skip
"""The attacks of `discreet.lab` that the service runs, all against tables that they invent themselves."""


def check_attack(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return all parameters of an attack as exact texts.

    >>> check_attack("differencing", {"epsilon": "0.5"})
    {'epsilon': '1/2', 'seed': '17'}

    Raises:
        BadParameter: if there is no such attack or parameter, or a value is out of its range.
    """
    if name not in LAB_ATTACKS:
        raise BadParameter("attack", repr(name[:40]), "unknown", f"take one of {', '.join(LAB_ATTACKS)}")
    known = LAB_ATTACKS[name]
    for key in given:
        if key not in known:
            raise BadParameter(key[:40], given[key][:40], f"not a parameter of {name}", f"it has {', '.join(known)}")
    return {key: str(_read(key, given[key], each) if key in given else each.default) for key, each in known.items()}


def _read(name: str, text: str, parameter: Parameter) -> Fraction:
    from discreet._numbers import parse_rational

    value = parse_rational(text, name)
    if parameter.is_whole and value.denominator != 1:
        raise BadParameter(name, text[:40], "not a whole number", f"give one, such as {parameter.default}")
    if not parameter.least <= value <= parameter.most:
        reason = f"must be {float(parameter.least):g} to {float(parameter.most):,g}"
        raise BadParameter(name, text[:40], reason, f"give one, such as {parameter.default}")
    return value


MAX_ATTACKS = 2
"""Attacks of one person that wait or run."""


def enqueue_attack(control: Control, name: str, given: Mapping[str, str], person: str) -> Job:
    """Return the job that runs an attack: an earlier one with the same parameters, and so the same result, or a new one.

    Raises:
        TooManyWaiting: if the person has `MAX_ATTACKS` of them waiting.
    """
    options = check_attack(name, given)
    subject = f"lab {name} " + " ".join(f"{key}={value}" for key, value in options.items())
    with control.transaction():
        earlier = [each for each in control.list_jobs(subject=subject, limit=5) if each.state is not JobState.FAILED]
        if earlier:
            return earlier[0]
        payload = {"attack": name, "options": options}
        return control.enqueue("lab_attack", subject, payload, person=person, limit=MAX_ATTACKS)
