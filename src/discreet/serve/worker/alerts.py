"""Alerts by webhook: the names of tables and people, and never a query or a number.

The address is the owner's, from the configuration; nothing that an analyst writes chooses it. An alert that cannot be sent
is logged and forgotten: nothing waits for it.
"""

import json
import logging
import threading
from queue import Full, Queue
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from discreet.ledger.account import AccountState
from discreet.serve.config import AlertConfig

log = logging.getLogger("discreet.serve")
TIMEOUT_SECONDS = 10.0
MAX_WAITING = 100


class _NoRedirects(HTTPRedirectHandler):
    """The owner named one address; a redirect could lead anywhere, also to a file."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""
        return


class Alerts:
    """Sends alerts from a thread of its own."""

    def __init__(self, config: AlertConfig | None, service: str) -> None:
        self._config, self._service = config, service
        self._queue: Queue[bytes | None] = Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None
        self._sent: set[tuple[str, str]] = set()
        self._opener = build_opener(_NoRedirects)

    def send(self, kind: str, subject: str, *, once: bool = False) -> None:
        """Tell the owner, if the configuration lists this kind. `subject` is the name of a table, a person or an account.
        With `once`, only the first time in this process."""
        if self._config is None or kind not in self._config.when or (once and (kind, subject) in self._sent):
            return
        self._sent.add((kind, subject))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="discreet-alerts", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(json.dumps({"service": self._service, "alert": kind, "subject": subject}).encode())
        except Full:
            log.warning("an alert was dropped: too many are waiting")

    def send_budget(self, root: AccountState) -> None:
        """Tell the owner how much of a root is spent."""
        for share in (80, 95):
            if root.budget.spent * 100 >= share * root.budget.limit:
                self.send(f"root {share}%", root.name, once=True)

    def stop(self) -> None:
        """Send what is waiting, and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(TIMEOUT_SECONDS)

    def _run(self) -> None:
        assert self._config is not None
        while (body := self._queue.get()) is not None:
            request = Request(self._config.webhook, body, {"Content-Type": "application/json"}, method="POST")
            try:
                with self._opener.open(request, timeout=TIMEOUT_SECONDS):
                    pass
            except (URLError, OSError, ValueError) as error:
                log.warning("an alert could not be sent (%s)", type(error).__name__)
