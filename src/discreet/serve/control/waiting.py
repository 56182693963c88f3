"""Wait for a change in the control database without asking it again and again.

A `Hub` belongs to one database in one process. A writer notifies the hub of its process after its commit, so a waiter in the
same process wakes at once. What other processes commit arrives by `LISTEN` (PostgreSQL) or is found by looking at the
database every 50 ms (SQLite). A waiter may wake although nothing that concerns it happened; it never sleeps through a change
that was committed after it subscribed.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable

POLL_SECONDS = 0.05
"""How often a waiter looks for commits of other processes where the database does not report them."""

JOBS = "jobs"
"""The topic of the queue: a job may be free to claim."""


def ask_topic(ask: str) -> str:
    """Return the topic of one ask.

    >>> ask_topic("9f86d081")
    'ask:9f86d081'
    """
    return f"ask:{ask}"


class Hub:
    """Counts the changes of each topic, and wakes who waits for one."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._all = 0
        self._topics: dict[str, int] = {}
        self._waiters: Counter[str] = Counter()
        self.writer = threading.Lock()  # for databases with one writer: its threads queue here

    def notify(self, topic: str | None = None) -> None:
        """Report a change of a topic; None: of an unknown one, which wakes every waiter."""
        with self.condition:
            self._all += 1
            if topic is None:
                self._topics = dict.fromkeys(self._topics, self._all)
            elif topic in self._topics:
                self._topics[topic] = self._all
            self.condition.notify_all()

    def count(self, topic: str | None) -> int:
        """Return the number of the last change of a topic; the caller holds `condition`."""
        return self._all if topic is None else self._topics.get(topic, 0)

    def add(self, topic: str | None) -> int:
        """Count a topic from now on, until `forget` was called as often as this."""
        with self.condition:
            if topic is not None:
                self._topics.setdefault(topic, self._all)
                self._waiters[topic] += 1
            return self.count(topic)

    def forget(self, topic: str | None) -> None:
        """Stop counting a topic, unless it has another waiter."""
        with self.condition:
            if topic is not None:
                self._waiters[topic] -= 1
                if self._waiters[topic] <= 0:
                    del self._waiters[topic]
                    self._topics.pop(topic, None)


class Subscription:
    """Waits for changes of one topic, from the moment it was made.

    >>> hub = Hub()
    >>> waiting = Subscription(hub, "jobs")
    >>> hub.notify("jobs")
    >>> waiting.wait(10), waiting.wait(0)
    (True, False)
    """

    def __init__(
        self, hub: Hub, topic: str | None, look: Callable[[], bool] | None = None, close: Callable[[], None] | None = None
    ) -> None:
        self._hub, self._topic, self._look, self._close = hub, topic, look, close
        self._seen, self._is_closed, self._looked = hub.add(topic), False, 0.0

    def wait(self, seconds: float) -> bool:
        """Wait for a change since the last call, `seconds` at most. Returns whether there may have been one."""
        deadline = time.monotonic() + seconds
        with self._hub.condition:
            while True:
                found = self._hub.count(self._topic)
                if found != self._seen:
                    self._seen = found
                    return True
                now = time.monotonic()
                if self._look is not None and now >= self._looked + POLL_SECONDS:  # and not at each commit of this process
                    self._looked = now
                    if self._look():
                        return True
                remaining = deadline - now
                if remaining <= 0:
                    return False
                self._hub.condition.wait(remaining if self._look is None else min(remaining, POLL_SECONDS))

    def notify(self) -> None:
        """Wake all who wait for this topic in this process."""
        self._hub.notify(self._topic)

    def close(self) -> None:
        """End it."""
        if not self._is_closed:
            self._is_closed = True
            self._hub.forget(self._topic)
            if self._close is not None:
                self._close()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
