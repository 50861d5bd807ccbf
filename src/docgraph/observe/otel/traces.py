"""Trace export (OTLP) of one process: sampling, and a bounded queue to the collector.

Spans wait in a bounded queue for the thread of the library that sends them. If they come faster
than they are sent, the oldest are dropped. Requests never wait for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from docgraph.exchange.errors import StartupError
from docgraph.observe.otel.collector import (
    CLOSE_SECONDS,
    CollectorStatus,
    build_resource,
    find_address,
)
from docgraph.observe.otel.session import CollectorSession
from docgraph.observe.otel.spans import Spans
from docgraph.observe.sections import Otel
from docgraph.observe.tracing import Sampler, tracing

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
        """Send one message."""
        if self._is_over:
            return SpanExportResult.FAILURE
        result = self._exporter.export(spans)
        if not self._is_over:
            self._contact.record(is_taken=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """Cancel the current attempt."""
        if not self._is_over:
            self._is_over = True
            self._exporter.shutdown()  # type: ignore[no-untyped-call]
