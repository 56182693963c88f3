"""Kernels are asked to be reproducible before PyTorch is used, and run in one thread: the machine may be busy."""

import pytest

import discreet.learn.training  # noqa: F401 - sets MKL_CBWR
from discreet.learn.charging import TALLY


@pytest.fixture(autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    TALLY.clear()
    yield
    TALLY.clear()
