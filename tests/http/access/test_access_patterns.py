"""Patterns in rules and schemas: matched in linear time, refused where that cannot be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.exchange import ConfigError
from docgraph.observe.events import PluginFailed
from tests.http.access_harness import (
    ADA,
    ADMIN,
    allow,
    forget_rules,
    guarded,
)
from tests.http.harness import Mongo, Service, listening
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

EVIL = "a" * 4000 + "!"  # what would hold a pattern that backtracks
REFUSED = [
    ("(?!x)y", "lookaround is not known"),
    (r"(a)\1", "backreferences are not known"),
    (r"a\Z", "write \\z"),
    ("a++", "possessive repetitions are not known"),
    ("a{1001}", "a count is 1000 at most"),
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        one.insert("books", {"_id": "1"})
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    """The server without rules."""
    forget_rules(server)
    return server


async def get(service: Service, path: str, **options: Any) -> int:
    return (await service.request("GET", path, headers=ADA, **options)).status


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*x$"])
async def test_no_text_makes_a_pattern_slow(service: Service, pattern: str) -> None:
    """Backtracking would need more steps for it than there are atoms."""
    await allow(service, f"path('/books') and regex('{pattern}', %{{q,x}})", "user")
    assert await get(service, "/books", params={"x": EVIL}) == 403


async def test_a_pattern_matches_as_before(service: Service) -> None:
    await allow(service, "regex('^/(bo+ks)$') and equals(${1}, 'books')", "user")
    await allow(service, "regex(pattern='B.*', value=%{q,x}, full-match=true)", "user")
    await allow(service, "regex(pattern='c$', value=%{q,y}, case-sensitive=false)", "user")
    assert await get(service, "/books") == 200
    assert await get(service, "/books/1") == 403
    assert await get(service, "/books/1?x=Bc") == 200
    assert await get(service, "/books/1?x=aBc") == 403
    assert await get(service, "/books/1?y=aBC") == 200


async def test_what_is_too_long_for_a_large_pattern_denies_either_way(service: Service) -> None:
    large = "regex('(a?){1000}(x|b)', %{q,x})"
    await allow(service, f"path('/books') and ({large} or not {large})", "user")
    assert await get(service, "/books", params={"x": "aab"}) == 200
    assert await get(service, "/books", params={"x": EVIL}) == 403


@pytest.mark.parametrize(("pattern", "message"), REFUSED)
async def test_a_rule_with_another_pattern_is_refused_with_its_place(
    service: Service, pattern: str, message: str
) -> None:
    rule = {"_id": "x", "predicate": f"path('/a') and regex('{pattern}')", "roles": ["user"]}
    for method, path, body in (
        ("POST", "/acl", rule),
        ("PUT", "/acl/x?wm=upsert", {key: rule[key] for key in ("predicate", "roles")}),
    ):
        reply = await service.request(method, path, headers=ADMIN, json=body)
        assert reply.status == 400
        assert "predicate cannot be read: column 16: regex: the pattern" in reply.json["message"]
        assert message in reply.json["message"]


async def test_the_refusal_says_what_to_write_instead_of_a_lookahead(service: Service) -> None:
    rule = {"_id": "x", "predicate": "regex('^/(?!secret)')", "roles": ["user"]}
    reply = await service.request("POST", "/acl", headers=ADMIN, json=rule)
    assert "instead of (?!…) write `not regex(…)` beside it" in reply.json["message"]

    rewritten = {**rule, "predicate": "regex('^/') and not regex('^/secret')"}
    reply = await service.request("POST", "/acl", headers=ADMIN, json=rewritten)
    assert reply.status == 201


async def test_a_stored_rule_with_such_a_pattern_matches_nothing_and_is_named(
    service: Service,
) -> None:
    rule = {"_id": "old", "predicate": "regex('^/(?!secret)')", "roles": ["user"]}
    service.mongo[service.db]["acl"].insert_one(rule)
    with listening(PluginFailed) as failures:
        for _ in range(3):
            await allow(service, "path('/other')", "user")
            assert await get(service, "/books") == 403
    assert [one.stage for one in failures] == ["read the rule old"]
    assert "write `not regex(…)`" in str(failures[0].error)

    asked = {"path": "/books", "role": "user"}
    reply = await service.request("GET", "/access/explain", headers=ADMIN, params=asked)
    (note,) = reply.json["notes"]
    assert note.startswith("the rule old (database) matches nothing: Wrong permission: predicate")
    assert "write `not regex(…)`" in note


async def test_a_file_with_such_a_pattern_stops_the_start(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    file = tmp_path / "acl.yml"
    file.write_text("permissions:\n  - roles: [user]\n    predicate: regex('a(?=b)')\n")
    settings = {"fileAclAuthorizer": {"enabled": True, "conf-file": str(file)}}
    with pytest.raises(ConfigError) as stopped:
        async with guarded(mongo_client, mongo_uri, settings):
            pass
    (problem,) = stopped.value.problems
    assert problem.origin.startswith(f"{file}:3")
    assert problem.path == "/permissions[1]/predicate"
    assert "lookaround is not known" in problem.message


# --- schemas --------------------------------------------------------------------------------------

DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
]


async def write(service: Service, method: str, path: str, body: Any) -> Any:
    return await service.request(method, path, headers=ADMIN, json=body)


@pytest.fixture
async def schemas(service: Service) -> Service:
    """The server with an empty schema store and a collection that names the schema `s`."""
    for name in ("_schemas", "things", "_properties"):
        service.mongo[service.db][name].drop()
    assert (await write(service, "PUT", "/_schemas", {})).status == 201
    described = {"jsonSchema": {"schemaId": "s"}}
    assert (await write(service, "PUT", "/things", described)).status in (200, 201)
    return service


@pytest.mark.parametrize("draft", DRAFTS)
async def test_patterns_of_schemas_are_matched_in_linear_time(schemas: Service, draft: str) -> None:
    schema = {
        "$schema": draft,
        "properties": {"x": {"pattern": "^(a+)+$"}},
        "patternProperties": {"^(b+)+$": {"type": "integer"}},
    }
    assert (await write(schemas, "PUT", "/_schemas/s?wm=upsert", schema)).status == 201

    assert (await write(schemas, "POST", "/things", {"x": "aaa", "bb": 1})).status == 201
    for body in ({"x": EVIL}, {"bb": "text"}):
        assert (await write(schemas, "POST", "/things", body)).status == 400
    assert (await write(schemas, "POST", "/things", {"b" * 4000 + "!": "text"})).status == 201


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "part",
    [
        {"properties": {"x": {"pattern": "^(?!a)"}}},
        {"properties": {"x": {"pattern": r"(a)\1"}}},
        {"items": {"patternProperties": {"^(?=a)": {}}}},
        {"allOf": [{"pattern": "(a{1000}){1000}"}]},
    ],
)
async def test_a_schema_with_another_pattern_is_refused_and_one_that_is_stored_is_unusable(
    schemas: Service, draft: str, part: Any
) -> None:
    schema = {"$schema": draft, **part}
    reply = await write(schemas, "PUT", "/_schemas/s?wm=upsert", schema)
    assert (reply.status, reply.json["code"]) == (400, "invalid-schema")
    assert "attern" in reply.json["message"]
    assert "linear time" in reply.text

    stored = {"_id": "s", "_$schema": draft, **part}
    schemas.mongo[schemas.db]["_schemas"].insert_one(stored)
    reply = await write(schemas, "POST", "/things", {"x": EVIL})
    assert (reply.status, reply.json["code"]) == (409, "schema-unusable")
    assert "attern" in reply.json["message"]
    assert schemas.mongo[schemas.db]["things"].count_documents({}) == 0
