"""Events of the server process besides start and stop: workers, reloads, rate limits, traces."""

from __future__ import annotations

from typing import ClassVar

from docgraph.observe.event import Event, Level
from docgraph.observe.tracing import RequestTrace


class WorkerStarted(Event, frozen=True):
    """A worker process listens."""

    worker: int
    pid: int


class WorkerLost(Event, frozen=True):
    """A worker process ended without being asked to; another one takes its place."""

    level: ClassVar[Level] = Level.ERROR
    worker: int
    pid: int
    exit_code: int | None = None
    signal: str | None = None  # "SIGKILL"


class ForkerLost(Event, frozen=True):
    """A process that starts workers ended; another one replaced it, and the workers continue."""

    level: ClassVar[Level] = Level.WARNING
    pid: int


class ServerReloaded(Event, frozen=True):
    """SIGHUP was handled; no connection was closed."""

    log_files: tuple[str, ...] = ()  # that were opened again, because they were renamed
    needs_restart: tuple[str, ...] = ()  # options that changed and are read at the start only


class CertificateLoaded(Event, frozen=True):
    """New connections get this certificate, which has replaced the previous one."""

    certificate: str  # the path
    sha256: str  # its fingerprint


class ReloadFailed(Event, frozen=True):
    """Something could not be read again; what was read before stays in use."""

    level: ClassVar[Level] = Level.ERROR
    part: str  # "certificate", "log file", "configuration"
    reason: str


class NativeIgnored(Event, frozen=True):
    """docgraph-native is installed and not used: the Python lane gives the same answers."""

    level: ClassVar[Level] = Level.WARNING
    reason: str
    hint: str = "install docgraph-native in the version of docgraph, or uninstall it"


class FewDescriptors(Event, frozen=True):
    """The system allows too few open files for `connection-options.max-connections`."""

    level: ClassVar[Level] = Level.WARNING
    limit: int  # open files of a process
    connections: int  # that the instance accepts
    wanted: int
    hint: str


class RequestLimited(Event, frozen=True):
    """A request was refused because of a limit for callers. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    limit: str
    reason: str  # "rate" or "concurrent"


class LoadShed(Event, frozen=True):
    """A request was refused with 503 `overloaded`: docgraph itself has too much to do. Not logged.

    `bound` is the limit that was reached: requests, pool, memory, threads, uploads …
    """

    level: ClassVar[Level] = Level.SILENT
    bound: str


class CallersLimited(Event, frozen=True):
    """A limit refuses requests; said now and then, with how many since the last time.

    `client` and `user` are those of the last one.
    """

    level: ClassVar[Level] = Level.WARNING
    limit: str
    reason: str
    requests: int
    client: str
    user: str = ""


class StreamBegun(Event, frozen=True):
    """A request in a trace is answered by a stream: its head is out. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    request_id: str
    method: str
    status: int
    duration: float  # seconds
    service: str
    trace: RequestTrace


class CollectorLost(Event, frozen=True):
    """The collector did not accept a `signal`, which is dropped; logged once."""

    level: ClassVar[Level] = Level.WARNING
    signal: str  # "traces" or "metrics"
    endpoint: str
    reason: str


class CollectorFound(Event, frozen=True):
    """The collector takes it again; so many messages were dropped meanwhile."""

    signal: str
    endpoint: str
    dropped: int
