"""Cases of resources and of reads; the headings are the sections of the behaviour document."""

from __future__ import annotations

from tests.http.rest.cases import ADA, ANY, TAG, Ask, get, patch, post, put, refused

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
