"""`Content-Encoding` of request bodies: gzip is read as if it were plain, anything else is 415."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.access_harness import ADA, allow, guarded
from tests.http.harness import MEDIA_TYPE, Mongo, Reply, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

LIMIT = 20_000


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    limits = {"mongo": {"max-body-size": LIMIT}, "graphql": {"max-body-size": LIMIT}}
    async with guarded(mongo_client, mongo_uri, limits) as one:
        one.mongo[one.db].create_collection("things")
        one.mongo[one.db].create_collection("small")
        await one.define("app", "type Query { a: Int }", {"Query": {"a": one.find("things", {})}})
        await allow(one, "path-prefix('/graphql')", "user")
        await allow(one, "path-prefix('/things')", "user")
        await allow(one, "path-prefix('/small') and max-content-size(1000)", "user")
        yield one


async def post(
    service: Service, path: str, body: Any, coding: str | None = "gzip", **headers: str
) -> Reply:
    content = json.dumps(body).encode()
    own = {**ADA, "content-type": "application/json", **headers}
    if coding is not None:
        own["content-encoding"] = coding
        content = gzip.compress(content)
    return await service.request("POST", path, content=content, headers=own)


async def test_graphql_reads_gzip(service: Service) -> None:
    reply = await post(service, "/graphql/app", {"query": "{ __typename }"})

    assert reply.data == {"__typename": "Query"}


async def test_rest_reads_gzip(service: Service) -> None:
    reply = await post(service, "/things", {"_id": "gzip", "n": [1] * 1000})

    assert reply.status == 201, reply.text
    stored = service.mongo[service.db]["things"].find_one({"_id": "gzip"})
    assert stored is not None
    assert stored["n"] == [1] * 1000


async def test_a_form_in_gzip_is_a_form(service: Service) -> None:
    reply = await service.request(
        "POST",
        "/things",
        content=gzip.compress(b"_id=form&a=1"),
        headers={
            **ADA,
            "content-type": "application/x-www-form-urlencoded",
            "content-encoding": "gzip",
        },
    )

    assert reply.status == 201, reply.text
    assert service.mongo[service.db]["things"].find_one({"_id": "form"})


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip"])
async def test_any_other_coding_is_415_and_says_which_one_is_read(
    service: Service, coding: str
) -> None:
    rest = await post(service, "/things", {"_id": "other"}, coding)
    graphql = await post(service, "/graphql/app", {"query": "{ a }"}, coding)

    for reply in (rest, graphql):
        assert (reply.status, reply.headers["accept-encoding"]) == (415, "gzip")
    assert rest.json["code"] == "unsupported-media-type"
    assert graphql.headers["content-type"] == MEDIA_TYPE
    assert graphql.code == "unsupported-media-type"
    assert service.mongo[service.db]["things"].find_one({"_id": "other"}) is None


async def test_what_is_no_gzip_is_400(service: Service) -> None:
    for path in ("/things", "/graphql/app"):
        reply = await service.request(
            "POST",
            path,
            content=b'{"query": "{ a }"}',
            headers={**ADA, "content-type": "application/json", "content-encoding": "gzip"},
        )
        assert reply.status == 400, path
        assert "gzip" in reply.text


async def test_the_bound_holds_for_what_the_service_sees(service: Service) -> None:
    for path in ("/things", "/graphql/app"):
        reply = await post(service, path, {"_id": "bomb", "query": "x" * LIMIT})
        assert reply.status == 413, path
    assert service.mongo[service.db]["things"].find_one({"_id": "bomb"}) is None


async def test_rules_judge_the_length_that_the_service_sees(service: Service) -> None:
    large = await post(service, "/small", {"_id": "large", "text": "x" * 2000})
    small = await post(service, "/small", {"_id": "small", "text": "x" * 200})
    plain = await post(service, "/small", {"_id": "plain", "text": "x" * 2000}, None)

    assert (large.status, small.status, plain.status) == (403, 201, 403)


async def test_rules_cannot_tell_the_length_of_what_cannot_be_read(service: Service) -> None:
    other = await post(service, "/small", {"_id": "other"}, "br")
    bomb = await post(service, "/small", {"_id": "bomb", "text": "x" * LIMIT})

    assert (other.status, bomb.status) == (403, 403)
