"""Checkpoints, and who may continue from one: the ledger decides, not the file.

**Theory of operation.** A run is cut into segments of `every` steps. Before a segment begins, the process claims one of the
run's attempts in the ledger: an entry that costs nothing and whose id only one process can take. A run has steps/every +
resumes attempts, and all of them were paid for when it was debited. At the end of a segment the checkpoint is replaced by a
new one: complete, or not there.

**Proof** that no step is released for nothing. A segment is computed only under an attempt, an attempt is taken by one
process once, and it covers at most `every` steps. So whatever crashes, is copied or runs twice, at most
(steps/every + resumes)·every = steps + resumes·every steps are ever computed, and those are the steps of the debit's event.
Noise is drawn from fresh bits each time: a checkpoint holds no keys and no positions of streams, from which the number of
records could be read. What the debit certifies is the cost that was paid; how many steps were made is information, because
the decision to stop may rest on releases. ∎

The order of writing: the checkpoint of step 0 with the run's id, the debit under that id, the claim, the steps, the next
checkpoint. A crash after the file and before the debit is resumed by a debit; a crash after the debit by the next attempt.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

import torch

from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.events import compose
from discreet.ledger.account import Account, IdTaken
from discreet.ledger.entries import encode_answer, hash_measurement

FORMAT = 1


@dataclass
class Checkpoint:
    """The state of a run after a number of steps: all of it was released."""

    run: str
    plan: str  # the hash of what is trained, and how
    step: int
    weights: list[torch.Tensor]
    optimizer: dict[str, Any]
    schedule: dict[str, Any] | None

    def save(self, path: Path) -> None:
        """Replace the file at once: it is the old checkpoint or the new one, whatever happens."""
        draft = path.with_name(f".{path.name}.{os.getpid()}.{token_hex(4)}")
        try:
            with draft.open("xb") as file:
                torch.save({"format": FORMAT, **vars(self)}, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            _sync_folder(path.parent)
        finally:
            draft.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint; nothing in it is executed."""
        try:
            found = torch.load(path, weights_only=True)
            if found.pop("format") != FORMAT:
                raise ValueError
            return cls(**found)
        except Exception:
            raise BadParameter(
                "checkpoint", str(path), "not a checkpoint of this version", "give the file that this run wrote"
            ) from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_run() -> str:
    """Return the id of a new run."""
    return f"training-{uuid4().hex}"


@dataclass
class Attempts:
    """The attempts of a run, as the ledger counts them."""

    account: Account
    run: str
    privacy_unit: str
    limit: int
    begun: int = 0  # known to be taken

    def claim(self) -> int:
        """Take the next attempt, durably, before any of its steps is computed. Return its number, from 1."""
        holder = hash_measurement({"run": self.run, "holder": token_hex(16)})
        while self.begun < self.limit:
            self.begun += 1
            try:
                taken = self.account.reserve(
                    compose(), measurement=holder, id=f"{self.run}/attempt-{self.begun}", fresh=True,
                    privacy_unit=self.privacy_unit, shared=False,
                )  # fmt: skip
            except IdTaken:
                continue
            if isinstance(taken, Receipt):  # nothing is left open: the run's own debit waits for its answer
                self.account.record(taken, encode_answer({"attempt": self.begun}))
            return self.begun
        raise BadParameter(
            "checkpoint", f"of run {self.run}", f"its {self.limit} attempts are used up: more steps are not paid for",
            "take the weights of the checkpoint as they are, or train anew and give resumes= a larger number",
        )  # fmt: skip
