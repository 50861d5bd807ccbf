"""Trace export (OTLP) of one process: sampling, and a bounded queue to the collector.

Spans wait in a bounded queue for the thread of the library that sends them. If they come faster
than they are sent, the oldest are dropped. Requests never wait for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from docgraph.exchange.errors import StartupError
from docgraph.observe import subscribe, unsubscribe
from docgraph.observe.engine_events import CommandFinished, StreamBegun
from docgraph.observe.event import Event
from docgraph.observe.events import RequestFinished
from docgraph.observe.metric_list import METHODS
from docgraph.observe.otel.collector import (
    CLOSE_SECONDS,
    CollectorSession,
    CollectorStatus,
    build_resource,
    build_scope,
    find_address,
)
from docgraph.observe.sections import Otel
from docgraph.observe.tracing import RequestTrace, Sampler, TraceContext, tracing

_LOOK_SECONDS: Final = 0.01
_LOW_HALF: Final = 1 << 64  # ids are random there, in every implementation


class Traces:
    """Gives every request a trace until it is closed."""

    def __init__(self, options: Otel, instance: bytes, version: str) -> None:
        address = find_address(options, "traces")
        self._contact = CollectorStatus("traces", address)
        exporter = OTLPSpanExporter(
            endpoint=address, headers=options.headers or None, session=CollectorSession()
        )
        self._exporter = _Exporter(exporter, self._contact)
        self._processor = _build_processor(self._exporter)
        self._spans = Spans(self._processor, build_resource(options, instance, version))
        tracing.trusts_callers = options.trust_incoming
        tracing.sampler = _build_sampler(options.sample_ratio)

    async def close(self) -> None:
        """Send the queued spans for a bounded time; cancel it if there is no time."""
        tracing.sampler = None
        self._spans.close()
        if self._contact.is_lost:
            self._exporter.shutdown()  # the queued spans are lost, too
        # Not a thread of the executor: the end of the process waits for those.
        thread = threading.Thread(target=self._processor.shutdown, name="otel-close", daemon=True)
        thread.start()
        clock = asyncio.get_running_loop().time
        end = clock() + CLOSE_SECONDS
        try:
            while thread.is_alive() and clock() < end:  # noqa: ASYNC110 - it may outlive the loop
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._exporter.shutdown()
            self._contact.close()


def _build_processor(exporter: SpanExporter) -> BatchSpanProcessor:
    """Build the queue from the variables `OTEL_BSP_…`."""
    try:
        return BatchSpanProcessor(exporter)
    except ValueError as error:
        raise StartupError(
            f"the variables OTEL_BSP_… do not fit together: {error}",
            hint="correct them; by default the queue has room for 2048 spans, and a batch has 512",
        ) from error


def _build_sampler(ratio: float) -> Sampler:
    """Build a sampler by trace id, so that services with the same ratio decide the same."""
    bound = round(ratio * _LOW_HALF)
    return lambda trace_id: trace_id % _LOW_HALF < bound


class _Exporter(SpanExporter):
    """Sends spans and records whether it works; after the end nothing is retried."""

    def __init__(self, exporter: OTLPSpanExporter, contact: CollectorStatus) -> None:
        self._exporter = exporter
        self._contact = contact
        self._is_over = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._is_over:
            return SpanExportResult.FAILURE
        result = self._exporter.export(spans)
        if not self._is_over:
            self._contact.record(is_taken=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._exporter.shutdown()  # type: ignore[no-untyped-call]


_FIRST_SERVER_ERROR: Final = 500
_CLIENT_GONE: Final = 499  # never sent
_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)  # without a text: those of databases contain values
_FLAGS: Final = (TraceFlags(TraceFlags.DEFAULT), TraceFlags(TraceFlags.SAMPLED))

Attributes = Mapping[str, str | int | bool]


class Spans:
    """Listens to events that belong to a trace, and passes their spans to a processor.

    There is one span per request, and one per database command below it, without values. A span is
    built when its event arrives, from the duration in the event: until then only its ids are
    stored. Names follow the semantic conventions.
    """

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource
        self._scope = build_scope(resource)
        self._makers: dict[type[Event], Callable[[Any], None]] = {
            RequestFinished: self._finish_request,
            StreamBegun: self._begin_stream,
            CommandFinished: self._finish_command,
        }
        subscribe(self.hear, wants=self._makers.__contains__)

    def hear(self, event: Event) -> None:
        self._makers[type(event)](event)

    def close(self) -> None:
        unsubscribe(self.hear)

    def _finish_request(self, event: RequestFinished) -> None:
        trace = event.trace
        if trace is None or not trace.place.is_sampled or event.endless:
            return
        has_failed = event.status >= _FIRST_SERVER_ERROR
        facts: dict[str, str | int | bool] = {
            "docgraph.app": event.app,
            "graphql.operation.name": trace.operation,
            "graphql.operation.type": "query" if trace.is_operation else "",
            "docgraph.error": event.error,
            "docgraph.aborted": event.aborted,
            "error.type": (event.error or str(event.status)) if has_failed else "",
        }
        self._add_request(event, trace, {name: fact for name, fact in facts.items() if fact})

    def _begin_stream(self, event: StreamBegun) -> None:
        if event.trace.place.is_sampled:
            self._add_request(event, event.trace, {"docgraph.stream": True})

    def _add_request(
        self, event: RequestFinished | StreamBegun, trace: RequestTrace, facts: Attributes
    ) -> None:
        is_known = event.method in METHODS
        attributes: dict[str, str | int | bool] = {
            "http.request.method": event.method if is_known else "_OTHER",
            "url.scheme": trace.scheme,
            "network.protocol.version": trace.http_version,
        }
        if event.status != _CLIENT_GONE:
            attributes["http.response.status_code"] = event.status
        if trace.route:
            attributes["http.route"] = trace.route
        if event.service:
            attributes["docgraph.service"] = event.service
        name = event.method if is_known else "HTTP"
        self._add(
            f"{name} {trace.route}" if trace.route else name,
            SpanKind.SERVER,
            trace.place,
            event.duration,
            {**attributes, **facts},
            has_failed=event.status >= _FIRST_SERVER_ERROR,
        )

    def _finish_command(self, event: CommandFinished) -> None:
        place = event.place
        if place is None or not place.is_sampled:
            return
        attributes: dict[str, str | int | bool] = {
            "db.system.name": "mongodb",
            "db.namespace": event.db,
            "db.operation.name": event.command,
        }
        if event.collection:
            attributes["db.collection.name"] = event.collection
        if event.documents is not None:
            attributes["db.response.returned_rows"] = event.documents
        if event.app:
            attributes["docgraph.app"] = event.app
        if event.operation:  # in the REST API that is the name of an aggregation
            name_of = "graphql.operation.name" if event.app else "docgraph.aggregation"
            attributes[name_of] = event.operation
        if event.field:
            attributes["docgraph.field"] = event.field
        if event.error:
            attributes["error.type"] = event.error
        name = f"{event.command} {event.collection}" if event.collection else event.command
        self._add(name, SpanKind.CLIENT, place, event.duration, attributes, has_failed=not event.ok)

    def _add(
        self,
        name: str,
        kind: SpanKind,
        place: TraceContext,
        duration: float,
        attributes: Attributes,
        *,
        has_failed: bool,
    ) -> None:
        end = time.time_ns()
        context, parent = _describe(place)
        self._processor.on_end(
            ReadableSpan(
                name,
                context,
                parent,
                self._resource,
                attributes,
                kind=kind,
                status=_ERROR if has_failed else _UNSET,
                start_time=end - int(duration * 1e9),
                end_time=end,
                instrumentation_scope=self._scope,
            )
        )


def _describe(place: TraceContext) -> tuple[SpanContext, SpanContext | None]:
    """Convert a span and its parent, if it has one, to the types of the library."""
    flags = _FLAGS[place.is_sampled]
    state = TraceState.from_header([place.state]) if place.state else None
    context = SpanContext(place.trace_id, place.span_id, False, flags, state)
    if not place.parent_id:
        return context, None
    is_remote = place.has_remote_parent
    return context, SpanContext(place.trace_id, place.parent_id, is_remote, flags, state)
