"""Functions to audit that other processes import by name. Few imports: some processes are started hundreds of times."""

import os
import time
from random import Random
from typing import Any

NOISE = Random(7)  # the fault: the same in every new process


def seeded_at_start(xs: Any) -> int:
    """Within one process its noise is correct."""
    return len(xs) + NOISE.randint(-1000, 1000)


def hangs(xs: Any) -> int:
    while True:
        time.sleep(0.01)


def ignores_alarm(xs: Any) -> int:
    """Hangs, and catches the alarm."""
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


def exits(xs: Any) -> int:
    os._exit(3)


def prints_and_raises(xs: Any) -> str:
    print("a secret")
    raise KeyError(len(xs))


def returns_unpicklable(xs: Any) -> Any:
    return lambda: xs
