"""Trace context (W3C `traceparent`) of the current request, without a library and without spans.

Spans are built from the events `RequestFinished` and `CommandFinished` (`otel/traces.py`), which
contain their position in a trace. A request has a `RequestTrace` while it is in progress, and all
of its work finds it in `current`, in whatever task. While tracing is off, there is none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, NamedTuple

Sampler = Callable[[int], bool]

_PARENT: Final = re.compile(
    rb"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})"
    rb"-(?P<flags>[0-9a-f]{2})(?P<rest>-.*)?"
)
_UNKNOWN_VERSION: Final = b"ff"
_SAMPLED: Final = 1
# One member: a key, and a value without commas and equals signs.
_MEMBER: Final = re.compile(
    rb"[a-z0-9][a-z0-9_\-*/]{0,255}(?:@[a-z][a-z0-9_\-*/]{0,13})?=[\x21-\x2b\x2d-\x3c\x3e-\x7e]{1,256}"
)
_MAX_MEMBERS: Final = 32
_LONGEST_STATE: Final = 512


class TraceContext(NamedTuple):
    """The position of a span: its ids, whether it is recorded, and the state of other tracers."""

    trace_id: int
    span_id: int
    parent_id: int = 0  # 0: the first span of its trace
    is_sampled: bool = False
    state: str = ""
    has_remote_parent: bool = False

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.is_sampled:02x}"

    def below(self) -> TraceContext:
        """Return the position of a new span below this one."""
        return TraceContext(self.trace_id, _new_id(64), self.span_id, self.is_sampled, self.state)


@dataclass(slots=True)
class RequestTrace:
    """The position of a request, and details for its span only.

    After it `is_over`, work that continues (a change stream) belongs to no trace.
    """

    place: TraceContext
    scheme: str = ""
    http_version: str = ""
    route: str = ""  # a template: it contains no id and no name of a path
    is_operation: bool = False  # a valid GraphQL operation
    operation: str = ""  # its name, as the caller wrote it
    is_over: bool = False

    @property
    def id(self) -> str:
        """The id of the trace, as people search for it."""
        return f"{self.place.trace_id:032x}"


current: Final = ContextVar[RequestTrace | None]("trace", default=None)


class Tracing:
    """Starts traces of requests, and decides which of them are recorded (sampling)."""

    def __init__(self) -> None:
        self.sampler: Sampler | None = None  # None: there are no traces
        self.trusts_callers = True

    def begin(self, headers: Iterable[tuple[bytes, bytes]]) -> RequestTrace:
        """Start the trace of a request with these headers in the current task."""
        place = _read_caller(headers) if self.trusts_callers else None
        if place is None:
            trace_id = _new_id(128)
            is_sampled = self.sampler is not None and self.sampler(trace_id)
            place = TraceContext(trace_id, _new_id(64), is_sampled=is_sampled)
        trace = RequestTrace(place)
        current.set(trace)
        return trace


tracing: Final = Tracing()  # per process, like the listeners of its events


def find_command_place() -> TraceContext | None:
    """Return the position of a new database command; None without a traced request."""
    trace = current.get()
    return None if trace is None or trace.is_over else trace.place.below()


def _read_caller(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """Return a new position below the caller's; missing or invalid headers are ignored."""
    parents, states = [], []
    for name, value in headers:
        if name == b"traceparent":
            parents.append(value)
        elif name == b"tracestate":
            states.append(value)
    if len(parents) != 1:
        return None
    parent = _PARENT.fullmatch(parents[0].strip(b" \t"))
    if parent is None or parent["version"] == _UNKNOWN_VERSION:
        return None
    if parent["version"] == b"00" and parent["rest"] is not None:
        return None
    trace_id, parent_id = int(parent["trace"], 16), int(parent["parent"], 16)
    if not trace_id or not parent_id:
        return None
    is_sampled = bool(int(parent["flags"], 16) & _SAMPLED)
    return TraceContext(trace_id, _new_id(64), parent_id, is_sampled, _read_state(states), True)


def _read_state(values: list[bytes]) -> str:
    """Return the state of other tracers, if it is well-formed; docgraph does not interpret it."""
    if not values:
        return ""
    members = [member.strip(b" \t") for member in b",".join(values).split(b",")]
    members = [member for member in members if member]
    keys = {member.partition(b"=")[0] for member in members}
    text = b",".join(members)
    if len(members) > _MAX_MEMBERS or len(keys) < len(members) or len(text) > _LONGEST_STATE:
        return ""
    return text.decode("ascii") if all(map(_MEMBER.fullmatch, members)) else ""


def _new_id(bits: int) -> int:
    """Return a random number other than 0, which would mean that there is no id."""
    return random.getrandbits(bits) or 1
