"""How long a connection may take to send a request, and how many may be about to.

**Threat.** Who sends a request a byte at a time, or none at all, holds a connection without signing in; a thousand of these
use up the files of the process, and no other client is heard (slow loris). uvicorn ends connections that are idle after a
response, and none that has not sent a whole head. Here each has `HEAD_SECONDS` for the head of a request, and a little
longer than the guard allows for its body; and where more than `MAX_UNFINISHED` connections have no whole request, the one
that has waited longest makes room for the newest. Requests that are being answered are not counted: they need a sign-in to
take long. A proxy that buffers requests, such as nginx, does all of this before they arrive.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
BODY_SECONDS = 45.0
"""For bodies that no route reads; the guard refuses others earlier, with a reason."""
MAX_UNFINISHED = 256


class Connection(H11Protocol):
    """A connection of uvicorn's with deadlines for what it receives."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._phase: Any = None  # the state of the client that the deadline is for
        # all connections of one server, in the order in which they became unfinished
        self._unfinished: dict[Connection, None] = self.server_state.__dict__.setdefault("unfinished", {})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._follow(None)

    def _watch(self) -> None:
        state = self.conn.their_state
        self._follow(state if state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing() else None)

    def _follow(self, phase: Any) -> None:
        if phase is self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase is None:
            self._unfinished.pop(self, None)
            return
        self._deadline = self.loop.call_later(HEAD_SECONDS if phase is h11.IDLE else BODY_SECONDS, self._end)
        self._unfinished.setdefault(self)
        if len(self._unfinished) > MAX_UNFINISHED:
            next(iter(self._unfinished))._end()

    def _end(self) -> None:
        self._follow(None)
        if self.transport.get_write_buffer_size():
            self.transport.close()  # a reader that is slow gets the rest of its response
        else:
            self.transport.abort()
