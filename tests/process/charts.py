"""The chart as helm renders it."""

from __future__ import annotations

from typing import Any

from tools.chart import CHART, read_objects
from tools.helm import run_helm

SECRETS = ["--set", "connectionString.secretName=docgraph"]
Objects = dict[str, dict[str, Any]]


def template(helm: str, *options: str, name: str = "docgraph") -> Objects:
    """The objects by their kinds."""
    done = run_helm(helm, "template", name, str(CHART), *options)
    assert done.returncode == 0, done.stderr
    return {one["kind"]: one for one in read_objects(done.stdout)}
