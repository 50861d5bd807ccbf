"""An application whose traces go to a collector. One at a time: they are those of the process."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.http.harness import Document, Mongo
from tests.http.rest_harness import Api, serving

__all__ = ["new_trace", "tracing"]

# Rules are read from the database now and then, by whichever request comes.
QUIET: Document = {"dbAclAuthorizer": {"enabled": False}, "logging": {"slow-operation-ms": 0}}


@asynccontextmanager
async def tracing(
    mongo: Mongo, uri: str, address: str, *settings: Document, **otel: Any
) -> AsyncIterator[Api]:
    """An application that sends its spans at once to a collector at that address."""
    own: Document = {"otel": {"enabled": True, "endpoint": address, **otel}}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        async with serving(mongo, uri, own, QUIET, *settings) as api:
            yield api


def new_trace() -> str:
    """The id of a trace that nobody else has."""
    return secrets.token_hex(16)
