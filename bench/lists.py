"""W16: conditions and pages of callers, beside the same lists with declared arguments."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from bench.workloads import Workload

APP = "lists"
_PATH = f"/graphql/{APP}"
_FLAT = "id title kind score rating created tags"
_COMMENT = "id text likes"
_PAGE_INFO = "pageInfo { hasNextPage endCursor }"


def build_app(app: dict[str, Any]) -> dict[str, Any]:
    """Return the app of the ladder with `filter` and `connection` beside declared arguments."""
    lists = deepcopy(app)
    schema = lists["schema"].replace("posts(limit: Int)", "posts(kind: String, limit: Int)", 1)
    schema = schema.replace("comments(limit: Int)", "comments(likes: Int, limit: Int)")
    posts, comments = lists["mappings"]["Query"]["posts"], lists["mappings"]["Post"]["comments"]
    posts["find"] = {"$ifarg": ["kind", {"kind": {"$arg": "kind"}}]}
    posts |= {"filter": {"fields": {"kind": ["eq"]}}, "connection": {"field": "postPages"}}
    likes = {"$ifarg": ["likes", {"likes": {"$gte": {"$arg": "likes"}}}]}
    comments["find"] = {"$and": [comments["find"], likes]}
    comments |= {"filter": {"fields": {"likes": ["gte"]}}, "connection": {"field": "commentPages"}}
    return {**lists, "_id": APP, "schema": schema}


def _query(name: str, title: str, query: str) -> Workload:
    return Workload(f"W16-{name}", title, query, path=_PATH)


WORKLOADS = (
    _query("list", "100 by an argument", f'{{ posts(kind: "note", limit: 100) {{ {_FLAT} }} }}'),
    _query(
        "where",
        "100 by a condition of the caller",
        f'{{ posts(where: {{kind: {{eq: "note"}}}}, limit: 100) {{ {_FLAT} }} }}',
    ),
    _query(
        "nodes",
        "a page of 100",
        f'{{ postPages(kind: "note", first: 100) {{ nodes {{ {_FLAT} }} }} }}',
    ),
    _query(
        "edges",
        "a page of 100, with its end",
        '{ postPages(kind: "note", first: 100)'
        f" {{ edges {{ node {{ {_FLAT} }} }} {_PAGE_INFO} }} }}",
    ),
    _query(
        "parents",
        "20 with 5 each by an argument",
        f"{{ posts(limit: 20) {{ id comments(likes: 10, limit: 5) {{ {_COMMENT} }} }} }}",
    ),
    _query(
        "parents-where",
        "20 with 5 each by a condition of the caller",
        "{ posts(limit: 20) { id comments(where: {likes: {gte: 10}}, limit: 5)"
        f" {{ {_COMMENT} }} }} }}",
    ),
    _query(
        "parents-edges",
        "20 with a page of 5 each, with its end",
        "{ posts(limit: 20) { id commentPages(likes: 10, first: 5)"
        f" {{ edges {{ node {{ {_COMMENT} }} }} {_PAGE_INFO} }} }} }}",
    ),
)
