"""Traces by OTLP: what is recorded, and what becomes of a collector that is away."""

from __future__ import annotations

import pytest

from docgraph.observe.engine_events import CollectorFound, CollectorLost
from docgraph.observe.events import RequestFinished
from tests.collector import collecting
from tests.http.harness import Document, Mongo, eventually, listening
from tests.http.trace_harness import new_trace, tracing

pytestmark = pytest.mark.anyio


async def test_callers_who_are_not_trusted_begin_no_trace_and_none_is_recorded_by_a_ratio_of_0(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    trace = new_trace()
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    with collecting() as collector, listening(RequestFinished) as finished:
        suspicious: Document = {"trust-incoming": False, "sample-ratio": 0}
        async with tracing(mongo_client, mongo_uri, collector.address, **suspicious) as api:
            await api.send("GET", "/things", headers=headers)

    assert finished[-1].trace is not None
    assert finished[-1].trace.id != trace
    assert collector.spans == []


async def test_what_waits_is_sent_before_the_end(mongo_client: Mongo, mongo_uri: str) -> None:
    trace = new_trace()
    with collecting() as collector:
        named = {"service-name": "books", "headers": {"authorization": "Bearer s3cret"}}
        async with tracing(mongo_client, mongo_uri, collector.address, **named) as api:
            headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
            await api.send("GET", "/things", headers=headers)

    assert collector.of(trace)[0].resource["service.name"] == "books"
    assert collector.headers[0]["authorization"] == "Bearer s3cret"


async def test_a_collector_that_is_away_is_told_of_once_and_when_it_is_back(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    with collecting() as collector, listening(CollectorLost) as lost:
        collector.status = 400  # refuses, and is not asked again
        with listening(CollectorFound) as found:
            async with tracing(mongo_client, mongo_uri, collector.address) as api:
                for _ in range(3):
                    assert (await api.send("GET", "/things")).status == 200
                    await eventually(lambda: lost)
                collector.status = 200
                await api.send("GET", "/things")
                await eventually(lambda: found)

    assert [(one.signal, one.endpoint) for one in lost] == [
        ("traces", f"{collector.address}/v1/traces")
    ]
    assert "400" in lost[0].reason
    assert [one.signal for one in found] == ["traces"]
    assert collector.spans


async def test_nobody_waits_for_a_collector_that_is_not_there(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with tracing(mongo_client, mongo_uri, "http://127.0.0.1:9") as api:
        with listening(CollectorLost) as lost:
            for _ in range(20):
                assert (await api.send("GET", "/things")).status == 200
            await eventually(lambda: lost)
            assert (await api.send("GET", "/things")).status == 200

    assert len(lost) == 1
    assert "refused" in lost[0].reason
