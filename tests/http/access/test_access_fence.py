"""Decision 49: what a caller or an author wrote never runs on a row outside of the row filter.

The oracle: a request is sent while hidden rows exist that would make its condition fail, and again
without them. Both answers have to be the same at every door.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.http.access_harness import (
    ADA,
    ADMIN,
    NOBODY,
    build_rule,
    ensure_rules,
    guarded,
    restore,
)
from tests.http.batches import entry
from tests.http.harness import Document, Reply, Service
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS
from tests.http.mcp_harness import ask as speak

pytestmark = pytest.mark.anyio

# The first hidden row makes every expression below fail, and no visible one does.
HIDDEN = [
    {
        "_id": f"h{i}", "owner": "bob", "secret": "S0", "a": i, "n": "zero", "k": "j", "t": "apple",
        "items": [{"x": 1, "y": "apple"}], "place": {"type": "Point", "coordinates": [1, 1]},
    }
    for i in range(2)
]  # fmt: skip
VISIBLE = [
    {**HIDDEN[0], "_id": f"v{i}", "owner": "ada", "secret": "x", "a": i % 3, "n": str(i)}
    for i in range(6)
]
FAILING: Document = {"$expr": {"$divide": [1, {"$cond": [{"$eq": ["$secret", "S0"]}, 0, 1]}]}}
NUMBER: Document = {"$expr": {"$gte": [{"$toInt": "$n"}, 0]}}
# MongoDB evaluates a disjunction before an equality, so that it does not matter where it is.
EITHER: Document = {"$or": [FAILING, {"a": 9}]}
FILTERS: dict[str, Document] = {
    "alone": FAILING,
    "or": EITHER,
    "and or": {"$and": [{"$or": [NUMBER, {"a": 9}]}, {"a": {"$gte": 0}}]},
    "nor": {"$nor": [{"$and": [{"$nor": [EITHER]}, {"a": 9}]}]},
    "beside a comparison": {"a": {"$lt": 3}, **NUMBER},
    "beside a prefix": {"t": {"$regex": "^app"}, **EITHER},
}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, AGENTS) as one:
        for name in ("notes", "shown"):
            assert (await one.request("PUT", f"/{name}", headers=ADMIN)).status == 201
            one.mongo[one.db][name].create_index("n")
        yield one


@pytest.fixture
async def service(server: Service) -> Service:
    await admit(server)
    return server


SORT_KEY = {"$meta": "sortKey"}
SCORE = {"$meta": "textScore"}
Door = Callable[[Service, Document], Awaitable[Reply]]


def query_of(**parameters: Any) -> str:
    return urlencode({key: json.dumps(one) for key, one in parameters.items()})


def read(path: str, parameter: str = "filter", who: dict[str, str] = ADA, **others: Any) -> Door:
    async def send(service: Service, filter: Document) -> Reply:
        query = urlencode({parameter: json.dumps(filter), **others})
        return await service.request("GET", f"{path}?{query}", headers=who)

    return send


async def read_in_batch(service: Service, filter: Document) -> Reply:
    entries = [entry("GET", f"/notes/v1?{query_of(filter=filter)}")]
    return await service.request("POST", "/_batch", headers=ADA, json=entries)


DOORS: dict[str, Door] = {
    "list": read("/notes"),
    "list counted": read("/notes", count="exact"),
    "list sorted": read("/notes", sort="a"),
    "list by keyset": read("/notes", after="", sort="a"),
    "size": read("/notes/_size"),
    "document": read("/notes/v1"),
    "document, hidden": read("/notes/h0"),
    "shardkey of a list": read("/notes", "shardkey"),
    "shardkey of a size": read("/notes/_size", "shardkey"),
    "shardkey of a document": read("/notes/v1", "shardkey"),
    "anonymous list": read("/notes", who=NOBODY),
    "anonymous size": read("/notes/_size", who=NOBODY),
    "batch": read_in_batch,
}


ROWS = {"owner": "ada"}


def notes(service: Service, *documents: Document) -> None:
    restore(service, "notes", *documents)


async def admit(service: Service, **conditions: Any) -> None:
    mongo = {"readFilter": ROWS, "allowWriteMode": True, "allowBulkPatch": True, **conditions}
    mongo |= {"allowBulkDelete": True, "readFilters": {f"{service.db}.notes": ROWS}}
    rows = {"readFilters": {f"{service.db}.notes": ROWS}}
    rules = [build_rule("path-prefix('/notes')", "user", "$unauthenticated", mongo=mongo)]
    for path in ("/graphql", "/mcp", "/open"):
        rules.append(build_rule(f"path-prefix('{path}')", "user", mongo=rows))
    rules.append(build_rule("path-prefix('/_batch')", "user"))
    await ensure_rules(service, *({**one, "_id": one["predicate"]} for one in rules))


async def ask_twice(service: Service, send: Callable[[], Awaitable[Reply]]) -> Reply:
    """The answer, which hidden rows have no part in."""
    notes(service, *HIDDEN, *VISIBLE)
    with_hidden = await send()
    notes(service, *VISIBLE)
    without = await send()
    assert (with_hidden.status, with_hidden.text) == (without.status, without.text)
    return with_hidden


@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
async def test_no_read_tells_of_hidden_rows_by_failing(
    service: Service, door: Door, filter: Document
) -> None:

    reply = await ask_twice(service, lambda: door(service, filter))

    assert reply.status in (200, 404), reply.text


@pytest.mark.parametrize("sort", ["items.0.b", "-items.0.b", "items.b", "counts.2024"])
async def test_keyset_pages_below_a_dot_have_the_rows_of_the_caller(
    service: Service, sort: str
) -> None:
    shapes: list[Document] = [
        {"items": [{"b": 2}, {"b": 1}]},
        {"items": [{"b": 1}, {"b": 2}], "counts": {"2024": 3}},
        {"items": [{}], "counts": {"2024": 1}},
        {"items": {"0": {"b": 3}}},
        {"items": []},
        {},
    ]
    notes(
        service,
        *(
            {"_id": f"{n}{owner}", "owner": owner, **one}
            for n, one in enumerate(shapes)
            for owner in ("ada", "bob")
        ),
    )
    direction = -1 if sort[0] == "-" else 1
    order = {sort.lstrip("-"): direction, "_id": direction}
    expected = [one["_id"] for one in service.mongo[service.db]["notes"].find(ROWS).sort(order)]
    path, found = f"/notes?pagesize=1&sort={sort}&after=", []
    for _ in range(len(shapes) + 1):
        reply = await service.request("GET", path, headers=ADA)
        found += [one["_id"] for one in reply.json]
        if "link" not in reply.headers:
            break
        path = reply.headers["link"].split(";")[0].strip("<>")

    assert found == expected


@pytest.mark.parametrize("parameter", ["sort", "keys", "hint"])
async def test_what_a_list_is_asked_for_beside_a_filter_sees_visible_rows_only(
    service: Service, parameter: str
) -> None:
    """Two arrays cannot be sorted by, and this number is none."""
    values = {
        "sort": {"parallel": 1, "lists": 1},
        "keys": {"x": {"$toInt": "$n"}},
        "hint": {"_id": 1},
    }
    for one in HIDDEN:
        one.update(parallel=[1, 2], lists=[1, 2])
    try:
        path = f"/notes?{query_of(**{parameter: values[parameter]})}"
        reply = await ask_twice(service, lambda: service.request("GET", path, headers=ADA))
    finally:
        for one in HIDDEN:
            del one["parallel"], one["lists"]

    assert reply.status == 200
    assert len(reply.json) == len(VISIBLE)


# --- parameters -----------------------------------------------------------------------------------

STORED = [
    {**VISIBLE[0], "_id": f"v{i}", "a": i % 3, "n": i, "t": text, "score": [i, 9 - i]}
    for i, text in enumerate(["apple", "apricot", "Apple", "banana", "app", "apple pie", "appeal"])
]
STORED[4].pop("a")
STORED[5]["items"] = [{"x": 2, "y": "apple"}, {"x": 3, "y": "pear"}, {"x": 2, "y": "apple"}]
FENCED: dict[str, Document] = {
    "pattern": {"t": {"$regex": "p+l?"}},
    "prefix": {"t": {"$regex": "^app"}},
    "without case": {"t": {"$regex": "^app", "$options": "i"}},
    "expression": {"$expr": {"$lte": ["$n", 5]}},
    "alternatives": {"$or": [{"t": {"$regex": "^ban"}}, {"a": 1}]},
    "elements": {"items.y": {"$regex": "ap"}, "n": {"$lt": 6}},
}
PARAMETERS: dict[str, Document] = {
    "none": {},
    "pages": {"pagesize": 2, "page": 2},
    "no page": {"pagesize": 0},
    "sort": {"sort": "a"},
    "sort by an index": {"sort": "-n"},
    "sort by two": {"sort": {"a": -1, "t": 1}},
    "sort by an array": {"sort": "score"},
    "natural": {"sort": {"$natural": 1}},
    "natural, backwards": {"sort": {"$natural": -1}, "pagesize": 3, "page": 2},
    "hint": {"hint": {"n": 1}},
    "hint by name": {"hint": "n_1", "sort": {"n": 1}},
    "hint at a scan": {"hint": {"$natural": -1}},
    "unknown hint": {"hint": "nothing"},
    "hint and natural": {"hint": {"n": 1}, "sort": {"$natural": 1}},
    "natural twice": {"hint": {"$natural": 1}, "sort": {"$natural": 1}},
    "two naturals": {"hint": {"$natural": 1}, "sort": {"$natural": -1}},
    "shown": {"keys": {"a": 1, "t": 1}},
    "hidden": {"keys": {"items": 0}},
    "without id": {"keys": {"_id": 0, "t": 1}, "sort": "a"},
    "computed": {"keys": {"x": {"$concat": ["$t", "!"]}}},
    "sort keys next to all": {"keys": {"k": SORT_KEY}, "sort": {"a": 1, "_id": 1}},
    "sort keys, one hidden": {"keys": {"t": 0, "k": SORT_KEY}, "sort": {"a": 1, "_id": 1}},
    "slice": {"keys": {"items": {"$slice": 1}}, "sort": "a"},
    "slice of the middle": {"keys": {"items": {"$slice": [1, 1]}, "_id": 0}, "sort": "a"},
    "element": {"keys": {"items": {"$elemMatch": {"x": {"$gte": 2}}}}},
    "element, natural": {
        "keys": {"items": {"$elemMatch": {"x": 2}}}, "sort": {"$natural": -1}
    },
    "position": {"filter": {"items.x": 2}, "keys": {"items.$": 1, "t": 1}, "sort": "t"},
    "shard key": {"shardkey": {"n": {"$gte": 1}}},
    "two filters": {"filter": {"n": {"$gte": 2}}},
    "count": {"count": "exact", "pagesize": 1},
    "estimated": {"count": "estimated", "pagesize": 1},
    "concern": {"readConcern": "majority", "readPreference": "primary"},
    "relaxed": {"jsonMode": "relaxed"},
    "no cache": {"nocache": ""},
    "first page by key": {"after": "", "pagesize": 2},
    "by key": {"after": "", "sort": {"n": -1}, "pagesize": 2},
    "by a key without index": {"after": "", "sort": "a", "pagesize": 2},
    "by a key of arrays": {"after": "", "sort": {"score": -1}, "pagesize": 3},
    "by key and shown": {"after": "", "sort": "a", "keys": {"t": 1}, "pagesize": 2},
    "by key, sliced": {"after": "", "sort": "a", "keys": {"items": {"$slice": 1}}, "pagesize": 2},
}  # fmt: skip


@pytest.fixture
async def alike(service: Service) -> Service:
    """`shown` has the visible documents of `notes`, and no row filter."""
    hidden = [{**one, "_id": f"h{one['_id']}", "owner": "bob"} for one in STORED]
    mixed = [one for pair in zip(hidden, STORED, strict=True) for one in pair]
    for name, stored in (("notes", mixed), ("shown", STORED)):
        restore(service, name, *stored)
    return service


async def follow(service: Service, path: str, who: dict[str, str], query: str) -> list[Any]:
    """All pages as they are answered, and where each says that the next one is."""
    told: list[Any] = []
    for _ in range(2 * len(STORED)):
        reply = await service.request("GET", f"{path}?{query}", headers=who)
        link = reply.headers.get("link", "").partition(">")[0].partition("?")[2]
        counted = reply.headers.get("x-total-count")
        content = reply.text if reply.status == 200 else reply.json["code"]
        told.append((reply.status, content, link, counted))
        if not link:
            return told
        query = link
    raise AssertionError(f"the pages of {path} have no end")


def render(parameters: list[tuple[str, Any]]) -> str:
    return urlencode(
        [(key, one if isinstance(one, str) else json.dumps(one)) for key, one in parameters]
    )


@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS.keys())
async def test_every_parameter_means_the_same_behind_a_fence(
    alike: Service, parameters: Document
) -> None:
    statuses = set()
    for filter in FENCED.values():
        query = render([("filter", filter), *parameters.items()])

        fenced = await follow(alike, "/notes", ADA, query)

        assert fenced == await follow(alike, "/shown", ADMIN, query), filter
        statuses.add(fenced[0][0])
    assert 200 in statuses or "hint" in parameters


@pytest.mark.parametrize("path", ["_size", "v5", "v3", "_size?shardkey={}"])
@pytest.mark.parametrize("filter", FENCED.values(), ids=FENCED.keys())
async def test_sizes_and_documents_are_the_same_behind_a_fence(
    alike: Service, filter: Document, path: str
) -> None:
    path, _, parameter = path.partition("?")
    query = render([("filter", filter), *([("shardkey", {"n": 5})] if parameter else [])])
    replies = [
        await alike.request("GET", f"{place}/{path}?{query}", headers=who)
        for place, who in (("/notes", ADA), ("/shown", ADMIN))
    ]
    assert replies[0].text == replies[1].text


@pytest.mark.parametrize(
    "keys", [{"score": {"$meta": "textScore"}, "t": 1}, {"score": {"$meta": "textScore"}}]
)
async def test_a_search_for_words_keeps_its_order_behind_a_fence(
    alike: Service, keys: Document
) -> None:
    for name in ("notes", "shown"):
        alike.mongo[alike.db][name].create_index([("t", "text")])
    score = {"$meta": "textScore"}
    query = query_of(
        filter={"$text": {"$search": "apple pie"}, "$expr": {"$lte": ["$n", 5]}},
        sort={"score": score, "_id": 1},
        keys=keys,
    )
    replies = [
        await alike.request("GET", f"{path}?{query}", headers=who)
        for path, who in (("/notes", ADA), ("/shown", ADMIN))
    ]

    assert replies[0].status == 200
    assert replies[0].json == replies[1].json
    assert [one["_id"] for one in replies[0].json] == ["v5", "v0", "v2"]


@pytest.mark.parametrize("meta", ["recordId", "indexKey"])
async def test_how_rows_are_stored_is_not_shown_under_a_row_filter(
    alike: Service, meta: str
) -> None:
    """The numbers of visible rows tell how many others there are."""
    path = query_of(keys={"x": {"$meta": meta}, "t": 1})
    assert (await alike.request("GET", f"/notes?{path}", headers=ADA)).status == 403
    assert (await alike.request("GET", f"/shown?{path}", headers=ADMIN)).status == 200


async def test_the_nearest_are_found_with_comparisons_only(alike: Service) -> None:
    alike.mongo[alike.db]["notes"].create_index([("place", "2dsphere")])
    near = {"place": {"$near": {"$geometry": VISIBLE[0]["place"]}}}

    async def ask(filter: Document) -> Reply:
        path = f"/notes?{query_of(filter=filter, sort={})}"
        return await alike.request("GET", path, headers=ADA)

    assert len((await ask({**near, "n": {"$lte": 5}})).json) == 6
    refused = await ask({**near, "$expr": {"$lte": ["$n", 5]}})
    assert (refused.status, refused.json["code"]) == (400, "invalid-query")
    assert "$geoWithin" in refused.json["hint"]


# --- writes ---------------------------------------------------------------------------------------

SET = {"touched": 1}
WRITES: dict[str, tuple[str, str, Any]] = {
    "patch": ("PATCH", "/notes/v1", SET),
    "patch, hidden": ("PATCH", "/notes/h0", SET),
    "patch by pipeline": ("PATCH", "/notes/v1", [{"$set": SET}]),
    "patch, upsert": ("PATCH", "/notes/new?wm=upsert", SET),
    "patch of many": ("PATCH", "/notes/*", SET),
    "put": ("PUT", "/notes/v1", SET),
    "put, upsert": ("PUT", "/notes/new?wm=upsert", SET),
    "post, upsert": ("POST", "/notes?wm=upsert", {"_id": "new", **SET}),
    "post of many": ("POST", "/notes?wm=upsert", [{"_id": "v1"}, {"_id": "new"}]),
    "delete": ("DELETE", "/notes/v1", None),
    "delete of many": ("DELETE", "/notes/*", None),
}
UNSAFE: dict[str, Document] = {**FILTERS, "pattern": {"t": {"$regex": "^app"}}}


@pytest.mark.parametrize("conditions", [{"writeFilter": ROWS}, {}], ids=["write", "read only"])
@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        (name, parameter)
        for name in WRITES
        for parameter in ("filter", "shardkey")
        if (name, parameter) != ("post of many", "shardkey")  # an array takes no shardkey
    ],
)
async def test_a_write_under_a_row_filter_finds_documents_by_comparisons_only(
    service: Service, name: str, parameter: str, conditions: Document
) -> None:
    method, path, body = WRITES[name]
    await admit(service, **conditions)
    wheres = []
    for unsafe in UNSAFE.values():
        query = urlencode({parameter: json.dumps(unsafe)})
        if parameter == "shardkey" and path.endswith("*"):
            query += "&" + query_of(filter={"a": {"$gte": 0}})
        wheres.append(f"{path}{'&' if '?' in path else '?'}{query}")

    replies = []
    for stored in ((*HIDDEN, *VISIBLE), VISIBLE):
        notes(service, *stored)
        for where in wheres:
            reply = await service.request(method, where, headers=ADA, json=body)
            assert (reply.status, reply.json["code"]) == (403, "security-violation"), reply.text
            assert "_id" in reply.json["hint"]
            entries = [entry(method, where, body)]
            batch = await service.request("POST", "/_batch", headers=ADA, json=entries)
            assert batch.status == 403, batch.text
            replies.append((where, reply.text, batch.text))
        assert list(service.mongo[service.db]["notes"].find()) == list(stored)
    assert replies[: len(wheres)] == replies[len(wheres) :]


@pytest.mark.parametrize("conditions", [{"writeFilter": ROWS}, {}], ids=["write", "read only"])
async def test_a_document_that_is_checked_as_a_whole_is_no_exception(
    service: Service, conditions: Document
) -> None:
    await service.request("PUT", "/_schemas", headers=ADMIN)
    schema = {"type": "object"}
    await service.request("PUT", "/_schemas/any?wm=upsert", headers=ADMIN, json=schema)
    await service.request("PUT", "/notes", headers=ADMIN)
    demand = {"jsonSchema": {"schemaId": "any"}}
    assert (await service.request("PATCH", "/notes", headers=ADMIN, json=demand)).status == 200
    await admit(service, **conditions)
    path = f"/notes/h0?{query_of(filter=FAILING)}"
    try:
        reply = await ask_twice(
            service, lambda: service.request("PATCH", path, headers=ADA, json=SET)
        )
    finally:
        undo = {"$unset": {"jsonSchema": True}}
        await service.request("PATCH", "/notes", headers=ADMIN, json=undo)

    assert reply.status == 403


@pytest.mark.parametrize("filter", [{"a": {"$gte": 0}}, {"$or": [{"a": 1}, {"t": "apple"}]}])
async def test_comparisons_find_what_is_written_as_before(
    service: Service, filter: Document
) -> None:
    await admit(service, writeFilter=ROWS)
    notes(service, *HIDDEN, *VISIBLE)
    query = query_of(filter=filter)

    reply = await service.request("PATCH", f"/notes/*?{query}", headers=ADA, json=SET)

    assert reply.status == 200
    touched = service.mongo[service.db]["notes"].find(SET, {"owner": 1})
    assert [one["owner"] for one in touched] == ["ada"] * len(VISIBLE)


@pytest.mark.parametrize(
    "body",
    [
        [{"$set": {"x": {"$divide": [1, {"$cond": [{"$eq": ["$secret", "S0"]}, 0, 1]}]}}}],
        {"$pull": {"items": {"y": {"$regex": "apple"}}}},
    ],
    ids=["pipeline", "pull"],
)
async def test_an_update_is_computed_for_what_it_finds(service: Service, body: Any) -> None:
    await admit(service, writeFilter=ROWS)
    notes(service, *HIDDEN, *VISIBLE)
    for id, status in (("v1", 200), ("h0", 404)):
        reply = await service.request("PATCH", f"/notes/{id}", headers=ADA, json=body)
        assert reply.status == status, reply.text


# --- aggregations ---------------------------------------------------------------------------------

MATCH = {"$match": EITHER}
JOIN = {"from": "notes", "localField": "k", "foreignField": "k", "as": "found"}
ON_NOTES: dict[str, list[Any]] = {
    "match": [MATCH],
    "match a number": [{"$match": NUMBER}],
    "sorted": [{"$sort": {"a": 1, "_id": 1}}, MATCH],
    "projected": [{"$project": {"secret": 1, "a": 1}}, MATCH],
    "unwound": [{"$unwind": "$items"}, MATCH],
    "grouped": [MATCH, {"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
    "computed": [{"$set": {"n": {"$toInt": "$n"}}}, {"$match": {"n": {"$gte": 0}}}],
    "facet": [{"$facet": {"x": [MATCH], "y": [{"$count": "n"}]}}],
    "itself": [{"$limit": 1}, {"$lookup": {**JOIN, "pipeline": [MATCH, {"$sort": {"_id": 1}}]}}],
    "union": [{"$unionWith": {"coll": "notes", "pipeline": [MATCH]}}, {"$sort": {"_id": 1}}],
}
ON_OPEN: dict[str, list[Any]] = {
    "lookup": [{"$lookup": {**JOIN, "pipeline": [MATCH, {"$sort": {"_id": 1}}]}}],
    "lookup with let": [
        {"$lookup": {"from": "notes", "let": {"k": "$k"}, "pipeline": [MATCH], "as": "found"}}
    ],
    "lookup, unwind, match": [
        {"$lookup": JOIN},
        {"$unwind": "$found"},
        {"$match": {"found.t": {"$regex": "app"}}},
    ],
    "union": [{"$unionWith": "notes"}, MATCH, {"$sort": {"_id": 1}}],
}


async def store_aggregation(service: Service, collection: str, stages: list[Any]) -> Reply:
    await service.request("PUT", f"/{collection}", headers=ADMIN)
    one = {"uri": "one", "type": "pipeline", "stages": stages}
    body = {"aggrs": [one]}
    return await service.request("PATCH", f"/{collection}", headers=ADMIN, json=body)


@pytest.mark.parametrize(
    ("collection", "stages"),
    [
        *(pytest.param("notes", one, id=f"notes: {key}") for key, one in ON_NOTES.items()),
        *(pytest.param("open", one, id=f"open: {key}") for key, one in ON_OPEN.items()),
    ],
)
async def test_a_stored_aggregation_does_not_fail_because_of_hidden_rows(
    service: Service, collection: str, stages: list[Any]
) -> None:
    restore(service, "open", {"_id": "o", "k": "j", "secret": "x"})
    stored = await store_aggregation(service, collection, stages)
    assert stored.status == 200, stored.text

    reply = await ask_twice(
        service, lambda: service.request("GET", f"/{collection}/_aggrs/one", headers=ADA)
    )

    assert reply.status == 200, reply.text
    assert reply.json


GRAPH = {"startWith": "$k", "connectFromField": "k", "connectToField": "k", "as": "found"}
SEARCHES: dict[str, tuple[str, Any]] = {
    "$graphLookup": ("restrictSearchWithMatch", {"from": "notes", **GRAPH}),
    "$geoNear": ("query", {"near": VISIBLE[0]["place"], "distanceField": "far", "key": "place"}),
}


@pytest.mark.parametrize("name", SEARCHES)
async def test_a_search_without_room_for_a_fence_is_refused(service: Service, name: str) -> None:
    """What is known when it is written is 400; what a caller brings is 403."""
    notes(service, *HIDDEN, *VISIBLE)
    service.mongo[service.db]["notes"].create_index([("place", "2dsphere")])
    key, body = SEARCHES[name]
    refused = await store_aggregation(service, "notes", [{name: {**body, key: EITHER}}])
    assert refused.status == 400
    assert "would not run under a row filter" in refused.text

    size = {"$size": {"$ifNull": ["$found", []]}}  # they come in any order
    given = [{name: {**body, key: {"t": {"$var": "t"}}}}, {"$set": {"found": size}}]
    given.append({"$sort": {"_id": 1}})
    assert (await store_aggregation(service, "notes", given)).status == 200

    async def ask(value: Any, who: dict[str, str]) -> Reply:
        path = f"/notes/_aggrs/one?{query_of(avars={'t': value})}"
        return await service.request("GET", path, headers=who)

    assert len((await ask_twice(service, lambda: ask("apple", ADA))).json) == len(VISIBLE)
    pattern = {"$regularExpression": {"pattern": "^app", "options": ""}}
    assert (await ask(pattern, ADA)).status == 403
    assert (await ask(pattern, ADMIN)).status == 200


# --- GraphQL --------------------------------------------------------------------------------------

SCHEMA = """
type Query { list: [Note] one: Note numbers: [Note] sums: [Sum] teams: [Team] }
type Note { _id: String peers: [Note] peer: Note later: [Note] total: [Sum] }
type Sum { n: Int }
type Team { _id: String found: [Note] }
"""
QUERIES: dict[str, str] = {
    "list": "{ list { _id } }",
    "one": "{ one { _id } }",
    "numbers": "{ numbers { _id } }",
    "sums": "{ sums { n } }",
    "lookup": "{ teams { _id found { _id } } }",
    "to many": "{ list { peers { _id } } }",
    "to one": "{ list { peer { _id } } }",
    "to one, in one command": "{ one { _id peer { _id } } }",
    "for each parent": "{ list { later { _id } } }",
    "aggregations": "{ list { total { n } } }",
}


async def define_app(service: Service) -> None:
    count = {"$group": {"_id": None, "n": {"$sum": 1}}}
    await service.define(
        "notes",
        SCHEMA,
        {
            "Query": {
                "list": service.find("notes", EITHER, sort={"a": 1}),
                "one": service.find("notes", {"$and": [{"_id": "v1"}, EITHER]}),
                "numbers": service.find("notes", NUMBER),
                "sums": service.stages("notes", MATCH, count),
                "teams": service.stages("open", *ON_OPEN["lookup"]),
            },
            "Note": {
                "peers": service.find("notes", {"k": {"$fk": "k"}, **EITHER}, sort={"_id": 1}),
                "peer": service.find("notes", {"k": {"$fk": "k"}, **EITHER}, sort={"_id": 1}),
                "later": service.find(
                    "notes", {"a": {"$gt": {"$fk": "a"}}, **EITHER}, sort={"_id": 1}
                ),
                "total": service.stages("notes", {"$match": {"a": {"$fk": "a"}}}, MATCH, count),
            },
        },
    )


@pytest.mark.parametrize("door", ["graphql", "mcp"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
async def test_no_mapping_fails_because_of_hidden_rows(
    service: Service, query: str, door: str
) -> None:
    restore(service, "open", {"_id": "o", "k": "j", "secret": "x"})
    await define_app(service)

    async def send() -> Reply:
        if door == "graphql":
            return await service.query("notes", query, headers=ADA)
        arguments = {"app": "notes", "query": query}
        return await speak(
            service, "tools/call", {"name": "run_query", "arguments": arguments}, ADA
        )

    reply = await ask_twice(service, send)

    assert reply.status == 200
    assert "error" not in reply.text.replace('"isError":false', ""), reply.text
    assert (
        "v0" in reply.text or "v1" in reply.text or '"n":' in reply.text or '\\"n\\":' in reply.text
    ), reply.text


async def test_a_mapping_with_such_a_search_is_refused_when_it_is_written(service: Service) -> None:
    name, (key, body) = "$geoNear", SEARCHES["$geoNear"]
    near = service.stages("notes", {name: {**body, key: EITHER}})
    mappings = {"Query": {"list": near}}
    definition = {"_id": "near", "descriptor": {"uri": "near"}, "mappings": mappings}
    schema = "type Query { list: [Note] } type Note { _id: String }"
    await service.request("PUT", "/gql-apps", headers=ADMIN)

    reply = await service.request(
        "PUT", "/gql-apps/near?wm=upsert", headers=ADMIN, json={**definition, "schema": schema}
    )

    assert reply.status == 400
    assert "$geoNear.query cannot hold $expr" in reply.text
