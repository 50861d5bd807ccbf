"""Every query of the dashboard and of the alerts asks for what a real server tells at /metrics."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from docgraph.observe.meters import METRICS
from tests.process.commands import ROOT
from tests.process.harness import request, run_server
from tests.programs import require

DASHBOARD = ROOT / "deploy/grafana/docgraph.json"
RULES = ROOT / "deploy/prometheus/docgraph.rules.yml"
SCRAPED = {"instance", "job"}  # what Prometheus adds
OF_PROMETHEUS = {"up": {*SCRAPED}}
METRIC = re.compile(r"\b(docgraph_\w+|up)\b(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"")
GROUPED = re.compile(r"\b(?:by|without) \(([^)]*)\)")

Known = dict[str, set[str]]


def list_alerts() -> list[dict[str, Any]]:
    content = yaml.safe_load(RULES.read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def list_panels() -> list[dict[str, Any]]:
    return [one for one in json.loads(DASHBOARD.read_text())["panels"] if one["type"] != "row"]


def list_queries() -> Iterator[tuple[str, str]]:
    """Every query with the name of its panel or alert."""
    for panel in list_panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for rule in list_alerts():
        yield rule["alert"], rule["expr"]


def read_told(mongo_uri: str) -> Known:
    """The labels of every series that a real server tells, after a few requests of many kinds."""
    settings = {
        "mclient": {"connection-string": mongo_uri},
        "graphql": {"db": "watching_files"},
        "metrics": {"secured": False},
        "ping": {"enabled": True},
    }
    with run_server(settings) as server, server.connect() as wire:
        wire.get("/ping")
        wire.get("/graphql/nothing", authorization="Basic bm9ib2R5Ondyb25n")
        wire.send(request("POST", "/graphql/nothing", b"{}", content_type="application/json"))
        wire.read()
        text = wire.get("/metrics").body.decode()
    known: Known = {}
    for family in text_string_to_metric_families(text):
        for suffix in ("", "_total"):
            known.setdefault(family.name + suffix, set())
        for sample in family.samples:
            known[sample.name] = known.get(sample.name, set()) | set(sample.labels)
    # A metric with labels has no series before its first event; its labels are those declared.
    for name, metric in METRICS.items():
        assert name in known, "the server does not tell it"
        if metric.kind == "histogram":
            known.setdefault(f"{name}_bucket", {"le", *metric.labels})
        assert known[name] <= {*metric.labels} or not known[name]
        known[name] |= {*metric.labels}
    return known


def test_every_query_asks_for_metrics_and_labels_that_exist(mongo_uri: str) -> None:
    known = {**read_told(mongo_uri), **OF_PROMETHEUS}
    for place, query in list_queries():
        check_query(place, query, known)


def check_query(place: str, query: str, known: Known) -> None:
    found = METRIC.findall(query)
    assert found, place
    allowed: set[str] = set()
    for name, matchers in found:
        assert name in known, (place, name)
        allowed |= known[name] | SCRAPED
        names = {label for label, _, _ in LABEL.findall(matchers)}
        assert names <= known[name] | SCRAPED, (place, name, names)
    for labels in GROUPED.findall(query):
        assert set(re.split(r",\s*", labels)) <= allowed, (place, labels)
    assert query.count("(") == query.count(")"), place
    assert ("histogram_quantile" in query) == ("_bucket" in query), place


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {
        name
        for panel in list_panels()
        for one in panel["targets"]
        for name, _ in METRIC.findall(one["expr"])
    }

    assert [name for name in METRICS if not {name, f"{name}_bucket"} & shown] == []


def test_the_names_in_legends_and_summaries_are_labels_of_their_queries() -> None:
    for panel in list_panels():
        for target in panel["targets"]:
            wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            grouped = {
                label
                for labels in GROUPED.findall(target["expr"])
                for label in re.split(r",\s*", labels)
            }
            assert wanted <= (grouped or SCRAPED), panel["title"]
    for rule in list_alerts():
        wanted = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        grouped = {
            label for labels in GROUPED.findall(rule["expr"]) for label in labels.split(", ")
        }
        metrics = {name for name, _ in METRIC.findall(rule["expr"])}
        own = {label for name in metrics if name in METRICS for label in METRICS[name].labels}
        assert wanted <= (grouped or own | SCRAPED), rule["alert"]


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places: set[tuple[int, int]] = set()
    assert len({one["id"] for one in panels}) == len(panels)
    for one in panels:
        at = one["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & places, one["title"]
        assert max(x for x, _ in cells) < 24
        places |= cells


def test_prometheus_can_read_the_alerts_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    require("promtool")
    queries = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, (_, query) in enumerate(list_queries())
    ]
    panels = tmp_path / "panels.yml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": queries}]}))

    run_promtool("check", "rules", str(RULES), str(panels))


def test_alerts_come_for_what_happens_and_not_for_what_was_counted_before() -> None:
    require("promtool")
    run_promtool("test", "rules", str(ROOT / "tests/process/alerts.yml"))


def run_promtool(*arguments: str) -> None:
    done = subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
