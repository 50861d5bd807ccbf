"""W15: messages of agents, and the same query at the GraphQL endpoint."""

from __future__ import annotations

from typing import Any

from bench.logins import CONFIG as LOGIN
from bench.workloads import Workload

APP = "agents"
QUERY = "query($id: Int!) { post(id: $id) { id title author { name } } }"
_PATH = "/mcp"

CONFIG = {**LOGIN, "/mcp/enabled": "true", "/mcp/calls-per-second": "1000000"}
"""What a server needs to serve agents."""


def build_app(app: dict[str, Any]) -> dict[str, Any]:
    """Return the app of the ladder with a declared operation."""
    operations = [{"name": "postById", "description": "One post by its id", "query": QUERY}]
    return {**app, "_id": APP, "descriptor": {"operations": operations}}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


_VARIABLES = {"id": 4711}
_RUN = _call("run_query", app=APP, query=QUERY, variables=_VARIABLES)

WORKLOADS = (
    Workload("W15-graphql", "the query of run_query at its endpoint", QUERY, _VARIABLES),
    Workload("W15-ping", "ping", path=_PATH, message={"method": "ping"}),
    Workload("W15-list", "tools/list", path=_PATH, message={"method": "tools/list"}),
    Workload("W15-query", "run_query: one document with a relation", path=_PATH, message=_RUN),
    Workload(
        "W15-tool",
        "the same as a declared operation",
        path=_PATH,
        message=_call(f"{APP}__postById", **_VARIABLES),
    ),
    Workload(
        "W15-basic",
        "ping with a password, users kept in memory",
        path=_PATH,
        caller="basic",
        message={"method": "ping"},
    ),
)
