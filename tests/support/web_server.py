"""An application behind a real socket, served by uvicorn in a thread."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from discreet.serve.web.connections import Connection


def find_socket() -> tuple[socket.socket, int]:
    """Return a socket that is bound to a free port of loopback, and the port."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound, bound.getsockname()[1]


@contextmanager
def serve(app: FastAPI, bound: socket.socket) -> Iterator[None]:
    """Serve an application at a socket."""
    config = uvicorn.Config(
        app, log_config=None, access_log=False, http=Connection, ws="none", server_header=False, lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)
        bound.close()
