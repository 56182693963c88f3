"""What a training run will do and cost: fixed before any record is read, from public numbers alone.

**The law of DP-SGD** [ACG16]. In each of T steps every record is included independently with probability q, its gradient
is clipped to norm C, and the *sum* of the clipped gradients is released with Gaussian noise of deviation z·C. What the
optimiser makes of the releases is post-processing. Between data sets that differ in one record, a step is a Poisson-sampled
Gaussian of ratio z, and the run is its T-fold composition, whatever the weights were: `subsample(Gaussian(z), q)·T`
[MTZ19, ZDW22]. T, q, C, z, the divisor of the sum and the optimiser are declared; none is computed from the records, not
even their number.

With checkpoints, r resumptions may repeat up to `every` steps each: T + r·every steps are paid for.

**Units with several records.** The law above is for one record. If one privacy unit has up to k records, data sets that
differ in a unit differ in up to k records, and the cost is that of the group: `group(…, k)`. It is never taken for 1 where
records of a session or its unit say otherwise.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, isqrt, sqrt
from typing import Any, Literal, TypeAlias

from discreet._numbers import Number, ceil_digits, check_int, check_positive, format_up, smallest_where, to_rational
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import Pure, certified_epsilon
from discreet.errors import BadParameter
from discreet.events import Composition, compose, group, repeat, subsample
from discreet.learn.charging import Payer, make_terms
from discreet.learn.training.quantise import GRID_BITS, bound_float_error
from discreet.ledger.account import Account
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.mechanisms.calibration import check_rate, find_smallest_scale, guess_scale
from discreet.mechanisms.gaussian import Gaussian
from discreet.session.charging import ChargeTerms
from discreet.session.session import Session
from discreet.units import Sensitivity

Sums: TypeAlias = Literal["exact", "float"]
NOISE_DIGITS = 7
"""Digits of a noise multiplier."""
MIN_CHUNK, MAX_CHUNK = 16, 512
CHUNK_NUMBERS = 1 << 23
"""Gradients of a chunk, where there is one per record, have at most so many numbers."""
CLIP_RANGE = (Fraction(1, 1 << 40), Fraction(1 << 40))


@dataclass(frozen=True)
class Schedule:
    """The public numbers of a run."""

    expected: int  # about how many records there are
    rate: Fraction
    steps: int
    clip: Fraction
    parameters: int
    chunk: int
    sums: Sums
    every: int | None = None
    resumes: int = 0
    max_rows: int = 1  # records of one privacy unit

    @property
    def divisor(self) -> Fraction:
        """By which the noisy sum is divided: the expected size of a batch, from `expected` and not from the records."""
        return self.expected * self.rate

    @property
    def paid_steps(self) -> int:
        """How many steps are paid for."""
        return self.steps + self.resumes * (self.every or 0)

    @property
    def narrow_chunks(self) -> int:
        """How many chunks of a step are summed in the model's own floats, if sums are of floats; the others in doubles."""
        size = float(self.divisor)
        return ceil((size + 4 * sqrt(size)) / self.chunk)

    @cached_property
    def sensitivity(self) -> int:
        """How far one record moves the integers of a step, in length: 2³⁰ grid steps for exact sums.

        Sums of floats differ from the real sums by `bound_float_error` on both sides, and by less than one step for each
        coordinate where they are rounded to the grid: each narrow chunk, and the sum of the others.
        """
        if self.sums == "exact":
            return 1 << GRID_BITS
        growth = 1 + 2 * bound_float_error(self.chunk, self.narrow_chunks)
        return ceil(growth * (1 << GRID_BITS)) + 2 * (self.narrow_chunks + 1) * (isqrt(self.parameters) + 1)

    def event_at(self, noise: Fraction, steps: int | None = None) -> Composition:
        """Return the event of the paid steps, or of so many, at a noise multiplier."""
        step = Gaussian(noise * (1 << GRID_BITS)).event(Sensitivity(l2=self.sensitivity))
        run = repeat(subsample(step, self.rate), self.paid_steps if steps is None else steps)
        return run if self.max_rows == 1 else compose(group(run, self.max_rows))


@dataclass(frozen=True)
class TrainingPlan:
    """A schedule with its noise, and how it is paid for."""

    schedule: Schedule
    noise: Fraction  # the multiplier z: noise of deviation z·C on the sum
    terms: ChargeTerms
    payer: Payer

    @cached_property
    def event(self) -> Composition:
        """What will have happened after the paid steps."""
        return self.schedule.event_at(self.noise)

    @property
    def mechanism(self) -> Gaussian:
        """The noise of one step, in grid steps."""
        return Gaussian(self.noise * (1 << GRID_BITS))

    @cached_property
    def charge(self) -> Fraction:
        """What it costs, in the account's currency."""
        return to_rational(self.terms.compute_charge(self.event))

    def open_account(self) -> Account:
        """Return the account that pays; without one, a new one in memory for one run."""
        if self.payer is None:
            return MemoryAccount(create_budget(self.terms.limit, self.terms.certified_delta, Pure()))
        return self.payer.account if isinstance(self.payer, Session) else self.payer

    def cost(self, remaining: Fraction | None = None) -> Cost:
        """ε at δ, the charge, and what remains of the account's budget."""
        budget = self.open_account().budget
        left = budget.remaining if remaining is None else remaining
        return Cost(self.event, self.terms.delta, self.terms.currency, self.charge, left, budget.limit)

    def describe(self) -> dict[str, Any]:
        """Return the plan as plain values, which are hashed."""
        schedule = self.schedule
        return {
            "method": "DP-SGD",
            "expected": schedule.expected,
            "rate": str(schedule.rate),
            "steps": schedule.steps,
            "paid_steps": schedule.paid_steps,
            "clip": str(schedule.clip),
            "noise_multiplier": str(self.noise),
            "divisor": str(schedule.divisor),
            "parameters": schedule.parameters,
            "chunk": schedule.chunk,
            "sums": schedule.sums,
            "every": schedule.every,
            "resumes": schedule.resumes,
        } | ({"max_rows": schedule.max_rows} if schedule.max_rows > 1 else {})


def make_schedule(
    *, expected: int, rate: Number | str, steps: int, clip: Number, parameters: int, chunk: int | None, sums: Sums,
    every: int | None, resumes: int, multiplied: int = 1, max_rows: int | None = None,
) -> Schedule:  # fmt: skip
    """Check the public numbers of a run. `multiplied` is how many numbers of each record a chunk holds."""
    exact_rate = check_rate(_read_rate(rate))
    assert exact_rate is not None
    records, count = check_int(expected, "expected", 1), check_int(steps, "steps", 1)
    if records * exact_rate < 1:
        raise BadParameter(
            "rate", str(rate), f"of {records} records less than one is expected in a batch", "take a larger rate"
        )
    exact_clip = check_positive(clip, "clip")
    if not CLIP_RANGE[0] <= exact_clip <= CLIP_RANGE[1]:
        raise BadParameter("clip", clip, "beyond what floats can divide by", "take a norm such as 1")
    if sums not in ("exact", "float"):
        raise BadParameter("sums", repr(sums), "no such sums", 'take "exact", or "float" for quicker steps at a higher cost')
    batch = records * exact_rate
    size = choose_chunk(batch, exact_rate, multiplied) if chunk is None else check_int(chunk, "chunk", 2)
    if every is not None and (check_int(every, "every", 1) > count or count % every):
        raise BadParameter("every", every, f"does not divide the {count} steps", "take a divisor, such as steps // 10")
    again = check_int(resumes, "resumes")
    if again and every is None:
        raise BadParameter("resumes", resumes, "there are no checkpoints to resume from", "give every=, say steps // 10")
    rows = 1 if max_rows is None else check_int(max_rows, "max_rows", 1)
    return Schedule(records, exact_rate, count, exact_clip, parameters, size, sums, every, again, rows)


def choose_chunk(batch: Fraction, rate: Fraction, numbers: int) -> int:
    """Return how many records are computed at once: a batch that is larger than expected by two deviations, or an even share
    of it, in multiples of 16; few enough that so many numbers of each record fit into memory.

    >>> choose_chunk(Fraction(256), Fraction(1, 100), 1), choose_chunk(Fraction(4096), Fraction(1, 10), 1)
    (288, 480)
    """
    size = float(batch) + 2 * sqrt(batch * (1 - rate))
    limit = max(MIN_CHUNK, min(MAX_CHUNK, CHUNK_NUMBERS // numbers))
    return MIN_CHUNK * ceil(size / ceil(size / limit) / MIN_CHUNK)


def _read_rate(rate: Number | str) -> Number:
    if not isinstance(rate, str):
        return rate
    try:
        return Fraction(rate)
    except (ValueError, ZeroDivisionError):
        raise BadParameter("rate", repr(rate), "not a number", 'give a fraction such as "1/100"') from None


def make_plan(
    schedule: Schedule, *, epsilon: Number | None, noise: Number | None, delta: Number | None, payer: Payer
) -> TrainingPlan:
    """Find the least noise that ε allows, or the ε of a noise multiplier.

    >>> schedule = make_schedule(expected=1000, rate="1/10", steps=10, clip=1, parameters=5, chunk=64, sums="exact",
    ...                          every=None, resumes=0)
    >>> plan = make_plan(schedule, epsilon=1, noise=None, delta=1e-5, payer=None)
    >>> plan.charge <= 1, round(float(plan.noise), 3)
    (True, 1.741)
    """
    if (epsilon is None) == (noise is None):
        given = "both given" if noise is not None else "missing"
        raise BadParameter("epsilon", given, "a run has one of epsilon and noise", "give epsilon=1, or noise=1.1")
    if noise is not None:
        return _plan_for_noise(schedule, check_positive(noise, "noise"), delta, payer)
    terms = make_terms(epsilon, delta, payer, "training")
    guess = guess_scale(1.0, terms.limit, terms.certified_delta or terms.delta, schedule.paid_steps, schedule.rate)
    if terms.certified_delta:
        least = float(find_smallest_scale(schedule.event_at, terms.limit, terms.certified_delta, guess))
    else:
        least = smallest_where(
            lambda z: terms.compute_charge(schedule.event_at(Fraction(z))) <= terms.limit, 1.0, 2.0**-20, guess
        )
    if least == inf:
        raise BadParameter(
            "account",
            f"kept in {terms.currency.name}",
            "no noise brings training within this ε",
            "open a pure account with a δ",
        )
    return TrainingPlan(schedule, ceil_digits(least, NOISE_DIGITS), terms, payer)


def _plan_for_noise(schedule: Schedule, noise: Fraction, delta: Number | None, payer: Payer) -> TrainingPlan:
    event = schedule.event_at(noise)
    at = delta
    if at is None and isinstance(payer, Session):
        at = payer.delta
    if at is None:
        raise BadParameter("delta", "missing", "training draws Gaussian noise, which has no pure ε", "give delta=1e-6, say")
    upper = certified_epsilon(event, to_rational(at, "delta")).upper
    terms = make_terms(ceil_digits(upper, 6), delta, payer, "training")
    if not terms.certified_delta:
        terms = ChargeTerms(
            terms.currency, terms.delta, terms.certified_delta, to_rational(terms.compute_charge(event)), Fraction(0)
        )
    return TrainingPlan(schedule, noise, terms, payer)


def _format_amount(amount: float, unit: str) -> str:
    """Say about how much it is, in whole units.

    >>> _format_amount(0.2, "s"), _format_amount(1234.5, "MB")
    ('less than 1 s', 'about 1,234 MB')
    """
    return f"less than 1 {unit}" if amount < 1 else f"about {amount:,.0f} {unit}"


@dataclass(frozen=True)
class TrainingQuote:
    """What a run will cost: in ε, in time and in memory. No record was read."""

    plan: TrainingPlan
    method: str
    step_seconds: float  # gradients of the expected batch
    noise_seconds: float  # noise of one step, drawn beside the gradients
    memory: int  # bytes, beyond the records

    @property
    def cost(self) -> Cost:
        """ε at δ, as a certified interval, and what remains of the account's budget."""
        return self.plan.cost()

    @property
    def seconds(self) -> float:
        """About how long the run takes on this machine, as busy as it is now."""
        return self.plan.schedule.steps * max(self.step_seconds, self.noise_seconds)

    @property
    def noise_per_step(self) -> float:
        """The deviation of the noise in each coordinate of a step's mean gradient."""
        schedule = self.plan.schedule
        return float(self.plan.noise * schedule.clip / schedule.divisor)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **self.plan.describe(),
            "cost": self.cost.to_dict(),
            "noise_per_step": self.noise_per_step,
            "gradients": self.method,
            "seconds": self.seconds,
            "noise_seconds": self.noise_seconds * self.plan.schedule.steps,
            "memory_bytes": self.memory,
        }

    def __str__(self) -> str:
        schedule = self.plan.schedule
        return (
            f"Training: {self.cost.describe()}.\n"
            f"{schedule.steps:,} steps (paid for: {schedule.paid_steps:,}), batches of about {float(schedule.divisor):,.0f} "
            f"records, {schedule.parameters:,} parameters; gradients by {self.method}, {schedule.sums} sums.\n"
            f"Noise: {format_up(self.plan.noise, 4)} times the clip norm of {format_up(schedule.clip, 4)}, which is "
            f"{self.noise_per_step:.3g} in each coordinate of a step's mean gradient.\n"
            f"Time on this machine: {_format_amount(self.seconds, 's')}. "
            f"Memory: {_format_amount(self.memory / 2**20, 'MB')}."
        )

    __repr__ = __str__
