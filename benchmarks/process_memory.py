"""The memory of this process, by Linux's own count; also used in the environments of peers, so it imports nothing else.

`ru_maxrss` would not do: Linux carries the size of the process that started this one over into it.
"""

from pathlib import Path


def read_memory(line: str) -> float:
    """Megabytes of this process: now (`VmRSS`), or at most so far (`VmHWM`)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{line}:")[1].split()[0]) / 1024


def peak_megabytes() -> float:
    """The most that this process has held so far."""
    return read_memory("VmHWM")
