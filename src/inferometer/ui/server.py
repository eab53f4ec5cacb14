"""Runs the browser interface until it is interrupted, or idle for a while."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.concurrency import run_in_threadpool

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.writing import writing
from inferometer.store.private import ensure_store
from inferometer.ui import place
from inferometer.ui.app import application, no_token
from inferometer.ui.form import Startable
from inferometer.ui.place import UiPlace
from inferometer.ui.security import Gatekeeper, allowed_host, names_of, new_token, reached_at
from inferometer.ui.site import Site

STEP_S = 0.25
USUAL_PORT = 8700


@frozen
class UiRequest:
    """Settings. `port` None uses the usual port or a free one; with `idle_s` None it never exits by itself."""

    store: Path
    startables: tuple[Startable, ...]
    host: str = "127.0.0.1"
    allowed: tuple[str, ...] = ()  # names of a proxy in front of it
    port: int | None = None
    idle_s: float | None = None


def serve(request: UiRequest, on_listening: Callable[[UiPlace], None]) -> None:
    """Serve the interface; `on_listening` is called once it listens."""
    allowed = frozenset(map(allowed_host, request.allowed))
    with _listening(request.host, request.port) as listener:
        port: int = listener.getsockname()[1]
        reached = reached_at(request.host)
        host = f"[{reached}]" if ":" in reached else reached
        with writing(request.store):
            ensure_store(request.store)
        own = place.here(f"http://{host}:{port}", new_token())
        site = Site(request.store, request.startables)
        guard = Gatekeeper(application(site), own.token, names_of(request.host), port, no_token, allowed)
        config = uvicorn.Config(
            guard,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=3,
            ws="none",
            server_header=False,
            proxy_headers=False,
        )
        server = uvicorn.Server(config)
        place.write(request.store, own)
        try:
            on_listening(own)
            with suppress(KeyboardInterrupt):  # the usual way to stop it
                asyncio.run(_serve(server, listener, site, request.idle_s))
        finally:
            place.remove(request.store, own)


async def _serve(server: uvicorn.Server, listener: socket.socket, site: Site, idle_s: float | None) -> None:
    steps = asyncio.create_task(_steps(server, site, idle_s))
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.handle_exit, signal.SIGHUP, None)
    try:
        await server.serve(sockets=[listener])
    finally:
        steps.cancel()
        with suppress(asyncio.CancelledError):
            await steps


async def _steps(server: uvicorn.Server, site: Site, idle_s: float | None) -> None:
    """Advance the queue, and exit when idle."""
    while True:
        site.is_ending = server.should_exit
        if site.jobs.current is not None or site.jobs.waiting:
            await run_in_threadpool(site.jobs.step)
        if idle_s is not None and site.idle_s() > idle_s:
            server.should_exit = True
        await asyncio.sleep(STEP_S)


def _listening(host: str, port: int | None) -> socket.socket:
    """Listen on the port; without one, on the usual port or a free one if that is taken."""
    ports: Iterable[int] = (USUAL_PORT, 0) if port is None else (port,)
    trouble: OSError | None = None
    for number in ports:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            trouble = error
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()  # before the address is announced
        except OSError as error:
            listener.close()
            trouble = error
        else:
            return listener
    raise UsageError(
        f"cannot listen on port {port} of {host}: {trouble}",
        remedy="use another --host or --port, or omit them",
    )
