"""`/openapi.json` and `/openapi`: true for what is configured and for what there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.descriptions import check_description
from tests.http.harness import UNREACHABLE, Document, Mongo, build_definition, failing, identity
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

COOKIES = {
    "authCookieHandler": {"enabled": True},
    "authCookieSetter": {"enabled": True, "name": "biscuit"},
    "authCookieRemover": {"enabled": True, "uri": "/bye"},
}
METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
async def api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        yield one


async def describe(api: Api) -> dict[str, Any]:
    """The description, which is always a valid one."""
    reply = await api.get("/openapi.json")
    assert reply.status == 200, reply.text
    document: dict[str, Any] = reply.json
    check_description(document)
    return document


def methods_at(document: dict[str, Any], path: str) -> set[str]:
    return METHODS & set(document["paths"][path])


def parameter(document: dict[str, Any], path: str, method: str, name: str) -> dict[str, Any]:
    """The parameter of that name, with references followed."""
    for one in document["paths"][path][method]["parameters"]:
        found: dict[str, Any] = one
        if "$ref" in one:
            found = document["components"]["parameters"][one["$ref"].rsplit("/", 1)[1]]
        if found["name"] == name:
            return found
    raise AssertionError(f"{method} {path} has no parameter {name}")


async def test_the_paths_of_a_database_at_the_root_are_described(api: Api) -> None:
    document = await describe(api)

    assert methods_at(document, "/") == {"get", "put", "patch", "delete"}
    assert methods_at(document, "/things") == METHODS
    assert methods_at(document, "/things/{id}") == {"get", "put", "patch", "delete"}
    assert methods_at(document, "/things/*") == {"patch", "delete"}
    assert methods_at(document, "/things/_size") == {"get"}
    assert methods_at(document, "/{collection}") == METHODS
    assert methods_at(document, "/{collection}/_aggrs/{aggregation}") == {"get"}
    assert methods_at(document, "/{collection}/_streams/{stream}") == {"get"}
    assert methods_at(document, "/_schemas/{id}") == {"get", "put", "delete"}


async def test_a_collection_is_described_from_the_moment_it_exists(api: Api) -> None:
    assert "/fresh" not in (await describe(api))["paths"]

    await api.put("/fresh")
    assert "/fresh" in (await describe(api))["paths"]

    etag = (await api.get("/fresh/_meta")).headers["etag"]
    await api.delete("/fresh", headers={"If-Match": etag})
    assert "/fresh" not in (await describe(api))["paths"]


async def test_reserved_collections_are_not_described(api: Api) -> None:
    await api.put("/things", {"note": 1})

    assert "/_properties" not in (await describe(api))["paths"]


async def test_names_that_need_encoding_are_encoded(api: Api) -> None:
    await api.put("/a%20%7Bb%7D")

    assert "/a%20%7Bb%7D/{id}" in (await describe(api))["paths"]


async def test_a_stored_aggregation_names_its_variables(api: Api) -> None:
    stages = [
        {"$match": {"n": {"$gt": {"$var": "min"}}, "owner": {"$var": "@user._id"}}},
        {"$limit": {"$var": ["most", 5]}},
    ]
    await api.patch("/things", {"aggrs": [{"uri": "above", "stages": stages}]})

    document = await describe(api)

    schema = parameter(document, "/things/_aggrs/above", "get", "avars")
    assert schema["required"] is True
    assert schema["content"]["application/json"]["schema"] == {
        "type": "object",
        "properties": {"min": {}, "most": {}},
        "required": ["min"],
    }
    assert "422" in document["paths"]["/things/_aggrs/above"]["get"]["responses"]


STREAM = {
    "uri": "of a room",
    "stages": [{"$match": {"fullDocument.n": {"$gt": {"$var": "min"}}}}],
    "notify_when": {"fullDocument::room": {"$var": "room"}},
}


def names_parameter(document: Document, path: str, name: str) -> bool:
    parameters = document["paths"][path]["get"]["parameters"]
    return {"$ref": f"#/components/parameters/{name}"} in parameters


async def test_a_stream_with_snapshot_has_the_variables_of_its_filter(api: Api) -> None:
    """Decision 42."""
    snapshot = {"filter": {"room": {"$var": "room"}, "n": {"$gt": {"$var": ["least", 1]}}}}
    optional = {"$ifvar": ["from", {"$match": {"fullDocument.from": {"$var": "from"}}}]}
    stream = {"uri": "s", "stages": [optional], "snapshot": snapshot, "before": True}
    await api.patch("/things", {"streams": [stream]})
    document = await describe(api)
    schema = parameter(document, "/things/_streams/s", "get", "avars")
    assert schema["content"]["application/json"]["schema"] == {
        "type": "object",
        "properties": {"from": {}, "least": {}, "room": {}},
        "required": ["room"],
    }
    for name in ("snapshot", "before"):
        assert names_parameter(document, "/things/_streams/s", name)


async def test_a_change_stream_names_its_variables_and_both_transports(api: Api) -> None:
    """Decision 42."""
    await api.patch("/things", {"streams": [STREAM]})

    document = await describe(api)

    path = "/things/_streams/of%20a%20room"
    assert methods_at(document, path) == {"get"}
    assert parameter(document, path, "get", "avars")["required"] is True
    assert "fullDocument.room" in parameter(document, path, "get", "room")["description"]
    for name in ("event-ids", "resume-after", "Last-Event-ID", "jsonMode"):
        assert parameter(document, path, "get", name)
    for name in ("snapshot", "before"):  # its definition does not allow them
        assert not names_parameter(document, path, name)
        assert names_parameter(document, "/{collection}/_streams/{stream}", name)
    assert methods_at(document, "/things/_streams") == {"get"}
    responses = document["paths"][path]["get"]["responses"]
    assert {"101", "200", "400", "401", "403", "404", "405", "429", "501", "503"} <= set(responses)
    events = document["components"]["responses"]["Events"]
    assert list(events["content"]) == ["text/event-stream"]
    reply = await api.send("OPTIONS", path)
    assert set(reply.headers["allow"].split(", ")) & {"GET", "POST", "PUT"} == {"GET"}


async def test_change_streams_that_are_off_are_not_described(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with serving(mongo_client, mongo_uri, {"events": {"enabled": False}}) as api:
        await api.patch("/things", {"streams": [STREAM]})
        document = await describe(api)
        reply = await api.send("OPTIONS", "/things/_streams/of%20a%20room")

    assert not [path for path in document["paths"] if "_streams" in path]
    assert "GET" not in reply.headers["allow"]


async def test_the_schema_of_a_collection_is_that_of_its_documents(api: Api) -> None:
    await api.put("/_schemas")
    address = {
        "_id": "address",
        "type": "object",
        "definitions": {"zip": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
        "properties": {"zip": {"$ref": "#/definitions/zip"}},
    }
    person = {
        "_id": "person",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "home": {"$ref": f"http://schema-store/{api.db}/address#"},
        },
    }
    for schema in (address, person):
        assert (await api.post("/_schemas", schema)).status == 201
    await api.patch("/things", {"jsonSchema": {"schemaId": "person"}})

    document = await describe(api)

    schemas, name = document["components"]["schemas"], f"{api.db}.person"
    assert schemas[name]["required"] == ["name"]
    assert schemas[name]["properties"]["home"] == {"$ref": f"#/components/schemas/{api.db}.address"}
    shared = schemas[f"{api.db}.address"]
    assert shared["properties"]["zip"]["$ref"].endswith(f"{api.db}.address/definitions/zip")
    assert shared["definitions"]["zip"] == {"type": "integer", "exclusiveMinimum": 0}
    put = document["paths"]["/things/{id}"]["put"]["requestBody"]["content"]["application/json"]
    assert put["schema"] == {"$ref": f"#/components/schemas/{name}"}
    assert document["paths"]["/{collection}/{id}"]["put"]["requestBody"] == {
        "$ref": "#/components/requestBodies/Document"
    }


async def test_graphql_apps_that_are_on_are_described(api: Api) -> None:
    schema = "type Query { a: Int }"
    await api.service.store(
        build_definition("blog", schema, description="what people write"),
        build_definition("films", schema, uri="/v1/films"),
        build_definition("away", schema, enabled=False),
    )

    document = await describe(api)

    assert document["paths"]["/graphql/blog"]["post"]["description"] == "what people write"
    assert "/graphql/v1/films" in document["paths"]
    assert not [path for path in document["paths"] if "away" in path]


async def test_services_are_described_where_they_are_bound(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    moved = {
        "ping": {"uri": "/hello"},
        "metrics": {"enabled": False},
        "rndTokenManager": {"srv-uri": "/my-tokens"},
    }
    async with serving(mongo_client, mongo_uri, COOKIES, moved) as api:
        paths = (await describe(api))["paths"]

    assert {"/hello", "/health/db", "/roles/{user}", "/my-tokens/{user}", "/bye"} <= paths.keys()
    assert {"/openapi.json", "/openapi", "/access/explain"} <= paths.keys()
    assert "/metrics" not in paths
    assert paths["/hello"]["get"]["security"] == []
    for path in ("/my-tokens/{user}", "/my-tokens"):
        assert paths[path].keys() - {"parameters"} == {"get", "post", "delete"}
        for method in ("get", "post", "delete"):
            assert "security" not in paths[path][method]
            assert "405" in paths[path][method]["responses"]


async def test_security_schemes_are_those_of_the_mechanisms_that_are_on(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    jwt = {"jwtAuthenticationMechanism": {"enabled": True, "key": "k" * 32}}
    async with serving(mongo_client, mongo_uri, COOKIES, jwt) as api:
        schemes = (await describe(api))["components"]["securitySchemes"]

    assert schemes == {
        "basic": {"type": "http", "scheme": "basic"},
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "biscuit"},
    }


async def test_every_kind_of_mount_is_described(mongo_client: Mongo, mongo_uri: str) -> None:
    mongo_client["mounted"]["c"].insert_one({"_id": "d"})
    mounts = [
        {"what": "*", "where": "/all"},
        {"what": "/mounted", "where": "/one"},
        {"what": "/mounted/c", "where": "/coll"},
        {"what": "/mounted/c/d", "where": "/doc"},
    ]
    try:
        async with serving(mongo_client, mongo_uri, mounts=mounts) as api:
            document = await describe(api)
    finally:
        mongo_client.drop_database("mounted")

    assert methods_at(document, "/all") == {"get"}
    assert "/all/mounted/c/{id}" in document["paths"]
    assert "/all/{db}/{collection}/{id}" in document["paths"]
    assert "/one/c/_size" in document["paths"]
    assert methods_at(document, "/coll") == METHODS
    assert methods_at(document, "/doc") == {"get", "put", "patch", "delete"}
    assert "/{collection}" not in document["paths"]
    assert "404" not in document["paths"]["/all/_size"]["get"]["responses"]


async def test_a_mount_by_template_is_described_by_template(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    mounts = [{"what": "/{tenant}", "where": "/{tenant}/*"}]
    async with serving(mongo_client, mongo_uri, {"mongo": {"uri": "/data"}}, mounts=mounts) as api:
        document = await describe(api)

    item = document["paths"]["/data/{tenant}/{collection}"]
    assert [
        one.get("name", one.get("$ref", "").rsplit("/", 1)[-1]) for one in item["parameters"]
    ] == [
        "tenant",
        "collection",
    ]
    assert methods_at(document, "/data/{tenant}/{collection}/{id}")


async def test_collections_beyond_the_bound_are_counted(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with serving(mongo_client, mongo_uri, {"openapi": {"max-collections": 1}}) as api:
        await api.put("/zebra")
        await api.put("/yak")
        document = await describe(api)
        page = (await api.get("/openapi")).text

    assert document["x-docgraph-collections-left-out"] == 2
    assert {"/things", "/yak", "/zebra"} & document["paths"].keys() == {"/things"}
    assert "2 more collections" in page


async def test_a_server_without_the_rest_api_describes_the_rest(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with serving(mongo_client, mongo_uri, {"mongo": {"enabled": False}}) as api:
        await api.service.store(build_definition("blog", "type Query { a: Int }"))
        document = await describe(api)

    assert "/graphql/blog" in document["paths"]
    assert "/ping" in document["paths"]
    assert not [path for path in document["paths"] if "collection" in path]


async def test_the_description_is_not_for_everybody(mongo_client: Mongo, mongo_uri: str) -> None:
    closed = {"fullAuthorizer": {"enabled": False}}
    async with serving(mongo_client, mongo_uri, closed) as api:
        assert (await api.get("/openapi.json")).status == 401
        assert (await api.get("/openapi")).status == 401
    async with serving(mongo_client, mongo_uri, closed, identity("clerk")) as api:
        assert (await api.get("/openapi.json")).status == 403


async def test_who_knows_the_description_is_told_so(api: Api) -> None:
    etag = (await api.get("/openapi.json")).headers["etag"]

    same = await api.get("/openapi.json", headers={"If-None-Match": etag})
    await api.put("/fresh")
    other = await api.get("/openapi.json", headers={"If-None-Match": etag})

    assert (same.status, same.text) == (304, "")
    assert other.status == 200


async def test_the_page_lists_everything_and_runs_nothing(api: Api) -> None:
    await api.put("/%3Cscript%3E")
    reply = await api.get("/openapi")

    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "<script" not in reply.text
    assert "http://" not in reply.text
    assert "https://" not in reply.text
    for told in ("/things/{id}", "pagesize", "If-Match", "/ping", "&lt;script&gt;"):
        assert told in reply.text


async def test_the_description_follows_the_handlers_of_the_server(api: Api) -> None:
    """Every described method is taken, every other one is 405."""
    document = await describe(api)

    for path, item in document["paths"].items():
        if not path.startswith("/things") or "{" in path:
            continue
        reply = await api.send("OPTIONS", path)
        allowed = {one.lower() for one in reply.headers["allow"].split(", ")}
        assert allowed & METHODS == METHODS & item.keys(), path


async def test_a_database_that_fails_is_an_error_of_the_general_shape(api: Api) -> None:
    with failing(api.mongo, "listCollections", errorCode=UNREACHABLE):
        reply = await api.get("/openapi.json")

    assert reply.status == 500
    assert reply.json["code"].startswith("database-")


async def test_what_a_collection_refuses_is_described_as_refused(api: Api) -> None:
    await api.put("/gql-apps")
    await api.put("/_schemas")
    await api.post("/_schemas", {"_id": "any", "type": "object"})
    await api.put("/strict", {"jsonSchema": {"schemaId": "any"}})
    await api.put("/lax", {"jsonSchema": {"schemaId": "any", "skipNotSupported": True}})

    document = await describe(api)

    for name, is_refused in {"gql-apps": True, "strict": True, "lax": False}.items():
        bulk = document["paths"][f"/{name}/*"]
        allowed = (await api.send("OPTIONS", f"/{name}/*")).headers["allow"].lower().split(", ")
        assert METHODS & bulk.keys() == METHODS & set(allowed) == {"patch", "delete"}
        reply = await api.patch(f"/{name}/*", {"a": 1}, filter={"_id": 1})
        assert (reply.status == 501) is is_refused
        assert ("200" not in bulk["patch"]["responses"]) is is_refused
        assert "501" in bulk["patch"]["responses"]
        body = document["paths"][f"/{name}/{{id}}"]["patch"]["requestBody"]["$ref"]
        assert body.endswith("/BulkChanges")
        refused = await api.patch(f"/{name}/x", [{"$set": {"a": 1}}])
        assert refused.status == 400


async def test_csv_is_described_where_there_is_some(api: Api) -> None:
    await api.put("/gql-apps")
    schema = "type Query { things: [Thing] } type Thing { n: Int }"
    mappings = {"Query": {"things": {"db": api.db, "collection": "things"}}}
    for id, descriptor in (("tables", {"csv": True}), ("plain", {})):
        definition = build_definition(id, schema, mappings, **descriptor)
        reply = await api.put(f"/gql-apps/{id}", definition, wm="upsert")
        assert reply.status == 201, reply.text
    await api.put("/things", {"aggrs": [{"uri": "sums", "stages": []}]})
    document = await describe(api)

    def contents(path: str, method: str) -> set[str]:
        response = document["paths"][path][method]["responses"]["200"]
        if "$ref" in response:
            response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
        return set(response["content"])

    for path in ("/things", "/things/_aggrs/sums"):
        assert contents(path, "get") == {"application/json", "text/csv"}
        assert parameter(document, path, "get", "format")["schema"]["enum"] == ["json", "csv"]
        assert parameter(document, path, "get", "csv-formulas")
    assert "text/csv" not in contents("/_schemas", "get")
    assert "text/csv" in contents("/graphql/tables", "post")
    assert "406" in document["paths"]["/graphql/tables"]["post"]["responses"]
    assert "text/csv" not in contents("/graphql/plain", "post")
