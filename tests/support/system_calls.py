"""A child process that is stopped at its system calls, in plain Python: to kill it at any write or sync, or let one fail.

Linux only (ptrace through ctypes), so nothing needs to be installed or compiled.
"""

import ctypes
import os
import platform
import signal
from collections.abc import Callable
from dataclasses import dataclass

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
TRACEME, POKE_USER, SYSCALL, SET_OPTIONS, SYSCALL_INFO = 0, 6, 24, 0x4200, 0x420E
GOOD_STOPS, KILL_WITH_US = 1, 0x100000
ENTRY, EXIT = 1, 2

_NUMBERS = {  # what changes files or is sent to others
    "x86_64": {"write": 1, "pwrite64": 18, "writev": 20, "sendto": 44, "recvfrom": 45, "fsync": 74, "fdatasync": 75,
               "ftruncate": 77, "rename": 82, "link": 86, "unlink": 87, "unlinkat": 263},
    "aarch64": {"write": 64, "pwrite64": 68, "writev": 66, "sendto": 206, "recvfrom": 207, "fsync": 82, "fdatasync": 83,
                "ftruncate": 46, "rename": 276, "link": 37, "unlink": 35, "unlinkat": 35},
}[platform.machine()]  # fmt: skip
BOUNDARIES = {number: name for name, number in _NUMBERS.items()}
ORIG_RAX, RAX, RDX = 120, 80, 96  # offsets in the user area of x86-64


class _Info(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("ip", ctypes.c_uint64),
        ("sp", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


@dataclass(frozen=True)
class Fault:
    """What happens to a system call: it fails with this errno or, if `short`, writes half of what it should."""

    names: frozenset[str]
    errno: int = 0
    short: bool = False


def run_traced(
    run: Callable[[], None], kill_at: int | None = None, fault: Fault | None = None, first: int = 1
) -> tuple[int, int]:
    """Run in a child; return the boundaries that it passed and its exit status, −9 if it was killed.

    `kill_at` kills it just before its boundary of that number. A fault hits every call of its kind from the `first` one on;
    a short write only one.
    """
    child = os.fork()
    if child == 0:
        _LIBC.ptrace(TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            run()
        except BaseException:
            os._exit(7)
        os._exit(0)
    os.waitpid(child, 0)
    _call(SET_OPTIONS, child, GOOD_STOPS | KILL_WITH_US)
    return _follow(child, kill_at, fault, first)


def _follow(child: int, kill_at: int | None, fault: Fault | None, first: int) -> tuple[int, int]:
    passed, hits, failing, deliver = 0, 0, False, 0
    info = _Info()
    while True:
        _call(SYSCALL, child, deliver)
        _, status = os.waitpid(child, 0)
        deliver = 0
        if os.WIFEXITED(status):
            return passed, os.WEXITSTATUS(status)
        if os.WIFSIGNALED(status):
            return passed, -os.WTERMSIG(status)
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            deliver = os.WSTOPSIG(status)
            continue
        _LIBC.ptrace(SYSCALL_INFO, child, ctypes.sizeof(info), ctypes.byref(info))
        if info.op == ENTRY and info.number in BOUNDARIES:
            passed += 1
            if passed == kill_at:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return passed, -signal.SIGKILL
            if fault and BOUNDARIES[info.number] in fault.names:
                hits += 1
                if fault.short and hits == first:
                    _call(POKE_USER, child, max(1, info.arguments[2] // 2), RDX)
                elif not fault.short and hits >= first:
                    failing = True
                    _call(POKE_USER, child, -1, ORIG_RAX)
        elif info.op == EXIT and failing and fault:
            failing = False
            _call(POKE_USER, child, -fault.errno, RAX)


def _call(request: int, child: int, value: int, where: int = 0) -> None:
    if _LIBC.ptrace(request, child, where, value) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace request {request:#x}")
