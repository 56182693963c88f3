"""A user whom file permissions bind: root may read and write everywhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root becomes `nobody` for a while. Work in a folder that is made inside: others are closed to this user."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
