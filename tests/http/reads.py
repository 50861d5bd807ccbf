"""Every way to read a collection by REST, for tests of who is asked and how."""

from __future__ import annotations

AGGREGATION = {"aggrs": [{"uri": "all", "stages": [{"$match": {"n": 1}}]}]}
READS = (
    "/things",
    "/things?filter={n:1}&after=",
    "/things/a",
    "/things/_size",
    "/things/_aggrs/all",
)


def with_parameter(path: str, parameter: str) -> str:
    """The path with one more parameter."""
    return f"{path}{'&' if '?' in path else '?'}{parameter}"
