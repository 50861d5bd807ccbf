"""Events of caches, commands, workers, limits, streams and live queries.

They are a part of the closed list in `events.py`.
"""

from __future__ import annotations

from docgraph.observe.event import DebugEvent, ErrorEvent, Event, SilentEvent, WarningEvent
from docgraph.observe.tracing import RequestTrace, TraceContext


class CacheUsed(SilentEvent, frozen=True):
    """A request to an app with a cache was answered. Not logged.

    `result` is `hit`, `miss` or `bypass`. `reason` says why the cache was bypassed; `first`: a miss
    was not stored, since the request was not missed before, or that was long ago;
    `collapsed`: a hit is the answer of an equal request that was in progress.
    """

    result: str
    reason: str = ""


class CacheDropped(SilentEvent, frozen=True):
    """An answer left the cache. Not logged.

    `reason`: `changed` (a change of the database), `written` (through this instance), `expired`,
    or `evicted` for others.
    """

    reason: str


class CacheSize(SilentEvent, frozen=True):
    """The cached answers of a process need this many bytes. Not logged."""

    bytes: int


class CacheLag(SilentEvent, frozen=True):
    """How old the known state of a database is, in seconds. Not logged."""

    db: str
    seconds: float


class WatchReset(Event, frozen=True):
    """Changes of a database were not followed for a moment: all answers count as outdated."""

    db: str
    reason: str
    answers: int


class HostRefused(WarningEvent, frozen=True):
    """A request for a host that is not one of ours; logged once by each process."""

    host: str
    option: str  # "/core/allowed-hosts"


class CommandFinished(DebugEvent, frozen=True):
    """One database command; `app`, `operation` and `field` say which part of a query sent it."""

    command: str
    db: str
    collection: str
    duration: float  # seconds
    ok: bool
    request_id: str = ""
    app: str = ""
    operation: str = ""
    field: str = ""
    error: str = ""  # the stable code of the error, never the database's text
    documents: int | None = None  # that were read, where all of them are here
    place: TraceContext | None = None  # in the trace of the request


class QueryFailed(WarningEvent, frozen=True):
    """The database's message about a failed query; the response contains only `id`."""

    id: str
    request_id: str
    code: str  # of the error in the response
    reason: str
    app: str = ""
    field: str = ""


class SlowOperation(WarningEvent, frozen=True):
    """A GraphQL operation took longer than `logging.slow-operation-ms`; names and counts only.

    `plan` are its commands by field, the slowest first.
    """

    request_id: str
    app: str
    operation: str
    duration: float  # seconds
    commands: int
    documents: int
    plan: tuple[str, ...]
    account: str = ""
    error: str = ""  # the stable code of the error that ended it


class OperationFinished(SilentEvent, frozen=True):
    """A GraphQL operation ended; `text` is what the caller sent, with its literals. Not logged."""

    app: str
    operation: str  # its name, if the request has one
    text: str
    duration: float  # seconds
    ok: bool


class WorkerStarted(Event, frozen=True):
    """A worker process listens."""

    worker: int
    pid: int


class WorkerLost(ErrorEvent, frozen=True):
    """A worker process ended without being asked to; another one takes its place."""

    worker: int
    pid: int
    exit_code: int | None = None
    signal: str | None = None  # "SIGKILL"


class ForkerLost(WarningEvent, frozen=True):
    """A process that starts workers ended; another one replaced it, and the workers continue."""

    pid: int


class SignalIgnored(Event, frozen=True):
    """A signal came that has no meaning here; it changes nothing."""

    signal: str


class ServerReloaded(Event, frozen=True):
    """SIGHUP or SIGUSR1 was handled; no connection was closed."""

    log_files: tuple[str, ...] = ()  # that were opened again, because they were renamed
    needs_restart: tuple[str, ...] = ()  # options that changed and are read at the start only


class CertificateLoaded(Event, frozen=True):
    """New connections get this certificate, which has replaced the previous one."""

    certificate: str  # the path
    sha256: str  # its fingerprint


class CertificateExpiring(WarningEvent, frozen=True):
    """The certificate of the https listener has expired, or will soon; reported once a day."""

    certificate: str  # the path
    until: str
    is_over: bool
    hint: str = "renew it; the server loads the new files by itself"


class CertificateAge(SilentEvent, frozen=True):
    """So many seconds are left until the certificate of the https listener ends. Not logged."""

    seconds_left: float


class ReloadFailed(ErrorEvent, frozen=True):
    """Something could not be read again; what was read before stays in use."""

    part: str  # "certificate", "log file", "configuration"
    reason: str


class NativeIgnored(WarningEvent, frozen=True):
    """docgraph-native is installed and not used: the Python lane gives the same answers."""

    reason: str
    hint: str = "install docgraph-native in the version of docgraph, or uninstall it"


class FewDescriptors(WarningEvent, frozen=True):
    """The system allows too few open files for `connection-options.max-connections`."""

    limit: int  # open files of a process
    connections: int  # that the instance accepts
    wanted: int
    hint: str


class RequestLimited(SilentEvent, frozen=True):
    """A request was refused because of a limit for callers. Not logged."""

    limit: str
    reason: str  # "rate" or "concurrent"


class LoadShed(SilentEvent, frozen=True):
    """A request was refused with 503 `overloaded`: docgraph itself has too much to do. Not logged.

    `bound` is the limit that was reached: requests, pool, memory, threads, uploads …
    """

    bound: str


class CallersLimited(WarningEvent, frozen=True):
    """A rate limit rejects requests; logged at intervals, with the number since the last line.

    `client` and `user` are those of the last one.
    """

    limit: str
    reason: str
    requests: int
    client: str
    user: str = ""


class StreamBegun(SilentEvent, frozen=True):
    """A request in a trace is answered by a stream: its head is out. Not logged."""

    request_id: str
    method: str
    status: int
    duration: float  # seconds
    service: str
    trace: RequestTrace


class CollectorLost(WarningEvent, frozen=True):
    """The collector did not accept a `signal`, which is dropped; logged once."""

    signal: str  # "traces" or "metrics"
    endpoint: str
    reason: str


class CollectorFound(Event, frozen=True):
    """The collector accepts data again; `dropped` messages were lost in between."""

    signal: str
    endpoint: str
    dropped: int


class StreamClient(SilentEvent, frozen=True):
    """A client has joined a change stream, or left it for a `reason`. Not logged."""

    transport: str  # "websocket" or "sse"
    reason: str = ""  # "left", "slow", "rights", …: a word of a small set


class StreamTold(SilentEvent, frozen=True):
    """One event was sent to the clients of a change stream. Not logged."""

    clients: int
    lag: float | None = None  # seconds since it happened, by the clock of the database


class StreamCursors(SilentEvent, frozen=True):
    """So many change streams of the database are open now, in this worker. Not logged."""

    count: int


class StreamFailed(WarningEvent, frozen=True):
    """A change stream of the database cannot go on; its clients were closed."""

    db: str
    collection: str
    stream: str
    error: BaseException


class StreamStageFailed(WarningEvent, frozen=True):
    """A stage of a change stream failed on an event; its clients were notified and stay."""

    db: str
    collection: str
    stream: str
    error: BaseException


class StreamSampled(SilentEvent, frozen=True):
    """A decision of the index of row filters was compared with the database's. Not logged."""

    outcome: str  # "same", "different", or "failed": the database did not answer


class LiveQueryChanged(SilentEvent, frozen=True):
    """A live query has begun, or has ended for a `reason`. Not logged."""

    transport: str  # "websocket" or "sse"
    reason: str = ""  # "left", "rights", …: a word of a small set


class LiveQueryRun(SilentEvent, frozen=True):
    """A live query was run again. Not logged."""

    outcome: str  # "sent", "unchanged", "limited" or "failed"
    execution: str = ""  # "own", or "shared" with an equal query


class StreamIndexWrong(ErrorEvent, frozen=True):
    """The index of row filters decided differently from the database, which decides from now on."""

    db: str
    collection: str
