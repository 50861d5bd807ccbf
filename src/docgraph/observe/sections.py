"""Configuration sections of logging (`logging`) and OpenTelemetry (`otel`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from docgraph.config.section import ByteSize, HeaderName, Milliseconds, Name, Section

CollectorAddress = Annotated[
    str,
    Meta(
        pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?\Z",
        extra={"form": "an address that begins with 'http://' or 'https://'"},
    ),
]

# The library that sends them would reject other values, and show them in its error.
HeaderValue = Annotated[
    str,
    Meta(
        pattern=r"^(?! )[\x20-\x7e\xa0-\xff]*\Z",
        extra={"form": "a header's value, of one line and without a space before it"},
    ),
]

Interval = Annotated[int, Meta(ge=100, le=86_400_000, extra={"unit": "ms"})]


class Logging(Section, frozen=True):
    """What is logged to stderr, and how."""

    section_name: ClassVar[str] = "logging"
    level: Annotated[Literal["debug", "info", "warning", "error"], "least severity logged"] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        "`console` for people, `json` for machines, one line each; `auto` is `console` on a "
        "terminal and `json` elsewhere",
    ] = "auto"
    requests: Annotated[bool, "log one line per request"] = True
    requests_exclude_patterns: Annotated[
        tuple[str, ...],
        "paths whose requests are logged once per interval only; `*` matches any text",
    ] = ()
    requests_exclude_interval_ms: Annotated[
        Milliseconds, "interval for excluded paths; 0 logs only the first request"
    ] = 600_000
    slow_operation_ms: Annotated[
        Milliseconds,
        "GraphQL operations that take so long are logged with their commands (`slow-operation`); "
        "0 logs none",
    ] = 1000
    max_field_size: Annotated[ByteSize, "longest value in a log line; the rest is cut"] = 1024


class Otel(Section, frozen=True):
    """Traces and metrics by OTLP over HTTP to a collector of OpenTelemetry; needs the extra `otel`.

    What is not set here is read of the standard variables of the environment (`OTEL_…`).
    """

    section_name: ClassVar[str] = "otel"
    enabled: Annotated[bool, "whether anything is sent to a collector"] = False
    endpoint: Annotated[
        CollectorAddress | None,
        "base address of the collector, to which `/v1/traces` and `/v1/metrics` are added; else "
        "`OTEL_EXPORTER_OTLP_ENDPOINT`, else `http://localhost:4318`",
    ] = None
    headers: Annotated[
        dict[HeaderName, HeaderValue],
        Meta(extra={"secret": True}),
        "headers of every message to the collector, such as `authorization`; else "
        "`OTEL_EXPORTER_OTLP_HEADERS`",
    ] = msgspec.field(default_factory=dict)
    service_name: Annotated[
        Name | None,
        "`service.name` of everything that is sent; else `OTEL_SERVICE_NAME`, else `docgraph`",
    ] = None
    traces: Annotated[bool, "one span for each request and for each command to the database"] = True
    metrics: Annotated[bool, "the numbers of `/metrics`"] = True
    sample_ratio: Annotated[
        float,
        Meta(ge=0, le=1),
        "share of the traces that are recorded, of those that begin here; a trace that a caller "
        "has begun is recorded if its `traceparent` is sampled",
    ] = 1.0
    trust_incoming: Annotated[
        bool,
        "continue the traces of callers; else each request begins its own, and no caller decides "
        "whether it is recorded",
    ] = True
    interval_ms: Annotated[
        Interval | None,
        "time between two messages of metrics; else `OTEL_METRIC_EXPORT_INTERVAL`, else one minute",
    ] = None
