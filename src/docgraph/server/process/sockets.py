"""Listening sockets: opened once, before any worker, so that a port in use is found early."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from docgraph.exchange import StartupError
from docgraph.observe import emit
from docgraph.observe.engine_events import FewDescriptors
from docgraph.runtime.sections import ProbeListener
from docgraph.server.settings import Limits, ServerSettings

_BACKLOG = 2048  # connections that are not accepted yet
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - compared with, not bound to
_RESERVED = 64  # descriptors for the log and the like
# TCP keepalive: the system notices a peer that vanishes silently, such as one of server-sent
# events. Seconds of silence until the first probe, between two probes, and number of probes.
_VANISHED = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
# Bytes that the system buffers before they can be sent. It would buffer megabytes for each client
# that does not read, which no limit counts, and its next requests would be executed.
_UNSENT = 128 * 1024
_UNCONFIRMED_MS = 30_000  # that bytes may be unacknowledged; the first are sent with a heartbeat
_OWN = 44  # descriptors that a process needs itself, with a few connections to the database


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A listening socket, for http or https."""

    socket: socket.socket
    scheme: str
    file: SocketFile | None = None  # of a Unix socket, in the process that removes it

    @property
    def url(self) -> str:
        """The URL to call, with the real port; for all interfaces the local one.

        That of a Unix socket is `unix:` and its path.
        """
        if self.socket.family == socket.AF_UNIX:
            return f"unix:{self.socket.getsockname()}"
        host, port = self.socket.getsockname()[:2]
        host = _ANYWHERE.get(host, f"[{host}]" if ":" in host else host)
        return f"{self.scheme}://{host}:{port}"

    def close(self) -> None:
        """Close the socket, and remove the file of a Unix socket."""
        self.socket.close()
        if self.file is not None:
            self.file.remove()


def open_listeners(settings: ServerSettings) -> list[ListeningSocket]:
    """Open a listener for each that is enabled; raises `StartupError` when one fails."""
    listeners: list[ListeningSocket] = []
    try:
        for scheme, section in (
            ("http", settings.http_listener),
            ("https", settings.https_listener),
        ):
            if section.enabled and section.port is not None:
                listeners.append(
                    ListeningSocket(_listen(scheme, section.host, section.port), scheme)
                )
        http = settings.http_listener
        if http.enabled and http.socket is not None:
            opened = listen_at_path(http.socket, int(http.socket_mode, 8), _BACKLOG)
            listeners.append(ListeningSocket(opened, "http", SocketFile.find(http.socket)))
    except StartupError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def open_probe_listener(options: ProbeListener) -> ListeningSocket:
    """Open the listener for health checks; raises `StartupError` when that fails."""
    return ListeningSocket(_listen("core/probe", options.host, options.port or 0), "http")


def _listen(scheme: str, host: str, port: int) -> socket.socket:
    family, address = _resolve(scheme, host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Accepted connections inherit these options; systems differ in support.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = {**_VANISHED, "TCP_USER_TIMEOUT": _UNCONFIRMED_MS, "TCP_NOTSENT_LOWAT": _UNSENT}
        for name, value in options.items():
            if hasattr(socket, name):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _explain(error, scheme, host, port) from error
    listener.setblocking(False)
    return listener


def _resolve(scheme: str, host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror:
        raise StartupError(
            f"the host {host!r} of /{scheme}-listener does not resolve to an address"
        ) from None
    # `localhost` may be two addresses; the one that all clients reach comes first
    addresses.sort(key=lambda entry: entry[0] != socket.AF_INET)
    family, _, _, _, address = addresses[0]
    return family, (str(address[0]), int(address[1]))


def _explain(error: OSError, scheme: str, host: str, port: int) -> StartupError:
    place = f"port {port} of {host}"
    option = f"/{scheme}-listener"
    if error.errno == errno.EADDRINUSE:
        way = f"--port or {option}/port" if scheme == "http" else f"{option}/port"
        return StartupError(
            f"{place} is in use",
            hint=f"stop the other program, or choose another port with {way} (0 takes a free one)",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return StartupError(
            f"no permission to listen on {place}", hint=f"set {option}/port to 1024 or above"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartupError(f"{host} is not an address of this machine", hint=f"set {option}/host")
    return StartupError(f"cannot listen on {place}: {os.strerror(error.errno or 0)}")


def fit_to_descriptors(limits: Limits, to_database: int) -> Limits:
    """Raise the file descriptor limit for all connections; return the limits that are possible.

    A process without descriptors cannot even reject: it is better to answer 503 before that. If
    there are few, a quarter of them is for connections `to_database`, the log and the like. A lower
    number is logged.
    """
    connections = limits.connections
    reserved = to_database + _RESERVED
    wanted = connections + limits.lingering + reserved
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft == resource.RLIM_INFINITY:
        return limits
    left = max(2, soft - min(reserved, max(_OWN, soft // 4)))
    lingering = min(limits.lingering, left // 4)
    possible = min(connections, left - lingering)
    if possible < connections:
        hint = f"raise the limit of open files to {wanted} (ulimit -n, LimitNOFILE of systemd)"
        emit(FewDescriptors(soft, possible, connections, hint))
    return replace(limits, connections=possible, lingering=lingering)


_OPTION: Final = "/http-listener/socket"
_LONGEST: Final = 107  # bytes of a path; the kernel has room for no more
_PATIENCE: Final = 5.0  # seconds that another process may hold the lock of the directory
_PAUSE: Final = 0.02


def listen_at_path(path: str, mode: int, backlog: int) -> socket.socket:
    """Listen at a path with these permissions; raises `StartupError`.

    A Unix domain socket is a file, which must not belong to another process. A process that was
    killed leaves its file behind. Such a file refuses connections, and is replaced; one that
    accepts them belongs to a server that runs, and stays. The directory is locked from this check
    until the new socket listens, so that two servers that start together do not both replace it.
    """
    if len(os.fsencode(path)) > _LONGEST:
        raise StartupError(
            f"the path of the socket is longer than {_LONGEST} bytes: {path}",
            hint=f"choose a shorter one with {_OPTION}",
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _locked(os.path.dirname(path)):
            _remove_stale(path)
            listener.bind(path)
            os.chmod(path, mode)  # before anyone can connect
            listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise _explain_path_error(error, path) from error
    except BaseException:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


class SocketFile(NamedTuple):
    """The file of a listening socket, as it was created."""

    path: str
    device: int
    inode: int

    @classmethod
    def find(cls, path: str) -> SocketFile:
        status = os.lstat(path)
        return cls(path, status.st_dev, status.st_ino)

    def remove(self) -> None:
        """Remove the file, unless another process has replaced it."""
        with suppress(OSError), _locked(os.path.dirname(self.path)):  # it is already removed
            if SocketFile.find(self.path) == self:
                os.unlink(self.path)


def _remove_stale(path: str) -> None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise StartupError(
            f"{path} exists and is not a socket",
            hint=f"remove it, or choose another path with {_OPTION}",
        )
    if _accepts(path):
        raise StartupError(
            f"another process listens at {path}",
            hint=f"stop it, or choose another path with {_OPTION}",
        )
    os.unlink(path)


def _accepts(path: str) -> bool:
    """Return whether a process listens there, even if it is too busy to accept."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except ConnectionRefusedError:
            return False
    return True


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)


def _explain_path_error(error: OSError, path: str) -> StartupError:
    if isinstance(error, BlockingIOError):
        return StartupError(f"another process has locked {Path(path).parent}", hint="try again")
    hint = None
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = f"choose a directory that the server may write to with {_OPTION}"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        hint = f"create the directory, or choose another path with {_OPTION}"
    return StartupError(
        f"cannot listen at {path}: {os.strerror(error.errno or 0).lower()}", hint=hint
    )
