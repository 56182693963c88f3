"""How far a statement has come, told from a second thread while it runs.

Progress depends on the data, as time does: it is for the person who waits, never for a publication.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Protocol, TypeAlias

from discreet.engines.owner import owner_log

ProgressCallback: TypeAlias = Callable[[float], None]
POLL_SECONDS = 0.1  # seconds


class Running(Protocol):
    """An engine that knows how far its statement is, from 0 to 1; None where it does not."""

    def progress(self) -> float | None: ...


@contextmanager
def report_progress(engine: Running, on_progress: ProgressCallback | None, every: float = POLL_SECONDS) -> Iterator[None]:
    """Tell the share that is done, from 0 to 1, while the body runs. A listener that raises is told no more: what was paid
    for is still answered."""
    if on_progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        try:
            while not done.wait(every):
                share = engine.progress()
                if share is not None:
                    on_progress(share)
        except Exception:
            owner_log.warning("a listener for progress failed", exc_info=True)

    thread = threading.Thread(target=copy_context().run, args=(watch,), daemon=True)  # it speaks of the same source
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
