"""Crashes, copies and rivals: no step is released for nothing, and no debit is lost.

A child process trains and is killed at its k-th event, for every k: a claim, a step, a checkpoint, a record. Each step that
it computes is written to a file first, so that the steps of all processes can be counted.
"""

import os
import shutil
import signal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from discreet.accounting.currencies import Pure
from discreet.errors import BadParameter, BudgetExceeded
from discreet.learn.training import PrivateTrainer, TrainingFailed
from discreet.learn.training import trainer as trainer_module
from discreet.learn.training.checkpoint import Attempts, Checkpoint
from discreet.ledger import open_ledger
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.check import check_ledger
from discreet.testing import seeded_bits
from tests.learn.training.models import LOSS

FEATURES = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
TARGETS = np.random.default_rng(1).integers(0, 2, 30)
STEPS, EVERY, RESUMES = 4, 2, 1
FINISHED, REFUSED = 0, 3
FIRST_STEP = -1
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1).step()  # imports what an optimiser needs, before processes fork


def open_test_account(folder: Path, epsilon: float = 9) -> LedgerAccount:
    ledger = open_ledger(folder / "ledger", create=True)
    known = {each.name for each in ledger.list_accounts()}
    return ledger.get_account("ml") if "ml" in known else ledger.open_account("ml", epsilon, 1e-4, Pure())


def make_trainer(account, **changes):
    torch.manual_seed(0)
    given = {
        "expected": 30, "rate": Fraction(1, 2), "steps": STEPS, "noise": 4, "delta": 1e-5, "chunk": 4, "every": EVERY,
        "resumes": RESUMES, "optimizer": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9), "account": account,
    } | changes  # fmt: skip
    return PrivateTrainer(nn.Linear(4, 2), LOSS, **given)


def watch_events(folder: Path, kill_at: int | None) -> None:
    """Count events in this process, write down steps, and kill the process at an event."""
    count = 0

    def note(step: bool) -> None:
        nonlocal count
        if step:
            with (folder / "steps").open("ab", buffering=0) as file:
                file.write(b".")
        if count == kill_at or (step and kill_at == FIRST_STEP):
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    def wrap(owner, name: str, *, before: bool, step: bool = False) -> None:
        honest = getattr(owner, name)

        def watched(*args, **kwargs):
            if before:
                note(step)
            result = honest(*args, **kwargs)
            if not before:
                note(step)
            return result

        setattr(owner, name, watched)

    wrap(LedgerAccount, "reserve", before=True)
    wrap(Attempts, "claim", before=False)
    wrap(trainer_module._Run, "_apply", before=True, step=True)
    wrap(Checkpoint, "save", before=True)
    wrap(Checkpoint, "save", before=False)
    wrap(LedgerAccount, "record", before=True)


def run_child(folder: Path, kill_at: int | None = None, file: str = "run.pt", **changes) -> int:
    """Train in a child process. Return its exit code; a negative one is the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 9
        try:
            watch_events(folder, kill_at)
            make_trainer(open_test_account(folder), **changes).train(FEATURES, TARGETS, checkpoint=folder / file)
            code = FINISHED
        except BadParameter:
            code = REFUSED
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def count_steps(folder: Path) -> int:
    return len((folder / "steps").read_bytes()) if (folder / "steps").exists() else 0


def check_accounts(folder: Path, debits: int = 1) -> None:
    """The ledger is sound, and paid for every step that was computed."""
    account = open_test_account(folder)
    charge = make_trainer(account).plan.charge
    assert count_steps(folder) <= debits * (STEPS + RESUMES * EVERY)
    assert account.budget.spent == debits * charge
    report = check_ledger(open_ledger(folder / "ledger"))
    assert report.is_valid
    assert len([each for each in report.unanswered if "attempt" in each]) <= 1  # where the crash was


def test_a_run_with_checkpoints_finishes_and_pays_once(tmp_path):
    assert run_child(tmp_path) == FINISHED
    assert count_steps(tmp_path) == STEPS
    check_accounts(tmp_path)
    assert run_child(tmp_path) == REFUSED  # it is finished: one debit pays for one result
    assert count_steps(tmp_path) == STEPS


def test_a_crash_anywhere_is_resumed_and_costs_nothing_more(tmp_path):
    reached = 0
    for kill_at in range(40):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        open_test_account(folder)
        ended = run_child(folder, kill_at)
        if ended == FINISHED:
            break
        assert ended == -signal.SIGKILL
        reached += 1
        assert run_child(folder) == FINISHED
        assert STEPS <= count_steps(folder) <= STEPS + EVERY
        check_accounts(folder)
    assert reached >= STEPS + 6


def test_repeated_crashes_use_up_the_attempts(tmp_path):
    """Each attempt is killed at its first step: what was paid is used up, and then nothing is computed any more."""
    open_test_account(tmp_path)
    outcomes = [run_child(tmp_path, kill_at=FIRST_STEP) for _ in range(5)]
    assert outcomes == [-signal.SIGKILL] * 3 + [REFUSED] * 2
    assert count_steps(tmp_path) == 3
    check_accounts(tmp_path)


def test_a_copied_checkpoint_is_not_continued_for_free(tmp_path):
    """The mutant counts attempts in the file: its copies compute more steps than were paid for."""
    open_test_account(tmp_path)
    assert run_child(tmp_path, kill_at=9) == -signal.SIGKILL  # in its second segment
    for i in range(4):
        shutil.copy(tmp_path / "run.pt", tmp_path / f"copy{i}.pt")
    outcomes = [run_child(tmp_path, file=f"copy{i}.pt") for i in range(4)]
    assert outcomes.count(FINISHED) <= 1
    check_accounts(tmp_path)


def test_attempts_counted_in_memory_fork_for_free(tmp_path, monkeypatch):
    def claim_for_free(self) -> int:
        self.begun += 1
        return self.begun

    monkeypatch.setattr(Attempts, "claim", claim_for_free)
    monkeypatch.setattr(LedgerAccount, "record", lambda self, receipt, answer: answer)
    open_test_account(tmp_path)
    run_child(tmp_path, kill_at=9)
    for i in range(4):
        shutil.copy(tmp_path / "run.pt", tmp_path / f"copy{i}.pt")
        run_child(tmp_path, file=f"copy{i}.pt")
    assert count_steps(tmp_path) > STEPS + RESUMES * EVERY


def test_two_processes_share_the_attempts_of_one_checkpoint(tmp_path):
    account = open_test_account(tmp_path)
    first, second = (Attempts(account, "run", "row: add or remove one unit", 3) for _ in range(2))
    taken = [first.claim(), second.claim(), first.claim()]
    assert taken == [1, 2, 3]
    with pytest.raises(BadParameter, match="used up"):
        second.claim()
    assert account.budget.spent == 0


@pytest.mark.parametrize("changes", [{"noise": 3}, {"steps": 6}, {"rate": Fraction(1, 3)}, {"clip": 2}, {"resumes": 2}])
def test_a_changed_plan_does_not_continue(tmp_path, changes):
    open_test_account(tmp_path)
    run_child(tmp_path, kill_at=6)
    before, steps = open_test_account(tmp_path).budget.spent, count_steps(tmp_path)
    assert run_child(tmp_path, **changes) == REFUSED
    assert open_test_account(tmp_path).budget.spent == before
    assert count_steps(tmp_path) == steps


def test_a_full_ledger_refuses_before_a_record_is_read(tmp_path, monkeypatch):
    account = open_test_account(tmp_path, epsilon=Fraction(1, 100))
    monkeypatch.setattr(trainer_module.TrainingRows, "of", lambda *_: pytest.fail("a record was read"))
    with pytest.raises(BudgetExceeded):
        make_trainer(account).train(FEATURES, TARGETS, checkpoint=tmp_path / "run.pt")
    assert account.budget.spent == 0
    assert not (tmp_path / "run.pt").exists()  # there is no run to continue


def copies_end_alike(tmp_path: Path) -> bool:
    """Whether two copies of one checkpoint, continued by two processes, end with the same weights."""
    open_test_account(tmp_path)
    run_child(tmp_path, kill_at=9)
    finished = []
    for i in range(2):
        folder = tmp_path / str(i)
        shutil.copytree(tmp_path, folder, ignore=shutil.ignore_patterns("0", "1"))
        assert run_child(folder) == FINISHED
        finished.append(Checkpoint.load(folder / "run.pt").weights[0])
    return torch.equal(*finished)


def test_noise_after_a_resumption_is_new(tmp_path, monkeypatch):
    """Other batches and other noise, so other weights. The mutant restores the bits of the run: a step is released twice."""
    (tmp_path / "honest").mkdir()
    assert not copies_end_alike(tmp_path / "honest")
    (tmp_path / "mutant").mkdir()
    honest, draw = trainer_module._draw_noise, trainer_module.draw_batch
    monkeypatch.setattr(trainer_module, "_draw_noise", lambda plan, bits: honest(plan, seeded_bits(1)))
    monkeypatch.setattr(trainer_module, "draw_batch", lambda rate, records, bits: draw(rate, records, seeded_bits(2)))
    assert copies_end_alike(tmp_path / "mutant")


def test_bits_that_can_be_repeated_are_refused(tmp_path):
    """The same bits, twice from one checkpoint, would show the difference of two batches without noise."""
    account = open_test_account(tmp_path)
    for _ in range(2):
        with pytest.raises(BadParameter, match="bits"):
            make_trainer(account).train(FEATURES, TARGETS, checkpoint=tmp_path / "run.pt", bits=seeded_bits(1))
    assert account.budget.spent == 0
    assert run_child(tmp_path, kill_at=9) == -signal.SIGKILL
    spent = open_test_account(tmp_path).budget.spent
    with pytest.raises(BadParameter):
        make_trainer(open_test_account(tmp_path)).train(
            FEATURES, TARGETS, checkpoint=tmp_path / "run.pt", bits=seeded_bits(1)
        )
    assert open_test_account(tmp_path).budget.spent == spent


def test_two_processes_at_once_compute_no_more_than_was_paid(tmp_path):
    open_test_account(tmp_path)
    assert run_child(tmp_path, kill_at=9) == -signal.SIGKILL
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os._exit(9 if run_child(tmp_path) not in (FINISHED, REFUSED, 9) else 0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    check_accounts(tmp_path)


def test_a_ledger_that_fails_between_steps_releases_nothing_unclaimed(tmp_path, monkeypatch):
    """Its disk is full when the second segment is claimed: no step of it is computed, and the debit stays."""
    account = open_test_account(tmp_path)
    honest, computed = LedgerAccount.reserve, []
    apply = trainer_module._Run._apply

    def fail_later(self, *given, **named):
        if str(named.get("id")).endswith("attempt-2"):
            raise OSError("No space left on device")
        return honest(self, *given, **named)

    monkeypatch.setattr(LedgerAccount, "reserve", fail_later)
    monkeypatch.setattr(trainer_module._Run, "_apply", lambda self, noisy: (computed.append(1), apply(self, noisy))[1])
    trainer = make_trainer(account)
    with pytest.raises(TrainingFailed):
        trainer.train(FEATURES, TARGETS, checkpoint=tmp_path / "run.pt")
    assert len(computed) == EVERY
    assert account.budget.spent == trainer.plan.charge
    monkeypatch.setattr(LedgerAccount, "reserve", honest)
    make_trainer(account).train(FEATURES, TARGETS, checkpoint=tmp_path / "run.pt")
    assert len(computed) == STEPS
    assert account.budget.spent == trainer.plan.charge


def test_a_checkpoint_holds_weights_and_public_numbers_only(tmp_path):
    run_child(tmp_path)
    found = torch.load(tmp_path / "run.pt", weights_only=True)
    assert set(found) == {"format", "run", "plan", "step", "weights", "optimizer", "schedule"}


def test_checkpoints_need_a_ledger_and_a_distance(tmp_path):
    with pytest.raises(BadParameter, match="ledger"):
        make_trainer(None).train(FEATURES, TARGETS, checkpoint=tmp_path / "run.pt")
    with pytest.raises(BadParameter, match="every"):
        make_trainer(None, every=None, resumes=0).train(FEATURES, TARGETS, checkpoint=tmp_path / "run.pt")
    with pytest.raises(BadParameter, match="checkpoint"):
        make_trainer(None).train(FEATURES, TARGETS)
    (tmp_path / "run.pt").write_bytes(b"other things")
    with pytest.raises(BadParameter, match="not a checkpoint"):
        make_trainer(open_test_account(tmp_path)).train(FEATURES, TARGETS, checkpoint=tmp_path / "run.pt")


def test_resumptions_are_part_of_the_cost():
    paid = [make_trainer(None, resumes=resumes).plan.event.parts[0][1] for resumes in (0, 1, 3)]
    assert paid == [STEPS, STEPS + EVERY, STEPS + 3 * EVERY]
