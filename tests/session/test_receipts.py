"""One receipt, one noise: wherever a receipt is taken, it is spent."""

import ast
import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import discreet
from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.events import Claim, Composition, compose
from discreet.learn import Moments
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.query.answer import IntervalOptions, release
from discreet.session.executor import Executor, QueryJob, RunOptions
from discreet.session.session import Session
from discreet.synthesis import AdaptiveSynthesis, Cells, TreeSynthesis
from discreet.synthesis.adaptive import Columns, Round
from discreet.synthesis.raking import fit_rows
from discreet.synthesis.synthesis import CellReader, SynthesisJob
from discreet.tabulation.hierarchy import Hierarchy, LevelTable
from discreet.tabulation.hierarchy_measuring import HierarchyJob
from discreet.tabulation.hierarchy_plan import plan_hierarchy
from discreet.tabulation.measuring import TabulationJob
from discreet.tabulation.plan import plan_tabulation
from discreet.tabulation.spool import Spool
from discreet.testing import seeded_bits

SOURCE = Path(discreet.__file__).parent
SIZES = (2, 3)
CELLS = Cells.read(SIZES, np.array([[0, 1], [1, 2], [1, 0]]))
OPTIONS, INTERVALS = RunOptions(), IntervalOptions(0.95)

Draw = Callable[[Receipt], Any]


def connect() -> Session:
    return discreet.connect(
        "examples/people.csv", unit="id", unique=True, epsilon=5, delta=1e-6,
        keys={"dept": ["sales", "research", "legal"]}, bounds={"age": (18, 70)},
    )  # type: ignore[return-value]  # fmt: skip


def of_query() -> tuple[Composition, Draw]:
    session = connect()
    measurement = session.calibrate("SELECT COUNT(*) AS n FROM people", epsilon=1)
    exact = session.engine.run(measurement.bounded)
    return measurement.event, lambda receipt: release(measurement, exact, receipt)


def of_query_job() -> tuple[Composition, Draw]:
    session = connect()
    measurement = session.calibrate("SELECT COUNT(*) AS n FROM people", epsilon=1)
    job = QueryJob((measurement,), measurement.event, {})
    return job.event, lambda receipt: job.measure(session.executor, receipt, OPTIONS, INTERVALS)


def of_workload() -> tuple[Composition, Draw]:
    session = connect()
    measurement = session.calibrate("SELECT COUNT(*) AS n FROM people", epsilon=1)
    job = QueryJob((measurement, measurement), compose(measurement.event, measurement.event), {}, is_workload=True)
    return job.event, lambda receipt: job.measure(session.executor, receipt, OPTIONS, INTERVALS)


def of_tabulation() -> tuple[Composition, Draw]:
    session = connect()
    plan = plan_tabulation(session, ["dept", ()], epsilon=1)
    job = TabulationJob(plan.wanted.bounded, plan.noises, plan.event, plan.describe())
    return job.event, lambda receipt: job.measure(session.executor, receipt, OPTIONS, INTERVALS)


def of_hierarchy() -> tuple[Composition, Draw]:
    session = connect()
    hierarchy = Hierarchy.read("all > dept", {"dept": ["sales", "research", "legal"]})
    plan = plan_hierarchy(session, hierarchy, {"total": LevelTable()}, epsilon=1)

    def draw(receipt: Receipt) -> object:
        with TemporaryDirectory() as folder:  # a new one each time: a folder by itself draws nothing twice
            spool = Spool.create(Path(folder) / "measurements", "plan")
            job = HierarchyJob(plan.wanted, plan.noises, plan.stream_level, spool, plan.event, {})
            return job.measure(session.executor, receipt, OPTIONS, INTERVALS)

    return plan.event, draw


class Caught(Exception):
    """Carries the job of a fit out of it."""


def of_fit() -> tuple[Composition, Draw]:
    session = connect()

    def catch(_: Executor, job: Any, *others: Any) -> None:
        raise Caught(job)

    with patch.object(Executor, "execute", catch), pytest.raises(Caught) as caught:
        Moments(epsilon=1).fit(session.records("age"))
    job = caught.value.args[0]
    return job.event, lambda receipt: job.measure(session.executor, receipt, OPTIONS, INTERVALS)


def of_tree() -> tuple[Composition, Draw]:
    plan = TreeSynthesis(SIZES, 1)
    return plan.event, lambda receipt: plan.measure(CELLS, receipt)


def of_synthesis_job() -> tuple[Composition, Draw]:
    plan, session = TreeSynthesis(SIZES, 1), connect()
    bounded = plan_tabulation(session, ["dept"], epsilon=1).wanted.bounded
    job = SynthesisJob(
        bounded, plan.event, {}, lambda cells, paid, bits: plan.measure(cells, paid, bits).tables, CellReader(bounded, CELLS)
    )
    return job.event, lambda receipt: job.measure(session.executor, receipt, OPTIONS, INTERVALS)


def of_first_round() -> tuple[Composition, Draw]:
    step = Columns(AdaptiveSynthesis(SIZES, 1))
    return step.event, lambda receipt: step.run(CELLS, None, receipt, None)


def of_round() -> tuple[Composition, Draw]:
    plan = AdaptiveSynthesis(SIZES, 1)
    tables = Columns(plan).run(CELLS, None, Receipt(0, Columns(plan).event), seeded_bits(1))
    model = fit_rows(SIZES, tables, np.random.default_rng(1), rows=100)
    step = Round.plan(plan, Fraction(1, 10))
    return step.event, lambda receipt: step.run(CELLS, model, receipt, None)


PLACES: dict[str, Callable[[], tuple[Composition, Draw]]] = {
    "query/answer.py: release": of_query,
    "session/executor.py: QueryJob.measure": of_query_job,
    "session/executor.py: QueryJob._measure_one": of_workload,
    "tabulation/measuring.py: TabulationJob.measure": of_tabulation,
    "tabulation/hierarchy_measuring.py: HierarchyJob.measure": of_hierarchy,
    "learn/session_records.py: FitJob.measure": of_fit,
    "synthesis/tree.py: TreeSynthesis.measure": of_tree,
    "synthesis/synthesis.py: SynthesisJob.measure": of_synthesis_job,
    "synthesis/adaptive.py: Columns.run": of_first_round,
    "synthesis/adaptive.py: Round.run": of_round,
}
"""Where a receipt is taken and noise is drawn."""

NO_NOISE = {
    "auditor/trainer_replay.py: _FreeAccount.record",  # takes the place of an account
    "learn/charging.py: finish",  # what was released, with its cost
    "session/executor.py: Job.measure",  # abstract
    "synthesis/measuring.py: spend_receipt",
    "tabulation/hierarchy_measuring.py: SpoolJob.measure",  # makes a folder
}
ACCOUNTS = ("ledger/", "serve/worker/holding.py")
"""Accounts make receipts, and record answers under them."""


@pytest.mark.parametrize("place", PLACES)
def test_a_second_noise_is_refused(place: str) -> None:
    event, draw = PLACES[place]()
    receipt = Receipt(1, event)
    draw(receipt)
    with pytest.raises(BadParameter, match="spent"):
        draw(receipt)
    with pytest.raises(BadParameter, match="another measurement"):
        draw(Receipt(1, compose(event, Claim(Fraction(1), Fraction(0)))))
    draw(Receipt(1, event))  # that another receipt suffices shows that nothing else was wrong


def test_every_place_that_takes_a_receipt_is_in_the_list() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(ACCOUNTS):
            found |= {f"{name}: {function}" for function in list_takers(ast.parse(path.read_text()))}
    assert found == {*PLACES} | NO_NOISE


def list_takers(tree: ast.AST, prefix: str = "") -> list[str]:
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            found += list_takers(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            given = [*node.args.args, *node.args.kwonlyargs]
            if any(each.annotation is not None and "Receipt" in ast.unparse(each.annotation) for each in given):
                found.append(prefix + node.name)
    return found


EVENT = compose(Claim(Fraction(1, 4), Fraction(0)))


def test_a_debit_without_an_answer_is_continued_with_another_receipt() -> None:
    """A measurement that failed after its receipt was spent is not lost: its debit has a receipt again."""
    account = MemoryAccount(create_budget(1, 0))
    first = account.reserve(EVENT, measurement="c0ffee")
    assert isinstance(first, Receipt)
    first.spend(EVENT)
    again = account.reserve(EVENT, measurement="c0ffee")
    assert isinstance(again, Receipt)
    assert again == first
    assert account.budget.remaining == Fraction(3, 4)
    again.spend(EVENT)
    assert account.record(again, b"about 40") == account.record(first, b"about 50") == b"about 40"


def test_parts_are_spent_one_by_one_and_the_whole_is_split_once() -> None:
    whole = Receipt(1, compose(EVENT, EVENT))
    first, second = whole.split([EVENT, EVENT])
    first.spend(EVENT)
    second.spend(EVENT)
    for spent in (lambda: whole.split([EVENT, EVENT]), lambda: first.spend(EVENT), lambda: whole.spend(whole.event)):
        with pytest.raises(BadParameter, match="spent"):
            spent()
    assert replace(whole) == whole  # whether a receipt is spent is no part of what it says


COPIES: dict[str, Callable[[Receipt], Receipt]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy of what holds it": lambda receipt: copy.deepcopy([receipt])[0],
    "replace": replace,
    "replace a field": lambda receipt: replace(receipt, entry=2),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("is_copied_first", [True, False])
def test_copies_of_a_receipt_are_spent_together(way: str, is_copied_first: bool) -> None:
    """The mutant, a copy with a mark of its own, would pay for a second noise."""
    receipt = Receipt(1, EVENT)
    early = COPIES[way](receipt)
    receipt.spend(EVENT)
    with pytest.raises(BadParameter, match="spent"):
        (early if is_copied_first else COPIES[way](receipt)).spend(EVENT)
    renewed = receipt.renew()
    COPIES[way](renewed).spend(EVENT)  # and the original is spent with its copy
    with pytest.raises(BadParameter, match="spent"):
        renewed.spend(EVENT)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_receipt_is_not_pickled(protocol: int) -> None:
    receipt = Receipt(1, EVENT)
    for value in (receipt, {"receipt": receipt}):
        with pytest.raises(BadParameter, match="pay for the same noise again"):
            pickle.dumps(value, protocol)
    receipt.spend(EVENT)


def test_of_two_threads_one_draws() -> None:
    for _ in range(50):
        receipt, drawn, both = Receipt(1, EVENT), [], Barrier(2)

        def draw(receipt: Receipt = receipt, drawn: list[bool] = drawn, both: Barrier = both) -> None:
            both.wait()
            try:
                receipt.spend(EVENT)
            except BadParameter:
                return
            drawn.append(True)

        threads = [Thread(target=draw) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert drawn == [True]
