"""DP-SGD for PyTorch: exact integer gradients, Poisson batches, checkpoints that the ledger counts. Needs PyTorch.

Importing this package asks Intel's MKL for kernels whose results for one row do not depend on where the row stands, unless
the user has set the variable. `MKL_CBWR` (conditional numerical reproducibility) is read when MKL is first used, which is
after PyTorch is imported but before its first product of matrices. STRICT makes results independent of the alignment of
arrays.
"""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from discreet._exports import export_lazily
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from discreet.learn.training.card import ModelCard
    from discreet.learn.training.plan import TrainingQuote
    from discreet.learn.training.summing import TrainingFailed
    from discreet.learn.training.trainer import PrivateTrainer, Progress, TrainedModel

if find_spec("torch") is None:
    raise BadParameter("torch", "missing", "PyTorch is not installed", "pip install 'discreet[torch]'")
SETTING = ("MKL_CBWR", "AVX2,STRICT")
os.environ.setdefault(*SETTING)

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.learn.training.card": "ModelCard",
        "discreet.learn.training.plan": "TrainingQuote",
        "discreet.learn.training.summing": "TrainingFailed",
        "discreet.learn.training.trainer": "PrivateTrainer Progress TrainedModel",
    },
)

__all__ = ["ModelCard", "PrivateTrainer", "Progress", "TrainedModel", "TrainingFailed", "TrainingQuote"]
