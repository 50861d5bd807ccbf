"""The REST API from outside: requests and what comes back, written from its described behaviour.

A case is a list of requests; `{etag}` in a later one is the `ETag` of the answer before it. Every
case finds the collection `things` as `DOCUMENTS` says, and makes whatever else it needs itself.
The headings are the sections of the behaviour document. Decision 41.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from bson import Int64, ObjectId

from tests.http.harness import Mongo
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

ADA = "5f0000000000000000000001"
TAG = "5f00000000000000000000aa"
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": ObjectId(ADA), "name": "ada", "n": 1, "tags": ["x", "y"], "_etag": ObjectId(TAG)},
    {"_id": "two", "name": "bob", "n": 2, "sub": {"deep": 5}, "_etag": ObjectId(TAG)},
    {"_id": 3, "name": "cy", "n": 3, "_etag": ObjectId(TAG)},
    {"_id": "bare", "name": "dee", "n": 4},
]
HEX = re.compile(r"[0-9a-f]{24}")
ANY = "*"


@dataclass(frozen=True)
class Ask:
    """One request and what is expected of its answer.

    `message` is how the message of the error begins; `text` the whole body; `equals` the JSON;
    `has` some of its properties; `headers` some headers, `*` for any value, None for none.
    """

    method: str
    path: str
    status: int
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    send: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None
    text: str | None = None
    equals: Any = ...
    has: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)


def get(path: str, status: int = 200, **others: Any) -> Ask:
    return Ask("GET", path, status, **others)


def post(path: str, body: Any, status: int = 201, **others: Any) -> Ask:
    return Ask("POST", path, status, body, **others)


def put(path: str, body: Any = None, status: int = 200, **others: Any) -> Ask:
    return Ask("PUT", path, status, body, **others)


def patch(path: str, body: Any, status: int = 200, **others: Any) -> Ask:
    return Ask("PATCH", path, status, body, **others)


def delete(path: str, status: int = 204, **others: Any) -> Ask:
    return Ask("DELETE", path, status, **others)


def refused(parameter: str, value: str, message: str) -> list[Ask]:
    """A bad parameter of a collection, and its message."""
    return [get("/things", 400, query={parameter: value}, message=message)]


RESOURCES: dict[str, list[Ask]] = {
    # --- 1.1 --------------------------------------------------------------------------------------
    "special names are exact": [
        get("/things/_size", equals={"_size": 4}),
        get("/things/_SIZE", 403, message="reserved resource: _size is written in lower case"),
        get(
            "/things/_Indexes", 403, message="reserved resource: _indexes is written in lower case"
        ),
        get("/things/_AGGRS/x", 404),
    ],
    "malformed avars are 400 at every resource": [
        *(
            get(path, 400, query={"avars": avars}, message="illegal avars parameter")
            for avars in ("{", "[1]", '{"$x":1}')
            for path in (
                *("/", "/_size", "/_meta", "/things", "/things/_size", "/things/_meta"),
                *("/things/two", "/things/_indexes", "/things/_aggrs/x", "/_schemas"),
            )
        ),
        post("/things", {}, 400, query={"avars": "{"}),
        put("/things/two", {}, 400, query={"avars": "{"}),
        get("/things", query={"avars": '{"x": 1}'}),
    ],
    "an order that is an array is 400": [
        *refused("sort", "[1]", "Invalid sort parameter"),
        *refused("sort", '[{"x":1}]', "Invalid sort parameter"),
    ],
    "an aggregation without a name takes no method": [
        get("/things/_aggrs", 405, message="method GET not allowed"),
    ],
    "post on a document is not allowed": [
        post("/things/two", {}, 405, message="method POST not allowed", headers={"allow": ANY})
    ],
    "get of the bulk resource is not allowed": [
        get("/things/*", 405, query={"filter": '{"n":1}'}, message="method GET not allowed")
    ],
    "put of a size is not allowed": [put("/things/_size", {}, 405)],
    "patch of a schema is not allowed": [
        put("/_schemas", None, 201),
        patch("/_schemas/x", {"a": 1}, 405),
    ],
    "head answers like get without a body": [
        Ask("HEAD", "/things/two", 200, text="", headers={"etag": TAG, "content-length": ANY}),
        Ask("HEAD", "/things/nobody", 404, text=""),
    ],
    "trailing slashes are ignored": [get("/things/two/", has={"name": "bob"})],
    "a path bound to nothing is 404": [get("/things/a/b/c/d", 404, message="No MongoDB resource")],
    "options tells the methods": [
        Ask("OPTIONS", "/things", 200, headers={"allow": ANY, "access-control-allow-methods": ANY})
    ],
    "sessions are not supported": [Ask("POST", "/_sessions", 501)],
    # --- 1.2 --------------------------------------------------------------------------------------
    "24 hexadecimal digits are an ObjectId": [get(f"/things/{ADA}", has={"name": "ada"})],
    "id_type=STRING takes them as text": [get(f"/things/{ADA}", 404, query={"id_type": "STRING"})],
    "id_type=OID wants an ObjectId": [
        get(
            "/things/two",
            400,
            query={"id_type": "oid"},
            message="wrong document id format: not a valid OID",
        )
    ],
    "id_type=NUMBER finds numbers": [
        get("/things/3", query={"id_type": "number"}, has={"name": "cy"}),
        get("/things/3", 404),
        get("/things/x", 400, query={"id_type": "NUMBER"}, message="wrong document id format"),
    ],
    "an unknown id_type names all of them": [
        get(
            "/things/3",
            400,
            query={"id_type": "INT"},
            message="illegal id_type parameter; must be [OID, STRING_OID, STRING, NUMBER, DATE, "
            "MINKEY, MAXKEY, NULL, BOOLEAN, UUID, UUID_LEGACY, DECIMAL, TIMESTAMP, BINARY]",
        )
    ],
    "a null id has a name of its own": [
        post("/things", {"_id": None, "v": 1}, headers={"location": "http://test/things/_null"}),
        get("/things/_NULL", has={"v": 1}),
    ],
    "boolean and extreme ids too": [
        post("/things", {"_id": True}, headers={"location": "http://test/things/_true"}),
        post(
            "/things", '{"_id": {"$minKey": 1}}', headers={"location": "http://test/things/_MinKey"}
        ),
        get("/things/_minkey"),
        get("/things/anything", query={"id_type": "MINKEY"}),
        get("/things/_true", query={"id_type": "BOOLEAN"}),
    ],
    "a number or date id gets its id_type in Location": [
        post("/things", {"_id": 7}, headers={"location": "http://test/things/7?id_type=NUMBER"}),
        post(
            "/things",
            '{"_id": {"$date": 1000}, "v": 9}',
            headers={"location": "http://test/things/1000?id_type=DATE"},
        ),
        get("/things/1000", query={"id_type": "DATE"}, has={"v": 9}),
    ],
    "a UUID gets its id_type in Location": [
        post(
            "/things",
            '{"_id": {"$uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"}, "v": 4}',
            headers={
                "location": "http://test/things/00010203-0405-0607-0809-0a0b0c0d0e0f?id_type=UUID"
            },
        ),
        post(
            "/things",
            '{"_id": {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "03"}}, "v": 3}',
            headers={
                "location": "http://test/things/00010203-0405-0607-0809-0a0b0c0d0e0f"
                "?id_type=UUID_LEGACY"
            },
        ),
        get("/things/000102030405060708090a0b0c0d0e0f", query={"id_type": "UUID"}, has={"v": 4}),
        get(
            "/things/00010203-0405-0607-0809-0a0b0c0d0e0f",
            query={"id_type": "uuid_legacy"},
            has={"v": 3},
        ),
        get("/things/00010203-0405-0607-0809-0a0b0c0d0e0f", 404),
        get("/things/5", 400, query={"id_type": "UUID"}),
    ],
    "a decimal, a timestamp and binary data get their id_type in Location": [
        post(
            "/things",
            '{"_id": {"$numberDecimal": "1.10"}, "v": 6}',
            headers={"location": "http://test/things/1.10?id_type=DECIMAL"},
        ),
        get("/things/1.10", query={"id_type": "DECIMAL"}, has={"v": 6}),
        post(
            "/things",
            '{"_id": {"$timestamp": {"t": 17, "i": 2}}, "v": 7}',
            headers={"location": "http://test/things/17:2?id_type=TIMESTAMP"},
        ),
        get("/things/17:2", query={"id_type": "TIMESTAMP"}, has={"v": 7}),
        post(
            "/things",
            '{"_id": {"$binary": {"base64": "//79AA==", "subType": "00"}}, "v": 8}',
            headers={"location": "http://test/things/%2F%2F79AA%3D%3D?id_type=BINARY"},
        ),
        get("/things/%2F%2F79AA%3D%3D", query={"id_type": "BINARY"}, has={"v": 8}),
    ],
    "a text that looks like an ObjectId keeps its type": [
        post(
            "/things",
            {"_id": "5f00000000000000000000ff"},
            headers={"location": "http://test/things/5f00000000000000000000ff?id_type=STRING"},
        )
    ],
    "an encoded slash belongs to the id": [
        put("/things/a%2Fb", {"v": 1}, 201, query={"wm": "upsert"}),
        get("/things/a%2Fb", has={"_id": "a/b", "v": 1}),
    ],
    "an id cannot be an array": [
        post(
            "/things",
            {"_id": [1]},
            400,
            message="the type of _id in request data is not supported: ARRAY",
        )
    ],
    "an id that is a document has no path": [
        post("/things", {"_id": {"a": 1}, "v": 5}, headers={"location": None}),
        get(
            "/things",
            query={"filter": '{"_id":{"a":1}}', "keys": '{"v":1,"_id":0}'},
            equals=[{"v": 5}],
        ),
    ],
    "without an id another id_type is refused": [
        post(
            "/things",
            {},
            400,
            query={"id_type": "NUMBER"},
            message="_id in content body is mandatory for documents with id type NUMBER",
        ),
        post(
            "/things",
            [{"_id": 9}, {}],
            400,
            query={"id_type": "NUMBER"},
            has={"details": {"index": 1}},
        ),
    ],
    # --- 1.3 --------------------------------------------------------------------------------------
    "reserved collections": [
        get("/system.users", 403, message="reserved resource"),
        get("/x.chunks", 403, message="reserved resource"),
        get("/_properties", 403, message="reserved resource"),
        get("/%5Fproperties", 403, message="reserved resource"),
        put("/system.mine", None, 403, message="reserved resource"),
    ],
    "reserved document ids": [
        get("/things/_properties", 403, message="reserved resource"),
        get("/things/_properties.x", 403, message="reserved resource"),
        post("/things", {"_id": "_properties"}, 403),
        post("/things", [{"_id": "_properties.x"}], 403, message="id is reserved: _properties.x"),
    ],
    "illegal collection names": [put("/a$b", None, 400, message="illegal collection name")],
    "patch of a collection with an underscore": [
        patch(
            "/_mine",
            {"a": 1},
            400,
            message="wrong request, collection name cannot be empty or start with _",
        )
    ],
    "index names cannot begin with an underscore": [
        put(
            "/things/_indexes/_x", {"keys": {"n": 1}}, 400, message="index name cannot start with _"
        )
    ],
    # --- 1.4 --------------------------------------------------------------------------------------
    "the default mount lists collections at the root": [
        get("/", headers={"content-type": "application/json; charset=utf-8"}),
        get("/_size"),
    ],
}

READS: dict[str, list[Ask]] = {
    # --- 2.1 --------------------------------------------------------------------------------------
    "page is a number": refused("page", "x", "illegal page parameter, it is not a number"),
    "page can be reached": refused(
        "page", "999999999999999999", "illegal page parameter, it is too large"
    ),
    "page is at least 1": refused("page", "0", "illegal page parameter, it is < 1"),
    "pagesize is a number": refused(
        "pagesize", "x", "illegal pagesize parameter, it is not a number"
    ),
    "pagesize is bounded": refused(
        "pagesize", "1001", "illegal pagesize parameter, pagesize must be >= 0 and <= 1000"
    ),
    "pagesize is not negative": refused("pagesize", "-1", "illegal pagesize parameter, pagesize"),
    "filter is not empty": refused("filter", "", "illegal filter parameter (empty)"),
    "filter is not an empty object": refused(
        "filter", "{}", "illegal filter parameter (empty json object)"
    ),
    "filter is an object": refused(
        "filter", '"x"', "illegal filter parameter, it is not a json object: 'x' => String"
    ),
    "filter is JSON": refused("filter", "{n:", "illegal filter parameter: {n:, "),
    "sort is not empty": refused("sort", "", "Illegal sort parameter"),
    "sort is JSON": refused("sort", "{n:", "Invalid sort parameter"),
    "sort is 1 or -1": refused(
        "sort", "{n:2}", "Wrong sort parameter, key ordering must be 1 (for ascending) or -1"
    ),
    "keys is not empty": refused("keys", "", "illegal keys parameter (empty)"),
    "keys is an object": refused(
        "keys", "[1]", "illegal keys parameter, it is not a json object: [1]"
    ),
    "keys is JSON": refused("keys", "{n", "illegal keys parameter: {n"),
    "hint is not empty": refused("hint", "", "illegal hint parameter"),
    "shardkey is not empty": refused("shardkey", "", "illegal shardkey parameter (empty)"),
    "shardkey is an object": refused("shardkey", "x", "illegal shardkey parameter: x"),
    "keys cannot mix": [get("/things", 400, query={"keys": '{"a":1,"b":0}'}, message="")],
    "an unknown operator is a mistake of the caller": [
        get("/things", 400, query={"filter": '{"n":{"$foo":1}}'})
    ],
    "a text search without a text index is a mistake of the caller": [
        get(
            "/things",
            400,
            query={"filter": '{"$text":{"$search":"x"}}'},
            message="the filter needs",
        ),
    ],
    "$where is forbidden": [
        get("/things", 403, query={"filter": '{"$where":"1"}'}),
        get("/things", 403, query={"filter": '{"$or":[{"$where":"1"}]}'}),
    ],
    "newest first, unless sort is empty": [
        get(
            "/things",
            query={"keys": '{"n":1,"_id":0}'},
            equals=[{"n": 1}, {"n": 2}, {"n": 4}, {"n": 3}],
        ),
        get("/things", query={"sort": "{}", "pagesize": "2"}),
    ],
    "sort by name, sign and object": [
        get(
            "/things",
            query={"sort": "n", "keys": '{"n":1,"_id":0}', "pagesize": 2},
            equals=[{"n": 1}, {"n": 2}],
        ),
        get(
            "/things",
            query={"sort": "-n", "keys": '{"n":1,"_id":0}', "pagesize": 1},
            equals=[{"n": 4}],
        ),
        get("/things?sort=+n&pagesize=1&keys={'n':1,'_id':0}", equals=[{"n": 1}]),
        get(
            "/things",
            query={"sort": "{'n':-1}", "pagesize": 1, "keys": '{"n":1,"_id":0}'},
            equals=[{"n": 4}],
        ),
        get(
            "/things",
            query={"sort": "n", "sort_by": "-n", "pagesize": 1, "keys": '{"n":1,"_id":0}'},
            equals=[{"n": 4}],
        ),
    ],
    "filters are combined": [
        get(
            "/things?filter={'n':{'$gt':1}}&filter={'n':{'$lt':3}}&keys={'n':1,'_id':0}",
            equals=[{"n": 2}],
        )
    ],
    "dotted names": [
        get(
            "/things",
            query={"filter": "{'sub.deep':5}", "keys": "{'sub.deep':1,'_id':0}"},
            equals=[{"sub": {"deep": 5}}],
        )
    ],
    "filter and keys of one document": [
        get("/things/two", query={"keys": "{'n':1}"}, equals={"_id": "two", "n": 2}),
        get("/things/two", 404, query={"filter": "{'n':1}"}),
    ],
    # --- 2.2 --------------------------------------------------------------------------------------
    "past the last page there is nothing": [get("/things", query={"page": 9}, equals=[])],
    "a page of size 0": [get("/things", query={"pagesize": 0}, equals=[])],
    "a missing document is named": [
        get("/things/nobody", 404, message="document 'nobody' does not exist"),
        get(
            "/things/5f0000000000000000000009",
            404,
            message="document 5f0000000000000000000009 does",
        ),
    ],
    "a missing collection is named": [
        get("/nowhere", 404, message="Collection 'nowhere' does not exist"),
        get("/nowhere/x", 404, message="Collection 'nowhere' does not exist"),
        post("/nowhere", {}, 404, message="Collection 'nowhere' does not exist"),
        get("/nowhere/_size", 404),
        get("/nowhere/_indexes", 404),
    ],
    "a size respects the filter": [
        get("/things/_size", query={"filter": "{'n':{'$gt':2}}"}, equals={"_size": 2})
    ],
    "metadata that is not defined": [
        get("/things/_meta", 404, message="resource _meta is not defined for this collection.")
    ],
    "a count in the headers": [
        get(
            "/things",
            query={"count": ""},
            headers={"x-total-count": "4", "x-count-strategy": "exact"},
        ),
        get(
            "/things",
            query={"count": "estimated"},
            headers={"x-total-count": "4", "x-count-strategy": "estimated"},
        ),
        get(
            "/things",
            query={"count": "estimated", "filter": "{'n':1}"},
            headers={"x-total-count": "1", "x-count-strategy": "exact"},
        ),
        get("/things", headers={"x-total-count": None, "x-count-strategy": None}),
    ],
    # --- 2.4 --------------------------------------------------------------------------------------
    "values in every mode": [
        put(
            "/things/v",
            "{i:1,l:{$numberLong:'5000000000'},d:1.0,t:{$date:0}}",
            201,
            query={"wm": "upsert"},
        ),
        get(
            "/things/v",
            query={"keys": "{i:1,l:1,d:1,t:1,_id:0}"},
            text='{"i":1,"l":5000000000,"d":1.0,"t":{"$date":0}}',
        ),
        get(
            "/things/v",
            query={"keys": "{i:1,l:1,d:1,t:1,_id:0}", "jsonMode": "strict"},
            text='{"i":1,"l":{"$numberLong":"5000000000"},"d":1.0,"t":{"$date":0}}',
        ),
        get(
            "/things/v",
            query={"keys": "{i:1,d:1,t:1,_id:0}", "jsonMode": "EXTENDED"},
            text='{"i":{"$numberInt":"1"},"d":{"$numberDouble":"1.0"},"t":{"$date":{"$numberLong":"0"}}}',
        ),
        get(
            "/things/v",
            query={"keys": "{t:1,_id:0}", "jsonMode": "relaxed"},
            text='{"t":{"$date":"1970-01-01T00:00:00Z"}}',
        ),
        get(
            "/things/v",
            query={"keys": "{l:1,t:1,_id:0}", "jsonMode": "shell"},
            text='{"l":NumberLong("5000000000"),"t":ISODate("1970-01-01T00:00:00Z")}',
        ),
        get("/things/v", query={"jsonMode": "unheard-of"}, has={"i": 1}),
    ],
    # --- 2.5 --------------------------------------------------------------------------------------
    "a known etag is 304": [
        get("/things/two", 304, send={"If-None-Match": TAG}, text="", headers={"etag": TAG}),
        get("/things/two", 304, send={"If-None-Match": f'W/"{TAG}"'}),
        get("/things/two", 304, send={"If-None-Match": f'"x", "{TAG}"'}),
        get("/things/two", 304, send={"If-None-Match": "*"}),
        get("/things/two", 200, send={"If-None-Match": ADA}),
        get("/things/bare", 200, send={"If-None-Match": TAG}, headers={"etag": None}),
    ],
}

WRITES: dict[str, list[Ask]] = {
    # --- 3.1 --------------------------------------------------------------------------------------
    "another content type is 415": [
        post(
            "/things",
            "a,b",
            415,
            send={"content-type": "text/csv"},
            message="Content-Type must be either: application/json or application/hal+json",
        )
    ],
    "hal and parameters of the type are taken": [
        post("/things", {}, send={"content-type": "application/hal+json"}),
        post("/things", {}, send={"content-type": "application/json; charset=utf-8"}),
    ],
    "no content type is JSON": [post("/things", '{"_id":"ct"}', send={"content-type": ""})],
    "forms": [
        post(
            "/things",
            "_id=form&n=5&s=text&o=%7B%22a%22%3A1%7D&blank=&n=6",
            send={"content-type": "application/x-www-form-urlencoded"},
        ),
        get("/things/form", has={"n": 5, "s": "text", "o": {"a": 1}, "blank": ""}),
        post(
            "/things",
            "o=%7B%22a",
            400,
            send={"content-type": "application/x-www-form-urlencoded"},
            message="Invalid JSON",
        ),
    ],
    "broken JSON is 400": [post("/things", '{"a":', 400, message="Invalid JSON. ")],
    "a scalar is 400": [
        post(
            "/things",
            "5",
            400,
            message="request data must be either a json object or an array, got INT32",
        )
    ],
    "an empty body is an empty document": [
        post("/things", "", headers={"location": ANY}),
        put("/things/two", ""),
        patch("/things/two", "", 400, message="no data provided"),
        patch("/things/two", "{}", 400, message="no data provided"),
    ],
    "arrays only where they mean something": [
        put("/things/two", [{}], 400, message="request content must be a Json object"),
        post(
            "/things",
            [1],
            400,
            message="request data must be either an json object or an array of objects",
        ),
        patch("/things/*", [{"$set": {"a": 1}}], 400, query={"filter": "{n:1}"}),
    ],
    "the body of a delete is ignored": [Ask("DELETE", "/things/two", 204, "{broken")],
    "lenient syntax": [
        post(
            "/things",
            "{_id:'len', a:'x', o:ObjectId('5f0000000000000000000001'),"
            " d:ISODate('1970-01-01T00:00:00Z'), l:NumberLong(7), i:2147483648, f:1.0,"
            " u:{$uuid:'00000000-0000-0000-0000-000000000000'}}",
        ),
        get(
            "/things/len",
            query={"jsonMode": "extended", "keys": "{_etag:0,u:0}"},
            text='{"_id":"len","a":"x","o":{"$oid":"5f0000000000000000000001"},"d":{"$date":'
            '{"$numberLong":"0"}},"l":{"$numberLong":"7"},"i":{"$numberLong":"2147483648"},'
            '"f":{"$numberDouble":"1.0"}}',
        ),
    ],
    # --- 3.2 --------------------------------------------------------------------------------------
    "post inserts, and an existing id is 409": [
        post(
            "/things",
            {"_id": "new"},
            text="",
            headers={"etag": ANY, "location": "http://test/things/new"},
        ),
        post("/things", {"_id": "new"}, 409, message=""),
    ],
    "post with wm=update replaces": [
        post("/things", {"_id": "two", "v": 1}, 200, query={"wm": "update"}),
        get("/things/two", query={"keys": "{_etag:0}"}, equals={"_id": "two", "v": 1}),
        post("/things", {"v": 1}, 400, query={"wm": "update"}),
        post("/things", {"_id": "gone"}, 404, query={"wm": "update"}),
    ],
    "post with wm=upsert does either": [
        post("/things", {"_id": "two", "v": 1}, 200, query={"writeMode": "UPSERT"}),
        post("/things", {"_id": "up", "v": 1}, 201, query={"wm": "upsert"}),
        post("/things", {"v": 1}, 201, query={"wm": "upsert"}),
    ],
    "put replaces and does not create": [
        put("/things/two", {"v": 1}, text="", headers={"etag": ANY}),
        get("/things/two", query={"keys": "{_etag:0}"}, equals={"_id": "two", "v": 1}),
        put("/things/gone", {"v": 1}, 404, has={"hint": "wm=upsert creates it"}),
        put("/things/gone", {"v": 1}, 201, query={"wm": "upsert"}),
        put("/things/gone", {"v": 1}, 409, query={"wm": "insert"}),
        put("/things/gone2", {"v": 1}, 201, query={"wm": "insert"}),
        put("/things/gone3", {"v": 1}, 404, query={"wm": "nonsense"}),
    ],
    "patch updates and does not create": [
        patch("/things/two", {"v": 1}),
        get("/things/two", has={"n": 2, "v": 1}),
        patch("/things/gone", {"v": 1}, 404),
        patch("/things/gone", {"v": 1}, 201, query={"wm": "upsert"}),
        patch("/things/gone", {"v": 1}, 409, query={"wm": "insert"}),
        patch("/things/gone2", {"$inc": {"n": 1}}, 201, query={"wm": "insert"}),
        get("/things/gone2", has={"n": 1}),
    ],
    "the filter of a write": [
        put("/things/two", {"v": 1}, 404, query={"filter": "{n:99}"}),
        put("/things/two", {"v": 1}, 409, query={"filter": "{n:99}", "wm": "upsert"}),
        patch("/things/two", {"v": 1}, 200, query={"filter": "{n:2}"}),
        delete("/things/two", 404, query={"filter": "{n:99}"}),
        delete("/things/two", 204, query={"filter": "{n:2}"}),
    ],
    # --- 3.3 --------------------------------------------------------------------------------------
    "dotted keys are unfolded": [
        post("/things", {"_id": "dot", "a.b": 1, "x.0": 1, "in": {"c.d": 1}}),
        get("/things/dot", query={"keys": "{a:1,x:1,_id:0}"}, equals={"a": {"b": 1}, "x": [1]}),
        post(
            "/things",
            {"a": 1, "a.0": 2},
            400,
            message="a field key using the dot notation points to a non-array value",
        ),
    ],
    "operators only in patch": [
        post(
            "/things",
            {"$inc": {"a": 1}},
            400,
            message="update operators (but $currentDate) cannot be used on POST and PUT requests",
        ),
        put("/things/two", {"$set": {"a": 1}}, 400),
        put("/things/two", {"$currentDate": {"at": True, "ts": {"$type": "timestamp"}}}),
        get("/things/two", has={}),
        put("/things/two", {"$currentDate": {"at": 1}}, 400, message="wrong $currentDate operator"),
    ],
    # --- 3.4 --------------------------------------------------------------------------------------
    "another id in the body": [
        put(
            "/things/two",
            {"_id": "x"},
            400,
            message="_id in content body is different than id in URL",
        ),
        patch(
            "/things/two",
            {"_id": "x", "a": 1},
            400,
            message="_id in json data cannot be different than id in URL",
        ),
        put("/things/two", {"_id": "two"}),
        put("/things/3", {"_id": 3}, query={"id_type": "NUMBER"}),
    ],
    "plain keys and operators of a patch": [
        patch(f"/things/{ADA}", {"name": "x", "$inc": {"n": 5}, "$push": {"tags": "z"}, "s.t": 1}),
        get(
            f"/things/{ADA}",
            query={"keys": "{_id:0,_etag:0}"},
            equals={"name": "x", "n": 6, "tags": ["x", "y", "z"], "s": {"t": 1}},
        ),
        patch(f"/things/{ADA}", {"tags.1": "w"}),
        get(f"/things/{ADA}", has={"tags": ["x", "w", "z"]}),
        patch(f"/things/{ADA}", {"$unset": {"tags": ""}}),
    ],
    "a pipeline renews the etag": [
        patch("/things/two", [{"$set": {"m": {"$add": ["$n", 1]}}}], headers={"etag": ANY}),
        get("/things/two", 304, send={"If-None-Match": "{etag}"}),
        get("/things/two", has={"m": 3}),
        patch("/things/two", [], 400, message="no data provided"),
    ],
    "conflicting operators are 400": [
        patch("/things/two", {"$set": {"a": 1}, "$unset": {"a": ""}}, 400),
        patch("/things/two", {"$set": {"a": 1, "a.b": 1}}, 400),
        patch("/things/two", {"$foo": {"a": 1}}, 400),
        patch("/things/two", {"$inc": {"name": 1}}, 400),
    ],
    # --- 3.5 --------------------------------------------------------------------------------------
    "delete": [
        delete("/things/two", text=""),
        delete("/things/two", 404),
        get("/things/two", 404),
    ],
    # --- 3.6 --------------------------------------------------------------------------------------
    "a right If-Match writes": [
        put("/things/two", {"v": 1}, send={"If-Match": TAG}),
        patch("/things/two", {"v": 2}, send={"If-Match": "{etag}"}),
        patch("/things/two", {"v": 3}, send={"If-Match": '"{etag}"'}),
        delete("/things/two", send={"If-Match": "{etag}"}),
    ],
    "a wrong If-Match is 412 with the present etag": [
        put("/things/two", {"v": 1}, 412, send={"If-Match": ADA}, text="", headers={"etag": TAG}),
        patch("/things/two", {"v": 1}, 412, send={"If-Match": ADA}, headers={"etag": TAG}),
        delete("/things/two", 412, send={"If-Match": ADA}, headers={"etag": TAG}),
        post("/things", {"_id": "two"}, 412, query={"wm": "upsert"}, send={"If-Match": ADA}),
        get("/things/two", has={"n": 2}),
    ],
    "checkEtag demands one": [
        put(
            "/things/two",
            {"v": 1},
            409,
            query={"checkEtag": ""},
            message="The document's ETag must be provided using the 'If-Match' header",
            headers={"etag": TAG},
        ),
        patch(
            "/things/two",
            {"v": 1},
            409,
            query={"checkETag": ""},
            message="The ETag must be provided using the 'If-Match' header",
        ),
        delete("/things/two", 409, query={"checkEtag": ""}),
        put("/things/bare", {"v": 1}, 200, query={"checkEtag": ""}),
        put("/things/fresh", {"v": 1}, 201, query={"checkEtag": "", "wm": "upsert"}),
    ],
    "a missing document is 404 whatever the etag": [
        put("/things/gone", {"v": 1}, 404, send={"If-Match": ADA}),
        delete("/things/gone", 404, send={"If-Match": ADA}),
    ],
    # --- 3.7 --------------------------------------------------------------------------------------
    "a bulk insert": [
        post(
            "/things",
            [{"_id": "b1"}, {"_id": 5}],
            200,
            has={
                "inserted": 2,
                "links": ["/things/b1", "/things/5?id_type=NUMBER"],
                "deleted": 0,
                "modified": 0,
                "matched": 0,
            },
            headers={"etag": ANY},
        ),
        get("/things/b1", 304, send={"If-None-Match": "{etag}"}),
    ],
    "a bulk insert in which one fails": [
        post("/things", [{"_id": "two"}, {"_id": "b2"}], 207, has={"inserted": 1}),
        get("/things/b2"),
        get("/things/two", has={"n": 2}),
    ],
    "an empty bulk insert": [post("/things", [], 200, has={"inserted": 0, "links": []})],
    "a bulk replacement": [
        post(
            "/things",
            [{"_id": "two", "v": 1}, {"_id": "b3", "v": 1}],
            200,
            query={"wm": "upsert"},
            has={"inserted": 1, "matched": 1, "modified": 1},
        )
    ],
    "a bulk patch renews etags": [
        patch(
            "/things/*",
            {"$inc": {"n": 10}, "v": 1},
            200,
            query={"filter": "{n:{$lt:3}}"},
            has={"matched": 2, "modified": 2},
            headers={"etag": ANY},
        ),
        get("/things/two", 304, send={"If-None-Match": "{etag}"}),
    ],
    "a bulk delete": [
        delete("/things/*", 200, query={"filter": "{n:{$lt:3}}"}, has={"deleted": 2}),
        get("/things/_size", equals={"_size": 2}),
    ],
    "bulk writes need a filter": [
        patch(
            "/things/*",
            {"a": 1},
            400,
            message="filter parameter is mandatory for bulk write requests",
        ),
        delete("/things/*", 400, message="filter parameter is mandatory for bulk write requests"),
    ],
    # --- the improvements of decision 41 ----------------------------------------------------------
    "the written document on demand": [
        post(
            "/things",
            {"_id": "rep", "a": 1},
            send={"Prefer": "return=representation"},
            has={"_id": "rep", "a": 1},
            headers={"preference-applied": "return=representation"},
        ),
        patch("/things/rep", {"a": 2}, send={"Prefer": "return=representation"}, has={"a": 2}),
    ],
}

MANAGEMENT: dict[str, list[Ask]] = {
    # --- 4.1 --------------------------------------------------------------------------------------
    "the error object": [
        get(
            "/things/nobody",
            404,
            has={
                "http status code": 404,
                "http status description": "Not Found",
                "code": "not-found",
            },
            headers={"content-type": "application/json; charset=utf-8"},
        )
    ],
    "quotes in messages": [
        get(
            "/things",
            400,
            query={"filter": '["a"]'},
            message="illegal filter parameter, it is not a json object: ['a']",
        )
    ],
    # --- 5.1 --------------------------------------------------------------------------------------
    "a collection from its making to its end": [
        put("/m1", {"note": 1, "_id": "x"}, 201, text="", headers={"etag": ANY}),
        get("/m1/_meta", has={"_id": "_meta", "note": 1}, headers={"etag": ANY}),
        put("/m1", {"other": 2}, 200, headers={"etag": ANY}),
        get("/m1/_meta", has={"other": 2}),
        patch("/m1", {"more": 3}, 200),
        patch("/m1", {}, 400, message="no data provided"),
        get("/m1", equals=[], headers={"etag": ANY}),
        delete(
            "/m1",
            409,
            message="The ETag must be provided using the 'If-Match' header",
            headers={"etag": ANY},
        ),
        delete("/m1", 412, send={"If-Match": ADA}, text="", headers={"etag": ANY}),
        delete("/m1", 204, send={"If-Match": "{etag}"}),
        get("/m1", 404),
        delete("/m1", 404),
        patch("/m1", {"a": 1}, 404),
    ],
    "metadata is an object": [put("/m2", [], 400, message="data must be a json object")],
    "a collection without metadata needs no etag": [
        put("/m3", None, 201),
        get("/m3/_meta", has={"_id": "_meta"}),
    ],
    "metadata of the database": [
        put("/", {"note": 1}, 200, headers={"etag": ANY}),
        get("/_meta", has={"_id": "_meta", "note": 1}),
        patch("/", {"b": 2}, 200),
        get("/_meta", has={"note": 1, "b": 2}, headers={"etag": ANY}),
        get("/", headers={"etag": ANY}),
        delete(
            "/", 409, message="The database's ETag must be provided using the 'If-Match' header."
        ),
        delete("/", 412, send={"If-Match": ADA}),
    ],
    # --- 5.2 and 3.6 ------------------------------------------------------------------------------
    "the policy of a collection": [
        put("/m4", {"etagDocPolicy": "required"}, 201),
        post("/m4", {"_id": "a"}),
        put("/m4/a", {"v": 1}, 409),
        put("/m4/a", {"v": 1}, 200, send={"If-Match": "{etag}"}),
    ],
    # --- 5.3 and 5.4 ------------------------------------------------------------------------------
    "an aggregation with variables": [
        patch(
            "/things",
            {
                "aggrs": [
                    {
                        "uri": "above",
                        "stages": [
                            {"$match": {"n": {"$gt": {"$var": "min"}}}},
                            {"$ifvar": ["top", {"$limit": {"$var": "top"}}]},
                            {"$project": {"_id": 0, "n": 1, "l": {"$var": ["label", "none"]}}},
                            {"$sort": {"n": 1}},
                        ],
                    }
                ]
            },
        ),
        get(
            "/things/_aggrs/above",
            query={"avars": '{"min":2}'},
            equals=[{"n": 3, "l": "none"}, {"n": 4, "l": "none"}],
        ),
        get(
            "/things/_aggrs/above",
            query={"avars": '{"min":3,"label":"x"}'},
            equals=[{"n": 4, "l": "x"}],
        ),
        get("/things/_aggrs/above", 400, message="cannot execute aggregation"),
        get(
            "/things/_aggrs/above",
            400,
            query={"avars": "[1]"},
            message="illegal avars parameter, it is not a json object: [1]",
        ),
        get(
            "/things/_aggrs/above",
            400,
            query={"avars": '{"min":{"$gt":1}}'},
            message="illegal avars parameter: ",
        ),
        get("/things/_aggrs/none", 404, message="query does not exist"),
        put("/things", {}),
    ],
    "escaped stages are understood": [
        put(
            "/m5",
            {"aggrs": [{"uri": "e", "stages": [{"_$match": {"a::b": 1}}], "type": "ap"}]},
            201,
        ),
        get(
            "/m5/_meta",
            has={"aggrs": [{"uri": "e", "stages": [{"_$match": {"a::b": 1}}], "type": "ap"}]},
        ),
        post("/m5", {"_id": 1, "a": {"b": 1}}),
        get("/m5/_aggrs/e", has={}),
    ],
    "paging is by variables only": [
        put(
            "/m6",
            {
                "aggrs": [
                    {
                        "uri": "p",
                        "stages": [
                            {"$sort": {"_id": 1}},
                            {"$skip": {"$var": "@skip"}},
                            {"$limit": {"$var": "@limit"}},
                            {"$project": {"_etag": 0}},
                        ],
                    }
                ]
            },
            201,
        ),
        post("/m6", [{"_id": 1}, {"_id": 2}, {"_id": 3}], 200),
        get("/m6/_aggrs/p", query={"page": 2, "pagesize": 2}, equals=[{"_id": 3}]),
    ],
    # --- 5.5 --------------------------------------------------------------------------------------
    "indexes": [
        get("/things/_indexes", equals=[{"v": 2, "key": {"_id": 1}, "_id": "_id_"}]),
        put("/things/_indexes/byN", {"keys": {"n": 1}, "ops": {"unique": True, "name": "x"}}, 201),
        put("/things/_indexes/byN", {"keys": {"n": 1}, "ops": {"unique": True}}, 201),
        put("/things/_indexes/byN", {"keys": {"n": -1}}, 400, message="error creating the index"),
        get("/things", query={"hint": "byN"}),
        get("/things", query={"hint": '{"n":1}'}),
        get("/things", query={"hint": "+n"}),
        post("/things", {"n": 1}, 409),
        put("/things/_indexes/z", {"keys": 1}, 400, message="keys must be a json object"),
        put(
            "/things/_indexes/z",
            {"keys": {"n": 1}, "ops": 1},
            400,
            message="ops must be a json object",
        ),
        delete("/things/_indexes/byN", 204),
        delete("/things/_indexes/byN", 404),
        delete(
            "/things/_indexes/_id_",
            403,
            message="_id_ is a default index and cannot be deleted",
        ),
    ],
    "a hint that no index fits": [get("/things", 400, query={"hint": "nosuch"})],
    # --- 7 ----------------------------------------------------------------------------------------
    "dangerous stages are refused when they are stored": [
        put("/m7", {"aggrs": [{"uri": "x", "stages": [{"$out": "y"}]}]}, 400),
        put("/m7", {"aggrs": [{"uri": "x", "stages": [{"$match": {"$where": "1"}}]}]}, 400),
        put(
            "/m7", {"aggrs": [{"uri": "x", "stages": [{"$facet": {"a": [{"$merge": "y"}]}}]}]}, 400
        ),
    ],
    # --- 8.6 --------------------------------------------------------------------------------------
    "a page of another origin may read what the answers tell": [
        get(
            "/things",
            send={"Origin": "https://app.example.org"},
            headers={
                "access-control-allow-origin": ANY,
                "access-control-expose-headers": "Location, ETag, Link, X-Total-Count, "
                "X-Count-Strategy, Preference-Applied, X-Request-Id, Auth-Token, "
                "Auth-Token-Valid-Until, Auth-Token-Location, Retry-After, RateLimit, "
                "RateLimit-Policy, WWW-Authenticate, Allow, Content-Disposition",
            },
        )
    ],
    # --- 8.2 --------------------------------------------------------------------------------------
    "the server and its database answer": [
        get("/ping", has={"message": "docgraph is here", "host": "test"}),
        get("/health/db", has={"status": "ok", "description": "ping successful"}),
        Ask("HEAD", "/ping", 200, text=""),
        Ask("HEAD", "/health/db", 200, text=""),
        post("/ping", {}, 405),
    ],
    # --- 8.5 --------------------------------------------------------------------------------------
    "compression on demand": [
        get(
            "/openapi.json", send={"Accept-Encoding": "gzip"}, headers={"content-encoding": "gzip"}
        ),
        get(
            "/openapi.json",
            send={"Accept-Encoding": "deflate"},
            headers={"content-encoding": "deflate"},
        ),
        get(
            "/openapi.json",
            send={"Accept-Encoding": "identity"},
            headers={"content-encoding": None},
        ),
    ],
}

CASES = {**RESOURCES, **READS, **WRITES, **MANAGEMENT}


@module_application
async def served(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as api:
        yield api


@pytest.fixture
async def api(served: Api) -> Api:
    """The server with the documents of the cases, and no metadata."""
    served.things.delete_many({})
    served.things.insert_many(DOCUMENTS)
    served.mongo[served.db]["_properties"].delete_many({"_id": "_properties.things"})
    served.mongo[served.db]["_properties"].delete_many({"_id": "_properties"})
    for path in ("/things/_meta", "/_meta"):  # what was remembered of them is not true any more
        await served.get(path, nocache="")
    return served


@pytest.mark.parametrize("asks", CASES.values(), ids=CASES.keys())
async def test_the_answer_is_the_described_one(api: Api, asks: Sequence[Ask]) -> None:
    etag = ""
    for ask in asks:
        etag = await check(api, ask, etag) or etag


async def check(api: Api, ask: Ask, etag: str) -> str | None:
    """Send the request, compare the answer, give its etag."""
    headers = {name: value.replace("{etag}", etag) for name, value in ask.send.items()}
    path = f"{ask.path}?{urlencode(ask.query)}" if ask.query else ask.path
    reply = await api.send(ask.method, path, ask.body, headers)
    told = f"{ask.method} {path}: {reply.status} {reply.text}"

    assert reply.status == ask.status, told
    if ask.message is not None:
        assert reply.json["message"].startswith(ask.message), told
    if ask.text is not None:
        assert reply.text == ask.text, told
    if ask.equals is not ...:
        assert reply.json == ask.equals, told
    for name, value in ask.has.items():
        assert reply.json[name] == value, told
    for name, expected in ask.headers.items():
        found = reply.headers.get(name)
        assert found == expected if expected != ANY else found, (name, found, told)
    tag = reply.headers.get("etag")
    assert tag is None or ask.path == "/openapi.json" or HEX.fullmatch(tag), told
    return tag


async def test_what_the_cases_store_is_what_the_database_holds(api: Api) -> None:
    await api.post("/things", b'{"_id":"types","i":1,"l":3000000000,"f":2.0,"d":{"$date":0}}')

    stored = api.things.find_one({"_id": "types"})

    assert (type(stored["i"]), type(stored["l"]), type(stored["f"])) == (int, Int64, float)
    assert stored["d"] == datetime(1970, 1, 1)
    assert isinstance(stored["_etag"], ObjectId)
