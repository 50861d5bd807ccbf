"""OpenTelemetry collector: its address, the HTTP session to it, and when it is lost or found.

Libraries log each failed attempt; docgraph emits one event when the collector is lost and one when
it is found again. Messages that it did not accept are dropped.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Final
from uuid import UUID

import requests
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from requests.exceptions import InvalidHeader, InvalidSchema, InvalidURL, MissingSchema
from urllib3.exceptions import HTTPError

from docgraph.config.options import mask_connection_string
from docgraph.observe import emit
from docgraph.observe.engine_events import CollectorFound, CollectorLost
from docgraph.observe.sections import Otel

CLOSE_SECONDS: Final = 2.0  # that the end of the process waits for unsent messages
_BASE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_LONGEST_REMARK: Final = 300  # characters; some of them may come from the collector
_LIBRARY: Final = logging.getLogger("opentelemetry")


def find_address(options: Otel, signal: str) -> str:
    """Return the address for `traces` or `metrics`: our options, else the standard variables."""
    if options.endpoint is None:
        given = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "").strip()
        if given:
            return given
    base = options.endpoint or os.environ.get(_BASE, "").strip() or "http://localhost:4318"
    return f"{base.rstrip('/')}/v1/{signal}"


def build_resource(options: Otel, instance: bytes, version: str) -> Resource:
    """Return the OpenTelemetry resource; its id is that of the `instance`, in all processes."""
    given = OTELResourceDetector().detect().attributes
    identity = {
        SERVICE_NAME: "docgraph",
        SERVICE_VERSION: version,
        SERVICE_INSTANCE_ID: str(UUID(bytes=instance[:16], version=4)),
    }
    attributes = {name: text for name, text in identity.items() if name not in given}
    if options.service_name is not None:
        attributes[SERVICE_NAME] = options.service_name
    return Resource.create(attributes)


def build_scope(resource: Resource) -> InstrumentationScope:
    """Return the instrumentation scope of all spans and metrics."""
    return InstrumentationScope("docgraph", str(resource.attributes[SERVICE_VERSION]))


class CollectorStatus(logging.Handler):
    """Receives the library's log records about one `signal`, and emits changes of its status."""

    def __init__(self, signal: str, address: str) -> None:
        super().__init__(logging.WARNING)
        self._signal = signal
        self._address = mask_connection_string(address)
        self._remark = ""
        self._dropped = 0
        _LIBRARY.addHandler(self)
        _LIBRARY.propagate = False  # its texts are not lines of our log

    @property
    def is_lost(self) -> bool:
        """Whether the last message was not accepted."""
        return self._dropped > 0

    def emit(self, record: logging.LogRecord) -> None:
        """Store the first message of the library about a failed export."""
        # The logger is that of the exporter: `….metric_exporter`, `….trace_exporter`.
        if not self._remark and f".{self._signal.removesuffix('s')}_exporter" in record.name:
            self._remark = record.getMessage()[:_LONGEST_REMARK]

    def record(self, *, is_taken: bool) -> None:
        """Record that the collector accepted a message, or that it was dropped."""
        if is_taken and self._dropped:
            emit(CollectorFound(self._signal, self._address, self._dropped))
            self._dropped = 0
        elif not is_taken:
            self._dropped += 1
            if self._dropped == 1:
                emit(CollectorLost(self._signal, self._address, self._remark or "unknown"))
        self._remark = ""

    def close(self) -> None:
        _LIBRARY.removeHandler(self)
        _LIBRARY.propagate = not _LIBRARY.handlers
        super().close()


_LARGEST_ANSWER: Final = 64 * 1024  # bytes; responses of collectors are short
_DEFAULT_SECONDS: Final = 10.0
_FIRST_REDIRECT, _FIRST_ERROR = 300, 400


class CollectorSession(requests.Session):
    """HTTP session to an OTLP collector, which is not trusted.

    Only the status of its response counts. The rest is not stored, and it is read no longer than a
    message may take. A redirect is a rejection: the library would take it for success, and the data
    would be lost silently. No error text contains an address or a header, which may be secrets.
    """

    def request(
        self, method: str, url: str | bytes, *others: Any, **options: Any
    ) -> requests.Response:
        """Send a message and return the response; raise an error if it was not accepted."""
        end = time.monotonic() + (options.get("timeout") or _DEFAULT_SECONDS)
        try:
            response = super().request(method, url, *others, **{**options, "stream": True})
        except (InvalidHeader, UnicodeError):
            raise InvalidHeader("a header for the collector cannot be sent as it is") from None
        except (InvalidSchema, InvalidURL, MissingSchema):
            raise InvalidURL("the address of the collector cannot be understood") from None
        _pass_over(response, end)
        status = response.status_code
        if _FIRST_REDIRECT <= status < _FIRST_ERROR:
            del response  # a stored error would keep the connection open
            raise requests.TooManyRedirects(
                f"it answers with {status}, and redirects are not followed"
            )
        return response


def _pass_over(response: requests.Response, end: float) -> None:
    """Read the rest of a small response, so that the connection can be reused."""
    left = _LARGEST_ANSWER
    try:
        while left > 0 and time.monotonic() < end:
            piece = response.raw.read1(left)  # raw: nothing is decompressed
            if not piece:
                response.raw.release_conn()
                return
            left -= len(piece)
    except (HTTPError, OSError):
        pass  # the message was accepted; the end of the response does not matter
    response.close()
