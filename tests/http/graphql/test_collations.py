"""Collations: a collection with one answers as one without it whose texts are all in lower case.

Each request runs on both: once in lower case, and once in other cases on stored texts of mixed
case. The collation ignores case, so the answers differ only in case, whatever joins, counts, sorts
or pages them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.graphql.execute import fetch_by_in
from tests.http.cache_harness import CACHE, PATIENT, ask_until, ask_until_hit
from tests.http.harness import Document, Mongo, Service, identity, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

COLLATION = {"locale": "en", "strength": 2}
PLAIN, COLLATED = "plain", "collated"
ROOT = identity("admin")

SCHEMA = """
type Query {
  people: [Person!]! person(name: String): Person posts: [Post!]! post(id: Int): Post
  named(names: [String]): [Person!]! count(author: String): Int
  pages: [Post!]! groups: [Total!]!
}
type Person {
  name: String posts(limit: Int = 0, skip: Int = 0): [Post!]! newest: Post count: Int
  tagged(tag: String): [Post!]! pages: [Post!]! friends: [Person!]! both: [Post!]!
  about: [Post!]! exact: [Post!]! joined: [BsonDocument]
}
type Post { id: Int author: Person authors: [Person!]! tag: String whole: Person }
type Total { tag: String count: Int }
"""


def build_mappings(service: Service, people: str, posts: str) -> Document:
    def find(collection: str, condition: Any, **others: Any) -> Document:
        return service.find(collection, condition, **{"sort": {"_id": 1}, **others})

    by_author = {"author": {"$fk": "_id"}}
    lookup = {"from": posts, "localField": "_id", "foreignField": "author", "as": "found"}
    filter_ = {"fields": {"tag": ["eq", "in", "range"]}}
    return {
        "Query": {
            "people": find(people, {}),
            "person": find(people, {"_id": {"$arg": "name"}}),
            "named": find(people, {"_id": {"$in": {"$arg": "names"}}}),
            "posts": find(posts, {}, filter=filter_),
            "post": find(posts, {"_id": {"$arg": "id"}}),
            "count": service.find(posts, {"author": {"$arg": "author"}}, count=True),
            "pages": find(posts, {}, sort={"tag": 1}, connection={}),
            "groups": service.find(posts, {}, group={"by": ["tag"]}),
        },
        "Person": {
            "name": "_id",
            "posts": find(posts, by_author, limit={"$arg": "limit"}, skip={"$arg": "skip"}),
            "newest": find(posts, by_author, sort={"_id": -1}),
            "count": service.find(posts, by_author, count=True),
            "tagged": find(posts, {**by_author, "tag": {"$arg": "tag"}}),
            "pages": find(posts, by_author, sort={"tag": 1}, connection={}),
            "friends": find(people, {"_id": {"$in": {"$fk": "friends"}}}),
            "both": find(posts, {**by_author, "tag": {"$fk": "likes"}}),
            "about": find(posts, {"authors": {"$fk": "_id"}}),
            "exact": find(posts, {"ref": {"$fk": "ref"}}),
            "joined": service.stages(
                people,
                {"$match": {"_id": {"$fk": "_id"}}},
                {"$lookup": lookup},
                {"$project": {"found._id": 1}},
            ),
        },
        "Post": {
            "id": "_id",
            "author": find(people, {"_id": {"$fk": "author"}}),
            "authors": find(people, {"_id": {"$in": {"$fk": "authors"}}}),
            "whole": find(people, {"ref": {"$fk": "ref"}}),
        },
    }


PEOPLE: list[Document] = [
    {"_id": "Ann", "friends": ["BOB", "cyd", "none"], "likes": "RED", "ref": {"n": "X"}},
    {"_id": "bob", "friends": ["ann"], "likes": ["BLUE", "Red"], "ref": {"n": "y"}},
    {"_id": "CYD", "likes": "none"},
    {"_id": "Dan", "friends": []},
]
POSTS: list[Document] = [
    {
        "_id": number,
        "author": ["ann", "ANN", "Bob", "Ann", ["BOB", "x"], "cyd", "CYD", "none", None][
            number % 9
        ],
        "authors": [["ANN", "bob"], "Cyd", ["cyd"], []][number % 4],
        "tag": ["red", "Red", "BLUE", "blue", "Green"][number % 5],
        "ref": [{"n": "x"}, {"n": "X"}, {"n": "Y"}, {"m": "x"}][number % 4],
    }
    for number in range(27)
]


def lower(value: Any) -> Any:
    """The same value with all texts in lower case."""
    return json.loads(json.dumps(value).lower())


def fill(service: Service, kind: str) -> None:
    db = service.mongo[service.db]
    options: Document = {"collation": COLLATION} if kind == COLLATED else {}
    for name, documents in (("people", PEOPLE), ("posts", POSTS)):
        collection = db.create_collection(f"{name}_{kind}", **options)
        collection.insert_many(documents if options else lower(documents))


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    """An application with an app for each kind, which tests only read."""
    mounts = {"mongo": {"mongo-mounts": [{"what": "*", "where": "/"}]}}
    async with running(mongo_client, mongo_uri, ROOT, PATIENT, mounts) as service:
        for kind in (PLAIN, COLLATED):
            fill(service, kind)
            mappings = build_mappings(service, f"people_{kind}", f"posts_{kind}")
            await service.define(kind, SCHEMA, mappings)
        yield service


PAGES = "pages(first: 3) { totalCount edges { node { tag } } pageInfo { hasNextPage } }"
QUERIES = [
    "people { name posts { id } }",
    "people { name posts(limit: 2, skip: 1) { id } }",
    "people { name newest { id } }",
    "people { name count }",
    'people { name tagged(tag: "RED") { id } }',
    f"people {{ name {PAGES} }}",
    "people { name friends { name posts { id } } }",
    "people { name both { id } }",
    "people { name about { id } }",
    "people { name exact { id } }",
    "people { name joined }",
    'person(name: "ANN") { name posts { id } newest { id } count both { id } about { id } }',
    f'person(name: "bOB") {{ {PAGES} friends {{ name }} exact {{ id }} joined }}',
    'named(names: ["ANN", "Bob"]) { name posts { id author { name } } }',
    "posts { id author { name } }",
    "posts { id authors { name } }",
    "posts { id whole { name } }",
    'posts(where: {tag: {eq: "RED"}}) { id }',
    'posts(where: {tag: {in: ["RED", "Green"]}}) { id author { name } }',
    'posts(where: {tag: {gt: "BLUE"}}) { id }',
    *(f"post(id: {number}) {{ author {{ name }} whole {{ name }} }}" for number in range(9)),
    'count(author: "ANN")',
    "groups { tag count }",
]


@pytest.mark.parametrize("way", ["together", "large"])
@pytest.mark.parametrize("query", QUERIES)
async def test_a_query_follows_the_collation(
    server: Service, monkeypatch: pytest.MonkeyPatch, query: str, way: str
) -> None:
    """Decision 13: the answer does not depend on how a relation is fetched.

    Each name of an operation has a plan of its own, which remembers large relations.
    """
    if way == "large":
        monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 0)
    plain = (await server.query(PLAIN, f"query {way} {{ {lower_texts(query)} }}")).data
    collated = (await server.query(COLLATED, f"query {way} {{ {query} }}")).data

    assert lower(collated) == lower(plain)


def lower_texts(query: str) -> str:
    """The query with the texts between quotes in lower case."""
    parts = query.split('"')
    return '"'.join(one.lower() if place % 2 else one for place, one in enumerate(parts))


async def test_pages_follow_each_other(server: Service) -> None:
    query = """query ($after: String) {
        pages(first: 4, after: $after) { nodes { tag } pageInfo { endCursor hasNextPage } }
    }"""
    found: dict[str, list[str]] = {}
    for kind in (PLAIN, COLLATED):
        after = None
        for _ in range(len(POSTS)):
            page = (await server.query(kind, query, {"after": after})).data["pages"]
            found.setdefault(kind, []).extend(one["tag"].lower() for one in page["nodes"])
            after = page["pageInfo"]["endCursor"]
            if not page["pageInfo"]["hasNextPage"]:
                break

    assert found[COLLATED] == found[PLAIN]
    assert len(found[PLAIN]) == len(POSTS)


# --- collections of one query that compare differently --------------------------------------------


@pytest.mark.parametrize(("people", "posts"), [(PLAIN, COLLATED), (COLLATED, PLAIN)])
async def test_a_relation_follows_the_collation_of_its_own_collection(
    server: Service, people: str, posts: str
) -> None:
    """A command with `$lookup` would compare as the collection that it begins with."""
    mappings = build_mappings(server, f"people_{people}", f"posts_{posts}")
    await server.define("mixed", SCHEMA, mappings)
    names = {one["_id"] for one in server.mongo[server.db][f"people_{people}"].find()}
    stored = {one["_id"]: one["author"] for one in server.mongo[server.db][f"posts_{posts}"].find()}
    expected = {
        id: next((one for one in names if compares(people, one, author)), None)
        for id, author in stored.items()
    }

    many = (await server.query("mixed", "{ posts { id author { name } } }")).data["posts"]
    single = [
        (await server.query("mixed", f"{{ post(id: {id}) {{ id author {{ name }} }} }}")).data
        for id in range(9)
    ]

    assert {one["id"]: one["author"] and one["author"]["name"] for one in many} == expected
    assert [one["post"] for one in single] == many[:9]


def compares(kind: str, stored: str, key: Any) -> bool:
    if not isinstance(key, str):
        return False
    return stored.lower() == key.lower() if kind == COLLATED else stored == key


# --- REST -----------------------------------------------------------------------------------------

REQUESTS = [
    ("posts", '?filter={"author":"ANN"}&sort=_id&keys={"_id":1}'),
    ("posts", '?filter={"tag":{"$in":["RED","bluE"]}}&sort=_id&keys={"_id":1}'),
    ("posts", '?filter={"tag":{"$gt":"BLUE"}}&sort=_id&keys={"_id":1}'),
    ("posts", '/_size?filter={"author":"ANN"}'),
    ("people", '?filter={"_id":"ANN"}'),
    ("people", "/ANN"),
    ("people", "/Bob"),
    ("people", "/none"),
]


@pytest.mark.parametrize(("name", "rest"), REQUESTS)
async def test_a_rest_request_follows_the_collation(server: Service, name: str, rest: str) -> None:
    small = rest.lower() if name == "people" else lower_texts(rest)
    answers = []
    for kind, asked in ((PLAIN, small), (COLLATED, rest)):
        reply = await server.request("GET", f"/{server.db}/{name}_{kind}{asked}")
        answers.append((reply.status, lower(reply.json) if reply.status == 200 else None))

    assert answers[0] == answers[1]


async def test_pages_of_a_view_follow_its_collation(server: Service) -> None:
    """Its sort keys have no stored texts, and it has no index that shows its collation."""
    db = server.mongo[server.db]
    db.create_collection("view", viewOn="posts_plain", pipeline=[], collation=COLLATION)
    seen: list[int] = []
    path: str | None = f"/{server.db}/view?sort=tag&pagesize=5&after"
    for _ in range(len(POSTS)):
        if path is None:
            break
        reply = await server.request("GET", path)
        seen += [one["_id"] for one in reply.json]
        link = reply.headers.get("link")
        path = link.split(";")[0].strip("<>") if link else None
    db.drop_collection("view")

    expected = sorted(lower(POSTS), key=lambda one: (one["tag"], one["_id"]))
    assert seen == [one["_id"] for one in expected]


async def test_an_id_that_differs_in_case_replaces_nothing(server: Service) -> None:
    db = server.mongo[server.db]
    db.create_collection("words", collation=COLLATION).insert_one({"_id": "abc", "n": 1})
    path = f"/{server.db}/words"

    read = await server.request("GET", f"{path}/ABC")
    replaced = await server.request("PUT", f"{path}/ABC", json={"n": 2})
    added = await server.request("POST", path, json={"_id": "ABC", "n": 2})
    stored = list(db["words"].find({}, {"n": 1}))
    changed = await server.request("PATCH", f"{path}/ABC", json={"n": 3})
    after = list(db["words"].find({}, {"n": 1}))
    db.drop_collection("words")

    assert (read.status, replaced.status, added.status) == (200, 403, 409)
    assert stored == [{"_id": "abc", "n": 1}]
    assert (changed.status, after) == (200, [{"_id": "abc", "n": 3}])


# --- the cache ------------------------------------------------------------------------------------


async def test_a_cached_answer_is_dropped_by_texts_that_the_collation_finds(
    server: Service,
) -> None:
    db = server.mongo[server.db]
    for name in ("people_cached", "posts_cached"):
        db.create_collection(name, collation=COLLATION)
    db["people_cached"].insert_many([{"_id": "ann"}, {"_id": "bob"}])
    mappings = build_mappings(server, "people_cached", "posts_cached")
    await server.define("cached", SCHEMA, mappings, **CACHE)
    query = "{ people { name posts { id } } }"
    first = await ask_until_hit(server, "cached", query)
    assert [one["posts"] for one in first.data["people"]] == [[], []]

    db["posts_cached"].insert_one({"_id": 1, "author": "ANN"})

    ann, bob = {"name": "ann", "posts": [{"id": 1}]}, {"name": "bob", "posts": []}
    assert (await ask_until(server, "cached", query, {"people": [ann, bob]})).data


async def test_a_collection_that_is_created_again_has_its_new_collation_at_once(
    server: Service,
) -> None:
    """A wrong join would stay in the cache, longer than what is known of a collation."""
    db = server.mongo[server.db]
    db["people_again"].insert_many([{"_id": "ann"}, {"_id": "ANN"}])
    db["posts_again"].insert_many([{"_id": 1, "author": "ann"}, {"_id": 2, "author": "ANN"}])
    mappings = build_mappings(server, "people_again", "posts_again")
    await server.define("again", SCHEMA, mappings, **CACHE)
    query = "{ people { posts { id } } }"
    first = await ask_until_hit(server, "again", query)
    assert first.data == {"people": [{"posts": [{"id": 2}]}, {"posts": [{"id": 1}]}]}

    db["posts_again"].drop()
    created = db.create_collection("posts_again", collation=COLLATION)
    created.insert_many([{"_id": 1, "author": "ann"}, {"_id": 2, "author": "ANN"}])

    both = {"posts": [{"id": 1}, {"id": 2}]}
    await ask_until(server, "again", query, {"people": [both, both]})
