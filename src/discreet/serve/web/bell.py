"""Wait for an ask or a job without holding a thread: one thread listens to the control database and wakes the requests.

A hundred analysts who wait thirty seconds each are a hundred futures and no thread. What wakes them is the worker's commit,
at the moment of the ask.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from discreet.errors import DiscreetError
from discreet.serve.control.model import Ask, Job, JobState
from discreet.serve.control.queue import job_topic
from discreet.serve.control.store import Control
from discreet.serve.control.waiting import Subscription, ask_topic
from discreet.serve.web.problems import log

LISTEN_SECONDS = 1.0
Value = TypeVar("Value", Ask, Job)


@dataclass(eq=False, slots=True)
class _Waiter:
    topic: str
    find: Callable[[], Any]
    is_awaited: Callable[[Any], bool]  # whether what was found ends the wait
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class Bell:
    """Wakes coroutines of any event loop when their ask or their job changes."""

    def __init__(self, control: Control) -> None:
        self._control, self._lock, self._closed = control, threading.Lock(), threading.Event()
        self._waiters: set[_Waiter] = set()
        self._thread: threading.Thread | None = None
        self._subscription: Subscription | None = None  # of the thread

    async def wait(self, ask: Ask, seconds: float, *, until_final: bool = False) -> Ask:
        """Return the ask as soon as its state or its moment is another, or as soon as it has ended if `until_final`; as it
        is after `seconds` otherwise."""
        seen = ask.state, ask.release_at

        def is_awaited(found: Ask) -> bool:
            return found.state.is_final if until_final else (found.state, found.release_at) != seen

        return await self._wait(ask, ask_topic(ask.id), lambda: self._control.find_ask(ask.id), is_awaited, seconds)

    async def wait_for_job(self, job: Job, seconds: float) -> Job:
        """Return a job when it has ended; as it is after `seconds` otherwise."""
        if job.state in (JobState.DONE, JobState.FAILED):
            return job

        def is_awaited(found: Job) -> bool:
            return found.state in (JobState.DONE, JobState.FAILED)

        return await self._wait(job, job_topic(job.id), lambda: self._control.find_job(job.id), is_awaited, seconds)

    async def _wait(
        self, value: Value, topic: str, find: Callable[[], Value | None], is_awaited: Callable[[Value], bool], seconds: float
    ) -> Value:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(topic, find, is_awaited, loop.create_future(), loop)
        self._add(waiter)
        try:
            async with asyncio.timeout(0 if self._closed.is_set() else seconds):
                return await waiter.future or value
        except TimeoutError:
            return await run_in_threadpool(find) or value
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    @property
    def is_closed(self) -> bool:
        """Whether the process ends, so that no request waits any more."""
        return self._closed.is_set()

    def ring(self) -> None:
        """Wake all who wait, now and from now on, because the process ends: each gets its ask as it is."""
        self._closed.set()
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            _wake(waiter, None)

    def close(self) -> None:
        """End the thread and wake all who wait."""
        self.ring()
        if self._thread is not None:
            with self._control.subscribe() as subscription:
                subscription.notify()
            self._thread.join(2 * LISTEN_SECONDS)

    def _add(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiters.add(waiter)
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="discreet-bell", daemon=True)
                self._thread.start()
        if self._subscription is not None:
            self._subscription.notify(waiter.topic)  # it may have changed before it was added

    def _listen(self) -> None:
        with self._control.subscribe() as subscription:
            self._subscription = subscription
            changed: set[str | None] = {None}  # what changed before is unknown
            while not self._closed.is_set():
                with self._lock:
                    waiters = [each for each in self._waiters if None in changed or each.topic in changed]
                try:
                    self._look(waiters)
                except DiscreetError as error:  # the database restarts
                    log.warning("the control database cannot be read: %s", type(error).__name__)
                    self._closed.wait(LISTEN_SECONDS)
                    self._subscription.notify()
                is_changed = subscription.wait(LISTEN_SECONDS)
                changed = subscription.take_changed() if is_changed else {None}

    def _look(self, waiters: list[_Waiter]) -> None:
        for waiter in waiters:
            if waiter.future.done():
                continue
            found = waiter.find()
            if found is None or waiter.is_awaited(found):
                _wake(waiter, found)


def _wake(waiter: _Waiter, found: Any) -> None:
    def finish() -> None:
        if not waiter.future.done():
            waiter.future.set_result(found)

    with contextlib.suppress(RuntimeError):  # the loop was closed
        waiter.loop.call_soon_threadsafe(finish)
