"""Traces and metrics by OTLP from the real server: two workers, its end, and where it is off."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.collector import SERVER, Collector, collecting, read_attributes
from tests.process.commands import run
from tests.process.harness import Server, eventually, run_server

REQUESTS = 12
LOG = {"level": "info", "format": "json"}
OPEN = {
    "fullAuthorizer": {"enabled": True, "authentication-required": False},
    "dbAclAuthorizer": {"enabled": False},
}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def settings(collector: Collector, **otel: Any) -> dict[str, Any]:
    own = {"enabled": True, "endpoint": collector.address, "interval-ms": 100, **otel}
    return {"otel": own, "ping": {"enabled": True}, "logging": LOG, **OPEN}


def ask(server: Server) -> str:
    """One request on a connection of its own; the id of its trace."""
    trace = secrets.token_hex(16)
    parent = f"00-{trace}-{secrets.token_hex(8)}-01"
    assert server.get("/ping", traceparent=parent).status == 200
    return trace


def read_log(server: Server, name: str) -> list[dict[str, Any]]:
    """The lines of an event; the plugin of these tests prints it besides, without the time."""
    return [one for one in server.named(name) if "time" in one]


def read_metric(collector: Collector, name: str, **labels: str) -> Any:
    """The newest point of a metric with these labels; None where there is none."""
    found = None
    for message in list(collector.metrics):
        for metric in message.resource_metrics[0].scope_metrics[0].metrics:
            kind = metric.WhichOneof("data")
            points = getattr(metric, kind).data_points if metric.name == name else ()
            for point in points:
                if labels.items() <= read_attributes(point.attributes).items():
                    found = point
    return found


def test_two_workers_send_their_spans_and_one_sum_of_their_numbers(collector: Collector) -> None:
    with run_server(settings(collector), workers=2, OTEL_BSP_SCHEDULE_DELAY="50") as server:
        traces = {ask(server) for _ in range(REQUESTS)}
        counted = "docgraph_http_requests"
        labels = {"service": "ping", "status": "200"}
        eventually(lambda: getattr(read_metric(collector, counted, **labels), "as_double", 0) == 12)
        shown = server.get("/metrics").body.decode()
        assert server.stop() == 0
        lines = read_log(server, "request-finished")
        complaints = read_log(server, "library") + read_log(server, "collector-lost")

    spans = [one for one in collector.spans if one.kind == SERVER]
    assert {one.trace for one in spans} >= traces
    assert len(spans) == REQUESTS + 1
    assert {one["trace_id"] for one in lines} == {one.trace for one in spans}
    assert complaints == []
    speakers = {one.resource["service.instance.id"] for one in spans}
    last = collector.metrics[-1].resource_metrics[0]
    assert speakers == {read_attributes(last.resource.attributes)["service.instance.id"]}
    # The last message has what came after the others.
    assert read_metric(collector, counted, service="metrics").as_double == 1
    assert 'docgraph_http_requests_total{method="GET",service="ping",status="200"} 12.0' in shown
    took = read_metric(collector, "docgraph_http_request_duration_seconds", service="ping")
    (total,) = re.findall(r'duration_seconds_sum{method="GET",service="ping"} (\S+)', shown)
    assert (took.count, sum(took.bucket_counts)) == (REQUESTS, REQUESTS)
    assert took.sum == pytest.approx(float(total))
    assert len(took.bucket_counts) == len(took.explicit_bounds) + 1
    assert not took.HasField("min")
    assert read_metric(collector, "docgraph_processes").as_double == 3


def test_what_is_turned_off_is_not_sent(collector: Collector) -> None:
    chosen = settings(collector, traces=False)
    with run_server(chosen) as server:
        ask(server)
        eventually(lambda: read_metric(collector, "docgraph_http_requests", service="ping"))
        assert server.stop() == 0
        (line,) = read_log(server, "request-finished")

    assert collector.spans == []
    assert "trace_id" not in line


def test_the_environment_can_turn_everything_off(collector: Collector) -> None:
    with run_server(settings(collector), OTEL_SDK_DISABLED="true") as server:
        ask(server)
        assert server.stop() == 0

    assert collector.raw == []


def test_variables_of_the_standard_are_read_where_nothing_is_set(collector: Collector) -> None:
    chosen = settings(collector, metrics=False)
    del chosen["otel"]["endpoint"]
    environment: dict[str, Any] = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=books",
        "OTEL_SERVICE_NAME": "library",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    with run_server(chosen, **environment) as server:
        trace = ask(server)
        assert server.stop() == 0

    (span,) = collector.of(trace)
    assert span.resource["service.name"] == "library"
    assert span.resource["deployment.environment.name"] == "test"
    assert collector.headers[0]["x-tenant"] == "books"
    assert collector.metrics == []


def test_a_collector_that_is_away_keeps_no_server_from_its_end(collector: Collector) -> None:
    chosen = settings(collector, endpoint="http://127.0.0.1:9")
    with run_server(chosen, OTEL_EXPORTER_OTLP_TIMEOUT="2", OTEL_BSP_SCHEDULE_DELAY="20") as server:
        ask(server)
        eventually(lambda: len(read_log(server, "collector-lost")) == 2)
        assert server.stop() == 0
        lost = read_log(server, "collector-lost")

    assert {(one["signal"], one["endpoint"]) for one in lost} == {
        ("traces", "http://127.0.0.1:9/v1/traces"),
        ("metrics", "http://127.0.0.1:9/v1/metrics"),
    }
    assert len(lost) == 2
    assert [line for line in server.errors if not line.startswith(("{", "sample"))] == []


# --- without it -----------------------------------------------------------------------------------

START = """
import asyncio, sys
from docgraph.config import ConfigSources
from docgraph.runtime import create_instance
from docgraph.server.app import Docgraph
from docgraph.server.prepare import load_tree, prepare
from docgraph.server.process import host

async def start():
    chosen = ("/fullAuthorizer/enabled=true",)
    prepared = prepare(load_tree(ConfigSources(settings=chosen, environ={})))
    with create_instance() as instance:
        app = Docgraph(prepared, instance, "mongodb://127.0.0.1:9/")
        await app.startup()
        await app.shutdown()

asyncio.run(start())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_a_server_that_sends_nothing_does_not_load_the_libraries() -> None:
    done = run(code=START)

    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_without_the_libraries_the_start_says_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; from docgraph.cli import main; main()"
    options = [
        "--set=/mclient/connection-string=mongodb://127.0.0.1:9/",
        "--set=/fullAuthorizer/enabled=true",
        "--set=/http-listener/port=0",
        "--set=/otel/enabled=true",
    ]
    done = run("serve", *options, code=code)

    assert done.returncode == 1, done.stderr
    assert "pip install 'docgraph[otel]'" in done.stderr
    assert done.stdout == ""
