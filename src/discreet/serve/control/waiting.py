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

from discreet.serve.control.writers import Gate, WriterQueue

POLL_SECONDS = 0.05
"""How often a waiter looks for commits of other processes where the database does not report them."""


def queue_topic(kind: str) -> str:
    """Return the topic of the queue that jobs of a kind wait in: one may be free to claim. Asks have a queue of their own.

    >>> queue_topic("ask"), queue_topic("publication")
    ('queue:asks', 'queue:others')
    """
    return "queue:asks" if kind == "ask" else "queue:others"


def ask_topic(ask: str) -> str:
    """Return the topic of one ask.

    >>> ask_topic("9f86d081")
    'ask:9f86d081'
    """
    return f"ask:{ask}"


class Hub:
    """Counts the changes of each topic, and wakes who waits for one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._all = 0
        self._topics: dict[str, int] = {}
        self._waiters: Counter[str | None] = Counter()
        self._conditions: dict[str | None, threading.Condition] = {}  # one for each topic, so that a change wakes no others
        self.collected: list[set[str | None]] = []  # the topics that changed, for each who waits for anything
        self.writer = WriterQueue()  # for databases with one writer: its threads queue here
        self.gate: Gate | None = None  # for the same: where its process waits for others

    def notify(self, *topics: str | None) -> None:
        """Report a change of topics at once; None: of an unknown one, which wakes every waiter."""
        with self.lock:
            self._all += 1
            for each in self.collected:
                each.update(topics)
            changed = list(self._topics) if None in topics else self._topics.keys() & topics
            self._topics |= dict.fromkeys(changed, self._all)
            for topic in (None, *changed):
                if topic in self._conditions:
                    self._conditions[topic].notify_all()

    def count(self, topic: str | None) -> int:
        """Return the number of the last change of a topic; the caller holds `lock`."""
        return self._all if topic is None else self._topics.get(topic, 0)

    def add(self, topic: str | None) -> tuple[int, threading.Condition]:
        """Count a topic from now on, until `forget` was called as often as this. Returns its count, and what to wait on."""
        with self.lock:
            if topic is not None:
                self._topics.setdefault(topic, self._all)
            self._waiters[topic] += 1
            return self.count(topic), self._conditions.setdefault(topic, threading.Condition(self.lock))

    def forget(self, topic: str | None) -> None:
        """Stop counting a topic, unless it has another waiter."""
        with self.lock:
            self._waiters[topic] -= 1
            if self._waiters[topic] <= 0:
                del self._waiters[topic], self._conditions[topic]
                if topic is not None:
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
        self._seen, self._condition = hub.add(topic)
        self._is_closed, self._next_look = False, 0.0
        self._changed: set[str | None] = set()
        if topic is None:
            with hub.lock:
                hub.collected.append(self._changed)

    def wait(self, seconds: float) -> bool:
        """Wait for a change since the last call, `seconds` at most. Returns whether there may have been one."""
        now = time.monotonic()
        deadline = now + seconds
        with self._hub.lock:
            while True:
                found = self._hub.count(self._topic)
                if found != self._seen:
                    self._seen = found
                    return True
                if self._look is not None and now >= self._next_look:  # not at each commit of this process
                    self._next_look = now + POLL_SECONDS
                    if self._look():
                        self._changed.add(None)
                        return True
                if now >= deadline:
                    return False
                self._condition.wait((deadline if self._look is None else min(deadline, self._next_look)) - now)
                now = time.monotonic()

    def take_changed(self) -> set[str | None]:
        """Return the topics that changed since the last call, of a subscription to anything; None: unknown ones."""
        with self._hub.lock:
            taken = set(self._changed)
            self._changed.clear()
        return taken

    def notify(self, topic: str | None = None) -> None:
        """Wake all who wait for this topic, or for the given one, in this process."""
        self._hub.notify(self._topic if topic is None else topic)

    def close(self) -> None:
        """End it."""
        if not self._is_closed:
            self._is_closed = True
            self._hub.forget(self._topic)
            with self._hub.lock:
                self._hub.collected = [each for each in self._hub.collected if each is not self._changed]
            if self._close is not None:
                self._close()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
