"""The reference pages list every event and every metric as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

from docgraph.observe.events import EVENTS
from docgraph.observe.meters import METRICS, SECONDS

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
RENAMED = {
    "duration": "duration_ms",
    "event": "about",
    "place": "trace_id",
    "trace": "trace_id",
}


def _read_rows(page: str, first_heading: str) -> dict[str, list[str]]:
    """The rows of the table whose first column has that heading, by their first cell."""
    text = (REFERENCE / page).read_text()
    table = text.split(f"| {first_heading} |", 1)[1].split("\n\n", 1)[0]
    rows = [re.split(r"\s\|\s", line.strip("| ")) for line in table.splitlines()[2:]]
    return {row[0].strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


def _read_names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_event_is_documented_with_level_and_fields() -> None:
    documented = {
        name: (level, _read_names(fields))
        for name, (level, _, fields) in _read_rows("logging.md", "event").items()
    }

    assert documented == {
        kind.name: (
            kind.level.name.lower(),
            [RENAMED.get(name, name) for name in kind.__struct_fields__],
        )
        for kind in EVENTS
    }


def test_every_metric_is_documented_with_kind_and_labels() -> None:
    documented = {
        name: (kind, _read_names(labels), help)
        for name, (kind, labels, help) in _read_rows("metrics.md", "metric").items()
    }

    assert documented == {
        name: (metric.kind, list(metric.labels), metric.help) for name, metric in METRICS.items()
    }


def test_the_buckets_are_those_of_the_page() -> None:
    assert SECONDS == (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def test_the_queries_of_the_page_ask_for_metrics_that_exist() -> None:
    text = (REFERENCE / "metrics.md").read_text()
    asked = set(re.findall(r"docgraph_\w+", text.split("## Questions", 1)[1]))

    assert {name.removesuffix("_bucket") for name in asked} <= set(METRICS)
