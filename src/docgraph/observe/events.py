"""Events: the closed list of everything that docgraph logs, counts and traces.

Code creates one of these and passes it to `docgraph.observe.emit`; log and metrics listen and
decide how to use it. Those of `engine_events.py` are part of the list. An event has plain facts and
never a secret: no header, no body, no query string, no token. `docs/reference/logging.md` lists
them all, and a test checks that it is complete.
"""

from __future__ import annotations

import docgraph.observe.engine_events  # noqa: F401 - `EVENTS` contains its events
from docgraph.observe.event import DebugEvent, ErrorEvent, Event, SilentEvent, WarningEvent
from docgraph.observe.tracing import RequestTrace


class ServerStarted(Event, frozen=True):
    """All workers listen; emitted once, by the parent process."""

    url: str
    workers: int
    version: str


class ProbesStarted(Event, frozen=True):
    """The probe listener answers; emitted by the parent process."""

    url: str


class ServerStopping(Event, frozen=True):
    """The server accepts nothing new and lets accepted requests finish."""

    reason: str  # "SIGTERM", "SIGINT", "SIGHUP", or what failed


class ServerStopped(Event, frozen=True):
    """Everything is closed; the last event of a clean stop."""

    uptime: float


class NotifyFailed(WarningEvent, frozen=True):
    """The service manager (systemd) could not be notified of a `state`."""

    state: str  # "READY=1", "WATCHDOG=1", "STOPPING=1"
    error: BaseException


class RequestStarted(SilentEvent, frozen=True):
    """A request entered the pipeline; exactly one `RequestFinished` follows. Not logged."""

    request_id: str


class BodyAwaited(SilentEvent, frozen=True):
    """A request waits for the rest of its body; exactly one that is `over` follows. Not logged."""

    request_id: str
    over: bool = False


class RequestFinished(Event, frozen=True):
    """A request has its answer: the one line per request.

    `path` is the decoded path without the query string; `service` is the name of the plugin that
    answered; `error` is the stable code of a refused or failed request.
    """

    request_id: str
    method: str
    path: str
    status: int
    duration: float  # seconds
    bytes_out: int = 0
    client: str = ""
    account: str = ""
    service: str = ""
    app: str = ""
    operation: str = ""  # the stored operation of the app
    entries: int = 0  # requests of a batch
    error: str = ""
    aborted: bool = False  # the client was gone before the answer was out
    endless: bool = False  # the answer was a stream, which lasts for as long as its client likes
    trace: RequestTrace | None = None


class RequestRefused(Event, frozen=True):
    """The protocol layer answered (400, 408, 413, 414, 431, 503) before there was a request."""

    status: int
    reason: str
    client: str = ""
    request_id: str = ""
    method: str = ""
    path: str = ""


class RequestFailed(ErrorEvent, frozen=True):
    """An unexpected exception; the response contains only `id`."""

    id: str
    request_id: str
    error: BaseException
    method: str = ""
    path: str = ""
    service: str = ""


class ToolCalled(Event, frozen=True):
    """An agent has used a tool."""

    request_id: str
    tool: str
    app: str
    account: str
    ok: bool
    duration: float
    error: str = ""  # the stable code of the error that the agent received


class DiskFull(ErrorEvent, frozen=True):
    """The embedded MongoDB has ended: disk full. It is started again when there is space."""

    directory: str
    reason: str = "disk full"


class DatabaseLost(WarningEvent, frozen=True):
    """The database does not answer; requests that need it answer 500 until it is found again."""

    reason: str
    address: str = ""
    origin: str = ""  # where the connection string was set: "docgraph.yml:12:3"
    hint: str = ""


class DatabaseRefused(WarningEvent, frozen=True):
    """The database answers and does not let us log in; requests answer 500 until it does."""

    reason: str
    user: str
    address: str
    origin: str
    hint: str


class DatabaseFound(Event, frozen=True):
    """The database answers: for the first time, or again."""

    version: str = ""
    down_seconds: float = 0.0


class RightsMissing(WarningEvent, frozen=True):
    """The database user lacks permissions that docgraph needs; reported again when they change.

    `missing` has an entry for each collection or database, `hint` the command that grants it.
    """

    missing: tuple[str, ...]
    user: str
    address: str
    origin: str
    hint: str


class RightsGranted(Event, frozen=True):
    """The rights that were missing are there."""

    user: str


class ClocksDiffer(WarningEvent, frozen=True):
    """The time of day is ahead of the database's by that many seconds, or behind if below 0."""

    seconds: float
    hint: str = "set the clocks of both machines, by NTP: tokens end by the time of day"


class UnreadableValue(WarningEvent, frozen=True):
    """A stored value that no driver could have written rightly; it is shown as its raw bytes."""

    db: str
    collection: str
    id: str  # of the document, where that is known
    path: str  # of the first such value in it
    values: int  # how many there are


class ConnectionsUsed(SilentEvent, frozen=True):
    """So many connections of a client of the database are in use in this worker. Not logged."""

    client: str  # "requests" or "streams"
    count: int
    most: int


class ElectionAwaited(SilentEvent, frozen=True):
    """Requests of this worker wait for a new primary, or no longer do. Not logged."""

    is_awaited: bool


class FastPathOff(Event, frozen=True):
    """Reads cost more than on the fast path: the driver's version or an option forbids it."""

    driver_version: str
    tried: str  # "4.19"
    reason: str


class PluginLoaded(DebugEvent, frozen=True):
    """A plugin is ready."""

    plugin: str
    kind: str
    origin: str  # "built-in", an entry point, or a file


class PluginFailed(ErrorEvent, frozen=True):
    """A plugin raised while it was loaded, started, used or closed."""

    plugin: str
    stage: str  # "load", "start", "close", or the name of the call
    error: BaseException


class InterceptorFailed(ErrorEvent, frozen=True):
    """An interceptor raised; what that means for the request is the pipeline's decision."""

    plugin: str
    point: str
    error: BaseException
    request_id: str = ""


class ConfigWarning(WarningEvent, frozen=True):
    """Something in the configuration works, and should be changed."""

    origin: str  # "docgraph.yml:12:3"
    path: str  # "/graphql/app-def-cache-ttl"
    message: str
    hint: str = ""  # what to do: "use 'app-cache-enabled' and 'app-cache-ttr' instead"


class AppLoaded(DebugEvent, frozen=True):
    """A GraphQL app is compiled and served."""

    app: str
    uri: str
    duration: float = 0.0  # seconds


class AppInvalid(WarningEvent, frozen=True):
    """A definition cannot be served; responses contain no details."""

    app: str
    problems: tuple[str, ...]


class AppPartlyInvalid(WarningEvent, frozen=True):
    """An app is served without parts that are invalid; faulty fields answer with an error."""

    app: str
    problems: tuple[str, ...]


class AppsRefreshed(DebugEvent, frozen=True):
    """The definitions were read again; the numbers are what this worker now knows."""

    served: int
    disabled: int
    invalid: int
    duration: float = 0.0  # seconds
    partial: int = 0  # served without parts that are invalid


class AuthFailed(Event, frozen=True):
    """Credentials were not accepted. `reason` is a word of a small set, never what was sent."""

    mechanism: str
    reason: str  # "wrong-password", "unknown-user", "expired-token", "bad-signature", "malformed"
    user: str = ""
    client: str = ""
    request_id: str = ""


class CookieNotSet(WarningEvent, frozen=True):
    """A request for a cookie over plain http, where none is set; logged once by each process."""

    option: str  # "/authCookieSetter/secure"
    hint: str
    request_id: str = ""


class LoginsBlocked(WarningEvent, frozen=True):
    """The brute force guard refuses further attempts for a while."""

    scope: str  # "address" or "address-and-user"
    client: str
    user: str = ""
    seconds: float = 0.0


class AccessDenied(Event, frozen=True):
    """No allower approved, or a vetoer denied; `reason` is the authorizer's own."""

    request_id: str
    authorizer: str
    reason: str
    account: str = ""
    method: str = ""
    path: str = ""


class ViewDenied(Event, frozen=True):
    """A caller with a row filter for `source` may not read the view on it (decision 58)."""

    request_id: str
    view: str
    source: str
    hint: str = "name the view in mongo.readFilters of the rule, with {} for all of its rows"


class ViewRefusedByRule(WarningEvent, frozen=True):
    """Callers of the rule may not read the view, since the rule filters the rows of `source`."""

    rule: str
    view: str
    source: str
    hint: str = "name the view in mongo.readFilters of the rule, with {} for all of its rows"


class FilterPassed(WarningEvent, frozen=True):
    """A rule for all callers has filters that do not hold for callers of these rules for roles."""

    rule: str
    passed_by: tuple[str, ...]
    hint: str = "rules for roles come first: repeat the filters in those that need them"


class RulesTied(WarningEvent, frozen=True):
    """Rules of equal priority overlap, and differ in effect: `rule` is evaluated first."""

    rule: str
    before: tuple[str, ...]
    hint: str = "give them different priorities"


class BackgroundFailed(WarningEvent, frozen=True):
    """A background task raised; it runs again after `retry_seconds`, unless it is being stopped."""

    task: str
    error: BaseException
    failures: int = 1
    retry_seconds: float = 0.0


class UnattendedFailed(WarningEvent, frozen=True):
    """A shielded task (a write, and what follows it) failed after its client had left."""

    work: str
    error: BaseException


class BackgroundLeft(ErrorEvent, frozen=True):
    """A background task did not stop in time and was abandoned."""

    task: str
    seconds: float


class LoopLagged(WarningEvent, frozen=True):
    """The event loop was blocked: no request was answered in that time."""

    seconds: float
    hint: str = (
        "normal in the first minute and on a busy machine; otherwise add workers "
        "(core.workers), or look for a plugin that blocks"
    )


class LinesDropped(WarningEvent, frozen=True):
    """The reader of the log was too slow: `count` lines are missing here."""

    count: int


class ObserverFailed(ErrorEvent, frozen=True):
    """A listener raised over an event: a fault of docgraph that must not reach the caller."""

    event: str
    error: BaseException


_LEVELS = (Event, SilentEvent, DebugEvent, WarningEvent, ErrorEvent)
# All of the above, and those of `engine_events.py`.
EVENTS: tuple[type[Event], ...] = tuple(
    kind for level in _LEVELS for kind in level.__subclasses__() if kind not in _LEVELS
)
