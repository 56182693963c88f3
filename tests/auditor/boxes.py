"""Boxes that other processes find by name. Few imports: some are started hundreds of times."""

import os
import time
from random import Random
from typing import Any

NOISE = Random(7)  # the fault: the same whenever a program starts


def seeded_at_start(xs: Any) -> int:
    """In one process nothing is wrong with it."""
    return len(xs) + NOISE.randint(-1000, 1000)


def hangs(xs: Any) -> int:
    while True:
        time.sleep(0.01)


def deaf(xs: Any) -> int:
    """Hangs, and catches the alarm."""
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


def leaves(xs: Any) -> int:
    os._exit(3)


def talks(xs: Any) -> str:
    print("a secret")
    raise KeyError(len(xs))


def unsendable(xs: Any) -> Any:
    """What cannot be pickled is an answer too."""
    return lambda: xs
