"""What a body may be."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from docgraph.codec import decode
from docgraph.codec.request_body import read_documents
from docgraph.exchange import DocgraphError, Headers, Request
from docgraph.rest.call import read_object
from docgraph.runtime import Blocking, run_blocking

pytestmark = pytest.mark.anyio


def _request(body: bytes, content_type: str | None = "application/json") -> Request:
    async def read(limit: int) -> bytes:
        return body

    fields = {} if content_type is None else {"content_type": content_type}
    request = Request("POST", b"/things", headers=Headers.of(**fields), body=read)
    request.body_limit = 1000
    request.parser = lambda raw, _: decode(raw)
    return request


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b'{"a":1}', "application/json", {"a": 1}),
        (b'{"a":1}', "application/json; charset=utf-8", {"a": 1}),
        (b'{"a":1}', "application/hal+json", {"a": 1}),
        (b'{"a":1}', "Application/JSON", {"a": 1}),
        (b"{a: 'x'}", None, {"a": "x"}),
        (b"[{}]", "application/json", [{}]),
        (b"[]", "application/json", []),
        (b"", "application/json", {}),
        (b"", "text/plain", {}),
        (b" \n", None, {}),
        (b"a=1", "application/x-www-form-urlencoded", {"a": 1}),
    ],
)
async def test_bodies_that_are_read(body: bytes, content_type: str | None, expected: Any) -> None:
    assert await read_documents(_request(body, content_type)) == expected


@pytest.mark.parametrize(
    ("body", "content_type", "status", "message"),
    [
        (
            b"x",
            "text/plain",
            415,
            "Content-Type must be either: application/json or application/hal+json",
        ),
        (
            b"x",
            "application/xml",
            415,
            "Content-Type must be either: application/json or application/hal+json",
        ),
        (b"{", "application/json", 400, "Invalid JSON. line 1, column 2: "),
        (
            b"3",
            "application/json",
            400,
            "request data must be either a json object or an array, got INT32",
        ),
        (
            b'"x"',
            "application/json",
            400,
            "request data must be either a json object or an array, got STRING",
        ),
        (
            b"null",
            "application/json",
            400,
            "request data must be either a json object or an array, got NULL",
        ),
        (
            b"[1]",
            "application/json",
            400,
            "request data must be either an json object or an array of objects",
        ),
        (b" " * 1001, "application/json", 413, "the body is larger than 1000 bytes"),
    ],
)
async def test_bodies_that_are_refused(
    body: bytes, content_type: str, status: int, message: str
) -> None:
    with pytest.raises(DocgraphError) as caught:
        await read_documents(_request(body, content_type))

    assert caught.value.status == status
    assert caught.value.message.startswith(message)


async def test_an_array_is_refused_where_only_an_object_will_do() -> None:
    with pytest.raises(DocgraphError) as caught:
        await read_object(_request(b"[{}]"))

    assert caught.value.message == "request content must be a Json object"


@pytest.mark.parametrize(("size", "aside"), [(300_000, True), (10, False)])
async def test_a_large_body_is_parsed_aside(size: int, aside: bool) -> None:
    request, threads = _watched(b'{"a":"' + b"x" * size + b'"}')
    async with offloading(request):
        content = await read_documents(request)

    assert content == {"a": "x" * size}
    assert [one is threading.current_thread() for one in threads] == [not aside]


async def test_a_large_body_that_is_wrong_is_told_so_without_parsing_it_again() -> None:
    request, threads = _watched(b'{"a":"' + b"x" * 300_000)
    async with offloading(request):
        for _ in range(2):
            with pytest.raises(DocgraphError, match=r"^Invalid JSON\. line 1, "):
                await read_documents(request)

    assert len(threads) == 1


@asynccontextmanager
async def offloading(request: Request) -> AsyncIterator[None]:
    """As the pipeline does it."""
    blocking = Blocking()
    request.offload = partial(run_blocking, blocking.lane("bodies"))
    yield
    await blocking.close()


def _watched(body: bytes) -> tuple[Request, list[threading.Thread]]:
    request = _request(body)
    request.body_limit = 1_000_000
    threads: list[threading.Thread] = []

    def parse(raw: bytes, _: str) -> Any:
        threads.append(threading.current_thread())
        return decode(raw)

    request.parser = parse
    return request, threads
