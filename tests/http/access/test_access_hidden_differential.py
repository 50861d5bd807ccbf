"""Two collections that differ only in what is hidden answer every request alike.

Requests are made up at random, reads and writes, by every parameter and operator. Where the answers
differ, or what is shown afterwards, the one who asks has learned something that is hidden. Hidden
values have the same types in both: an update that fails tells those (`$push` to a text).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from tests.chance import IS_LONG
from tests.http.access_harness import ADMIN, NOBODY, allow, guarded, remove_rules, restore
from tests.http.harness import Document, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

REQUESTS = 300 if IS_LONG else 75
LEFT, RIGHT = "left", "twin"  # names of equal length, so that answers are, too


def person(id: int, name: str, city: str, hidden: tuple[Any, ...]) -> Document:
    email, number, street, tags, inner = hidden
    home = {"city": city, "street": street}
    parts = [{"a": id, "b": inner}]
    return {
        "_id": id,
        "name": name,
        "email": email,
        "n": number,
        "home": home,
        "tags": tags,
        "l": parts,
    }


DATA = {
    LEFT: [
        person(1, "Ann", "X", ("z", 5, "S1", ["a"], 1)),
        person(2, "Bob", "Y", ("m", 7, "S2", ["b", "c"], 9)),
        person(3, "Cid", "Z", ("a", 2**31 - 1, "S3", ["d", "e", "f"], 4)),
    ],
    RIGHT: [
        person(1, "Ann", "X", ("a", 9, "T1", ["x", "y"], 7)),
        person(2, "Bob", "Y", ("zz", 1, "T2", ["u", "v", "w"], 0)),
        person(3, "Cid", "Z", ("m", 3, "T3", ["q"], 2)),
    ],
}
SHOWN: tuple[dict[str, int], ...] = (
    {"name": 1},
    {"_id": 1, "name": 1, "home.city": 1},
    {"email": 0, "n": 0, "home.street": 0, "tags": 0, "l": 0},
    {"_id": 1, "name": 1, "l.a": 1},
    {"email": 0, "n": 0, "home.street": 0, "tags": 0, "l.b": 0},
)
PATHS = (
    *("name", "email", "n", "home", "home.city", "home.street", "home.0.city", "tags", "tags.0"),
    *("l", "l.a", "l.b", "l.0.b", "_id", "_etag", "home.city.x", "name.0", "name.$"),
)
VALUES: tuple[Any, ...] = (
    *("a", "m", "z", "Ann", "S1", "X", 5, 1, None, [], {"city": "X", "street": "S1"}),
    *({"$gt": "b"}, {"$gt": 2}, {"$exists": True}, {"$type": "string"}, {"$regex": "^a"}),
    *({"$in": ["a", "Ann", 1]}, {"$size": 0}, {"$elemMatch": {"b": {"$gt": 5}}}, {"$ne": None}),
    *({"$not": {"$gt": 4}}, {"$eq": "z"}, {"$gte": {"city": "X", "street": "S2"}}),
    *({"$all": ["a"]}, {"$mod": [2, 1]}),
)
WHOLE: tuple[Document, ...] = (
    {"$expr": {"$gt": ["$email", {"$literal": "b"}]}},
    {"$expr": {"$gt": ["$home", {"$literal": {}}]}},
    {"$expr": {"$gt": ["$name", {"$literal": "B"}]}},
    {"$jsonSchema": {"required": ["email"]}},
    {"$jsonSchema": {"properties": {"email": {"pattern": "^z"}}}},
    {"$where": "this.email > 'b'"},
)
OPERANDS: dict[str, tuple[Any, ...]] = {
    "$set": ("q", 1),
    "$unset": (1,),
    "$inc": (1, 2**31, 1.5),
    "$mul": (2, 1e300),
    "$min": (3, "b"),
    "$max": (6, "b", {"city": "X", "street": "S9"}),
    "$push": ({"$each": [{"a": 0}], "$sort": {"b": 1}}, {"$each": [1], "$slice": 1}),
    "$pull": ("a", {"b": 1}, {"$gt": "a"}),
    "$addToSet": ("a", {"a": 1, "b": 1}),
    "$pop": (1, -1),
    "$rename": ("name", "other"),
    "$bit": ({"and": 1},),
}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    loose = {"filterOperatorsBlacklist": {"enabled": False}}
    async with guarded(mongo_client, mongo_uri, loose) as one:
        for name in DATA:
            assert (await one.request("PUT", f"/{name}", headers=ADMIN)).status == 201
            one.mongo[one.db][name].create_index("email")
            one.mongo[one.db][name].create_index("n")
        yield one


def make_filter(random: Random, depth: int = 0) -> Document:
    if depth < 2 and random.random() < 0.2:
        branches = [make_filter(random, depth + 1) for _ in range(random.choice([1, 2]))]
        return {random.choice(["$and", "$or", "$nor"]): branches}
    if random.random() < 0.15:
        return random.choice(WHOLE)
    return {random.choice(PATHS): random.choice(VALUES)}


def make_update(random: Random) -> Document:
    operator = random.choice(list(OPERANDS))
    path = random.choice([path for path in PATHS if path[0] != "_"])
    return {operator: {path: random.choice(OPERANDS[operator])}}


def make_read(random: Random) -> tuple[str, str, Document, Any]:
    query: Document = {"pagesize": random.choice([1, 2, 10])}
    if random.random() < 0.5:
        query["sort"] = random.choice(["", "-"]) + random.choice(PATHS)
    if random.random() < 0.3:
        computed: Any = random.choice(
            [1, 0, "$email", {"$slice": 1}, {"$elemMatch": {"b": 1}}, {"$meta": "indexKey"}]
        )
        query["keys"] = {random.choice(PATHS): computed}
    if random.random() < 0.3:
        query["after"] = ""
    if random.random() < 0.2:
        query["count"] = random.choice(["exact", "estimated"])
    if random.random() < 0.2:
        query["hint"] = random.choice(["email_1", {"n": 1}, {"$natural": -1}])
    return "GET", random.choice(["", "", "/_size", "/1"]), query, None


def make_write(random: Random) -> tuple[str, str, Document, Any]:
    one = f"/{random.choice([1, 2, 3])}"
    several = [{"_id": 1, "name": "k"}, {"_id": 9, "name": "j"}]
    mode = random.choice(["insert", "update", "upsert"])
    choices: list[tuple[str, str, Document, Any]] = [
        ("PATCH", one, {}, make_update(random)),
        ("PATCH", "/*", {"filter": {"name": "Ann"}}, make_update(random)),
        ("DELETE", "/*", {"filter": {"name": "Ann"}}, None),
        ("PUT", one, {}, {"name": "x"}),
        ("DELETE", one, {}, None),
        ("POST", "", {"wm": mode}, random.choice([several[0], several])),
    ]
    return random.choice(choices)


async def send(
    service: Service, name: str, request: tuple[str, str, Document, Any]
) -> tuple[int, str]:
    method, path, parameters, body = request
    texts = {
        key: one if isinstance(one, str) else json.dumps(one) for key, one in parameters.items()
    }
    query = "&".join(f"{key}={quote(text)}" for key, text in texts.items())
    options = {} if body is None else {"json": body}
    target = f"/{name}{path}?{query}"
    reply = await service.request(method, target, headers=NOBODY, **options)
    told = {key: reply.headers.get(key) for key in ("link", "x-total-count", "location", "etag")}
    text = f"{reply.text} {told}".replace(name, "c")
    return reply.status, re.sub(r"[0-9a-f]{24}", "etag", text)


def reset(service: Service) -> None:
    for name, documents in DATA.items():
        restore(service, name, *documents)


@pytest.mark.parametrize("shown", SHOWN, ids=str)
async def test_answers_do_not_depend_on_what_is_hidden(
    server: Service, shown: dict[str, int]
) -> None:
    await remove_rules(server)
    flags = {"allowBulkPatch": True, "allowBulkDelete": True, "allowWriteMode": True}
    mongo = {"projectResponse": shown, **flags}
    for name in DATA:
        await allow(server, f"path-prefix('/{name}')", "$unauthenticated", mongo=mongo)
    reset(server)
    random, answered = Random(str(shown)), 0
    for _ in range(REQUESTS):
        method, path, parameters, body = random.choice([make_read, make_write])(random)
        if random.random() < 0.7:
            parameters["filter"] = make_filter(random)
        if path[1:].isdigit():
            parameters["id_type"] = "NUMBER"
        request = (method, path, parameters, body)
        replies = [await send(server, name, request) for name in DATA]
        assert replies[0] == replies[1], request
        answered += replies[0][0] < 300
        if method != "GET":
            everything = ("GET", "", {"pagesize": 50, "sort": {"$natural": 1}}, None)
            seen = [await send(server, name, everything) for name in DATA]
            assert seen[0] == seen[1], request
            reset(server)
    assert answered > REQUESTS / 10  # or nothing would have been tried
