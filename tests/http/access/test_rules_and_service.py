"""Rules see what the service does: generated requests, and what became of the documents.

The rule is not asked what it has seen, nor the service what it has read. A request in any content
type, any spelling of its parameters and any form of update goes to a server with a rule; if the
documents, or the answer, show something that the rule does not grant, the rule has seen another
request than the service. (Decision 39.)
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
from bson import BSON, MinKey, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chance import examples
from tests.http.access_harness import (
    ADMIN,
    allow,
    caller,
    forget_rules,
    guarded,
    remove_rules,
    restore,
)
from tests.http.harness import Document, Reply, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

FLAGS = {"allowWriteMode": True, "allowBulkPatch": True, "allowBulkDelete": True}
ADA = caller("5", "user")
generated = settings(
    max_examples=examples(60),
    deadline=None,
)


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        stages = [{"_$match": {"n": {"_$gte": 0}}}, {"_$sort": {"_id": 1}}]
        aggrs = {"aggrs": [{"uri": "all", "type": "pipeline", "stages": stages}]}
        for name in ("box", "left", "right"):
            await one.there(one.client.put(f"/{name}", headers=ADMIN, json=aggrs))
            one.mongo[one.db][name].create_index([("secret", 1)], name="by_secret")
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    return server


async def keep_rule(service: Service, predicate: str, mongo: Document | None = None) -> None:
    """A rule for all examples of a test; it is written once."""
    id = json.dumps([predicate, mongo])
    if service.mongo[service.db]["acl"].find_one({"_id": id}) is None:
        await allow(service, predicate, "user", _id=id, mongo=mongo or FLAGS)


async def send(service: Service, method: str, path: str, request: Document) -> Reply:
    headers = {**ADA, **request.get("headers", {})}
    query = urlencode(request.get("query", []))
    return await service.request(
        method, f"{path}?{query}" if query else path, headers=headers, content=request.get("body")
    )


# --- writing --------------------------------------------------------------------------------------

FORBIDDEN = "secret"
KEYS = st.sampled_from(
    ["a", FORBIDDEN, f"{FORBIDDEN}.x", f"{FORBIDDEN}.0", "b.c", f"a.{FORBIDDEN}"]
)
VALUES = st.sampled_from(
    [1, 2, "t", None, [], [1], {}, {"x": 1}, {"x": {"y": 1}}, "$a", "$secret", {"$literal": 1}]
)
FIELDS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=2)
OPERATORS = st.sampled_from(
    "$set $unset $inc $mul $push $addToSet $min $max $setOnInsert $rename $currentDate $pull "
    "$bit $pullAll $pop".split()
)
OPERANDS = st.one_of(
    FIELDS,
    st.dictionaries(KEYS, st.sampled_from([1, True, {"$each": [1]}, FORBIDDEN, "a"]), min_size=1),
)
UPDATES = st.one_of(
    FIELDS,
    st.dictionaries(OPERATORS, OPERANDS, min_size=1, max_size=2),
    st.tuples(FIELDS, st.dictionaries(OPERATORS, OPERANDS, max_size=1)).map(
        lambda p: {**p[0], **p[1]}
    ),
)
STAGES = st.one_of(
    st.tuples(st.sampled_from(["$set", "$addFields", "$project", "$replaceWith"]), FIELDS).map(
        lambda stage: dict([stage])
    ),
    FIELDS.map(lambda fields: {"$replaceRoot": {"newRoot": fields}}),
    st.sampled_from(
        [
            {"$unset": FORBIDDEN},
            {"$unset": ["a", FORBIDDEN]},
            {"$replaceWith": {"$mergeObjects": ["$$ROOT", {FORBIDDEN: 9}]}},
            {"$replaceWith": {"$setField": {"field": FORBIDDEN, "input": "$$ROOT", "value": 9}}},
            {"$set": {"a": {"$literal": {FORBIDDEN: 1}}}},
        ]
    ),
)
BODIES: st.SearchStrategy[Any] = st.one_of(
    UPDATES,
    st.lists(STAGES, min_size=1, max_size=2),
    st.lists(
        st.tuples(st.sampled_from(["1", "new"]), FIELDS).map(lambda p: {"_id": p[0], **p[1]}),
        max_size=2,
    ),
)
MODES = st.lists(
    st.tuples(
        st.sampled_from(["wm", "writeMode"]),
        st.sampled_from(["upsert", "UPSERT", "update", "insert", "Upsert", "nonsense"]),
    ),
    max_size=2,
)
CONDITIONS = st.sampled_from(
    [
        {FORBIDDEN: 9},
        {FORBIDDEN: {"$eq": 9}},
        {FORBIDDEN: {"$in": [9]}},
        {f"{FORBIDDEN}.x": 9},
        {"$and": [{"$and": [{FORBIDDEN: 9}]}]},
        {"$or": [{FORBIDDEN: 9}]},
        {FORBIDDEN: {"$all": [9]}},
        {FORBIDDEN: {"$gt": 0}, "a": 1},
        {"a": 1},
    ]
)
CONDITION_PARAMETERS = st.lists(
    st.tuples(st.sampled_from(["filter", "shardkey"]), CONDITIONS.map(json.dumps)), max_size=2
)
CONTENT_TYPES = st.sampled_from(
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/hal+json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "",
    ]
)


def encode_body(body: Any, content_type: str) -> bytes:
    """The body as the content type has it; forms hold what they can."""
    kind = content_type.partition(";")[0].lower()
    flat = body if isinstance(body, dict) else {}
    if kind == "application/x-www-form-urlencoded":
        return urlencode({key: json.dumps(value) for key, value in flat.items()}).encode()
    if kind == "multipart/form-data":
        part = '--x\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
        parts = "".join(part.format(key, json.dumps(value)) for key, value in flat.items())
        return f"{parts}--x--\r\n".encode()
    return json.dumps(body).encode()


PLACES = st.sampled_from(
    [
        ("PATCH", "/box/1"),
        ("PATCH", "/box/new"),
        ("PUT", "/box/1"),
        ("PUT", "/box/new"),
        ("POST", "/box"),
        ("PATCH", "/box/*"),
    ]
)
HARMLESS_BODIES: st.SearchStrategy[Any] = st.sampled_from([{"a": 1}, {"$set": {"a": 1}}])


@st.composite
def writes(draw: st.DrawFn) -> tuple[str, str, Document]:
    """A write that is hostile in one place, so that the rest of it does not get it refused."""
    if draw(st.booleans()):
        body, query = draw(BODIES), draw(MODES)
        method, path = draw(PLACES)
        content_type = draw(CONTENT_TYPES)
    else:
        body, query = draw(HARMLESS_BODIES), [("wm", "upsert"), *draw(CONDITION_PARAMETERS)]
        method, path = "PATCH", "/box/new"
        content_type = "application/json"
    headers = {"content-type": content_type} if content_type else {}
    return (
        method,
        path,
        {
            "query": query,
            "body": encode_body(body, content_type),
            "headers": headers,
        },
    )


def find_all(service: Service) -> dict[Any, Document]:
    return {one["_id"]: one for one in service.mongo[service.db]["box"].find()}


@pytest.mark.parametrize(
    "rule",
    [
        f"bson-request-blacklist({FORBIDDEN})",
        "bson-request-whitelist(_id, a, b)",
        f"not bson-request-contains({FORBIDDEN})",
    ],
)
@generated
@given(request=writes())
async def test_what_a_rule_does_not_let_write_is_not_written(
    service: Service, rule: str, request: tuple[str, str, Document]
) -> None:
    await keep_rule(service, f"path-prefix('/box') and {rule}")
    restore(service, "box", {"_id": "1", "a": 1, FORBIDDEN: {"x": 7}}, {"_id": "2", FORBIDDEN: 8})
    before = find_all(service)
    method, path, details = request

    reply = await send(service, method, path, details)

    for id, document in find_all(service).items():
        old = before.get(id)
        if document == old:
            continue
        # A replacement leaves out what it does not name: that is no value of the caller's.
        replaced = method in ("PUT", "POST") and FORBIDDEN not in document
        expected = None if old is None or replaced else old.get(FORBIDDEN)
        assert document.get(FORBIDDEN) == expected, (reply.status, document)


@generated
@given(request=writes())
async def test_what_a_rule_demands_to_be_stored_is_stored(
    service: Service, request: tuple[str, str, Document]
) -> None:
    rule = "bson-request-prop-equals(key=a, value=1)"
    await keep_rule(service, f"path-prefix('/box') and {rule}")
    restore(service, "box", {"_id": "1", "a": 5}, {"_id": "2", "a": 5})
    before = find_all(service)
    method, path, details = request

    reply = await send(service, method, path, details)

    changed = [one for id, one in find_all(service).items() if one != before.get(id)]
    assert all(one.get("a") == 1 for one in changed), (reply.status, changed)


# --- reading --------------------------------------------------------------------------------------

PATHS = st.sampled_from(
    ["", "", "", "/1", "/_size", "/_SIZE", "/_aggrs/all", "/_AGGRS/all", "/_indexes"]
)
HIDDEN = ["secret", "secret.x", "$secret", "$$ROOT", "- secret", "-secret", "n"]
FILTERS = st.sampled_from(
    [
        {"secret": 1},
        {"secret": {"$gt": 1}},
        {"$or": [{"secret": 1}, {"n": 99}]},
        {"$expr": {"$eq": ["$secret", 1]}},
        {"$nor": [{"secret": 1}]},
        {"n": {"$not": {"$gt": 5}}},
        {"$and": [{"$expr": {"$gt": [{"$getField": "secret"}, 1]}}]},
        {"$jsonSchema": {"properties": {"secret": {"minimum": 2}}}},
        {"$comment": "x", "n": 1},
        {"n": 1},
    ]
)
PROJECTIONS = st.sampled_from(
    [
        {"secret": 1},
        {"x": "$secret"},
        {"x": {"$add": ["$secret", 0]}},
        {"n": 1},
        {"secret": 0},
        {"secret": {"$slice": 1}},
        {"x": "$$ROOT"},
        {"x": {"$meta": "sortKey"}},
    ]
)
SORTS = st.sampled_from(
    [
        *HIDDEN,
        '{"secret": 1}',
        '{"n": 1, "secret": -1}',
        "[x",
        "{",
        '{"x": {"$meta": "sortKey"}}',
        " secret",
    ]
)
HOSTILE = st.one_of(
    st.tuples(st.sampled_from(["filter", "shardkey"]), FILTERS.map(json.dumps)),
    st.tuples(st.just("keys"), PROJECTIONS.map(json.dumps)),
    st.tuples(st.sampled_from(["sort", "sort_by"]), SORTS),
    st.tuples(st.just("hint"), st.sampled_from(["by_secret", '{"secret": 1}', "-secret", "_id_"])),
)
BESIDE = st.sampled_from(
    [
        ("count", "true"),
        ("after", ""),
        ("pagesize", "1"),
        ("page", "2"),
        ("jsonMode", "strict"),
        ("id_type", "NULL"),
        ("sort", "[x"),
        ("filter", "{"),
    ]
)
READING = st.tuples(st.lists(HOSTILE, min_size=1, max_size=2), st.lists(BESIDE, max_size=1)).map(
    lambda parts: [*parts[0], *parts[1]]
)
SHOWN = st.sampled_from([{"secret": 0}, {"n": 1}, {"n": 1, "_id": 1}, {"_id": 1}])


def describe(reply: Reply, collection: str) -> tuple[Any, ...]:
    """All that a caller gets, without the name of the collection."""
    headers = {
        name: value
        for name, value in reply.headers.items()
        if name not in ("date", "etag", "x-request-id", "content-length", "server-timing")
    }
    return tuple(
        json.loads(
            json.dumps([reply.status, reply.text, headers]).replace(f"/{collection}", "/box")
        )
    )


@generated
@given(shown=SHOWN, path=PATHS, query=READING)
async def test_no_answer_depends_on_what_a_rule_hides(
    service: Service, shown: dict[str, int], path: str, query: list[tuple[str, str]]
) -> None:
    """Two collections that differ only in hidden values cannot be told from each other."""
    await remove_rules(service)
    for name, secrets in (("left", (1, 2, 3)), ("right", (3, 1, 1))):
        await allow(
            service, f"path-prefix('/{name}')", "user", mongo={"projectResponse": shown, **FLAGS}
        )
        restore(
            service,
            name,
            *({"_id": str(n), "n": n, "secret": one} for n, one in enumerate(secrets, 1)),
        )

    left = await send(service, "GET", f"/left{path}", {"query": query})
    right = await send(service, "GET", f"/right{path}", {"query": query})

    assert describe(left, "left") == describe(right, "right")


# --- ids ------------------------------------------------------------------------------------------

DOCUMENTS: list[Document] = [
    {"_id": "5", "n": 0},
    {"_id": 5, "n": 0},
    {"_id": None, "n": 0},
    {"_id": MinKey(), "n": 0},
    {"_id": True, "n": 0},
    {"_id": ObjectId("5" * 24), "n": 0},
    {"_id": "5" * 24, "n": 0},
]


@pytest.mark.parametrize(
    "rule",
    [
        "path-template('/box/{id}') and equals(@user._id, ${id})",
        "path-template('/box/{id}') and equals(%u, ${id})",
        "regex('^/box/([^/]+)$') and equals(@user._id, ${1})",
        "equals(@request._id, @user._id)",
    ],
)
@generated
@given(
    name=st.sampled_from(["5", "5" * 24]),
    segment=st.sampled_from(["5", "5" * 24, "_null", "_true", "_MinKey", "5.0", "05", "%35", "x"]),
    id_type=st.sampled_from(
        ["", "STRING", "OID", "NUMBER", "number", "NULL", "MINKEY", "MAXKEY", "BOOLEAN", "DATE"]
    ),
    method=st.sampled_from(["GET", "PATCH", "DELETE"]),
)
async def test_a_rule_and_the_service_mean_the_same_document(
    service: Service, rule: str, name: str, segment: str, id_type: str, method: str
) -> None:
    await keep_rule(service, rule)
    restore(service, "box", *(dict(one) for one in DOCUMENTS))
    query = f"?id_type={id_type}" if id_type else ""
    body = {"json": {"n": 1}} if method == "PATCH" else {}

    reply = await service.request(
        method, f"/box/{segment}{query}", headers=caller(name, "user"), **body
    )

    own = service.mongo[service.db]["box"].find({"_id": {"$ne": name}}, {"_etag": 0})
    kept = {bytes(BSON.encode(one)) for one in own}
    assert kept == {bytes(BSON.encode(one)) for one in DOCUMENTS if one["_id"] != name}
    if method == "GET" and reply.status == 200:
        assert reply.json["_id"] == name
