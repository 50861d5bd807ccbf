"""Error classes with their HTTP status and stable code; messages with location and hint.

    DocgraphError                       status  code
    ├── RequestError                       400  bad-request
    │   ├── BodyError                      400  malformed-body
    │   ├── BodyTooLarge                   413  body-too-large
    │   ├── UnsupportedMediaType           415  unsupported-media-type
    │   ├── NotAcceptable                  406  not-acceptable
    │   ├── RequestTimeout                 408  request-timeout
    │   ├── UrlTooLong                     414  url-too-long
    │   ├── HeadersTooLarge                431  headers-too-large
    │   ├── UpgradeRequired                426  upgrade-required
    │   ├── NotFound                       404  not-found
    │   └── MethodNotAllowed               405  method-not-allowed
    ├── Unauthenticated                    401  unauthenticated
    ├── Forbidden                          403  forbidden
    ├── Conflict                           409  conflict
    ├── PreconditionFailed                 412  precondition-failed
    ├── TooManyRequests                    429  too-many-requests
    ├── DefinitionError                    400  invalid-definition
    ├── QueryError                         400  invalid-query
    │   └── ExpressionTooLarge             400  expression-too-large
    │       └── LoopTooLarge               400  loop-too-large
    ├── Overloaded                         503  overloaded
    ├── NotSupported                       501  not-supported
    ├── StoreError                         500  database-error
    │   ├── StoreUnavailable               500  database-unavailable
    │   │   ├── PoolExhausted              503  overloaded
    │   │   └── OutcomeUnknown             500  outcome-unknown
    │   ├── TimeLimitExceeded              408  time-limit-exceeded
    │   ├── StoreRejected                  400  rejected-by-database
    │   │   ├── AnswerTooLarge             400  answer-too-large
    │   │   └── ResumePointLost            400  resume-point-lost
    │   ├── StoreForbidden                 403  forbidden-by-database
    │   └── SecurityViolation              403  security-violation
    └── InternalError                      500  internal-error

    StartupError       stops the start: one line, a hint, exit code 1
    └── ConfigError    the same with a list of problems, exit code 2

A message is lower case, without a full stop, and names the offending thing. It is written for the
caller and contains no text of the database or of Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final


class DocgraphError(Exception):
    """An error that a caller may see: status, stable code, message, hint, details and headers.

    `fields` are next to the message in the general shape, where the specification wants them. A
    class with an `answer` always sends that one: its message is the reason, which only the log has.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal-error"
    answer: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        details: Any = None,
        headers: Sequence[tuple[str, str]] = (),
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        if self.answer is not None:
            self.message, self.hint, self.details = self.answer, None, None
        self.headers = tuple(headers)
        self.fields = fields or {}


class RequestError(DocgraphError):
    """The request itself cannot be understood or accepted."""

    status, code = 400, "bad-request"


class BodyError(RequestError):
    """The body cannot be parsed as its content type."""

    status, code = 400, "malformed-body"


class BodyTooLarge(RequestError):
    """The body exceeds the limit of the service."""

    status, code = 413, "body-too-large"


class UnsupportedMediaType(RequestError):
    """The service does not support the content type of the body."""

    status, code = 415, "unsupported-media-type"


class NotAcceptable(RequestError):
    """The response has no format that the caller accepts."""

    status, code = 406, "not-acceptable"


class RequestTimeout(RequestError):
    """The client was too slow in sending its request."""

    status, code = 408, "request-timeout"


class UrlTooLong(RequestError):
    """The request target exceeds `connection-options.max-url-size`."""

    status, code = 414, "url-too-long"


class HeadersTooLarge(RequestError):
    """The head exceeds one of its bounds: a line, the sum, the number."""

    status, code = 431, "headers-too-large"


class UpgradeRequired(RequestError):
    """The resource, or the version of the protocol, needs another handshake."""

    status, code = 426, "upgrade-required"


class NotFound(RequestError):
    """Nothing is served at that path."""

    status, code = 404, "not-found"


class MethodNotAllowed(RequestError):
    """The resource does not support the method."""

    status, code = 405, "method-not-allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(
            f"method {method} not allowed",
            hint=f"this resource takes {', '.join(allowed)}",
            headers=[("Allow", ", ".join(allowed))],
        )


class Unauthenticated(DocgraphError):
    """The caller is not authenticated; the answer never says more (decision 68)."""

    status, code, answer = 401, "unauthenticated", "authentication required"


class Forbidden(DocgraphError):
    """The caller has no permission for this request; the answer never says why (decision 68)."""

    status, code, answer = 403, "forbidden", "permission denied"


class Conflict(DocgraphError):
    """The request conflicts with the stored state."""

    status, code = 409, "conflict"


class PreconditionFailed(DocgraphError):
    """A condition of the request, such as `If-Match`, is not met."""

    status, code = 412, "precondition-failed"


class TooManyRequests(DocgraphError):
    """The caller exceeded a rate limit and has to wait."""

    status, code = 429, "too-many-requests"


class DefinitionError(DocgraphError):
    """A stored definition, rule or aggregation cannot work."""

    status, code = 400, "invalid-definition"


class QueryError(DocgraphError):
    """A query that cannot be run."""

    status, code = 400, "invalid-query"


class ExpressionTooLarge(QueryError):
    """An expression can take too many steps for one document, or make too large a value."""

    status, code = 400, "expression-too-large"


class LoopTooLarge(ExpressionTooLarge):
    """The values of the caller make an expression of an author too large."""

    status, code = 400, "loop-too-large"


class Overloaded(DocgraphError):
    """The instance has as much to do as it accepts, or no connection became free in time.

    `bound` is the limit that was reached, for the metric.
    """

    status, code = 503, "overloaded"

    def __init__(self, message: str, *, retry_after: int = 1, bound: str = "other") -> None:
        super().__init__(
            message,
            hint=f"try again in {retry_after} s",
            headers=[("Retry-After", str(retry_after))],
        )
        self.bound = bound


class NotSupported(DocgraphError):
    """docgraph does not support this, on purpose."""

    status, code = 501, "not-supported"


class StoreError(DocgraphError):
    """The database rejected or could not run a command."""

    status, code = 500, "database-error"


class StoreUnavailable(StoreError):
    """The database cannot be reached."""

    status, code = 500, "database-unavailable"


class PoolExhausted(Overloaded, StoreUnavailable):
    """All connections of the pool were busy for too long: overload, no outage (decision 51)."""

    def __init__(self) -> None:
        super().__init__("no connection to the database became free in time", bound="pool")


class OutcomeUnknown(StoreUnavailable):
    """The database was lost or too slow during a write, which may or may not be applied."""

    status, code = 500, "outcome-unknown"


class TimeLimitExceeded(StoreError):
    """The time for this request is used up."""

    status, code = 408, "time-limit-exceeded"


# After these the same command may succeed: they say nothing about what was asked.
TEMPORARY_FAILURES: Final = (StoreUnavailable, TimeLimitExceeded, Overloaded)


class StoreRejected(StoreError):
    """The database found the request itself wrong."""

    status, code = 400, "rejected-by-database"


class AnswerTooLarge(StoreRejected):
    """The response of the database is larger than docgraph reads."""

    status, code = 400, "answer-too-large"


class ResumePointLost(StoreRejected):
    """The database does not know, or no longer knows, where a change stream resumes."""

    status, code = 400, "resume-point-lost"


class StoreForbidden(StoreError):
    """The database forbids this to every user; a privilege that we lack is a `StoreError`."""

    status, code = 403, "forbidden-by-database"


class SecurityViolation(StoreError):
    """A stage, operator or namespace that docgraph or its configuration rejects."""

    status, code = 403, "security-violation"


class InternalError(DocgraphError):
    """A fault of docgraph; the log has it under the id in `details`."""

    status, code = 500, "internal-error"


class StartupError(Exception):
    """The server or command cannot start."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration: its location, what is wrong, how to fix it."""

    origin: str  # "docgraph.yml:12:3", "DOCGRAPH_OVERRIDES", "--set /core/workers"
    path: str  # "/graphql/max-limit"
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        place = "" if self.path == "/" else f"{self.path}: "  # the whole file: no path
        return f"{self.origin}: {place}{self.message}{hint}"


class ConfigError(StartupError):
    """The configuration cannot work; every mistake found is in `problems`."""

    exit_code: ClassVar[int] = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
