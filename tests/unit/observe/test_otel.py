"""What goes to a collector, as far as it can be said without one."""

from __future__ import annotations

import sys

import pytest

from docgraph.exchange import StartupError
from docgraph.observe import otel
from docgraph.observe.otel.collector import find_address
from docgraph.observe.otel.metrics import _find_interval
from docgraph.observe.otel.traces import _build_sampler
from docgraph.observe.sections import Otel


@pytest.mark.parametrize("name", ["traces", "metrics"])
def test_without_the_libraries_it_is_said_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [one for one in sys.modules if one.startswith("docgraph.observe.otel.")]:
        monkeypatch.delitem(sys.modules, loaded)
    exporter = f"opentelemetry.exporter.otlp.proto.http.{name.removesuffix('s')}_exporter"
    monkeypatch.setitem(sys.modules, exporter, None)

    with pytest.raises(StartupError, match="which is not installed") as refused:
        otel.load(name)
    assert refused.value.hint is not None
    assert "pip install 'docgraph[otel]'" in refused.value.hint


def test_an_address_of_ours_wins_over_the_variables_of_the_standard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = Otel(endpoint="https://collector:4318/base/")
    assert find_address(Otel(), "traces") == "http://localhost:4318/v1/traces"

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:1")
    assert find_address(Otel(), "traces") == "http://general:1/v1/traces"
    assert find_address(Otel(), "metrics") == "http://general:1/v1/metrics"

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://special:2/spans")
    assert find_address(Otel(), "traces") == "http://special:2/spans"
    assert find_address(ours, "traces") == "https://collector:4318/base/v1/traces"


@pytest.mark.parametrize(("ratio", "share"), [(0.0, 0), (0.25, 256), (1.0, 1024)])
def test_a_ratio_of_the_traces_is_recorded(ratio: float, share: int) -> None:
    is_sampled = _build_sampler(ratio)
    step = (1 << 64) // 1024

    assert sum(is_sampled((7 << 64) + number * step) for number in range(1024)) == share


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("5000", 5000),
        ("1", 100),
        ("9" * 18, 86_400_000),
        ("9" * 5000, 60_000),
        ("0", 60_000),
        ("soon", 60_000),
    ],
)
def test_an_interval_of_the_environment_is_kept_within_reason(
    given: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that sends all the time, or that cannot wait so long, helps nobody."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", given)

    assert _find_interval(Otel()) == expected
