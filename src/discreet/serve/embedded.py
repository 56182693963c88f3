"""Run a service: the web and worker threads in one process, or one of the two.

*One process* (`discreet serve FOLDER`): the worker's threads run beside the web server, which has the main thread. Ledger,
key, control database and salts are made at the first start. The owner is a steward called `owner`, who signs in with a link
that works once, and whose token is for notebooks. The web code still reaches no data: it imports neither engine nor ledger.

*Two kinds of processes* (`--web`, `--worker`): each gets what it needs and no more. A web process needs the control database
and the address; it opens no ledger, key or source, and may run as a user who cannot read them.

The service ends on SIGINT and SIGTERM: no new request is taken, what runs is ended, and what is held goes back to the queue.
"""

import errno
import os
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import BadParameter
from discreet.formats import missing_library_error
from discreet.serve.config import ServiceConfig, check_listen
from discreet.serve.control.model import Grant, Person, Role, Scope
from discreet.serve.control.store import Control, open_control
from discreet.serve.schedule import JumpFreeClock

if TYPE_CHECKING:
    from discreet.serve.web.metrics import Metrics
    from discreet.serve.web.settings import WebSettings
    from discreet.serve.worker.worker import Worker

OWNER = "owner"
START_TOKEN = "printed at start"
TOKEN_SECONDS = 7 * 86400.0
LINK_SECONDS = 600.0
ADDRESS = "address"
"""The setting in the control database that says where the web process listens."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Invitation:
    """What the owner needs for a first answer."""

    link: str
    token: str


def invite(control: Control, config: ServiceConfig, person: str, role: Role, *, scopes: tuple[Scope, ...]) -> Invitation:
    """Return a link and a token for a person, who is added if new. Tokens that an earlier start printed end."""
    if control.find_person(person) is None:
        control.add_person(Person(id=person, name=person, role=role), by="command line")
    for token in control.list_tokens(person):
        if token.label == START_TOKEN and token.revoked is None:
            control.revoke_token(token.id, by="command line")
    clock = JumpFreeClock()
    _, secret = control.add_token(person, START_TOKEN, scopes=scopes, expires=clock.now() + TOKEN_SECONDS, by="command line")
    once = control.add_link(person, seconds=LINK_SECONDS, by="command line")
    return Invitation(f"{config.address}/in?once={once}", secret)


def grant_all(control: Control, worker: "Worker", person: str) -> None:
    """Let a person ask of every table, from an account under the root of its population."""
    for table in worker.config.tables.values():
        account = f"{table.population}/{person}"
        worker.tables.open_account(account, table.population, None)
        if control.find_grant(person, table.name) is None:
            now = JumpFreeClock().now()
            grant = Grant(person=person, table=table.name, account=account, created=now, by="command line")
            whole = str(worker.tables.populations[table.population].epsilon)
            control.add_grant(grant, by="command line", epsilon=whole)


def run(
    config: ServiceConfig, *, web: bool = True, worker: bool = True, adopt: bool = False, browser: bool = True,
    say: Say = print,
) -> None:  # fmt: skip
    """Run a service until it is ended.

    Raises:
        DiscreetError: if it cannot start; nothing was served.
    """
    clock = JumpFreeClock()
    if not web:
        _configure_logs()
    with _listen(config) if web else _nowhere() as sockets:
        if web and isinstance(config.listen, tuple) and config.listen[1] == 0:
            config = config.at_port(sockets[0].getsockname()[1])
        app_parts = _load_web(config) if web else None
        if worker:
            from discreet.serve.worker.registration import make_folder

            make_folder(config.state)
        alone = _hold_state(config.state) if config.embedded else nullcontext()
        with alone, open_control(config.control, create=worker, clock=clock.now) as control:
            running = _start_worker(config, control, clock, adopt) if worker else None
            try:
                if running is not None:
                    describe(config, running, say)
                if web:
                    control.set_setting(ADDRESS, config.address)
                if web and config.embedded and running is not None:
                    _welcome(config, control, running, browser, say)
                elif web:
                    say(f"The web process listens for {config.address}.")
                    say(_name_next_step(config, control))
                if app_parts is not None:
                    _serve_web(config, control, app_parts, sockets, say)
                else:
                    say("The worker takes jobs. End it with Ctrl+C.")
                    _wait_for_signal()
            finally:
                if running is not None:
                    running.stop()


def describe(config: ServiceConfig, worker: "Worker", say: Say) -> None:
    """Say what is served, from where, and with which budget of the ledger; and what is not served."""
    tables = worker.tables
    for table in config.tables.values():
        place = table.source if "://" not in table.source else "a database"
        is_new = table.population in tables.new_populations
        said = "; new, nothing is spent of it" if is_new else ""
        say(f"discreet serves {table.name} from {place}")
        say(f"  budget    {tables.populations[table.population].describe()} for everybody together, for life{said}")
    for path, command in config.skipped:
        say(f"{path} has no policy and is not served. Make one, and edit it: {command}")


def _welcome(config: ServiceConfig, control: Control, worker: "Worker", browser: bool, say: Say) -> None:
    everything = (Scope.ASK, Scope.READ, Scope.STEWARD)
    invitation = invite(control, config, OWNER, Role.STEWARD, scopes=everything)
    grant_all(control, worker, OWNER)
    table = next(iter(config.tables))
    say(f"  kept in   {config.state}")
    say(f"  open      {invitation.link}   (works once, within ten minutes)")
    say(f'  notebook  discreet.connect("{config.address}/{table}", token="{invitation.token}")')
    say("End it with Ctrl+C.")
    if browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(invitation.link,), daemon=True).start()


def _name_next_step(config: ServiceConfig, control: Control) -> str:
    """Say how the first steward, or anybody, signs in."""
    if any(each.role is Role.STEWARD for each in control.list_people()) or config.oidc is not None:
        return f"People sign in at {config.address}/in. A link for one: {_name_invite(config)} NAME"
    return f"No steward can sign in yet. A link for the first steward: {_name_invite(config)} NAME --role steward"


def _name_invite(config: ServiceConfig) -> str:
    return f"discreet serve invite {shlex.quote(config.target)}"


def find_address(config: ServiceConfig, control: Control) -> str:
    """Return the address that people reach the service at: the one that is stated, or where it ran last."""
    return config.address if config.has_address else control.find_setting(ADDRESS) or config.address


def _start_worker(config: ServiceConfig, control: Control, clock: JumpFreeClock, adopt: bool) -> "Worker":
    from discreet.serve.worker.worker import Worker

    worker = Worker(config, control, clock)
    worker.start(adopt=adopt)
    return worker


# -- the web process ------------------------------------------------------------------------------------------------------


@contextmanager
def _hold_state(state: Path) -> Iterator[None]:
    """Let one process at a time serve a folder: a second one would end the token that the first has printed."""
    import fcntl

    try:
        opened = os.open(state / "serving.lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        reason, hint = f"it may not be written ({error.strerror})", "allow writing, or set DISCREET_STATE to another folder"
        raise BadParameter("state", repr(str(state)), reason, hint) from None
    with os.fdopen(opened) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason, hint = "another process serves this folder already", "end that one, or use the address that it printed"
            raise BadParameter("state", repr(str(state)), reason, hint) from None
        yield


def is_served(state: Path) -> bool:
    """Whether a process serves the folder that this state belongs to."""
    import fcntl

    try:
        opened = os.open(state / "serving.lock", os.O_RDWR)
    except OSError:
        return False
    with os.fdopen(opened) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def _nowhere() -> Iterator[list[socket.socket]]:
    yield []


@contextmanager
def _listen(config: ServiceConfig) -> Iterator[list[socket.socket]]:
    """Listen before anything is opened, so that a port that is taken is refused first."""
    listen = config.listen
    check_listen(listen, "listen", has_tls=config.certificate is not None, behind_proxy=config.behind_proxy)
    try:
        if isinstance(listen, Path):
            _remove_stale(listen)
            opened = socket.socket(socket.AF_UNIX)
            opened.bind(str(listen))
            os.chmod(listen, 0o660)  # the proxy is in the group
            opened.listen(128)
        else:
            family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
            opened = socket.create_server(listen, family=family, backlog=128)
            send_at_once(opened)
    except OSError as error:
        where = str(listen) if isinstance(listen, Path) else f"{listen[0]}:{listen[1]}"
        hint = "end what uses it, or take another with port="
        raise BadParameter("port", where, f"cannot be listened on ({os.strerror(error.errno or 0)})", hint) from None
    try:
        yield [opened]
    finally:
        opened.close()
        if isinstance(listen, Path):
            listen.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that has ended; one that is still listened on stays."""
    with socket.socket(socket.AF_UNIX) as other:
        try:
            other.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def send_at_once(listening: socket.socket) -> None:
    """Let connections of a socket send what they are given, without waiting for more: asyncio does so only where the socket
    names its protocol, and a response in two parts would wait 40 ms for an acknowledgement."""
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _load_web(config: ServiceConfig) -> tuple[Any, Any, "WebSettings"]:
    """Import the web server before the link is printed: then it answers at once."""
    try:
        import uvicorn

        from discreet.serve.web.app import create_app
    except ImportError as error:
        raise missing_library_error(str(error.name), "discreet[serve]") from None
    return uvicorn, create_app, make_web_settings(config)


def make_web_settings(config: ServiceConfig) -> "WebSettings":
    """Return the settings of the web process. It gets the address and the sign-in, and no path of data, ledger or key."""
    from discreet.serve.web.settings import OidcSettings, WebSettings

    oidc = None
    if config.oidc is not None:
        from discreet.paths import read_text

        def refuse(reason: str) -> BadParameter:
            return BadParameter("sign_in.oidc.secret_file", repr(str(config.oidc)), reason, "check the path")

        secret = read_text(config.oidc.secret_file, refuse).strip()
        stewards, analysts, readers = (
            () if each is None else (each,) for each in (config.oidc.stewards, config.oidc.analysts, config.oidc.readers)
        )
        oidc = OidcSettings(
            config.oidc.issuer, config.oidc.client, secret, stewards=stewards, analysts=analysts, readers=readers,
            default_role=config.oidc.default_role,
        )  # fmt: skip
    return WebSettings(
        config.address,
        config.name,
        oidc=oidc,
        trust_proxy=config.behind_proxy,
        direct_links=config.embedded,
        folder=config.target if config.embedded else None,
    )


def _serve_web(
    config: ServiceConfig, control: Control, parts: tuple[Any, Any, "WebSettings"], sockets: list[socket.socket], say: Say
) -> None:
    from discreet.serve.web.connections import Connection
    from discreet.serve.web.metrics import LOG_CONFIG

    uvicorn, create_app, settings = parts
    app = create_app(control, settings)
    web = app.state.web

    class Server(uvicorn.Server):  # type: ignore[name-defined, misc]
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            web.bell.ring()  # waiting requests get their ask as it is, and are not cut off
            await super().shutdown(sockets)

    server = Server(
        uvicorn.Config(
            app,
            log_config=LOG_CONFIG,
            access_log=False,  # addresses hold ids, which no log needs
            server_header=False,
            proxy_headers=config.behind_proxy,
            http=Connection,
            ws="none",
            timeout_graceful_shutdown=1,
            ssl_certfile=config.certificate,
            ssl_keyfile=config.certificate_key,
            lifespan="on",
        )
    )
    with _serve_metrics(config, web.metrics, say), _take_signals():
        server.run(sockets)


@contextmanager
def _take_signals() -> Iterator[None]:
    """Let the web server end by itself: afterwards it raises the signal again, which would end the process before the
    worker has put back what it holds."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _serve_metrics(config: ServiceConfig, metrics: "Metrics", say: Say) -> Iterator[None]:
    """Serve the counters at their own port of loopback while the web process runs, if the configuration names one."""
    if config.metrics is None:
        yield
        return
    try:
        server, thread = metrics.serve(*config.metrics)
    except OSError as error:
        where, reason = f"{config.metrics[0]}:{config.metrics[1]}", os.strerror(error.errno or 0)
        hint = "end what uses it, or name another under service.metrics"
        raise BadParameter("metrics", where, f"cannot be listened on ({reason})", hint) from None
    say(f"Metrics are at http://{config.metrics[0]}:{server.server_port}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(1.0)


def _configure_logs() -> None:
    """Write logs as the web process does, which sets that up when it starts: no line quotes what was sent or read."""
    from logging.config import dictConfig

    from discreet.serve.web.metrics import LOG_CONFIG

    dictConfig(LOG_CONFIG)


def _wait_for_signal() -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(1.0):
        pass
