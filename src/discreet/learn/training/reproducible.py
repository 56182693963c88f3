"""Ask Intel's MKL for kernels whose results for one row do not depend on where the row stands.

`MKL_CBWR` (conditional numerical reproducibility) is read when MKL is first used, which is after PyTorch is imported but
before its first product of matrices. STRICT makes results independent of the alignment of arrays.
"""

import os

SETTING = ("MKL_CBWR", "AVX2,STRICT")


def set_reproducible_kernels() -> None:
    """Set the variable, unless the user has set it."""
    os.environ.setdefault(*SETTING)
