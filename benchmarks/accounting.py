"""Accounting, beside its peers: `python benchmarks/accounting.py [words of a case's name …]` prints a table.

Every library answers one case per process, so that a crash or a hang of one is a cell in the table. Times are the best of
five after import; ε is what the library would report as its safe answer. ε below the truth is marked ↓: there the library
promises more privacy than there is.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "examples" / "census")]

import redistricting  # noqa: E402

from benchmarks.accountants.cases import CASES, Case  # noqa: E402
from benchmarks.peers import interpreter  # noqa: E402
from benchmarks.process_memory import peak_megabytes  # noqa: E402
from benchmarks.table import Section  # noqa: E402
from discreet import (  # noqa: E402
    DiscreteGaussian,
    Gaussian,
    Laplace,
    advantage,
    calibrate,
    compare_guarantees,
    delta,
    epsilon,
    plan,
)
from discreet._numbers import Bounds  # noqa: E402
from discreet.accounting.curve import bound_dominating_delta, bound_dominating_epsilon  # noqa: E402
from discreet.accounting.running import RunningTotal  # noqa: E402
from discreet.events import (  # noqa: E402
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    SampledWithoutReplacement,
    Subsampled,
    compose,
    repeat,
)
from discreet.planner.task import Count  # noqa: E402
from discreet.units import Sensitivity, count  # noqa: E402

PEERS = {
    "dp-accounting": ("run_dp_accounting.py", ["dp-accounting==0.6.0"]),
    "prv-accountant": ("run_prv_accountant.py", ["prv-accountant==0.2.0"]),
    "autodp": ("run_autodp.py", ["autodp==0.2.3.1", "numpy<2"]),
}
PATIENCE = 180  # seconds for one case of one library, all runs together
ABOUT = (
    "ε at δ, add/remove, sensitivity 1: the answer, its relative error, milliseconds (best of five after import). "
    "↓ marks an answer below the truth."
)


def ask(python: str | Path, script: str, case: Case) -> dict[str, Any]:
    """One library's answer to one case, or the reason why there is none."""
    question = json.dumps({"parts": [list(part) for part in case.parts], "delta": case.delta})
    environment = os.environ | {"DISCREET_EXPRESSION": case.expression(), "OMP_NUM_THREADS": "1"}
    if script.startswith("run_"):
        environment.pop("PYTHONPATH", None)
    command = [str(python), str(HERE / "accountants" / script)]
    try:
        done = subprocess.run(
            command, input=question, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"over {PATIENCE} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["died"])[-1].split(":")[0][:40]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def cell(answer: dict[str, Any], truth: float | None) -> str:
    """ε, how far off, how long; or what went wrong."""
    if "failure" in answer:
        return str(answer["failure"])
    epsilon, cost = answer["epsilon"], f"{answer['milliseconds']:.3g} ms"
    if truth is None:
        return f"{epsilon:.9g} · {cost}"
    error = epsilon / truth - 1
    return f"{epsilon:.9g}{' ↓' if error < -1e-9 else ''} · {error:+.1e} · {cost}"


def accounting(wanted: tuple[str, ...] = ()) -> Section:
    """Every case, or those whose name holds one of the words."""
    libraries: dict[str, tuple[str | Path, str]] = {"discreet": (sys.executable, "discreet_itself.py")}
    libraries |= {peer: (interpreter(peer, packages), script) for peer, (script, packages) in PEERS.items()}
    section = Section("Accounting", ABOUT, ["case", "truth", *libraries])
    ours = theirs = 0.0
    for case in CASES:
        if wanted and not any(word in case.name for word in wanted):
            continue
        answers = [ask(python, script, case) for python, script in libraries.values()]
        truth = "" if case.truth is None else f"{case.truth:.9g}"
        section.add(case.name, truth, *(cell(answer, case.truth) for answer in answers))
        near = [answer["milliseconds"] for answer in answers[1:] if accurate(answer, case.truth)]
        if near:
            ours, theirs = ours + answers[0]["milliseconds"], theirs + min(near)
        print(case.name, "done", file=sys.stderr, flush=True)
    summed = "summed over the cases where a peer is within 0.1%, the fastest such peer: goal ≥ 10 times"
    section.add(summed, "", f"{ours:.3g} ms", f"{theirs:.3g} ms", f"{theirs / ours:.1f} times" if ours else "", "")
    return section


def accurate(answer: dict[str, Any], truth: float | None) -> bool:
    """Within 0.1% of the truth, on either side."""
    return truth is not None and "epsilon" in answer and abs(answer["epsilon"] / truth - 1) <= 1e-3


def own_work() -> Section:
    """What has no peer: long ledgers, running totals, calibration, memory."""
    section = Section("Accounting: own work", "Milliseconds, best of five after import.", ["task", "ms", "goal"])
    for name, work, goal in _tasks():
        section.add(name, f"{best_of(work):.1f}", goal)
    once, often = (
        best_of(lambda k=k: epsilon(GaussianEvent(Fraction(k) ** 2, count()) * 1 + LAPLACE * k, 1e-6)) for k in (1, 10**6)
    )
    section.add("1-fold and 10⁶-fold Laplace beside a Gaussian", f"{once:.1f} and {often:.1f}", "alike")
    alone = subprocess.run([sys.executable, __file__, "memory"], check=True, capture_output=True, text=True)
    section.add("peak memory of a process that does all of this, MB", alone.stdout.strip(), "≤ 150")
    return section


def measure_memory() -> float:
    """Do all tasks once, and return the peak memory of this process in megabytes."""
    for _, work, _ in _tasks():
        work()
    return peak_megabytes()


def best_of(work: Callable[[], object]) -> float:
    """Milliseconds."""
    best = inf
    for _ in range(5):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


LAPLACE = LaplaceEvent(Fraction(1000), count())


def _tasks() -> Iterator[tuple[str, Callable[[], object], str]]:
    different = [DiscreteGaussianEvent(Fraction(50 + i), count()) for i in range(100)]
    different += [LaplaceEvent(Fraction(200 + i), count()) for i in range(100)]
    different += [GaussianEvent(Fraction(100 + i), count()) for i in range(50)]
    mixed = compose(*different)
    yield "250 different mechanisms, 100 of them discrete Gaussians", lambda: epsilon(mixed, 1e-6), "≤ 50"
    total = RunningTotal.for_delta(1e-6)
    for i in range(10_000):
        total = total.append(LaplaceEvent(Fraction(1000 + i % 97), count()))
    yield "append one to a running total of 10,000 and read ε", lambda: total.append(LAPLACE).epsilon(), "≤ 5"
    for kind, times, rate in ((Gaussian, 1000, None), (Laplace, 1000, None), (Gaussian, 10_000, Fraction(1, 100))):
        name = f"calibrate {kind.__name__}, {times:,} times" + (f", rate {float(rate)}" if rate else "")
        yield name, partial(calibrate, kind, sensitivity=1, epsilon=1, delta=1e-6, times=times, rate=rate), "≤ 200"


TENTH, HUNDREDTH = Fraction(1, 10), Fraction(1, 100)
TIGHT, LOOSE = 1e-6, 1e-3


def _corners() -> Iterator[tuple[str, Callable[[], Bounds], float]]:
    """Compositions that are hard to account for: a name, the interval, and the relative width that is wanted."""

    def cost(name: str, event: Event, width: float) -> tuple[str, Callable[[], Bounds], float]:
        return name, lambda: epsilon(event, 1e-6), width

    def pair_cost(name: str, event: Event) -> tuple[str, Callable[[], Bounds], float]:
        return f"{name}: the dominating pair alone", lambda: stated(bound_dominating_epsilon(event, 1e-6)), TIGHT

    def noise(kind: type[GaussianEvent] | type[DiscreteGaussianEvent], sigma: Fraction | int) -> Event:
        return kind(Fraction(sigma), count())

    def laplace(scale: Fraction | int) -> Event:
        return LaplaceEvent(Fraction(scale), count())

    def sample(event: Event, rate: Fraction = HUNDREDTH) -> Event:
        return Subsampled(event, rate)

    wide = DiscreteGaussianEvent(Fraction(1000), Sensitivity(l0=1, linf=1000))
    lattice = DiscreteLaplaceEvent(Fraction(1 << 20), Sensitivity(l0=1, linf=1 << 20))
    coins = BinomialEvent(10**6, Sensitivity(l0=1, linf=500))
    choice, bell = ExponentialEvent(Fraction(1)), noise(GaussianEvent, 1)
    narrow = DiscreteGaussianEvent(Fraction(1, 20), Sensitivity(l0=5, linf=1))
    only_l2 = DiscreteGaussianEvent(Fraction(10), Sensitivity(l2_squared=9))
    inside = compose(repeat(sample(bell, TENTH), 5), noise(GaussianEvent, 2))
    yield cost("100 × Subsampled(Laplace(1), 1/100)", 100 * sample(laplace(1)), TIGHT)
    yield cost("100 × Subsampled(Exponential(1), 1/100)", 100 * sample(choice), TIGHT)
    yield cost("1000 × Subsampled(Gaussian(1/20), 1/100)", 1000 * sample(noise(GaussianEvent, Fraction(1, 20))), TIGHT)
    yield cost("3 × Subsampled(Gaussian(1/20), 1/10)", 3 * sample(noise(GaussianEvent, Fraction(1, 20)), TENTH), TIGHT)
    without = SampledWithoutReplacement(bell, HUNDREDTH)
    yield cost("1000 × SampledWithoutReplacement(Gaussian(1), 1/100)", 1000 * without, TIGHT)
    yield pair_cost("1000 × SampledWithoutReplacement(Gaussian(1), 1/100)", 1000 * without)
    yield cost("10 × Subsampled(Gaussian(1), 1/100)", 10 * sample(bell), TIGHT)
    yield cost("10 × Subsampled(Laplace(1), 1/10)", 10 * sample(laplace(1), TENTH), TIGHT)
    yield cost("10 × SampledWithoutReplacement(Gaussian(1), 1/10)", 10 * SampledWithoutReplacement(bell, TENTH), TIGHT)
    yield pair_cost("10 × SampledWithoutReplacement(Gaussian(1), 1/10)", 10 * SampledWithoutReplacement(bell, TENTH))
    yield cost("10 × SampledWithoutReplacement(Laplace(1), 1/10)", 10 * SampledWithoutReplacement(laplace(1), TENTH), TIGHT)
    yield pair_cost("10 × SampledWithoutReplacement(Laplace(1), 1/10)", 10 * SampledWithoutReplacement(laplace(1), TENTH))
    different = compose(*(sample(noise(GaussianEvent, 1 + Fraction(i, 100)), Fraction(1, 100 + i)) for i in range(100)))
    yield cost("100 different Subsampled(Gaussian)", different, TIGHT)
    rates = compose(*(sample(laplace(2 + Fraction(i, 50)), Fraction(1, 50 + i)) for i in range(100)))
    yield cost("100 different Subsampled(Laplace)", rates, TIGHT)
    yield cost("100 × Exponential(1/10)", 100 * ExponentialEvent(TENTH), TIGHT)
    yield cost("10 × Exponential(1)", 10 * choice, TIGHT)
    yield cost("100 × Subsampled(DiscreteGaussian(1000), 1/100), sensitivity 1000", 100 * sample(wide), LOOSE)
    yield cost(
        "100 × Subsampled(Gaussian(5) + Laplace(20), 1/100)", 100 * sample(noise(GaussianEvent, 5) + laplace(20)), LOOSE
    )
    yield cost("Subsampled(Gaussian(5) + Laplace(20), 1/10)", sample(noise(GaussianEvent, 5) + laplace(20), TENTH), LOOSE)
    yield cost("100 × Subsampled(DiscreteLaplace(2²⁰), 1/100), sensitivity 2²⁰", 100 * sample(lattice), LOOSE)
    yield cost("100 × Subsampled(Binomial(10⁶), 1/100), sensitivity 500", 100 * sample(coins), LOOSE)
    yield cost("Subsampled(5 × Subsampled(Gaussian(1), 1/10) + Gaussian(2), 1/10)", sample(inside, TENTH), LOOSE)
    yield cost("10 × Subsampled(5 × Subsampled(Gaussian(1), 1/10) + Gaussian(2), 1/10)", 10 * sample(inside, TENTH), LOOSE)
    claimed = compose(sample(Claim(Fraction(1), Fraction(1, 10**6)), TENTH), noise(GaussianEvent, 2))
    yield cost("10 × Subsampled(Subsampled(Claim(1, 1e-6), 1/10) + Gaussian(2), 1/10)", 10 * sample(claimed, TENTH), LOOSE)
    yield cost("DiscreteGaussian(1/20), l0 = 5", narrow, LOOSE)
    yield cost("100 × DiscreteGaussian(3/10)", 100 * noise(DiscreteGaussianEvent, Fraction(3, 10)), TIGHT)
    yield cost("DiscreteGaussian(10), l2 = 3 alone", only_l2, LOOSE)
    yield cost("5 × DiscreteGaussian(10), l2 = 3 alone", 5 * only_l2, LOOSE)
    few, many = repeat(SampledWithoutReplacement(bell, TENTH), 3), repeat(sample(laplace(Fraction(13, 2)), TENTH), 20)
    census = redistricting.make_event()
    name = "2020 redistricting data, persons: 65 discrete Gaussians, replace, δ = 1e-10; published: 17.14"
    yield name, lambda: epsilon(census, redistricting.DELTA), TIGHT
    yield "δ at ε = 1 of 3 × SampledWithoutReplacement(Gaussian(1), 1/10)", lambda: delta(few, 1), TIGHT
    yield "advantage of 3 × SampledWithoutReplacement(Gaussian(1), 1/10)", lambda: advantage(few), TIGHT
    rounds = "3 × SampledWithoutReplacement(Gaussian(1), 1/10): the dominating pair alone"
    yield f"δ at ε = 1 of {rounds}", lambda: stated(bound_dominating_delta(few, 1)), TIGHT
    yield f"advantage of {rounds}", lambda: stated(bound_dominating_delta(few, 0)), TIGHT
    yield "δ at ε = 1/10 of 20 × Subsampled(Laplace(13/2), 1/10)", lambda: delta(many, TENTH), TIGHT
    yield "advantage of 20 × Subsampled(Laplace(13/2), 1/10)", lambda: advantage(many), TIGHT


def stated(found: Bounds | None) -> Bounds:
    """What a dominating pair has, where one is stated."""
    assert found is not None
    return found


def corners(wanted: tuple[str, ...] = ()) -> Section:
    """Every corner, or those whose name holds one of the words: the interval, its width and its cost in CPU time."""
    section = Section(
        "Accounting: corners",
        "ε at δ = 1e-6 unless said. Milliseconds of CPU time in a warm process, best of three. The lower end is what "
        "neighbours attain. Rows of the dominating pair alone bound the curve of that pair from both sides.",
        ["case", "interval", "relative width", "goal", "ms", "goal, ms"],
    )
    for name, work, goal in _corners():
        if not wanted or any(word in name for word in wanted):
            took, found = measure(work)
            width = (found.upper - found.lower) / found.upper if found.upper else 0.0
            section.add(
                name, f"[{found.lower:.9g}, {found.upper:.9g}]", f"{width:.1e}", f"≤ {goal:.0e}", f"{took:.0f}", "≤ 100"
            )
            print(section.rows[-1], file=sys.stderr, flush=True)
    for name, task, limit in _long_tasks():
        if not wanted or any(word in name for word in wanted):
            took, _ = measure(task)
            section.add(name, "", "", "", f"{took:.0f}", f"≤ {limit}")
            print(section.rows[-1], file=sys.stderr, flush=True)
    return section


def _long_tasks() -> Iterator[tuple[str, Callable[[], object], int]]:
    fresh = iter(range(1, 1000))  # other events every time: what was computed for the last ones does not help
    yield "every guarantee of 300 different events", lambda: compare_guarantees(_different(next(fresh)), 1e-6), 100
    for times, cost in ((30, 300), (100, 1000), (1000, 1000)):
        work = partial(calibrate, DiscreteGaussian, sensitivity=1, epsilon=cost, delta=1e-6, times=times)
        yield f"calibrate DiscreteGaussian to ε = {cost}, {times} times", work, 500
    yield (
        "plan(Count(), epsilon=300, delta=1e-6, queries=30)",
        partial(plan, Count(), epsilon=300, delta=1e-6, queries=30),
        1000,
    )


def _different(seed: int) -> Event:
    """A hundred Gaussians, a hundred Laplace and a hundred sampled Gaussians, no two alike."""
    events: list[Event] = [GaussianEvent(Fraction(100 * seed + i), count()) for i in range(100)]
    events += [LaplaceEvent(Fraction(100 + 100 * seed + i), count()) for i in range(100)]
    sigmas = (1 + Fraction(i, 100) + Fraction(seed, 10**6) for i in range(100))
    return compose(*events, *(Subsampled(GaussianEvent(s, count()), Fraction(1, 100 + i)) for i, s in enumerate(sigmas)))


Found = TypeVar("Found")


def measure(work: Callable[[], Found]) -> tuple[float, Found]:
    """Milliseconds of CPU time, the best of three after a first run, and what was found."""
    found, best = work(), inf
    for _ in range(3):
        start = time.process_time()
        found = work()
        best = min(best, (time.process_time() - start) * 1e3)
        if best > 5000:
            break
    return best, found


SECTIONS = [accounting, own_work, corners]

if __name__ == "__main__":
    print(f"{measure_memory():.0f}" if sys.argv[1:] == ["memory"] else accounting(tuple(sys.argv[1:])).markdown())
