"""The clock of a machine since its start, which is one for all its processes, whatever its wall clock is set to."""

import os
import time
from contextlib import suppress
from functools import cache


def read_uptime() -> float:
    """Return the seconds since the machine started. It means something together with `find_boot` alone."""
    return time.monotonic()


@cache
def find_boot() -> str | None:
    """Return what names this start of this machine: processes that find the same have the same `read_uptime`. None if it
    is not known."""
    with suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        space = os.readlink("/proc/self/ns/time") if os.path.exists("/proc/self/ns/time") else ""  # may have its own clock
        return f"{boot} {space}".strip()
    return None
