"""Counters of the web process for Prometheus, and its log: neither names a table, a person, a question or a key.

What an analyst asks concerns no other, and how long a query runs depends on the rows. So metrics have their own port on
loopback, their labels are the *pattern* of a route, never the address that was asked for, and the duration that is measured
is that of the web process alone: requests that wait for a worker are left out of it. The log has no access lines, because
addresses hold ids and one-time secrets, and no traceback, because messages quote what was sent.
"""

import logging
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.errors import BadParameter
from discreet.serve.control.store import Control
from discreet.serve.web.settings import LOOPBACK

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
WAITING_ROUTES = frozenset({"/api/v1/asks", "/api/v1/asks/{ask}/events", "/api/v1/asks/{ask}/certificate"})
"""Routes that wait for workers: their duration says when an answer was ready."""


class PlainFormatter(logging.Formatter):
    """Writes the kind of an exception, and neither its message nor a traceback: both quote what was sent or read."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - as `logging` calls it
        """Return the kind of an exception."""
        return f"({ei[0].__name__})" if ei and ei[0] is not None else ""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line. What another handler wrote of the exception is left out."""
        record.exc_text = None
        return super().format(record)


LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "discreet.serve.web.metrics.PlainFormatter",
            "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stderr"}},
    "loggers": {
        "discreet.serve": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "uvicorn.error": {"level": "WARNING"},
        "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
        "httpx": {"handlers": [], "level": "CRITICAL", "propagate": False},  # it logs addresses
    },
}
"""For `uvicorn.Config(log_config=…, access_log=False)`."""


class Metrics:
    """The counters of one web process."""

    def __init__(self, control: Control) -> None:
        self.control, self.registry = control, CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("discreet_http_requests", "Requests.", labels, registry=self.registry)
        self.seconds = Histogram(
            "discreet_http_seconds", "Duration of requests that wait for no worker.", ("method", "route"),
            registry=self.registry, buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5),
        )  # fmt: skip
        self.running = Gauge("discreet_http_running", "Requests that are being answered.", registry=self.registry)
        waiting = Gauge("discreet_asks_waiting", "Asks that wait for a worker.", registry=self.registry)
        waiting.set_function(lambda: float(control.count_waiting()))

    def count(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count a request. `route` is a pattern, such as "/api/v1/asks/{ask}"."""
        known = method if method in METHODS else "other"
        self.requests.labels(known, route, str(status)).inc()
        if seconds is not None:
            self.seconds.labels(known, route).observe(seconds)

    def serve(self, host: str, port: int) -> tuple[WSGIServer, threading.Thread]:
        """Serve the counters at a port of loopback, under its names alone: another name was pointed to this machine by a
        stranger (DNS rebinding). Returns the server and its thread.

        Raises:
            BadParameter: if others than this machine could read them.
        """
        if host not in ("127.0.0.1", "::1", "localhost"):
            raise BadParameter("metrics", host, "not an address of this machine alone", "listen on 127.0.0.1")
        show, hosts = make_wsgi_app(self.registry), set[str]()

        def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            if environ.get("HTTP_HOST", "").lower() not in hosts:
                start("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
                return [b"Metrics are read under a name of this machine.\n"]
            shown: Iterable[bytes] = show(environ, start)
            return shown

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kind = type("MetricsServer", (_ThreadingServer,), {"address_family": family})
        server: WSGIServer = make_server(host, port, answer, kind, _QuietHandler)
        hosts.update(f"{each}:{server.server_port}" for each in LOOPBACK)
        thread = threading.Thread(target=server.serve_forever, name="discreet-metrics", daemon=True)
        thread.start()
        return server, thread


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    timeout = 10.0  # seconds in which a request arrives

    def log_message(self, format: str, *args: Any) -> None:
        """Write no line."""


class Measured:
    """Middleware that counts requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, started = 0, time.perf_counter()

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.metrics.running.inc()
        try:
            await self.app(scope, receive, counted)
        finally:
            self.metrics.running.dec()
            route = find_pattern(scope)
            seconds = None if route in WAITING_ROUTES else time.perf_counter() - started
            self.metrics.count(scope["method"], route, status, seconds)


def find_pattern(scope: Mapping[str, Any]) -> str:
    """Return the pattern of the route that took a request; "none" if none did: an address may hold anything."""
    route = scope.get("route")
    return str(getattr(route, "path", "none")) if route is not None else "none"
