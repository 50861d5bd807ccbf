"""Results of our own commands in another form than they must have: errors of the database.

The replies of a real database are changed on their way, and read in both lanes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collation import Collation

from docgraph.codec import decode
from docgraph.exchange import Deadline, Exchange, Request
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.execute import fetch_by_in
from docgraph.graphql.execute.execute import Result, execute
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.result import encode_data
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from docgraph.variables import Resolvers
from tests.chance import IS_LONG
from tests.http.engine.distorting import Distorter
from tests.http.engine.harness import Engine
from tests.http.store.test_reply_shapes import distort

pytestmark = pytest.mark.anyio

Document = dict[str, Any]
SCHEMA = """
type Query {
  users: [User!] user(id: Int!): User total: Int perTag: [Tag] recent: [Post!]! drafts: [Post!]!
  words: [Word!] things: [Thing!] tagged: [Post!]!
}
type Post { _id: Int authorId: Int tag: String author: User home: Place root: [User] }
type Place { city: String }
type User {
  _id: Int posts: [Post] later: [Post] count: Int sums: [Tag] latest: [Post!]! first: Post
  perTag: [Tag] both: [Post]
}
type Word { _id: String user: User posts: [Post] }
type Tag { tag: String count: Int }
union Thing = User | Post
"""
POSTS: Document = {"collection": "posts", "sort": {"_id": 1}}
OWN = {"authorId": {"$fk": "_id"}}
FILTER: Document = {
    "fields": {"tag": ["eq"]},
    "relations": {"author": {"fields": {"_id": ["eq", "range"]}}},
}
MAPPINGS: Document = {
    "Query": {
        "users": {
            "collection": "users",
            "sort": {"_id": 1},
            "filter": {
                "fields": {"count": ["eq", "range"]},
                "relations": {"posts": {"fields": {"tag": ["eq"]}}},
            },
            "orderBy": {"fields": ["_id", "count"]},
        },
        "user": {"collection": "users", "find": {"_id": {"$arg": "id"}}},
        "total": {"collection": "posts", "find": {}, "count": True},
        "perTag": {"collection": "posts", "find": {}, "group": {"by": ["tag"]}},
        "recent": {**POSTS, "find": {}, "connection": {}, "filter": FILTER},
        "drafts": {
            "collection": "posts",
            "connection": {},
            "filter": FILTER,
            "orderBy": {"fields": ["tag", "author._id"]},
        },
        "tagged": {"collection": "posts", "sort": {"list": 1}, "connection": {}},
        "words": {
            "collection": "words",
            "filter": {"relations": {"posts": {"fields": {"tag": ["eq"]}}}},
        },
        "things": {"collection": "posts"},
    },
    "Post": {
        "author": {"collection": "users", "find": {"_id": {"$fk": "authorId"}}},
        "root": {"collection": "users", "find": {"_id": {"$lte": {"$arg": "rootDoc._id"}}}},
    },
    "User": {
        "posts": {**POSTS, "find": OWN},
        "later": {**POSTS, "find": {"authorId": {"$gt": {"$fk": "_id"}}}},
        "count": {"collection": "posts", "find": OWN, "count": True},
        "sums": {"collection": "posts", "stages": [{"$match": OWN}, {"$limit": 1}]},
        "latest": {**POSTS, "find": OWN, "connection": {}},
        "first": {**POSTS, "find": OWN},
        "perTag": {"collection": "posts", "find": OWN, "group": {"by": ["tag"]}},
        "both": {"collection": "posts", "find": {**OWN, "number": {"$fk": "_id"}}},
    },
    "Word": {
        "user": {"collection": "users", "find": {"_id": {"$fk": "number"}}},
        "posts": {"collection": "posts", "find": {"tag": {"$fk": "_id"}}},
    },
    "Thing": {
        "$typeResolver": {"Post": "field-exists(fields=tag)", "User": "field-exists(fields=_id)"}
    },
}
PAGE = "{ nodes { _id } edges { cursor } pageInfo { endCursor hasPreviousPage } totalCount }"
QUERIES = {
    "list": "{ users { _id } }",
    "lookup": "{ users { posts { _id home { city } } } }",
    "first": "{ users { first { _id } } }",
    "both": "{ users { both { _id } } }",
    "batch of finds": "{ users { later { _id } } }",
    "batch of aggregations": "{ users { sums { tag } } }",
    "counts": "{ users { count } }",
    "groups of each": "{ users { perTag { tag count } } }",
    "one": "{ user(id: 1) { _id first { _id author { _id } } posts { author { _id } } } }",
    "fold": "{ user(id: 1) { first { _id tag } } }",
    "roots": "{ recent { nodes { root { _id } author { _id } } } }",
    "count": "{ total }",
    "groups": "{ perTag { tag count } }",
    "page": f"{{ recent(first: 1) {PAGE} }}",
    "last page": f"{{ recent(last: 1) {PAGE} }}",
    "pages": f"{{ users {{ latest(first: 1) {PAGE} }} }}",
    "page by arrays": f"{{ tagged(first: 2) {PAGE} }}",
    "union": "{ things { ... on Post { author { _id } } ... on User { _id } } }",
    "related": '{ users(where: {posts: {some: {tag: {eq: "a"}}}}) { _id } }',
    "related count": "{ users(where: {count: {gt: 1}}) { _id } }",
    "related page": f"{{ recent(first: 1, where: {{author: {{_id: {{gt: 0}}}}}}) {PAGE} }}",
    "other collation": '{ words(where: {posts: {some: {tag: {eq: "a"}}}}) { _id posts { _id } } }',
    "order by count": "{ users(orderBy: {count: DESC}) { _id count } }",
    "order by relation": f"{{ drafts(first: 1, orderBy: {{author: {{_id: ASC}}}}) {PAGE} }}",
}


EVERY = 4
JOINED = ("lookup", "first", "both", "counts", "pages")  # others when they have many documents


@pytest.fixture
async def distorter(mongo_uri: str) -> AsyncIterator[Distorter]:
    async with Distorter(mongo_uri).listening() as distorter:
        yield distorter


@pytest.fixture
async def store(distorter: Distorter) -> AsyncIterator[Store]:
    """A store that reads what the distorter changes."""
    uri = f"mongodb://127.0.0.1:{distorter.port}/?directConnection=true&retryReads=false"
    store = open_store(MClient(), AggregationSecurity(), connection_string=uri)
    yield store
    await store.close()


@pytest.fixture
def app(engine: Engine, mongo_client: MongoClient[Document]) -> VisibleApp:
    data = mongo_client[engine.database]
    data.users.insert_many([{"_id": 1}, {"_id": 2}])
    posts = [{"_id": n, "authorId": 1 + n % 2, "tag": "ab"[n % 2], "number": n} for n in range(6)]
    data.posts.insert_many([{**post, "list": [1, 2], "home": {"city": "x"}} for post in posts])
    data.create_collection("words", collation=Collation("en", strength=2))
    data.words.insert_many([{"_id": "A", "number": 1}, {"_id": "b", "number": 2}])
    return engine.app(SCHEMA, MAPPINGS)


def list_distorted(batch: list[Document], first: int) -> Iterator[list[Any]]:
    """Return the batch with a document less, more, or of another form.

    A usual run tries some of the forms: from the `first` on, one of so many.
    """
    yield []
    yield [*batch, *batch]
    forms = distort(batch[0]) if batch else ()
    for changed in forms if IS_LONG else islice(forms, first % EVERY, None, EVERY):
        yield [changed, *batch[1:]]


@pytest.mark.parametrize("is_raw", [True, False], ids=["native", "python"])
@pytest.mark.parametrize(
    ("name", "are_many"),
    [*((name, False) for name in QUERIES), *((name, True) for name in JOINED)],
)
async def test_no_result_of_a_command_is_a_fault_of_ours(  # noqa: PLR0917 - fixtures
    engine: Engine,
    store: Store,
    distorter: Distorter,
    app: VisibleApp,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    are_many: bool,
    is_raw: bool,
) -> None:
    if are_many:  # the relations of more documents are fetched in other ways
        monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
        monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 1)

    async def run() -> Result:
        exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
        exchange.deadline = Deadline.after_ms(300_000)
        plan = engine.plan(app, QUERIES[name])
        result = await execute(
            Run(
                plan,
                exchange,
                {},
                store=store,
                resolvers=Resolvers(decode),
                bounds=engine.settings,
                limits=plan.app.app.limits,
                is_raw=is_raw,
            )
        )
        encode_data(result.data, 1 << 30)
        return result

    distorter.begin()
    assert (await run()).errors == ()
    seen = distorter.batches
    assert seen
    for place, batch in enumerate(seen):
        for changed in list_distorted(batch, place + len(name) + is_raw):
            distorter.begin(place, changed)
            with suppress(DocgraphError):
                result = await run()
                assert "internal-error" not in {error.code for error in result.errors}
