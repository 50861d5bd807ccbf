"""The ladder: a name, a query and its variables for each rung; those without a query are GETs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import orjson
from graphql import get_introspection_query

from bench import row_filters

_TURNS = count()

FLAT = "{ posts(limit: %d) { id title kind score rating created tags } }"


@dataclass(frozen=True)
class Workload:
    """One rung; `bar` is the least ratio docgraph / twin that we accept."""

    id: str
    title: str
    query: str = ""
    variables: dict[str, Any] = field(default_factory=dict)
    bar: float | None = None
    caller: str = ""  # W9, W14: how the caller is known, for `logins.build_headers`
    path: str = "/graphql/bench"
    message: dict[str, Any] | None = None  # W15: the JSON-RPC message of an agent
    varied: tuple[dict[str, Any], ...] = ()  # W17: variables of requests, never twice the same …
    again: int = 0  # … unless so many of them are sent once again before the next ones

    @property
    def method(self) -> str:
        """What has neither a query nor a message is a GET."""
        return "POST" if self.query or self.message else "GET"

    def body(self) -> bytes:
        """The request as JSON."""
        if self.message:
            return orjson.dumps({"jsonrpc": "2.0", "id": 1, **self.message})
        if not self.query:
            return b""
        return orjson.dumps({"query": self.query, "variables": self.variables})

    def bodies(self) -> list[bytes]:
        """The requests that are sent in turns; a variable without a use makes them different."""
        varied = ({**one, "turn": next(_TURNS)} for one in self.varied)
        bodies = [replace(self, variables=one).body() for one in varied] or [self.body()]
        if not self.again:
            return bodies
        starts = [at for at in range(0, len(bodies), self.again) for _ in range(2)]
        return [body for at in starts for body in bodies[at : at + self.again]]


_LONG = [f"p{n}: posts(limit: 1000) {{ id title body }}" for n in range(3)]
TO_ONE = "{ posts(limit: 100) { id title author { id name } } }"

WORKLOADS = (
    Workload("W0", "__typename", "{ __typename }"),
    Workload(
        "W1",
        "one document by id, with a relation",
        "query($id: Int!) { post(id: $id) { id title author { name } } }",
        {"id": 4711},
        bar=1.0,
    ),
    Workload("W2-20", "flat list of 20", FLAT % 20, bar=0.85),
    Workload("W2-100", "flat list of 100", FLAT % 100, bar=0.85),
    Workload("W2-1000", "flat list of 1000", FLAT % 1000, bar=0.85),
    Workload("W3", "100 + to-one", TO_ONE, bar=0.85),
    Workload(
        "W4",
        "20 + to-many, sorted and limited",
        "{ posts(limit: 20) { id title comments(limit: 5) { id text likes } } }",
        bar=0.85,
    ),
    Workload(
        "W5",
        "three levels",
        "{ posts(limit: 20) { id title author { name posts(limit: 5) { id title } } } }",
        bar=0.85,
    ),
    Workload(
        "W6",
        "union list of 100",
        "{ items(limit: 100) { __typename ... on Article { id title score }"
        " ... on Note { id title rating } } }",
    ),
    Workload("W7", "aggregation with an optional stage", "{ tags(min: 150) { tag posts } }"),
    Workload("W8", "full introspection", get_introspection_query()),
    Workload("R1", "GET a document", path="/data/posts/4711?id_type=number", bar=0.85),
    Workload("R2", "GET a page of 100", path="/data/posts?pagesize=100", bar=0.85),
    Workload("R2-1000", "GET a page of 1000", path="/data/posts?pagesize=1000", bar=0.85),
    Workload("W12", "1 MB", f"{{ {' '.join(_LONG)} }}"),
)

# W3 again, on a server with authentication; the first one is what the others are compared with.
LOGINS = (
    Workload("W9", "W3, anonymous", TO_ONE),
    Workload("W9-basic", "W3 with a password, users kept in memory", TO_ONE, caller="basic"),
    Workload("W9-jwt", "W3 with a JSON Web Token", TO_ONE, caller="jwt"),
    Workload(
        "W9-role",
        "W3 as a role with hidden fields",
        TO_ONE,
        caller="jwt",
        path="/graphql/hidden",
    ),
)

# Lists under a row filter, on a server with rules.
ROW_FILTERS = tuple(
    workload
    for name in row_filters.FILTERS
    for workload in (
        Workload(
            f"W14-{name}",
            f"a list under a row filter: {name}",
            f"{{ {name} {{ id title kind score }} }}",
            caller="jwt",
            path="/graphql/notes",
        ),
        Workload(
            f"W14-{name}-rest",
            f"the same by REST: {name}",
            caller="jwt",
            path=row_filters.build_path(name),
        ),
    )
)
