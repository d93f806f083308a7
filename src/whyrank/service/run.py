"""Starting the service: one worker in this process, or several that share memory-mapped models and one socket."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from whyrank import artifacts
from whyrank.errors import ArtifactError, MissingExtra, ParameterError
from whyrank.service.settings import Settings, named_folders

try:
    import httptools  # noqa: F401 - missed here rather than in a worker
    import msgspec  # noqa: F401
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn
    import uvicorn.supervisors
    from uvicorn.config import STARTUP_FAILURE
except ImportError as missing:
    raise MissingExtra("serve", "the service") from missing

LOCAL = ("localhost", "127.0.0.1", "::1")
GRACE = 30  # seconds that requests under way have when the service is told to stop
SIGN_OF_LIFE = 30  # seconds after which a worker that does not answer its parent is replaced
QUEUE = 2048  # connections that wait to be taken
CONNECTIONS = 4096  # of one worker; further requests are told to come back


def run(
    settings: Settings,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    unprotected: bool = False,
    announce: Callable[[str], None] = print,
    application: str = "whyrank.service.app:from_environment",
) -> None:
    """Serve until told to stop (SIGINT, SIGTERM); requests under way are finished first.

    `announce` is told the address once it is taken; port 0 takes a free one.
    """
    if not (is_loopback(host) or settings.keys or settings.study_only or unprotected):
        hint = "give --keys FILE, or --open if that is what you want"
        raise ParameterError(f"{host} can be reached by others and there are no API keys; {hint}")
    settings = dataclasses.replace(settings, hosts=_hosts(settings, host))
    _check(settings)
    listening = _listen(host, port)
    announce(_url(host, listening.getsockname()[1], settings.prefix))
    settings.to_environment()
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # requests are the unit of parallel work, not loops inside them
    with listening:
        serve = _run_one if settings.workers == 1 else _run_workers
        if not serve(settings, application, listening):
            raise ArtifactError("the service could not start; the line above says why")


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _hosts(settings: Settings, host: str) -> tuple[str, ...]:
    """The names under which the service answers: those given; on this machine alone, without keys, its own as well."""
    from whyrank.service.guard import host_name

    reads_everything = is_loopback(host) and not settings.keys and not settings.study_only
    if not (settings.hosts or reads_everything):
        return ()
    return tuple(dict.fromkeys(host_name(each) for each in (*LOCAL, host, *settings.hosts)))


def _url(host: str, port: int, prefix: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{prefix}/"


def make_config(settings: Settings, application: str) -> uvicorn.Config:
    """Return uvicorn's settings."""
    return uvicorn.Config(
        application,
        factory=True,
        workers=settings.workers,
        http="whyrank.service.http:Protocol",
        ws="none",
        backlog=QUEUE,
        limit_concurrency=CONNECTIONS,
        access_log=False,  # would hold the tokens of participants; /metrics counts
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=GRACE,
        timeout_worker_healthcheck=SIGN_OF_LIFE,
    )


def _run_one(settings: Settings, application: str, listening: socket.socket) -> bool:
    """Serve in this process; whether that could start."""
    server = uvicorn.Server(make_config(settings, application))
    server.run(sockets=[listening])
    return bool(server.started)


def _run_workers(settings: Settings, application: str, listening: socket.socket) -> bool:
    """Serve in processes of their own, which uvicorn watches over; whether they could start."""
    counts = tempfile.mkdtemp(prefix="whyrank-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = counts
    try:
        workers = uvicorn.supervisors.Multiprocess(make_config(settings, application), sockets=[listening])
        workers.run()
        return all(each.exitcode != STARTUP_FAILURE for each in workers.processes)
    finally:
        del os.environ["PROMETHEUS_MULTIPROC_DIR"]
        shutil.rmtree(counts, ignore_errors=True)


def _check(settings: Settings) -> None:
    """Fail now, with one line, on what would fail every worker."""
    from whyrank.online.store import Store

    for _, folder in named_folders(settings.models):
        artifacts.read_manifest(folder, "model")
    for file in (settings.titles, settings.groups, settings.aspects):
        if file is not None and not Path(file).is_file():
            raise ParameterError(f"{file}: no such file")
    if settings.split is not None and not Path(settings.split).is_dir():
        raise ParameterError(f"{settings.split}: no such split folder")
    Store(settings.store).create().close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol named, asyncio does not turn Nagle's algorithm off and small answers wait 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise ParameterError(f"cannot listen on {host} port {port}: {reason}; use another --port") from error
    listening.set_inheritable(True)
    return listening
