"""Rules about bodies judge what the service stores: every content type, operator and pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.access_harness import ADA, allow, forget_rules, guarded, restore
from tests.http.harness import Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

EVE = {"_id": "eve", "password": "old", "tenant": "t1", "roles": ["user"], "profile": {"a": 1}}
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    restore(server, "people", EVE)
    return server


async def send(service: Service, body: bytes | str, kind: str | None, method: str = "PATCH") -> int:
    path = "/people" if method == "POST" else "/people/eve"
    own = [] if kind is None else [("Content-Type", kind)]
    content = body.encode() if isinstance(body, str) else body
    headers = [*ADA.items(), *own]
    reply = await service.request(method, path, headers=headers, content=content)
    return reply.status


def eve(service: Service) -> Any:
    found = service.mongo[service.db]["people"].find_one({"_id": "eve"}) or {}
    found.pop("_etag", None)
    return found


def multipart(*fields: tuple[str, str], boundary: str = "XX") -> bytes:
    parts = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    )
    return f"{parts}--{boundary}--\r\n".encode()


PARTS = 'multipart/form-data; boundary="XX"'

# Ways to write another tenant than one's own, beside or instead of the password.
ESCAPES: tuple[tuple[bytes | str, str | None], ...] = (
    ("tenant=t2", FORM),
    ("password=new&tenant=t2", FORM),
    ("password=new&%74enant=t2", FORM),
    ("tenant=t2", f"{FORM}; charset=utf-8"),
    ("tenant=t2", "Application/X-WWW-Form-URLencoded"),
    ("tenant=t2", f" {FORM} ;x=y"),
    ('$set={"tenant":"t2"}', FORM),
    ('$rename={"password":"tenant"}', FORM),
    (multipart(("tenant", "t2")), PARTS),
    (multipart(("password", "new"), ("tenant", "t2")), "Multipart/Form-Data; boundary=XX"),
    (multipart(("$set", '{"tenant":"t2"}')), PARTS),
    ('{"tenant":"t2"}', JSON),
    ('{"tenant":"t2"}', None),
    ('{"tenant":"t2"}', "APPLICATION/JSON; charset=UTF-8"),
    ('{"tenant":"t2"}', "application/hal+json"),
    ("{tenant:'t2'}", JSON),
    ("{/* password */ 'tenant':'t2',}", JSON),
    ('{"password":"new","$set":{"tenant":"t2"}}', JSON),
    ('{"$setOnInsert":{"tenant":"t2"}}', JSON),
    ('{"$unset":{"tenant":1}}', JSON),
    ('{"$unset":{"tenant":{"password":1}}}', JSON),
    ('{"$rename":{"password":"tenant"}}', JSON),
    ('{"$rename":{"tenant":"password"}}', JSON),
    ('{"$push":{"tenant":"t2"}}', JSON),
    ('{"$addToSet":{"tenant":{"$each":["t2"]}}}', JSON),
    ('{"$pull":{"tenant":"t1"}}', JSON),
    ('{"$pullAll":{"tenant":["t1"]}}', JSON),
    ('{"$pop":{"tenant":1}}', JSON),
    ('{"$bit":{"tenant":{"or":1}}}', JSON),
    ('{"$min":{"tenant":"a"}}', JSON),
    ('{"$max":{"tenant":"z"}}', JSON),
    ('{"$inc":{"tenant":1}}', JSON),
    ('{"$mul":{"tenant":2}}', JSON),
    ('{"$currentDate":{"tenant":true}}', JSON),
    ('{"tenant.a":1}', JSON),
    ('{"tenant.0":1}', JSON),
    ('{"$set":{"tenant.$[]":1}}', JSON),
    ('[{"$set":{"tenant":"t2"}}]', JSON),
    ('[{"$addFields":{"tenant":"t2"}}]', JSON),
    ('[{"$set":{"password":"new"}},{"$set":{"tenant":"t2"}}]', JSON),
    ('[{"$unset":"tenant"}]', JSON),
    ('[{"$unset":["password","tenant"]}]', JSON),
    ('[{"$project":{"tenant":0}}]', JSON),
    ('[{"$project":{"password":1}}]', JSON),
    ('[{"$replaceWith":{"$mergeObjects":["$$ROOT",{"tenant":"t2"}]}}]', JSON),
    ('[{"$replaceRoot":{"newRoot":{"_id":"eve","tenant":"t2"}}}]', JSON),
    ('[{"$replaceWith":{"$setField":{"field":"tenant","input":"$$ROOT","value":"t2"}}}]', JSON),
    (
        '[{"$replaceWith":{"$arrayToObject":{"$concatArrays":[{"$objectToArray":"$$ROOT"},'
        '[{"k":"tenant","v":"t2"}]]}}}]',
        JSON,
    ),
    ('[{"$replaceWith":{"$literal":{"_id":"eve","tenant":"t2"}}}]', JSON),
    ('[{"$set":{"password":"new"}},1]', JSON),
    ("tenant=t2", "text/plain"),
    ('"tenant"', JSON),
    ("{", JSON),
    ("a={", FORM),
    ("nothing", PARTS),
)


@pytest.mark.parametrize(("body", "kind"), ESCAPES)
@pytest.mark.parametrize(
    "word", ["bson-request-whitelist(password)", "bson-request-blacklist(tenant)"]
)
async def test_no_spelling_writes_what_the_rule_does_not_let(
    service: Service, word: str, body: bytes | str, kind: str | None
) -> None:
    await allow(service, f"path-prefix('/people') and {word}", "user")
    assert await send(service, body, kind) == 403
    assert eve(service) == EVE


async def test_of_several_content_types_the_first_is_the_one(service: Service) -> None:
    await allow(service, "path-prefix('/people') and bson-request-whitelist(password)", "user")
    for kinds in ((FORM, JSON), (JSON, FORM)):
        headers = [*ADA.items(), *(("Content-Type", kind) for kind in kinds)]
        reply = await service.request("PATCH", "/people/eve", headers=headers, content=b"tenant=t2")
        assert reply.status == 403
    assert eve(service) == EVE


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("password=new", FORM),
        ("password=new", f"{FORM}; charset=utf-8"),
        (multipart(("password", "new")), PARTS),
        ('{"password":"new"}', JSON),
        ('{"password":"new"}', None),
        ("{password:'new'}", JSON),
        ('{"$set":{"password":"new"}}', JSON),
        ('[{"$set":{"password":"new"}}]', JSON),
    ],
)
@pytest.mark.parametrize(
    "word",
    [
        "bson-request-whitelist(password)",
        "bson-request-blacklist(tenant)",
        "bson-request-contains(password)",
        "bson-request-prop-equals(key=password, value='\"new\"')",
    ],
)
async def test_every_spelling_writes_what_it_does_let(
    service: Service, word: str, body: bytes | str, kind: str | None
) -> None:
    await allow(service, f"path-prefix('/people') and {word}", "user")
    assert await send(service, body, kind) == 200
    assert eve(service) == {**EVE, "password": "new"}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("tenant=t2", FORM),
        ("password=new", FORM),
        ("tenant=t2&tenant=t1", FORM),
        (multipart(("tenant", "t2"), ("tenant", "t1")), PARTS),
        ('{"tenant":"t1","$set":{"tenant":"t2"}}', JSON),
        ('{"tenant":"t1","$rename":{"password":"tenant"}}', JSON),
        ('{"$setOnInsert":{"tenant":"t1"}}', JSON),
        ('[{"$set":{"tenant":"t1"}},{"$set":{"tenant":"t2"}}]', JSON),
        ('[{"$set":{"tenant":"t1"}},{"$replaceWith":{"tenant":"t2"}}]', JSON),
        ('[{"$set":{"tenant":"t1"}},{"$unset":"tenant"}]', JSON),
        ('[{"$set":{"tenant":"$password"}}]', JSON),
        ('[{"$set":{"tenant":{"$literal":"t2"}}}]', JSON),
        ('[{"$project":{"tenant":"t1"}}]', JSON),
    ],
)
async def test_a_demanded_value_is_the_one_that_is_stored(
    service: Service, body: bytes | str, kind: str
) -> None:
    word = "bson-request-prop-equals(key=tenant, value='\"t1\"')"
    await allow(service, f"path-prefix('/people') and {word}", "user")
    assert await send(service, body, kind) == 403
    assert eve(service) == EVE


async def test_a_form_creates_what_the_rule_lets(service: Service) -> None:
    await allow(service, "path-prefix('/people') and bson-request-whitelist(_id, name)", "user")
    assert await send(service, "_id=zoe&name=Zoe", FORM, "POST") == 201
    assert await send(service, "_id=yan&name=Yan&tenant=t2", FORM, "POST") == 403
    assert await send(service, '[{"name":"a"},{"name":"b","tenant":"t2"}]', JSON, "POST") == 403
    assert await send(service, '[{"name":"a"},{"name":"b"}]', JSON, "POST") == 200


async def test_what_a_page_of_another_origin_could_send_meets_no_rule(service: Service) -> None:
    await allow(service, "path-prefix('/people') and bson-request-whitelist(password)", "user")
    headers = [*ADA.items(), ("Content-Type", FORM), ("Origin", "https://evil.example.org")]
    reply = await service.request("PATCH", "/people/eve", headers=headers, content=b"password=new")
    assert reply.status == 403
    assert eve(service) == EVE
