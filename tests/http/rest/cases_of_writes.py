"""Cases of writes and of management; the headings are the sections of the behaviour document."""

from __future__ import annotations

from tests.http.rest.cases import ADA, ANY, TAG, Ask, delete, get, patch, post, put

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
