"""The lab: figures with parameters, errata, exercises that are checked, and attacks on invented tables.

**Threat.** Students are invited to attack. Nothing here reaches a real table: figures, errata and exercises are computed
from numbers alone, with parameters that are bounded so that none takes long; attacks run in a worker, by the queue, against
tables that they invent; a class has an invented table and a root account of its own. The contract of imports says that this
module, like all of the web process, imports neither a session nor an engine nor the attacks.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from discreet._numbers import parse_rational
from discreet.errors import BadParameter
from discreet.serve import classroom
from discreet.serve.control.model import Job, JobState
from discreet.serve.web.pages.drawing import Later, Pages, Visit, redirect
from discreet.serve.web.pages.forms import RefusedForm, keep_form
from discreet.serve.web.problems import not_found

if TYPE_CHECKING:
    from discreet.lab.exercises import Exercise
    from discreet.lab.figures import Figure

COSTLY = frozenset({"runs", "draws"})
"""Parameters that are not raised above their default: they only buy precision."""
ATTACK_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter as a form shows it. `least` and `most` are the ends of its slider and the range that is accepted."""

    name: str
    value: str
    least: str
    most: str
    step: str


def find_range(name: str, default: Any) -> tuple[Fraction, Fraction]:
    """Return the least and the largest value of a parameter that a page computes.

    >>> find_range("k", 100), find_range("runs", 10_000)
    ((Fraction(1, 1), Fraction(400, 1)), (Fraction(1, 1), Fraction(10000, 1)))
    >>> [float(each) for each in find_range("epsilon", Fraction(1, 10))]
    [0.005, 2.0]
    """
    from discreet.lab.parameters import PROBABILITIES

    if isinstance(default, int):
        return Fraction(1), Fraction(default if name in COSTLY else max(10, 4 * default))
    if name in PROBABILITIES:
        return Fraction(1, 10**12), Fraction(1, 2)
    exact = Fraction(default).limit_denominator(10**6)
    return exact / 20, exact * 20


def make_fields(defaults: dict[str, Any], values: dict[str, Any]) -> list[Field]:
    """Return the fields of a form."""
    found = []
    for name, default in defaults.items():
        least, most = find_range(name, default)
        step = "1" if isinstance(default, int) else "any"
        found.append(Field(name, _plain(values.get(name, default)), _plain(least), _plain(most), step))
    return found


def _plain(value: Any) -> str:
    """Return a number as an input takes it.

    >>> _plain(Fraction(1, 100_000)), _plain(3143), _plain(0.25)
    ('1e-05', '3143', '0.25')
    """
    return str(value) if isinstance(value, int) else f"{float(value):.10g}"


def read_options(visit: Visit, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that an address gives, each exactly and within its range."""
    from discreet.lab.parameters import parse_number

    found: dict[str, Any] = {}
    for name, default in defaults.items():
        text = visit.field(name).strip()
        if not text:
            continue
        if len(text) > 40:
            raise BadParameter(name, text[:40], "too long", "give fewer digits")
        value = parse_number(name, text, default)
        least, most = find_range(name, default)
        if not least <= value <= most:
            raise BadParameter(name, text, f"must be {_plain(least)} to {_plain(most)} on this page", "give another")
        found[name] = value
    return found


@lru_cache(maxsize=128)
def draw_figure(name: str, options: tuple[tuple[str, Any], ...]) -> bytes:
    """Return the SVG of a figure. It is the same every time, so it is kept."""
    from discreet.lab.figures import FIGURES
    from discreet.lab.figures.figure import render_svg

    return render_svg(FIGURES[name].with_options(**dict(options)))


@lru_cache(maxsize=128)
def list_numbers(name: str, options: tuple[tuple[str, Any], ...]) -> list[tuple[str, str]]:
    """Return the series of a figure in words: the first and the last number of each, for those who do not see the chart."""
    from discreet.lab.figures import FIGURES

    numbers = FIGURES[name].with_options(**dict(options)).numbers()
    found = []
    for key, values in numbers.items():
        flat = values.ravel()
        if flat.dtype.kind in "fiu" and flat.size:
            first, last = f"{flat[0]:.6g}", f"{flat[-1]:.6g}"
            found.append((key, first if flat.size == 1 else f"{flat.size:,} numbers, the first {first}, the last {last}"))
    return found


@lru_cache(maxsize=32)
def list_evidence(name: str) -> list[tuple[str, str]]:
    """Return the numbers that prove an erratum."""
    from discreet.lab.errata import ERRATA

    return [(key, f"{value:.6g}") for key, value in ERRATA[name].evidence().items()]


class Lab:
    """The pages of the lab."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.control = pages, pages.web, pages.control

    # Figures, errata, exercises

    def show_figure(self, visit: Visit) -> Later:
        """Draw a figure with its parameters."""
        figure, options = self._find_figure(visit)
        self.web.quote_limit.take(visit.caller.limit_key)
        changed = figure.with_options(**options)
        given = tuple(sorted(options.items()))
        address = f"/lab/figure/{figure.name}/picture?{urlencode({key: _plain(value) for key, value in given})}"

        def draw() -> Response:
            return self.pages.show(
                visit, "lab_figure", figure=changed, fields=make_fields(figure.options, changed.options),
                address=address.rstrip("?"), numbers=list_numbers(figure.name, given), caption=changed.caption.split("\n"),
            )  # fmt: skip

        return self.pages.draw_later(visit, draw)

    def send_picture(self, visit: Visit) -> Later:
        """Send the SVG of a figure."""
        figure, options = self._find_figure(visit)
        self.web.quote_limit.take(visit.caller.limit_key)

        def draw() -> Response:
            svg = draw_figure(figure.name, tuple(sorted(options.items())))
            return Response(svg, media_type="image/svg+xml", headers={"Cache-Control": "private, max-age=3600"})

        return self.pages.draw_later(visit, draw)

    @staticmethod
    def _find_figure(visit: Visit) -> tuple["Figure", dict[str, Any]]:
        from discreet.lab.figures import FIGURES

        if visit.path("name") not in FIGURES:
            raise not_found()
        figure = FIGURES[visit.path("name")]
        return figure, read_options(visit, figure.options)

    def show_erratum(self, visit: Visit) -> Later:
        """Draw what a text says, what is true, and the numbers that show it."""
        from discreet.lab.errata import ERRATA

        if visit.path("name") not in ERRATA:
            raise not_found()
        self.web.quote_limit.take(visit.caller.limit_key)
        erratum = ERRATA[visit.path("name")]

        def draw() -> Response:
            return self.pages.show(visit, "lab_erratum", erratum=erratum, evidence=list_evidence(erratum.name))

        return self.pages.draw_later(visit, draw)

    def show_exercise(self, visit: Visit) -> Later:
        """Draw an exercise; check an answer, or show the hint or the solution, if the address asks for it."""
        from discreet.lab.exercises import EXERCISES

        if visit.path("name") not in EXERCISES:
            raise not_found()
        self.web.quote_limit.take(visit.caller.limit_key)
        plain = EXERCISES[visit.path("name")]
        exercise, answer = plain.with_options(**read_options(visit, plain.options)), visit.field("answer").strip()

        def draw() -> Response:
            solution = exercise.solve() if visit.field("show") == "solution" else None
            feedback = self._check(exercise, answer) if answer else None
            return self.pages.show(
                visit, "lab_exercise", exercise=exercise, fields=make_fields(plain.options, exercise.options), answer=answer,
                feedback=feedback, solution=solution, hint=visit.field("show") == "hint",
            )  # fmt: skip

        return self.pages.draw_later(visit, draw)

    @staticmethod
    def _check(exercise: "Exercise", text: str) -> Any:
        parts = [part.strip() for part in text[:400].split(";" if ";" in text else ",")]
        return exercise.check(*(float(parse_rational(part, "answer")) for part in parts))

    # Attacks

    def show_attack(self, visit: Visit) -> Response | Later:
        """Draw an attack, and what it found if it was run; a page of one that runs waits for it, and holds no thread."""
        name = visit.path("name")
        if name not in classroom.LAB_ATTACKS:
            raise not_found()
        job = self.control.find_job(visit.field("job")) if len(visit.field("job")) == 32 else None
        if job is not None and (job.kind != "lab_attack" or job.payload.get("attack") != name):
            raise not_found()
        if job is None:
            return self._draw_attack(visit, name, None, None)

        async def wait() -> Response:
            ended = await self.web.bell.wait_for_job(job, ATTACK_SECONDS)
            return await run_in_threadpool(self._draw_attack, visit, name, ended, None)

        return wait

    def _draw_attack(self, visit: Visit, name: str, job: Job | None, refused: RefusedForm | None) -> Response:
        values = {} if job is None else {key: Fraction(str(each)) for key, each in job.payload["options"].items()}
        fields = [
            Field(
                key, _plain(values.get(key, each.default)), _plain(each.least), _plain(each.most),
                "1" if each.is_whole else "any",
            )
            for key, each in classroom.LAB_ATTACKS[name].items()
        ]  # fmt: skip
        return self.pages.show(visit, "lab_attack", refused=refused, attack=name, fields=fields, job=job, states=JobState)

    def run_attack(self, visit: Visit) -> Response:
        """Have a worker run an attack."""
        name = visit.path("name")
        if name not in classroom.LAB_ATTACKS:
            raise not_found()
        self.web.quote_limit.take(visit.caller.limit_key)
        return keep_form(
            visit, "attack", lambda: self._run_attack(visit, name), lambda kept: self._draw_attack(visit, name, None, kept)
        )

    def _run_attack(self, visit: Visit, name: str) -> Response:
        known = classroom.LAB_ATTACKS[name]
        given = {key: visit.field(key).strip()[:40] for key in known if visit.field(key).strip()}
        job = classroom.enqueue_attack(self.control, name, given, visit.caller.person.id)
        return redirect(f"/lab/attack/{name}?{urlencode({'job': job.id})}")


def add_to(pages: Pages) -> None:
    """Add the pages."""
    lab = Lab(pages)
    pages.add("/lab/figure/{name}", lab.show_figure)
    pages.add("/lab/figure/{name}/picture", lab.send_picture)
    pages.add("/lab/erratum/{name}", lab.show_erratum)
    pages.add("/lab/exercise/{name}", lab.show_exercise)
    pages.add("/lab/attack/{name}", lab.show_attack, lab.run_attack)
