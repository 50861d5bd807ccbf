"""W17: answers from the cache beside a request without data, and what a miss costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.workloads import WORKLOADS

APP = "cached"
PATH = f"/graphql/{APP}"
NOTHING_FITS = {"/graphql/cache": '{"max-bytes": 8}'}
"""With this, every request is a miss: no answer fits into the cache."""

_BY_ID = {one.id: one for one in WORKLOADS}

HITS = tuple(replace(_BY_ID[id], id=f"W17-{id}", path=PATH) for id in ("W0", "W1", "W3"))
MISSES = tuple(
    (_BY_ID[id], replace(_BY_ID[id], id=f"W17-miss-{id}", path=PATH)) for id in ("W1", "W3")
)
IDS = (*HITS, *(missed for _, missed in MISSES))


def build_app(app: dict[str, Any]) -> dict[str, Any]:
    """Return the app of the ladder with a cache."""
    descriptor = {**app.get("descriptor", {}), "uri": APP, "cache": {"enabled": True}}
    return {**app, "_id": APP, "descriptor": descriptor}
