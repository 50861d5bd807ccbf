"""Results of our own pipelines in another form than they must have: errors of the database."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.execute import fetch_by_in
from docgraph.store.driver.command import Commands
from tests.http.engine.harness import Engine
from tests.http.store.test_reply_shapes import distort

pytestmark = pytest.mark.anyio

Document = dict[str, Any]
SCHEMA = """
type Query { users: [User] total: Int perTag: [Tag] recent(first: Int): [Post!]! }
type Post { _id: Int authorId: Int }
type User { _id: Int posts: [Post] later: [Post] count: Int sums: [Tag] latest: [Post!]! }
type Tag { tag: String count: Int }
"""
POSTS: Document = {"collection": "posts", "sort": {"_id": 1}}
OWN = {"authorId": {"$fk": "_id"}}
MAPPINGS: Document = {
    "Query": {
        "users": {"collection": "users", "find": {}},
        "total": {"collection": "posts", "find": {}, "count": True},
        "perTag": {"collection": "posts", "find": {}, "group": {"by": ["tag"]}},
        "recent": {**POSTS, "find": {}, "connection": {}},
    },
    "User": {
        "posts": {**POSTS, "find": OWN},
        "later": {**POSTS, "find": {"authorId": {"$gt": {"$fk": "_id"}}}},
        "count": {"collection": "posts", "find": OWN, "count": True},
        "sums": {"collection": "posts", "stages": [{"$match": OWN}, {"$limit": 1}]},
        "latest": {**POSTS, "find": OWN, "connection": {}},
    },
}
PAGE = "{ nodes { _id } pageInfo { endCursor } totalCount }"
QUERIES = {
    "lookup": "{ users { posts { _id } } }",
    "batch of finds": "{ users { later { _id } } }",
    "batch of aggregations": "{ users { sums { tag } } }",
    "counts": "{ users { count } }",
    "count": "{ total }",
    "groups": "{ perTag { tag count } }",
    "page": f"{{ recent(first: 1) {PAGE} }}",
    "pages": f"{{ users {{ latest(first: 1) {PAGE} }} }}",
}


@pytest.mark.parametrize("name", QUERIES)
async def test_no_result_of_a_pipeline_is_a_fault_of_ours(
    engine: Engine, mongo_client: MongoClient[Document], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
    monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 1)
    data = mongo_client[engine.database]
    data.users.insert_many([{"_id": 1}, {"_id": 2}])
    data.posts.insert_many([{"_id": n, "authorId": 1 + n % 2, "tag": "a"} for n in range(6)])
    plan = engine.plan(engine.app(SCHEMA, MAPPINGS), QUERIES[name])
    fetch = Commands.fetch
    wrong: list[Document] = []

    async def distort_first(self: Any, db: str, command: Document, *parts: Any, **more: Any) -> Any:
        found = await fetch(self, db, command, *parts, **more)
        if "aggregate" in command and found:
            seen.append(found[0])
            found = [*wrong[-1:], *found[1:]] if wrong else found
        return found

    seen: list[Document] = []
    monkeypatch.setattr(Commands, "fetch", distort_first)
    await engine.execute(plan)
    assert seen or name in {"page", "pages"}
    for one in distort(dict(seen[0])) if seen else ():
        wrong.append(one)
        with suppress(DocgraphError):
            result = await engine.execute(plan)
            assert {error.code for error in result.errors}.isdisjoint({"internal-error"})
