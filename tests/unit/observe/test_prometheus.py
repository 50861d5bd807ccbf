"""Metrics of one process; those of several are in tests/process."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from docgraph.observe import emit, prometheus
from docgraph.observe.engine_events import (
    CacheUsed,
    CommandFinished,
    LoadShed,
    RequestLimited,
    WorkerLost,
)
from docgraph.observe.events import (
    AccessDenied,
    AppsRefreshed,
    AuthFailed,
    BackgroundFailed,
    BodyAwaited,
    DatabaseFound,
    DatabaseLost,
    ElectionAwaited,
    InterceptorFailed,
    LinesDropped,
    LoginsBlocked,
    LoopLagged,
    PluginFailed,
    RequestFailed,
    RequestFinished,
    RequestRefused,
    RequestStarted,
    UnreadableValue,
)
from docgraph.observe.meters import BULK, MAX_CHILDREN, METRICS

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def opened() -> Iterator[None]:
    prometheus.open_metrics("1.2.3")
    yield
    prometheus.close_metrics()


def _samples() -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(prometheus.render().decode())
        for sample in family.samples
    }


def _value(name: str, **labels: str) -> float | None:
    return _samples().get((name, tuple(sorted(labels.items()))))


def _finish(**fields: object) -> None:
    emit(
        RequestFinished(
            **{  # type: ignore[arg-type]
                "request_id": "r",
                "method": "GET",
                "path": "/secret/path",
                "status": 200,
                "duration": 0.02,
                "bytes_out": 10,
                "service": "ping",
                **fields,
            }
        )
    )


def test_requests_are_counted_by_method_service_and_status() -> None:
    for _ in range(3):
        _finish()
    _finish(status=404, service="")

    assert _value("docgraph_http_requests_total", method="GET", service="ping", status="200") == 3
    assert _value("docgraph_http_requests_total", method="GET", service="none", status="404") == 1
    assert _value("docgraph_http_response_bytes_total", service="ping") == 30


def test_stored_operations_are_counted_and_timed_by_app_and_name() -> None:
    _finish(app="films", operation="byYear", duration=0.005)
    _finish(app="films", operation="byYear")
    _finish(app="films")

    name = "docgraph_graphql_operations_total"
    assert _value(name, app="films", operation="byYear", status="200") == 2
    assert sum(value for (one, _), value in _samples().items() if one == name) == 2
    times = "docgraph_graphql_operation_duration_seconds"
    assert _value(f"{times}_count", app="films", operation="byYear") == 2
    assert _value(f"{times}_bucket", app="films", operation="byYear", le="0.01") == 1


def test_uses_of_the_cache_are_counted_by_result_and_reason() -> None:
    """They are added up with the requests; those of the last ones count, too."""
    for _ in range(BULK + 1):
        emit(CacheUsed("miss", "first"))
        _finish()
    emit(CacheUsed("hit"))
    emit(CacheUsed("miss"))
    emit(CacheUsed("miss"))

    name = "docgraph_cache_requests_total"
    for _ in range(2):  # nothing counts twice
        assert _value(name, result="miss", reason="first") == BULK + 1
        assert _value(name, result="hit", reason="none") == 1
        assert _value(name, result="miss", reason="none") == 2


def test_durations_fall_into_buckets() -> None:
    _finish(duration=0.02)

    name = "docgraph_http_request_duration_seconds"
    assert _value(f"{name}_bucket", method="GET", service="ping", le="0.01") == 0
    assert _value(f"{name}_bucket", method="GET", service="ping", le="0.025") == 1
    assert _value(f"{name}_sum", method="GET", service="ping") == pytest.approx(0.02)


def test_how_long_clients_listen_to_streams_is_no_duration_of_requests() -> None:
    _finish(duration=0.02)
    _finish(duration=3600.0, endless=True)

    name = "docgraph_http_request_duration_seconds"
    assert _value("docgraph_http_requests_total", method="GET", service="ping", status="200") == 2
    assert _value(f"{name}_count", method="GET", service="ping") == 1
    assert _value(f"{name}_sum", method="GET", service="ping") == pytest.approx(0.02)


def test_the_path_is_never_a_label() -> None:
    _finish()

    assert b"secret" not in prometheus.render()


def test_an_invented_method_is_counted_as_other() -> None:
    _finish(method="EVIL\n")

    assert _value("docgraph_http_requests_total", method="other", service="ping", status="200") == 1


def test_requests_in_flight_go_up_and_down() -> None:
    emit(RequestStarted("a"))
    emit(RequestStarted("b"))
    _finish()

    assert _value("docgraph_http_requests_in_flight") == 1


def test_who_waits_for_a_body_is_not_in_flight_meanwhile() -> None:
    emit(RequestStarted("a"))
    emit(RequestStarted("b"))
    emit(BodyAwaited("b"))

    assert _value("docgraph_http_requests_in_flight") == 1
    assert _value("docgraph_http_uploads") == 1

    emit(BodyAwaited("b", over=True))

    assert _value("docgraph_http_requests_in_flight") == 2
    assert _value("docgraph_http_uploads") == 0


def test_combinations_of_labels_are_bounded() -> None:
    for number in range(MAX_CHILDREN + 50):
        emit(AccessDenied("r", f"authorizer-{number}", "no"))

    counted = [key for key in _samples() if key[0] == "docgraph_access_denied_total"]
    assert len(counted) == MAX_CHILDREN + 1
    assert _value("docgraph_access_denied_total", authorizer="other") == 50


def test_database_commands_are_counted_and_timed() -> None:
    emit(CommandFinished("find", "db", "c", 0.003, ok=True))
    emit(CommandFinished("find", "db", "c", 0.003, ok=False))

    assert _value("docgraph_database_commands_total", command="find", ok="true") == 1
    assert _value("docgraph_database_commands_total", command="find", ok="false") == 1
    assert _value("docgraph_database_command_duration_seconds_count", command="find") == 2


def test_the_database_is_down_until_it_is_found() -> None:
    assert _value("docgraph_database_up") == 0
    emit(DatabaseFound())
    assert _value("docgraph_database_up") == 1
    emit(DatabaseLost("gone"))
    assert _value("docgraph_database_up") == 0


def test_an_election_is_shown_while_requests_wait_for_it() -> None:
    """Decision 60."""
    for is_awaited in (True, False):
        emit(ElectionAwaited(is_awaited))
        assert _value("docgraph_database_electing") == is_awaited


def test_apps_are_counted_by_state() -> None:
    emit(AppsRefreshed(served=5, disabled=2, invalid=1))

    assert _value("docgraph_apps", state="served") == 5
    assert _value("docgraph_apps", state="disabled") == 2
    assert _value("docgraph_apps", state="invalid") == 1


def test_what_goes_wrong_is_counted() -> None:
    error = ValueError("x")
    emit(RequestRefused(431, "too many headers"))
    emit(RequestFailed("id", "r", error, service="graphql"))
    emit(AuthFailed("basic", "wrong-password"))
    emit(LoginsBlocked("address", "127.0.0.1"))
    emit(RequestLimited("user", "rate"))
    emit(LoadShed("pool"))
    emit(PluginFailed("mine", "start", error))
    emit(InterceptorFailed("mine", "response", error))
    emit(BackgroundFailed("watch", error))
    emit(LoopLagged(1.0))
    emit(LinesDropped(7))
    emit(UnreadableValue("db", "things", "1", "v", 3))
    emit(WorkerLost(1, 2))

    assert _value("docgraph_http_refused_total", status="431") == 1
    assert _value("docgraph_limited_requests_total", limit="user", reason="rate") == 1
    assert _value("docgraph_overloaded_total", bound="pool") == 1
    assert _value("docgraph_http_failures_total", service="graphql") == 1
    assert _value("docgraph_auth_failures_total", mechanism="basic", reason="wrong-password") == 1
    assert _value("docgraph_logins_blocked_total", scope="address") == 1
    assert _value("docgraph_plugin_failures_total", plugin="mine") == 2
    assert _value("docgraph_background_failures_total", task="watch") == 1
    assert _value("docgraph_loop_lags_total") == 1
    assert _value("docgraph_log_lines_dropped_total") == 7
    assert _value("docgraph_database_unreadable_values_total") == 3
    assert _value("docgraph_workers_lost_total") == 1


def test_the_version_is_told() -> None:
    assert (
        _value("docgraph_info", version="1.2.3", python=platform.python_version(), lane="python")
        == 1
    )


def test_only_what_is_documented_is_exposed() -> None:
    exposed = {
        family.name for family in text_string_to_metric_families(prometheus.render().decode())
    }

    assert exposed == {name.removesuffix("_total") for name in METRICS}


def test_the_content_type_is_that_of_the_text() -> None:
    assert prometheus_client.CONTENT_TYPE_LATEST == prometheus.CONTENT_TYPE


def test_closed_metrics_render_nothing() -> None:
    prometheus.close_metrics()

    assert prometheus.render() == b""


def test_preparing_too_late_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="before anything is counted"):
        prometheus.prepare_multiprocess(tmp_path)
